"""Rules that differentiate, transpose and map parki's primitives."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
from jax import numpy as jnp
from jax.interpreters import ad, batching

from parki.ewald.derivatives.linear_map import LinearMap
from parki.ewald.derivatives.second import bends, refuse_second, refuse_third
from parki.ewald.sums import SUMS
from parki.jax.primitives import BEND, LINEAR, PULL, PUSH, SUM


def _there(tangent: Any) -> bool:
    return not isinstance(tangent, ad.Zero)


def _sum_jvp(primals: Any, tangents: Any, *, names: tuple[str, ...], **params: Any) -> Any:
    out = SUM.bind(*primals, names=names, **params)
    moves = tuple(name for name, t in zip(names, tangents, strict=True) if _there(t))
    changes = [t for t in tangents if _there(t)]
    if moves == ("dens",):
        place = names.index("dens")
        arguments = [*primals[:place], changes[0], *primals[place + 1 :]]
        return out, SUM.bind(*arguments, names=names, **params)
    return out, PUSH.bind(*primals, *changes, names=names, moves=moves, **params)


def _sum_transpose(cotangent: Any, *arguments: Any, names: tuple[str, ...], **params: Any) -> Any:
    """Transpose a sum, which is linear in the density."""
    known = [(n, a) for n, a in zip(names, arguments, strict=True) if not ad.is_undefined_primal(a)]
    rest = tuple(name for name, _ in known)
    (back,) = PULL.bind(
        *(array for _, array in known), cotangent, names=rest, wrt=("dens",), **params
    )
    return [back if name == "dens" else None for name in names]


def _push_jvp(primals: Any, tangents: Any, *, names: tuple[str, ...], **params: Any) -> Any:
    out = PUSH.bind(*primals, names=names, **params)
    inner = zip(names, tangents[: len(names)], strict=True)
    moved = [name for name, tangent in inner if _there(tangent)]
    refuse_second(moved, params["moves"], params["kernel"], twice=True)
    changes = [ad.instantiate_zeros(t) for t in tangents[len(names) :]]
    return out, PUSH.bind(*primals[: len(names)], *changes, names=names, **params)


def _push_transpose(
    cotangent: Any, *arguments: Any, names: tuple[str, ...], moves: tuple[str, ...], **params: Any
) -> Any:
    inputs = arguments[: len(names)]
    parts = PULL.bind(*inputs, cotangent, names=names, wrt=moves, **params)
    unknown = [ad.is_undefined_primal(each) for each in arguments[len(names) :]]
    return [None] * len(names) + [
        part if wanted else None for part, wanted in zip(parts, unknown, strict=True)
    ]


def _pull_jvp(primals: Any, tangents: Any, *, names: tuple[str, ...], **params: Any) -> Any:
    out = PULL.bind(*primals, names=names, **params)
    inner = zip(names, tangents[:-1], strict=True)
    wrt = params.pop("wrt")
    # Derivatives by densities do not depend on the densities.
    moved = {n: t for n, t in inner if _there(t) and not (wrt == ("dens",) and n == "dens")}
    change = [jnp.zeros_like(each) for each in out]
    if _there(tangents[-1]):
        change = PULL.bind(*primals[:-1], tangents[-1], names=names, wrt=wrt, **params)
    if moved:
        bent = _bent(primals[:-1], moved, primals[-1], names=names, needs=wrt, **params)
        change = [own + more for own, more in zip(change, bent, strict=True)]
    return out, change


def _bent(
    arguments: Any, moves: dict[str, Any], values: Any, *, needs: tuple[str, ...], **params: Any
) -> Any:
    """Return second derivatives, or refuse them."""
    if not bends(SUMS[params["kernel"]]) and {*moves} != {"dens"}:
        refuse_second(needs, moves, params["kernel"])
    names = tuple(moves)
    return BEND.bind(*arguments, *moves.values(), values, moves=names, needs=needs, **params)


def _bend_jvp(
    primals: Any, tangents: Any, *, names: tuple[str, ...], moves: tuple[str, ...], **params: Any
) -> Any:
    first = len(names)
    out = BEND.bind(*primals, names=names, moves=moves, **params)
    if any(map(_there, tangents[:first])):
        refuse_third()
    change = [jnp.zeros_like(each) for each in out]
    changes = [ad.instantiate_zeros(each) for each in tangents[first:]]
    for arguments in (
        (*primals[:first], *changes[:-1], primals[-1]),
        (*primals[:-1], changes[-1]),
    ):
        more = BEND.bind(*arguments, names=names, moves=moves, **params)
        change = [own + each for own, each in zip(change, more, strict=True)]
    return out, change


def _bend_transpose(
    cotangents: Any,
    *arguments: Any,
    names: tuple[str, ...],
    moves: tuple[str, ...],
    needs: tuple[str, ...],
    **params: Any,
) -> Any:
    """Transpose second derivatives, whose matrix is symmetric."""
    inputs, values = arguments[: len(names)], arguments[-1]
    if ad.is_undefined_primal(values):
        refuse_second(needs, moves, params["kernel"], twice=True)
    back = {name: c for name, c in zip(needs, cotangents, strict=True) if _there(c)}
    parts = _bent(inputs, back, values, names=names, needs=moves, **params)
    unknown = [ad.is_undefined_primal(each) for each in arguments[len(names) : -1]]
    kept = [part if wanted else None for part, wanted in zip(parts, unknown, strict=True)]
    return [*[None] * len(names), *kept, None]


def _pull_transpose(
    cotangents: Any, *arguments: Any, names: tuple[str, ...], wrt: tuple[str, ...], **params: Any
) -> Any:
    inputs = dict(zip(names, arguments[:-1], strict=True))
    moves = tuple(name for name, c in zip(wrt, cotangents, strict=True) if _there(c))
    changes = [c for c in cotangents if _there(c)]
    if moves == ("dens",):
        inputs["dens"] = changes[0]
        summed = SUM.bind(*inputs.values(), names=tuple(inputs), **params)
    else:
        summed = PUSH.bind(*arguments[:-1], *changes, names=names, moves=moves, **params)
    return [None] * len(names) + [summed]


def _linear_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    return LINEAR.bind(*primals, **params), LINEAR.bind(*tangents, **params)


def _linear_transpose(cotangent: Any, _: Any, *, plan: LinearMap, transposed: bool) -> Any:
    return [LINEAR.bind(cotangent, plan=plan, transposed=not transposed)]


def _batched(primitive: Any, arrays: Any, dims: Any, **params: Any) -> Any:
    """Map over an axis; densities are summed together, other arrays one after the other."""
    moved = [
        each if dim is None else jnp.moveaxis(each, dim, 0)
        for each, dim in zip(arrays, dims, strict=True)
    ]
    mapped = [place for place, dim in enumerate(dims) if dim is not None]
    names = params.get("names", ())
    alone = {
        SUM: [names.index("dens")] if "dens" in names else None,
        PULL: [len(names)] if params.get("wrt") == ("dens",) and "dens" not in names else None,
        LINEAR: [0],
    }
    if mapped == alone.get(primitive):
        results = primitive.bind(*moved, **params)
    else:

        def one(parts: Any) -> Any:
            arguments = list(moved)
            for place, part in zip(mapped, parts, strict=True):
                arguments[place] = part
            return primitive.bind(*arguments, **params)

        results = jax.lax.map(one, [moved[place] for place in mapped])
    return results, [0] * len(results) if primitive.multiple_results else 0


def register() -> None:
    """Register the rules with JAX."""
    rules: dict[Any, tuple[Any, Any]] = {
        SUM: (_sum_jvp, _sum_transpose),
        PUSH: (_push_jvp, _push_transpose),
        PULL: (_pull_jvp, _pull_transpose),
        BEND: (_bend_jvp, _bend_transpose),
        LINEAR: (_linear_jvp, _linear_transpose),
    }
    for primitive, (jvp, transpose) in rules.items():
        ad.primitive_jvps[primitive] = jvp
        ad.primitive_transposes[primitive] = transpose
        batching.primitive_batchers[primitive] = partial(_batched, primitive)
