"""The bound of the error that the tolerance promises: see `Plan.promise`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from parki.ewald.pipeline.protocol import Pipeline
from parki.ewald.sums.maps import factors
from parki.ewald.sums.stress import WEIGHTS
from parki.ewald.task import Points, Task
from parki.interchange import to_host


def promise(task: Task, points: Points, pipeline: Pipeline, dens: Any) -> tuple[Any, ...]:
    """Return the promise for each result of a density (rows, N), or of several (k, rows, N)."""
    rows = dens.astype(np.float64)
    several = rows.ndim == 3
    bounds = [_bound(task, points, pipeline, each) for each in (rows if several else rows[None])]
    of_each = (points.systems.count,) if points.systems else ()
    bound: Any = np.array(bounds).reshape(-1, *of_each) if several else bounds[0]
    of_derivatives = bound / (task.sum.unit or points.lattice.length)
    made = {name: sum(factors(each).values()) * of_derivatives for name, each in WEIGHTS.items()}
    return tuple(({"u": bound} | made).get(name, of_derivatives) for name in task.names)


def _bound(task: Task, points: Points, pipeline: Pipeline, density: Any) -> Any:
    """Return the promise for "u" of a density (rows, N), a number or one for each system."""
    length, systems = points.lattice.length, points.systems

    def root(values: Any) -> Any:
        if systems:
            return np.sqrt(to_host(systems.sums(values[None]))[0])
        return pipeline.total(float(values.sum())) ** 0.5

    bound: Any = 0.0
    for source, rows in task.sum.parts(density):
        square, scale = _squares(rows, pipeline)
        if source.normal:
            of_normals, size = _squares(points.arrays["norms"].astype(np.float64), pipeline)
            square, scale = square * of_normals, scale * size
        power = source.decay - task.sum.pair.power if task.sum.unit else 0
        unit = length ** (source.decay - power) * task.sum.unit**power
        bound = bound + root(square) / unit * scale
    return task.options.tolerance * bound


def _squares(rows: Any, pipeline: Pipeline) -> tuple[Any, float]:
    """Return squares (N,) of vectors over a size, and that size, so that they stay finite.

    It is a power of two, which rounds nothing.
    """
    largest = pipeline.largest(float(abs(rows).max()) if rows.size else 0.0)
    size = 2.0 ** (math.frexp(largest)[1] - 1) if largest else 1.0
    return ((rows / size) ** 2).sum(axis=0), size
