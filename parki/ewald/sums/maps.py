"""Maps of densities, results and points: functions that treat every point by itself.

A map takes values (rows, N), or results by name, and ``cloud``: what else there is at the points,
such as "points" and "norms". Maps of densities and results are linear: their transposes, and how
much they enlarge errors, follow from what they make of ones. Maps that are affine in the points and
in the normals are their own derivatives by them; others are `Curved`, and say theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from operator import add
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.typing import AnyArray

Arrays = dict[str, AnyArray]
Map = Callable[[AnyArray, Arrays], AnyArray]
Weights = dict[str, Any]  # by result: for each row of it, its weights in all rows made of it


FIXED: set[Map] = set()


def fixed(function: Map) -> Map:
    """Return a map of results that takes nothing of the points, and is the same at all of them."""
    FIXED.add(function)
    return function


@fixed
def velocity(results: Arrays, cloud: Arrays) -> AnyArray:
    """Return a sum itself: the map of results that changes nothing."""
    return results["u"]


@fixed
def pressure(results: Arrays, cloud: Arrays) -> AnyArray:
    """Return the pressure."""
    return results["p"]


def mapped(function: Map | None, values: AnyArray, cloud: Arrays) -> AnyArray:
    """Return the map of values, in their dtype."""
    return values if function is None else function(values, cloud).astype(values.dtype, copy=False)


def after(first: Map | None, second: Map | None) -> Map | None:
    """Return a map of what another one makes."""
    if first is None or second is None:
        return first or second

    def change(values: AnyArray, cloud: Arrays, moves: Arrays) -> AnyArray:
        of_first = second(pushed(first, values, cloud, moves), cloud)
        return of_first + pushed(second, first(values, cloud), cloud, moves)

    return Curved(lambda values, cloud: second(first(values, cloud), cloud), change)


@dataclass(frozen=True)
class Beside:
    """Maps of the same values, whose columns follow each other."""

    maps: tuple[Map | None, ...]

    def __call__(self, values: AnyArray, cloud: Arrays) -> AnyArray:
        """Return the maps of values (rows, N), (rows, N maps)."""
        parts = [mapped(function, values, cloud) for function in self.maps]
        rows, count = parts[0].shape[:-1], parts[0].shape[-1]
        # One by one: what `concatenate` uploads to a device, no graph would keep.
        mapped_values = np.empty_like(parts[0], shape=(*rows, len(parts) * count))
        for n, part in enumerate(parts):
            mapped_values[..., n * count : (n + 1) * count] = part
        return mapped_values


@dataclass(frozen=True)
class Curved:
    """A map that is not affine in the points or the normals, with its derivative by them.

    Attributes
    ----------
    function : callable
        The map.
    change : callable or None
        ``change(values, cloud, moves)``: how the rows change, to first order, where ``moves`` has
        the change of "points" or of "norms" in ``cloud``; the density or the results stay. None
        if they do not change.
    """

    function: Map
    change: Callable[[Any, Arrays, Arrays], Any] | None

    def __call__(self, values: AnyArray, cloud: Arrays) -> AnyArray:
        """Return the map of values."""
        return self.function(values, cloud)


def still(results: Map) -> bool:
    """Return whether a map of results takes nothing of the points."""
    return results in FIXED or (isinstance(results, Curved) and results.change is None)


def check_made(what: str, function: Map, rows: AnyArray, shape: tuple[int, ...]) -> None:
    """Refuse rows that a map made, if they have not this shape, or are not finite.

    Raises
    ------
    ParkiValueError
        It says ``what`` the map makes.
    """
    problem = ""
    if not hasattr(rows, "shape"):
        problem = f"type {type(rows).__name__}"
    elif tuple(rows.shape) != shape:
        problem = f"shape {tuple(rows.shape)}"
    elif not np.isfinite(rows).all():
        problem = "NaN or infinity"
    if problem:
        raise ParkiValueError(
            f"the composite makes {what} of {problem}; expected {shape}, finite numbers for each "
            f"point: correct the map {_name(function)} of its addend"
        )


def _name(function: Map) -> str:
    plain = function.function if isinstance(function, Curved) else function
    return str(getattr(plain, "__qualname__", repr(plain)))


def slopes(function: Map | None, values: AnyArray, cloud: Arrays, name: str) -> list[AnyArray]:
    """Return the derivatives of a map by each row of ``cloud[name]``: three arrays (rows, N).

    Where ``values`` are ``cloud[name]`` itself, as for a map of points, they change with it.

    Raises
    ------
    ParkiValueError
        If the map is not affine in ``cloud[name]``, and not `Curved`.
    """
    if isinstance(function, Beside):
        by_axis = zip(*(slopes(one, values, cloud, name) for one in function.maps), strict=True)
        return [np.concatenate(parts, axis=-1) for parts in by_axis]
    vectors = cloud[name]
    units = [np.zeros_like(vectors) for _ in vectors]
    for axis, unit in enumerate(units):
        unit[axis] = 1
    if function is None:
        return units if values is vectors else [np.zeros_like(values)] * len(units)
    if isinstance(function, Curved):
        there = function(values, cloud)
        if function.change is None:
            return [np.zeros_like(there)] * len(units)
        changes = [function.change(values, cloud, {name: unit}) for unit in units]
        for change in changes:
            check_made(f"a change with the {name}", function, change, there.shape)
        return changes

    def rows_of(others: AnyArray) -> AnyArray:
        return function(others if values is vectors else values, {**cloud, name: others})

    size = 2.0 ** math.frexp(_largest([vectors]))[1]  # for the rounding of sums with constants
    with np.errstate(all="ignore"):  # what is not finite is refused
        constant, there = rows_of(np.zeros_like(vectors)), rows_of(vectors)
        parts = [(rows_of(size * unit) - constant) / size for unit in units]
        rest = there - constant - along(parts, vectors)
    terms = [there, constant, *(size * part for part in parts)]
    if not _largest([rest]) <= 1e3 * np.finfo(there.dtype).eps * _largest(terms):
        raise ParkiValueError(
            f"the map {_name(function)} of a composite is not affine in the {name}, and does not "
            "say how it changes with them; make it Curved(map, change) of parki.ewald.sums.maps"
        )
    return parts


def along(slopes: list[AnyArray], move: AnyArray) -> AnyArray:
    """Return the change (rows, N maps) along a move (3, N), for `slopes` by each axis."""
    times = slopes[0].shape[-1] // max(1, move.shape[-1])
    return reduce(add, [a * row for a, row in zip(slopes, np.tile(move, (1, times)), strict=True)])


def pushed(function: Map | None, values: AnyArray, cloud: Arrays, moves: Arrays) -> AnyArray:
    """Return how a map changes, for moves of "points" or "norms": see `slopes`."""
    if function is None:
        of_values = [move for name, move in moves.items() if cloud[name] is values]
        return of_values[0] if of_values else np.zeros_like(values)
    changes = (along(slopes(function, values, cloud, name), move) for name, move in moves.items())
    return reduce(add, changes)


def folded(rows: AnyArray, count: int) -> AnyArray:
    """Return the sums (..., N) of values (..., N maps), whose columns follow each other."""
    times = rows.shape[-1] // max(1, count)
    return rows.reshape((*rows.shape[:-1], times, count)).sum(axis=-2) if times > 1 else rows


def weights(results: Map, sizes: dict[str, int], cloud: Arrays | None = None) -> Weights:
    """Return the matrix of a map: the map of ones in each row of results that have ``sizes`` rows.

    Without ``cloud`` the map is the same at all points, and weights are numbers. With it they are
    arrays (N,), to be taken once.
    """
    ones = np.ones(1) if cloud is None else np.ones_like(cloud["points"][0])

    def column(name: str, row: int) -> AnyArray:
        unit = {n: np.zeros_like(ones, shape=(rows, len(ones))) for n, rows in sizes.items()}
        unit[name][row] = 1
        return results(unit, cloud) if cloud else results(unit, {})[:, 0].tolist()

    matrices: Weights = {n: map(partial(column, n), range(size)) for n, size in sizes.items()}
    return matrices if cloud else {name: list(columns) for name, columns in matrices.items()}


def transposed(weights: Weights, values: AnyArray) -> Arrays:
    """Return values (..., rows, N) times the transposed matrices: results by name."""

    def row(column: AnyArray) -> AnyArray:
        weights = [(i, w) for i, w in enumerate(column) if not isinstance(w, float) or w]
        parts = [weight * values[..., i, :] for i, weight in weights]
        return reduce(add, parts) if parts else np.zeros_like(values[..., 0, :])

    return {
        name: values if rows == _unit(values.shape[-2]) else np.stack([*map(row, rows)], axis=-2)
        for name, rows in weights.items()
    }


@lru_cache(maxsize=16)
def _unit(rows: int) -> list[list[float]]:
    """Return the unit matrix as `weights` has it."""
    found: list[list[float]] = np.eye(rows).tolist()
    return found


def factors(weights: Weights) -> dict[str, float]:
    """Return bounds of how much larger a map makes an error of each result, in the 2-norm.

    It is the root of the largest sum of a column, times the largest sum of a row.
    """
    bounds = {}
    for name, columns in weights.items():
        most, total = 0.0, 0.0
        for column in map(np.abs, columns):
            most, total = max(most, _largest([column.sum(axis=0)])), total + column
        bounds[name] = math.sqrt(most * _largest([total]))
    return bounds


def _largest(arrays: list[AnyArray]) -> float:
    """Return the largest absolute value; a device is waited for once."""
    parts = [np.abs(array).max() for array in arrays if array.size]
    return float(np.stack(parts).max()) if parts else 0.0


def pulled(function: Map | None, values: AnyArray, cloud: Arrays, rows: int) -> AnyArray:
    """Return values (..., N) times the transpose of a map of ``rows`` rows."""
    if function is None:
        return values
    if isinstance(function, Beside):
        pairs = zip(function.maps, np.split(values, len(function.maps), axis=-1), strict=True)
        return reduce(add, [pulled(one, part, cloud, rows) for one, part in pairs])
    matrix = weights(lambda results, cloud: function(results["dens"], cloud), {"dens": rows}, cloud)
    return folded(transposed(matrix, values)["dens"], cloud["points"].shape[-1])
