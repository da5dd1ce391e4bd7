"""The derivatives of results by points and normals, which are composites of other sums.

With values v at the targets, the transposed sum is a flow w. A source's part of ``v.u`` is
``f.w`` for a force and ``D_jk d_k w_j`` for a dipole. A double layer is the dipole
``-(q n^T + n q^T)``, with ``q.n`` times the pressure. Its gradient is the
derivative by the source. See ``docs/derivatives.md``.

Maps find "dens" and "norms" of the sum in ``cloud``, and values of results by the names of these.
For a change it has the changes, by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.sums.adjoint import traction
from parki.ewald.sums.composite import Addend
from parki.ewald.sums.maps import Arrays, Map, velocity

Composites = Mapping[str, tuple[Addend, ...]]  # by the name of an input


def of_vectors(results: Arrays, cloud: Arrays) -> Any:
    """Return ``sum_i f_i d_k w_i``, of charges or of vectors f in the first rows of a density."""
    slopes = _slopes(results)
    return (cloud["dens"][: len(slopes), None] * slopes).sum(axis=0)


def of_tensors(results: Arrays, cloud: Arrays) -> Any:
    """Return the readings' gradient of tensor targets at the sources."""
    return results["grad_tensor"]


def of_both(results: Arrays, cloud: Arrays) -> Any:
    """Return the sum of both: forces, and double layers as tensor targets."""
    return of_vectors(results, cloud) + results["grad_tensor"]


def layer_tensors(cloud: Arrays) -> Any:
    """Return the tensor targets (10, N) of double layers: rows D_jk, then s."""
    q, norms = cloud["dens"][-3:], cloud["norms"]
    rows = np.zeros_like(q, shape=(10, q.shape[1]))
    products = q[:, None] * norms
    rows[:9] = -(products + products.swapaxes(0, 1)).reshape(9, -1)
    rows[9] = (q * norms).sum(axis=0)
    return rows


def dipole_tensors(cloud: Arrays) -> Any:
    """Return the tensor targets (10, N) of dipoles, which have no strength."""
    return _without_strength("dens", cloud)


def _without_strength(name: str, cloud: Arrays) -> Any:
    """Return tensors as tensor targets (10, N)."""
    return np.concatenate([cloud[name], np.zeros_like(cloud[name][:1])])


def by_normals(results: Arrays, cloud: Arrays) -> Any:
    """Return the derivative by normals, to which q is what they are to q."""
    return traction(results, {"norms": cloud["dens"][-3:]})


def of_layers(want: tuple[str, ...], sources: Map) -> Composites:
    """Return the derivatives of double layers; ``want`` is what their traction needs."""
    tensors = Addend("", (*want, "grad_tensor"), sources, tensors=layer_tensors)
    return {"src": (tensors,), "norms": (Addend("", want, by_normals),)}


def products(dens: Any, cloud: Arrays) -> Any:
    """Return the dipoles that sources are which change: their densities along their changes."""
    return (dens[:, None] * cloud["src"]).reshape(3 * len(dens), dens.shape[1])


def by_targets(kind: Any, result: str) -> tuple[Addend, ...]:
    """Return the derivative of ``values.result`` by the targets; values are ``cloud[result]``.

    The derivative of "u" takes its gradient. "grad_u" takes the gradient of readings of tensor
    targets, if the sum has them. Other results take dipoles along each axis.
    """
    bent: Composites = kind.bent if result == "grad_u" else {}
    if "trg" in bent:
        return bent["trg"]
    if result == "grad_u" and "grad_tensor" in kind.terms and not kind.dipoles:
        return BENT_TARGETS

    def along(axis: int) -> Map:
        return lambda results, cloud: _on(
            axis, -(cloud[result] * results[result]).sum(axis=0)[None]
        )

    return TARGETS if result == "u" else _by_dipoles(kind, result, along)


def changes(kind: Any, result: str, name: str) -> tuple[Addend, ...]:
    """Return the change of a result where an input changes."""

    def itself(results: Arrays, cloud: Arrays) -> Any:
        return results[result]

    def along(axis: int) -> Map:
        return lambda results, cloud: -results[result] * cloud["trg"][axis]

    if name == "dens":
        return (Addend("", (result,), itself),)
    if name in kind.pushed:
        return tuple(replace(each, want=(result,), results=itself) for each in kind.pushed[name])
    if name == "trg":
        return MOVED_TARGETS if result == "u" else _by_dipoles(kind, result, along)
    if kind.dipoles:
        return (Addend(kind.dipoles, (result,), itself, products),)
    if result != "u":
        raise lacking(kind.name, result, name)
    return MOVED


def _by_dipoles(kind: Any, result: str, along: Callable[[int], Map]) -> tuple[Addend, ...]:
    """Return addends of dipoles along each axis: a sum decreases along it as they say."""
    if not kind.dipoles:
        raise lacking(kind.name, result, "trg")
    return tuple(Addend(kind.dipoles, (result,), along(n), _ALONG[n]) for n in range(3))


def lacking(kernel: str, result: str, name: str) -> ParkiValueError:
    """Return the error of a derivative that takes a sum which parki does not have."""
    return ParkiValueError(
        f"parki has no sum for the derivative of {result!r} of {kernel} by {name!r}; take the "
        "other inputs, and differences of sums for this one"
    )


def _against(axis: int) -> Addend:
    """Return the change of a sum whose sources move along an axis, as do targets the other way."""
    return Addend(
        "",
        ("grad_u",),
        lambda results, cloud: -_slopes(results)[:, axis],
        lambda dens, cloud: dens * cloud["src"][axis],
    )


def _slopes(results: Arrays) -> Any:
    """Return the gradient by component and axis, (results, 3, N)."""
    rows, count = results["grad_u"].shape
    return results["grad_u"].reshape(rows // 3, 3, count)


def _on(axis: int, values: Any) -> Any:
    """Return values (rows, N) as vectors along an axis, (3 rows, N)."""
    rows = np.zeros_like(values, shape=(len(values), 3, values.shape[1]))
    rows[:, axis] = values
    return rows.reshape(3 * len(values), values.shape[1])


_ALONG = tuple(partial(lambda axis, dens, cloud: _on(axis, dens), axis) for axis in range(3))
MOVED = tuple(map(_against, range(3)))


def by_changed_normals(kernel: str) -> Composites:
    """Return the change of u with normals, in which a sum is linear, as in q: of a double layer."""
    how: dict[str, Any] = {
        "density": lambda dens, _: dens[-3:],
        "normals": lambda _, cloud: cloud["norms"],
    }
    return {"norms": (Addend(kernel, ("u",), velocity, **how),)}


# All sums have these.
TARGETS = (
    Addend(
        "", ("grad_u",), lambda results, cloud: (cloud["u"][:, None] * _slopes(results)).sum(axis=0)
    ),
)
BENT_TARGETS = (
    Addend(
        "", ("grad_tensor",), of_tensors, tensors=lambda cloud: _without_strength("grad_u", cloud)
    ),
)
MOVED_TARGETS = (
    Addend("", ("grad_u",), lambda results, cloud: (_slopes(results) * cloud["trg"]).sum(axis=1)),
)
