"""`Addend`: results of one sum of a mapped density, put together. Addends are a composite.

A stress, the transpose of a sum and its derivatives are composites: their addends name other sums,
or the sum itself, and what becomes of densities and results. Those of one sum share it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

Arrays = dict[str, Any]
Map = Callable[[Any, Arrays], Any]


@dataclass(frozen=True)
class Addend:
    """One sum of a composite. Arrays have shape (rows, N).

    Maps take values at some points and ``at``, what else there is at the points, by name. They are
    linear in the values, and treat every point by itself.

    Attributes
    ----------
    kernel : str
        The sum; "" is the sum that the composite belongs to.
    want : tuple of str
        What is needed of it.
    results : callable
        ``results(found, at)``: the rows of the composite, of these results by name, at the targets.
    density, sources, normals : callable or None
        ``density(dens, at)``: the density of the sum, of the composite's; likewise its sources and
        their normals. None takes them as they are.
    tensors : callable or None
        ``tensors(at)``: the targets as tensor targets, (10, N).
    """

    kernel: str
    want: tuple[str, ...]
    results: Map
    density: Map | None = None
    sources: Map | None = None
    normals: Map | None = None
    tensors: Callable[[Arrays], Any] | None = None

    def rows(self, found: Arrays, at: Arrays) -> Any:
        """Return the rows that results make; and a near field by itself, if there is one."""
        rows = self.results(found, at)
        return rows + found["transposed_pair"] if "transposed_pair" in found else rows


def mapped(function: Map | None, values: Any, at: Arrays) -> Any:
    """Return the map of values."""
    return values if function is None else function(values, at)


def together(addends: Iterable[Addend], own: str) -> Iterator[tuple[str, list[list[Addend]]]]:
    """Yield sums with their addends, in lists of those that have the density in common.

    A sum takes several densities at once, and for each all results that are needed. The sum of the
    composite is ``own``.
    """
    sums: dict[Any, dict[Any, list[Addend]]] = {}
    for each in addends:
        densities = sums.setdefault((each.kernel or own, each.sources, each.normals), {})
        densities.setdefault(each.density, []).append(each)
    yield from ((kernel, list(each.values())) for (kernel, _, _), each in sums.items())


def wanted(addends: Iterable[Addend]) -> tuple[str, ...]:
    """Return all that addends need, each once."""
    return tuple(dict.fromkeys(name for each in addends for name in each.want))


Weights = dict[str, Any]  # by result: matrices (rows of it, rows of a composite), or these (.., N)


def weights(results: Map, sizes: dict[str, int], at: Arrays | None = None) -> Weights:
    """Return what a map makes of ones in each row of results that have ``sizes`` rows.

    Without ``at`` the map is the same at all points, and its weights are numbers.
    """
    ones = np.ones(1) if at is None else np.ones_like(at["points"][0])
    found: Weights = {}
    for name, size in sizes.items():
        columns = []
        for row in range(size):
            unit = {n: np.zeros_like(ones, shape=(rows, len(ones))) for n, rows in sizes.items()}
            unit[name][row] = 1
            columns.append(results(unit, at or {}))
        found[name] = np.stack(columns) if at else np.stack(columns)[..., 0].tolist()
    return found


def transposed(weights: Weights, values: Any) -> Arrays:
    """Return what the transposed matrices make of values (..., rows, N): results by name."""

    def row(of: Any) -> Any:
        parts = [each * values[..., i, :] for i, each in enumerate(of) if np.ndim(each) or each]
        return reduce(add, parts)

    return {name: np.stack([*map(row, rows)], axis=-2) for name, rows in weights.items()}


def factors(weights: Weights) -> dict[str, float]:
    """Return bounds of how much larger a map makes an error of each result, in the 2-norm."""
    each = {name: np.abs(rows) for name, rows in weights.items()}
    return {n: math.sqrt(a.sum(axis=0).max() * a.sum(axis=1).max()) for n, a in each.items()}
