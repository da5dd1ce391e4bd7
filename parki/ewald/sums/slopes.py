"""The derivatives of results by points and normals, which are composites of other sums.

With values v at the targets, the transposed sum is a flow w. A source's part of ``v.u`` is
``f.w`` for a force and ``D_jk d_k w_j`` for a dipole. A double layer is the dipole
``-(q n^T + n q^T)``, with ``q.n`` times the pressure. Its gradient is the
derivative by the source. See ``docs/derivatives.md``.

Maps find "dens" and "norms" of the sum in ``cloud``, and values of results by the names of these.
For a change it has the changes, by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.sums.composite import Addend
from parki.ewald.sums.maps import Arrays, Map, mapped, velocity

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


def _reading(names: tuple[str, ...]) -> Addend:
    """Return the derivative by targets of values of gradients and pressures, which are tensors."""

    def tensors(cloud: Arrays) -> Any:
        first = cloud[names[0]]
        rows = np.zeros_like(first, shape=(10, first.shape[1]))
        for name in names:
            rows[{"grad_u": slice(9), "p": slice(9, 10)}[name]] = cloud[name]
        return rows

    return Addend("", ("grad_tensor",), of_tensors, tensors=tensors)


def _without_strength(name: str, cloud: Arrays) -> Any:
    """Return tensors as tensor targets (10, N)."""
    return np.concatenate([cloud[name], np.zeros_like(cloud[name][:1])])


def by_normals(record: Addend) -> Addend:
    """Return the derivative by normals, to which q is what they are to q, from the transpose."""

    def rows(results: Arrays, cloud: Arrays) -> Any:
        return record.results(results, {"norms": cloud["dens"][-3:]})[-3:]

    return replace(record, results=rows)


def of_layers(want: tuple[str, ...], sources: Map) -> Composites:
    """Return the derivatives of double layers; ``want`` is what their traction needs."""
    return {"src": (Addend("", (*want, "grad_tensor"), sources, tensors=layer_tensors),)}


def products(dens: Any, cloud: Arrays) -> Any:
    """Return the dipoles that sources are which change: their densities along their changes."""
    return (dens[:, None] * cloud["src"]).reshape(3 * len(dens), dens.shape[1])


def by_targets(
    kind: Any, results: Iterable[str], of: tuple[str, str, str] | None = None
) -> tuple[Addend, ...]:
    """Return the derivative of ``values.results`` by the targets; values are in ``cloud``.

    The derivative of "u" takes its gradient. Other results take dipoles along each axis, or the
    gradient of readings of tensor targets, where the sum has these.

    Parameters
    ----------
    kind : Sum
    results : iterable of str
    of : tuple of 3 str, optional
        The sum, the result and the input whose derivative it is part of, for errors.
    """
    addends, read = list[Addend](), list[str]()
    for result in results:

        def along(axis: int, result: str = result) -> Map:
            return lambda results, cloud: on_axis(
                axis, -(cloud[result] * results[result]).sum(axis=0)[None]
            )

        if result == "u":
            addends += TARGETS
        elif result == "grad_u" and "trg" in kind.bent:
            addends += kind.bent["trg"]
        elif kind.dipoles:
            addends += along_axes(kind.dipoles, result, along)
        elif "grad_tensor" in kind.terms:
            read.append(result)
        else:
            raise lacking(*(of or (kind.name, result, "trg")))
    return (*addends, _reading(tuple(read))) if read else tuple(addends)


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
    if name == "trg" and result == "u":
        return MOVED_TARGETS
    if name == "trg" and kind.dipoles:
        return along_axes(kind.dipoles, result, along)
    if kind.dipoles:
        return (Addend(kind.dipoles, (result,), itself, products),)
    if result == "u":
        return MOVED
    reads = kind.bent.get("trg", BENT_TARGETS if "grad_tensor" in kind.terms else ())
    if not reads or not reads[0].tensors:
        raise lacking(kind.name, result, name)
    axes: tuple[int | None, ...] = (None,) if name == "trg" else (0, 1, 2)
    rows: tuple[int | None, ...] = (None,) if result == "p" else (0, 1, 2)
    return tuple(_read_change(reads[0], axis, row) for axis in axes for row in rows)


def _read_change(reading: Addend, axis: int | None, row: int | None) -> Addend:
    """Return the change of a pressure, or of a row of a gradient, by readings of tensor targets.

    Targets move, or all sources along an axis.
    """

    def results(found: Arrays, cloud: Arrays) -> Any:
        slopes = found["grad_tensor"]
        if row is None:
            return -slopes[axis][None] if axis is not None else (slopes * cloud["trg"]).sum(0)[None]
        rows = np.zeros_like(slopes, shape=(9, slopes.shape[1]))
        rows[3 * row : 3 * row + 3] = slopes if axis is None else -slopes
        return rows

    def density(dens: Any, cloud: Arrays) -> Any:
        return mapped(reading.density, dens * cloud["src"][axis], cloud)

    own = reading.density if axis is None else density
    tensors = _strengths if row is None else _units(row, axis)
    return replace(reading, results=results, tensors=tensors, density=own)


def _strengths(cloud: Arrays) -> Any:
    """Return tensor targets (10, N) that read pressures."""
    rows = np.zeros_like(cloud["points"], shape=(10, cloud["points"].shape[1]))
    rows[9] = 1
    return rows


@cache
def _units(row: int, axis: int | None) -> Callable[[Arrays], Any]:
    """Return a maker of tensor targets that read a component's slope along an axis, or a move."""

    def tensors(cloud: Arrays) -> Any:
        rows = np.zeros_like(cloud["points"], shape=(10, cloud["points"].shape[1]))
        along = slice(3 * row, 3 * row + 3) if axis is None else 3 * row + axis
        rows[along] = cloud["trg"] if axis is None else 1
        return rows

    return tensors


def along_axes(kernel: str, result: str, results: Callable[[int], Map]) -> tuple[Addend, ...]:
    """Return results of a sum of dipoles along each axis; where these are, another decreases."""
    return tuple(Addend(kernel, (result,), results(n), _ALONG[n]) for n in range(3))


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


def on_axis(axis: int, values: Any) -> Any:
    """Return values (rows, N) as vectors along an axis, (3 rows, N)."""
    rows = np.zeros_like(values, shape=(len(values), 3, values.shape[1]))
    rows[:, axis] = values
    return rows.reshape(3 * len(values), values.shape[1])


_ALONG = tuple(partial(lambda axis, dens, cloud: on_axis(axis, dens), axis) for axis in range(3))
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
BENT_TARGETS = (_reading(("grad_u",)),)
MOVED_TARGETS = (
    Addend("", ("grad_u",), lambda results, cloud: (_slopes(results) * cloud["trg"]).sum(axis=1)),
)
