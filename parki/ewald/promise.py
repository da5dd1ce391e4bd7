"""The bound of the error that the tolerance promises: see `Plan.promise`."""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.ewald.pipeline.protocol import Pipeline, normal_squares
from parki.ewald.sums.maps import factors
from parki.ewald.sums.stress import WEIGHTS
from parki.ewald.task import Points, Task
from parki.interchange import to_host


def promise(task: Task, points: Points, pipeline: Pipeline, dens: Any) -> tuple[Any, ...]:
    """Return the promise for each result of a density (rows, N), or of several (k, rows, N)."""
    squares = dens.astype(np.float64) ** 2
    several = squares.ndim == 3
    bounds = [_bound(task, points, pipeline, q) for q in (squares if several else squares[None])]
    bound: Any = np.array(bounds) if several else bounds[0]
    of_derivatives = bound / points.lattice.length
    made = {name: sum(factors(each).values()) * of_derivatives for name, each in WEIGHTS.items()}
    return tuple(({"u": bound} | made).get(name, of_derivatives) for name in task.names)


def _bound(task: Task, points: Points, pipeline: Pipeline, squares: Any) -> Any:
    """Return the promise for "u", a number or one for each system.

    ``squares`` are the squares of the density.
    """
    length, systems = points.lattice.length, points.systems

    def root(values: Any) -> Any:
        if systems:
            return np.sqrt(to_host(systems.sums(values[None]))[0])
        return pipeline.total(float(values.sum())) ** 0.5

    bound: Any = 0.0
    for source, own in task.sum.parts(squares):
        square = own.sum(axis=0)
        if source.normal:
            normals = pipeline.normal_squares
            if normals is None:
                normals = normal_squares(points.arrays)
            square = square * normals[: squares.shape[1]]
        bound = bound + root(square) / length**source.decay
    return task.options.tolerance * bound
