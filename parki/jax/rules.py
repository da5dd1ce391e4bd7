"""Rules that differentiate, transpose and map parki's primitives."""

from __future__ import annotations

from functools import partial, reduce
from operator import add
from typing import Any

import jax
from jax import numpy as jnp
from jax.interpreters import ad, batching

from parki.core import LinearMap, second
from parki.jax.arrays import SumCall
from parki.jax.primitives import LINEAR, PULL, PUSH, SUM
from parki.typing import AnyArray

Named = dict[str, Any]  # arrays by names of inputs
Moves = tuple[tuple[str, ...], ...]  # names of inputs that move, in one list or in two


def _there(tangent: Any) -> bool:
    return not isinstance(tangent, ad.Zero)


def _named(names: tuple[str, ...], moves: Moves, arrays: Any) -> list[Named]:
    """Return the inputs, and each list of moves, by name."""
    rest = iter(arrays)
    return [dict(zip(part, rest, strict=False)) for part in (names, *moves)]


def _arrays(inputs: Named, moves: list[Named]) -> list[Any]:
    """Return the arrays of inputs and of lists of moves, as primitives take them."""
    return [array for named in (inputs, *moves) for array in named.values()]


def _push(call: SumCall, inputs: Named, moves: list[Named]) -> Any:
    """Return the change of a sum, or the change of this."""
    if len(moves) > 2:
        second.refuse_third()
    if [*moves[0]] == ["dens"] and len(moves) == 1:
        inputs = {**inputs, **moves[0]}
        return SUM.bind(*inputs.values(), call=call, names=tuple(inputs), of_change=True)
    if "dens" not in inputs:  # of which nothing depends on it: densities move
        inputs = {**inputs, "dens": jnp.zeros_like(moves[0]["dens"])}
    names = tuple(map(tuple, moves))
    return PUSH.bind(*_arrays(inputs, moves), call=call, names=tuple(inputs), moves=names)


def _pull(
    call: SumCall, values: AnyArray, wrt: tuple[str, ...], inputs: Named, moves: list[Named]
) -> Named:
    """Return derivatives of a sum or its change by name; those that are zero are left out."""
    alone = any([*move] == ["dens"] for move in moves)  # which depends on no other densities
    wrt = tuple(name for name in wrt if not (alone and name == "dens"))
    if not wrt:
        return {}
    if len(moves) > 1:
        second.refuse_third()
    derivatives = PULL.bind(
        *_arrays(inputs, moves),
        values,
        call=call,
        names=tuple(inputs),
        moves=tuple(map(tuple, moves)),
        wrt=wrt,
    )
    return dict(zip(wrt, derivatives, strict=True))


def _lists(primals: list[Named], tangents: list[Named]) -> Any:
    """Return the parts of changes, of the tangents that are there: see `one_by_one`."""
    there = [{n: t for n, t in named.items() if _there(t)} for named in tangents]
    return second.one_by_one(primals, there)


def _sum_jvp(
    primals: Any, tangents: AnyArray, *, call: SumCall, names: tuple[str, ...], of_change: bool
) -> Any:
    ((inputs, *moves),) = _lists(_named(names, (), primals), _named(names, (), tangents))
    result = SUM.bind(*primals, call=call, names=names, of_change=of_change)
    return result, _push(call, inputs, moves)


def _sum_transpose(
    cotangent: AnyArray, *arguments: Any, call: SumCall, names: tuple[str, ...], of_change: bool
) -> Any:
    """Transpose a sum, which is linear in the density."""
    known = {n: a for n, a in zip(names, arguments, strict=True) if not ad.is_undefined_primal(a)}
    back = _pull(call, cotangent, ("dens",), known, [])
    return [back.get(name) for name in names]


def _push_jvp(
    primals: Any, tangents: AnyArray, *, call: SumCall, names: tuple[str, ...], moves: Moves
) -> Any:
    lists = _lists(_named(names, moves, primals), _named(names, moves, tangents))
    change = reduce(add, [_push(call, inputs, changes) for inputs, *changes in lists])
    return PUSH.bind(*primals, call=call, names=names, moves=moves), change


def _push_transpose(
    cotangent: AnyArray, *arguments: Any, call: SumCall, names: tuple[str, ...], moves: Moves
) -> Any:
    """Transpose a change, which is linear in each of moves."""
    inputs, *changes = _named(names, moves, arguments)
    return _back(call, cotangent, inputs, changes)


def _back(call: SumCall, values: AnyArray, inputs: Named, moves: list[Named]) -> list[Any]:
    """Return the derivatives by moves that are not known, of values times a change."""
    derivatives: list[Any] = [None] * len(inputs)
    for one in moves:
        wrt = tuple(name for name, move in one.items() if ad.is_undefined_primal(move))
        back = _pull(call, values, wrt, inputs, second.without(moves, one)) if wrt else {}
        derivatives += map(back.get, one)
    return derivatives


