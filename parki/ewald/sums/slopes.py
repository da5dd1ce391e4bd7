"""The derivatives of results by points and normals, which are composites of other sums.

With values v at the targets, the transposed sum has results w at the sources, of which a map makes
the derivative by the density, linear in w and in the normals. So a source's part of ``v.u`` is a
sum of its density times w, such as ``f.w`` for a force and ``D_jk d_k w_j`` for a dipole. The
gradient of this, of which each source reads its part, is the derivative by the source. See
``docs/derivatives.md``.

Maps find "dens" and "norms" of the sum in ``cloud``, and values of results by the names of these.
For a change it has the changes, by their names, and the targets as "points".
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.sums.adjoint import gradient
from parki.ewald.sums.composite import Addend
from parki.ewald.sums.maps import (
    Arrays,
    Map,
    Weights,
    after,
    pressure,
    transposed,
    velocity,
    weights,
)
from parki.ewald.sums.record import Interaction
from parki.typing import AnyArray

Tensors = Callable[[Arrays], Any]
Addends = tuple[Addend, ...]


@lru_cache(maxsize=64)
def bilinear(results: Map, sizes: tuple[tuple[str, int], ...], normals: bool) -> list[Weights]:
    """Return the matrix of a map of results for no normal, and its slopes by the normal's axes."""
    if results is velocity or not normals:
        return [weights(results, dict(sizes))]
    points = np.eye(3, 4, 1)
    every = weights(results, dict(sizes), {"points": points, "norms": points})
    constant = points.sum(axis=0) > 0
    matrices = {
        name: [column - column[:, :1] * constant for column in columns]
        for name, columns in every.items()
    }
    return [
        {name: [column[:, k].tolist() for column in columns] for name, columns in matrices.items()}
        for k in range(4)
    ]


def by_sources(matrices: list[Weights], dens: AnyArray, norms: AnyArray) -> Arrays:
    """Return the factors (rows, N) of the transposed results in the part of each source."""
    first, *slopes = (transposed(matrix, dens) for matrix in matrices)
    for k, slope in enumerate(slopes):
        for name, rows in slope.items():
            first[name] = first[name] + norms[k] * rows
    return first


def by_normals(record: Addend) -> Addend:
    """Return the derivative by normals, to which q is what they are to q, from the transpose."""

    def rows(results: Arrays, cloud: Arrays) -> Any:
        return record.results(results, {"norms": cloud["dens"][-3:]})[-3:]

    return replace(record, results=rows)


def readable(kind: Interaction) -> bool:
    """Return whether targets read the gradients of a sum's gradient and pressure."""
    return "grad_tensor" in kind.terms or kind.as_dipoles is not None


def by_targets(
    kind: Interaction, results: Collection[str], error: ParkiValueError | None = None
) -> Addends:
    """Return the derivative by the targets of ``values.result``, added up over results.

    Values are ``cloud[result]``. The derivative of "u" takes its gradient. Others take the gradient
    of what tensor targets read, if the sum has that, and otherwise dipoles along each axis.
    A sum that has no dipoles raises ``error``, by default `lacking`.

    Raises
    ------
    ParkiValueError
    """

    def along(result: str, axis: int) -> Map:
        return lambda results, cloud: _on(
            axis, -(cloud[result] * results[result]).sum(axis=0)[None]
        )

    others = tuple(name for name in results if name != "u")
    addends: Addends = (TARGETS,) if "u" in results else ()
    if others and readable(kind):
        return (*addends, _reading(kind, partial(_tensors, others)))
    for name in others:
        refused = error or lacking(kind.name, name, "trg")
        addends += _by_dipoles(kind, name, along, refused)
    return addends


def slopes_of_moved(kind: Interaction) -> dict[str, Addends]:
    """Return the change "u" of a velocity whose targets are its sources, which move.

    And its derivative "slopes" by the targets, for values of "u", and of "grad_u", which are these
    times the moves. The sum is `readable`, and has dipoles.
    """
    as_targets = replace(TARGETS, kernel=kind.dipoles, density=products)
    return {
        "u": (*changes(kind, "u", "trg"), *changes(kind, "u", "src")),
        "slopes": (*by_targets(kind, ("grad_u",)), as_targets),
    }


