"""Maps of densities, results and points: functions that treat every point by itself.

A map takes values (rows, N), or results by name, and ``at``: what else there is at the points, such
as "points" and "norms". Maps of densities and results are linear: their transposes, and how much
they enlarge errors, follow from what they make of ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

Arrays = dict[str, Any]
Map = Callable[[Any, Arrays], Any]
Weights = dict[str, Any]  # by result: for each row of it, its weights in all rows made of it


def mapped(function: Map | None, values: Any, at: Arrays) -> Any:
    """Return the map of values, in their dtype."""
    return values if function is None else function(values, at).astype(values.dtype, copy=False)


@dataclass(frozen=True)
class Beside:
    """Maps of the same values, whose columns follow each other."""

    maps: tuple[Map | None, ...]

    def __call__(self, values: Any, at: Arrays) -> Any:
        """Return the maps of values (rows, N), (rows, N maps)."""
        found = [mapped(each, values, at) for each in self.maps]
        return found[0] if len(found) == 1 else np.concatenate(found, axis=1)


def weights(results: Map, sizes: dict[str, int], at: Arrays | None = None) -> Weights:
    """Return what a map makes of ones in each row of results that have ``sizes`` rows.

    Without ``at`` the map is the same at all points, and weights are numbers. With it they are
    arrays (N,), to be taken once.
    """
    ones = np.ones(1) if at is None else np.ones_like(at["points"][0])

    def column(name: str, row: int) -> Any:
        unit = {n: np.zeros_like(ones, shape=(rows, len(ones))) for n, rows in sizes.items()}
        unit[name][row] = 1
        return results(unit, at) if at else results(unit, {})[:, 0].tolist()

    each: Weights = {n: map(partial(column, n), range(size)) for n, size in sizes.items()}
    return each if at else {name: list(columns) for name, columns in each.items()}


def transposed(weights: Weights, values: Any) -> Arrays:
    """Return what the transposed matrices make of values (..., rows, N): results by name."""

    def row(of: Any) -> Any:
        numbered = [(i, each) for i, each in enumerate(of) if not isinstance(each, float) or each]
        return reduce(add, [each * values[..., i, :] for i, each in numbered])

    return {name: np.stack([*map(row, rows)], axis=-2) for name, rows in weights.items()}


def factors(weights: Weights) -> dict[str, float]:
    """Return bounds of how much larger a map makes an error of each result, in the 2-norm.

    It is the root of the largest sum of a column, times the largest sum of a row.
    """
    found = {}
    for name, columns in weights.items():
        most, total = 0.0, 0.0
        for column in map(np.abs, columns):
            most, total = max(most, _largest(column.sum(axis=0))), total + column
        found[name] = math.sqrt(most * _largest(total))
    return found


def _largest(values: Any) -> float:
    return float(values.max()) if values.size else 0.0


def pulled(function: Map | None, values: Any, at: Arrays, rows: int) -> Any:
    """Return what the transpose of a map of ``rows`` rows makes of values (..., N)."""
    if function is None:
        return values
    if isinstance(function, Beside):
        each = zip(function.maps, np.split(values, len(function.maps), axis=-1), strict=True)
        return reduce(add, [pulled(of, own, at, rows) for of, own in each])
    matrix = weights(lambda found, at: function(found["dens"], at), {"dens": rows}, at)
    return transposed(matrix, values)["dens"]