def _pull_jvp(
    primals: Any,
    tangents: AnyArray,
    *,
    call: SumCall,
    names: tuple[str, ...],
    moves: Moves,
    wrt: tuple[str, ...],
) -> Any:
    out = PULL.bind(*primals, call=call, names=names, moves=moves, wrt=wrt)
    if moves and "values" in (*moves[0], *wrt):
        there = [n for n, tangent in enumerate(tangents) if _there(tangent)]

        def apart(*some: Any) -> list[Any]:
            arrays = list(primals)
            for n, array in zip(there, some, strict=True):
                arrays[n] = array
            inputs, moved = _named(names, moves, arrays[:-1])
            return _apart(call, inputs, moved, arrays[-1], wrt)

        inner, along = ([arrays[n] for n in there] for arrays in (primals, tangents))
        return out, jax.jvp(apart, inner, along)[1]
    inner, changes = (_named(names, moves, arrays[:-1]) for arrays in (primals, tangents))
    lists = [(primals[-1], *change) for change in _lists(inner, changes)]
    if lists and not moves and _there(tangents[-1]):  # as one, whose transpose is one
        lists[0][-1]["values"] = tangents[-1]
    elif _there(tangents[-1]):
        lists.append((tangents[-1], *inner))
    parts = [_pull(call, values, wrt, inputs, moved) for values, inputs, *moved in lists]
    zeros = zip(wrt, map(jnp.zeros_like, out), strict=True)
    return out, [sum((part[n] for part in parts if n in part), zero) for n, zero in zeros]


def _apart(
    call: SumCall, inputs: Named, moved: Named, values: AnyArray, wrt: tuple[str, ...]
) -> list[Any]:
    """Return derivatives by inputs and values, for moves of these, by sums with rules of their own.

    One primitive makes them all, but only such sums have derivatives again.
    """
    left = {name: move for name, move in moved.items() if name != "values"}
    names = tuple(name for name in wrt if name != "values")
    parts = [_pull(call, values, names, inputs, [left])] if left else []
    if "values" in moved:
        parts.append(_pull(call, moved["values"], names, inputs, []))
    if left and "values" in wrt:
        parts.append({"values": _push(call, inputs, [left])})
    like = {**inputs, "values": values}
    return [sum((part[n] for part in parts if n in part), jnp.zeros_like(like[n])) for n in wrt]


def _pull_transpose(
    cotangents: AnyArray,
    *arguments: Any,
    call: SumCall,
    names: tuple[str, ...],
    moves: Moves,
    wrt: tuple[str, ...],
) -> Any:
    """Transpose derivatives, which are linear in the values and in moves.

    Second derivatives are symmetric: what moves and what they are by change places.
    """
    inputs, *others = _named(names, moves, arguments[:-1])
    changes = {name: c for name, c in zip(wrt, cotangents, strict=True) if _there(c)}
    if ad.is_undefined_primal(arguments[-1]):
        return [None] * (len(arguments) - 1) + [_push(call, inputs, [changes, *others])]
    back = _back(call, arguments[-1], inputs, [*others, changes])
    return [*back[: len(arguments) - 1], None]


def _linear_jvp(
    primals: Any,
    tangents: AnyArray,
    *,
    plan: LinearMap,
    transposed: bool,
    of_change: bool,
    device: Any,
) -> Any:
    (values,), (tangent,) = primals, tangents
    result = LINEAR.bind(
        values, plan=plan, transposed=transposed, of_change=of_change, device=device
    )
    # Cotangents, such as ones of a sum, may be bound to no device: what is known here says where.
    device = device or _home(values)
    change = LINEAR.bind(tangent, plan=plan, transposed=transposed, of_change=True, device=device)
    return result, change


def _linear_transpose(
    cotangent: AnyArray, _: Any, *, plan: LinearMap, transposed: bool, of_change: bool, device: Any
) -> Any:
    return [
        LINEAR.bind(cotangent, plan=plan, transposed=not transposed, of_change=True, device=device)
    ]


def _home(array: AnyArray) -> Any:
    """Return the device that an array is bound to; None for others, and for traced ones."""
    there = not isinstance(array, jax.core.Tracer) and getattr(array, "committed", False)
    return array.device if there else None


def _batched(primitive: Any, arrays: Any, dims: Any, **params: Any) -> Any:
    """Map over an axis; densities are summed together, other arrays one after the other."""
    moved = [
        array if dim is None else jnp.moveaxis(array, dim, 0)
        for array, dim in zip(arrays, dims, strict=True)
    ]
    mapped = [n for n, dim in enumerate(dims) if dim is not None]
    names = params.get("names", ())
    alone = {
        SUM: [names.index("dens")] if "dens" in names else None,
        PULL: [len(dims) - 1] if params.get("wrt") == ("dens",) and "dens" not in names else None,
        LINEAR: [0],
    }
    if mapped == alone.get(primitive):
        results = primitive.bind(*moved, **params)
    else:

        def one(parts: Any) -> Any:
            arguments = list(moved)
            for n, part in zip(mapped, parts, strict=True):
                arguments[n] = part
            return primitive.bind(*arguments, **params)

        results = jax.lax.map(one, [moved[n] for n in mapped])
    return results, [0] * len(results) if primitive.multiple_results else 0


def register() -> None:
    """Register the rules with JAX."""
    rules: dict[Any, tuple[Any, Any]] = {
        SUM: (_sum_jvp, _sum_transpose),
        PUSH: (_push_jvp, _push_transpose),
        PULL: (_pull_jvp, _pull_transpose),
        LINEAR: (_linear_jvp, _linear_transpose),
    }
    for primitive, (jvp, transpose) in rules.items():
        ad.primitive_jvps[primitive] = jvp
        ad.primitive_transposes[primitive] = transpose
        batching.primitive_batchers[primitive] = partial(_batched, primitive)