def changes(kind: Interaction, result: str, name: str) -> Addends:
    """Return the change of a result where an input changes."""

    def along(result: str, axis: int) -> Map:
        return lambda results, cloud: -results[result] * cloud["trg"][axis]

    itself = {"u": velocity, "p": pressure, "grad_u": gradient}[result]
    if name == "dens":
        return (Addend("", (result,), itself),)
    if name == "norms":  # in which sums are linear, as in the density of layers
        return (Addend("", (result,), itself, _of_layers, normals=_changed_normals),)
    if name == "src" and kind.dipoles:
        return (Addend(kind.dipoles, (result,), itself, products),)
    if result != "u" and not readable(kind):
        return _by_dipoles(kind, result, along, lacking(kind.name, result, name))
    if name == "trg":
        return _moved(kind, result, lambda cloud: cloud["trg"])
    # Sources that move along an axis are as targets that move against it.
    return tuple(
        replace(addend, density=after(scale, addend.density))
        for axis, scale in enumerate(_TIMES_MOVES)
        for addend in _moved(kind, result, partial(_against, axis))
    )


def by_widths(kind: Interaction, result: str) -> Addends:
    """Return the derivative of a result by the square of the width of all pairs.

    Gaussians widen as heat spreads: it is a quarter of the Laplacian, which quadrupoles have.
    Dipoles are minus the slopes of charges.

    Raises
    ------
    ParkiValueError
    """
    if kind.rows == 1:
        itself = {"u": velocity, "grad_u": gradient}[result]
        return (Addend(kind.quadrupoles, (result,), itself, _widening),)
    if result == "u":
        parts = zip(_SLOPES, _WIDENING, strict=True)
        return tuple(Addend(kind.quadrupoles, ("grad_u",), *maps) for maps in parts)
    raise ParkiValueError(
        f"{result!r} of dipoles has no derivative by their widths, which takes octupoles; take the "
        "potential, or differences of sums"
    )


def weighted(weights: str, addend: Addend, back: tuple[Map, str] | None = None) -> Addend:
    """Return an addend's rows, or a map of them as a result by its name, times weights by name."""

    def products(results: Arrays, cloud: Arrays) -> Any:
        rows = addend.results(results, cloud)
        if back is not None:
            rows = back[0]({back[1]: rows}, cloud)
        return (cloud[weights] * rows).sum(axis=0)[None]

    return replace(addend, results=products)


def _moved(kind: Interaction, result: str, move: Tensors) -> Addends:
    """Return the change of a result at targets that move by ``move(cloud)``, (3, N)."""

    def slope(results: Arrays, cloud: Arrays) -> Any:
        return (_slopes(results) * move(cloud)).sum(axis=1)

    def slope_of_pressure(results: Arrays, cloud: Arrays) -> Any:
        return (results["grad_tensor"] * move(cloud)).sum(axis=0)[None]

    def tensors(row: int, cloud: Arrays) -> Any:
        """Return tensors that read the slope of a component of u along the move."""
        rows = np.zeros_like(cloud["points"], shape=(10, cloud["points"].shape[1]))
        rows[3 * row : 3 * row + 3] = move(cloud)
        return rows

    if result == "u":
        return (Addend("", ("grad_u",), slope),)
    if result == "p":
        return (replace(_reading(kind, _strengths), results=slope_of_pressure),)
    return tuple(
        replace(_reading(kind, partial(tensors, row)), results=partial(_as_row, row))
        for row in range(3)
    )


def _reading(kind: Interaction, tensors: Tensors) -> Addend:
    """Return the reading of tensor targets, of a sum or of the sum of dipoles that it is."""
    reading = Addend("", ("grad_tensor",), _read, tensors=tensors)
    if "grad_tensor" in kind.terms or kind.as_dipoles is None:
        return reading
    kernel, density = kind.as_dipoles
    return replace(reading, kernel=kernel, density=density)


def _by_dipoles(
    kind: Interaction, result: str, along: Callable[[str, int], Map], error: ParkiValueError
) -> Addends:
    """Return addends of dipoles along each axis, or raise the error where there are no dipoles."""
    if not kind.dipoles:
        raise error
    return tuple(Addend(kind.dipoles, (result,), along(result, n), _ALONG[n]) for n in range(3))


def lacking(kernel: str, result: str, name: str) -> ParkiValueError:
    """Return the error of a derivative of a sum without a call: of spheres, or near a wall."""
    return ParkiValueError(
        f"{result!r} of {kernel} has no derivative by {name!r}, as this sum is but a part of "
        "others: of spheres, whose flow has slopes with jumps where they touch, or of images; or "
        "it is one of your own without adjoints or dipoles; take a sum that has a call, or "
        "differences of sums"
    )


def products(dens: AnyArray, cloud: Arrays) -> Any:
    """Return the dipoles that sources are which change: their densities along their changes."""
    return (dens[:, None] * cloud["src"]).reshape(3 * len(dens), dens.shape[1])


def _read(results: Arrays, cloud: Arrays) -> Any:
    return results["grad_tensor"]


def _as_row(row: int, results: Arrays, cloud: Arrays) -> Any:
    """Return the slope of a component of u as a change of the gradient."""
    rows = np.zeros_like(results["grad_tensor"], shape=(9, results["grad_tensor"].shape[1]))
    rows[3 * row : 3 * row + 3] = results["grad_tensor"]
    return rows


def _tensors(names: tuple[str, ...], cloud: Arrays) -> Any:
    """Return values of gradients and pressures as tensor targets (10, N): rows D_jk, then s."""
    rows = np.zeros_like(cloud[names[0]], shape=(10, cloud[names[0]].shape[1]))
    for name in names:
        rows[slice(9) if name == "grad_u" else slice(9, 10)] = cloud[name]
    return rows


def _strengths(cloud: Arrays) -> Any:
    """Return tensor targets that read the pressure."""
    rows = np.zeros_like(cloud["points"], shape=(10, cloud["points"].shape[1]))
    rows[9] = 1
    return rows


def _against(axis: int, cloud: Arrays) -> Any:
    """Return moves of targets against an axis."""
    rows = np.zeros_like(cloud["points"])
    rows[axis] = -1
    return rows


def _of_layers(dens: AnyArray, cloud: Arrays) -> Any:
    """Return a density of the last part alone."""
    rows = dens.copy()
    rows[:-3] = 0
    return rows


def _changed_normals(norms: AnyArray, cloud: Arrays) -> Any:
    return cloud["norms"]


def _slopes(results: Arrays) -> Any:
    """Return the gradient by component and axis, (results, 3, N)."""
    rows, count = results["grad_u"].shape
    return results["grad_u"].reshape(rows // 3, 3, count)


def _on(axis: int, values: AnyArray) -> Any:
    """Return values (rows, N) as vectors along an axis, (3 rows, N)."""
    rows = np.zeros_like(values, shape=(len(values), 3, values.shape[1]))
    rows[:, axis] = values
    return rows.reshape(3 * len(values), values.shape[1])


def _widening(dens: AnyArray, cloud: Arrays) -> Any:
    """Return quadrupoles, a quarter of the Laplacian of charges."""
    rows = np.zeros_like(dens, shape=(9, dens.shape[1]))
    rows[::4] = dens / 4
    return rows


_SLOPES = tuple(
    partial(lambda axis, results, cloud: -results["grad_u"][axis : axis + 1], axis)
    for axis in range(3)
)
_WIDENING = tuple(
    partial(lambda axis, dens, cloud: _widening(dens[axis : axis + 1], cloud), axis)
    for axis in range(3)
)
_ALONG = tuple(partial(lambda axis, dens, cloud: _on(axis, dens), axis) for axis in range(3))
_TIMES_MOVES = tuple(
    partial(lambda axis, dens, cloud: dens * cloud["src"][axis], axis) for axis in range(3)
)
# All sums have these.
TARGETS = Addend(
    "", ("grad_u",), lambda results, cloud: (cloud["u"][:, None] * _slopes(results)).sum(axis=0)
)
