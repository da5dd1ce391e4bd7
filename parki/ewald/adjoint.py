"""The transpose of a plan's sum, by sums from its targets to its sources.

Each result of a sum has its `parki.ewald.sums.adjoint.Adjoint`, which says what to sum. Where it
can, that sum takes the plan's own parameters, and has the same matrix as the plan but for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from parki.errors import ParkiValueError
from parki.ewald.options import SMALLEST_TOLERANCE
from parki.ewald.pipeline import Pipeline, unwatched
from parki.ewald.points import result_shape
from parki.ewald.setup import Setup
from parki.ewald.sums.adjoint import Adjoint, Mean
from parki.ewald.task import Frame, Points, Task


class Transpose:
    """The transpose of a task, for the points of one pipeline after the other.

    Parameters
    ----------
    task : Task
        Of the plan.

    Raises
    ------
    ParkiValueError
        If one of the results wanted has no transpose among the sums that there are.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        for name in task.want:
            if name not in task.sum.adjoints:
                raise ParkiValueError(
                    f"the adjoint of {task.kernel} needs that of its {name!r}, which takes second "
                    "derivatives that parki has no sum for; make a plan whose want is 'u' or "
                    "'grad_u'"
                )
        self.exchanged = {n: _Exchanged(task, task.sum.adjoints[n]) for n in task.want}

    def __call__(self, points: Points, pipeline: Pipeline, values: dict[str, Any]) -> Any:
        """Return the transpose (rows, sources) of values at the targets, by the result's name."""
        task = self.task
        found = task.xp.zeros((task.sum.rows, points.sources), dtype=task.dtype)
        if pipeline.setup is None:
            return found
        for name, seed in seeds(values).items():
            if name in self.exchanged:  # all others are zero everywhere
                row = 0
                for block in self.exchanged[name](points, pipeline, seed):
                    found[row : row + len(block)] += block
                    row += len(block)
        return found


def seeds(values: dict[str, Any]) -> dict[str, Any]:
    """Return values (rows, targets) of what is summed: those of a stress are of its parts."""
    found = {name: rows for name, rows in values.items() if name != "stress"}
    if "stress" in values:
        stress = values["stress"].reshape(3, 3, -1)
        of_parts = {
            "p": -values["stress"][::4].sum(axis=0, keepdims=True),
            "grad_u": (stress + stress.swapaxes(0, 1)).reshape(9, -1),
        }
        for name, rows in of_parts.items():
            found[name] = found[name] + rows if name in found else rows
    return found


class _Exchanged:
    """The exchanged sum of one result."""

    def __init__(self, task: Task, record: Adjoint) -> None:
        options = task.options.of_derivatives()
        self.own, self.record = task, record
        self.task = Task(record.kernel, task.space, task.dtype, options, record.want)
        self.kept: _Kept | None = None

    def __call__(self, points: Points, pipeline: Pipeline, values: Any) -> Any:
        """Return the rows of the transpose, in blocks."""
        record, task, density = self.record, self.task, self.record.density(values)
        if record.symmetric and points.survey.same and self.own.want == record.want:
            other, exchanged = pipeline, points
        else:
            other, exchanged = self._placed(points, pipeline)
        shapes = {n: result_shape(task.kernel, n, exchanged.targets) for n in record.want}
        found = {n: task.xp.empty(shape, dtype=task.dtype) for n, shape in shapes.items()}
        other.apply(task.xp.ascontiguousarray(density), found, unwatched)
        found = {n: a.reshape(math.prod(a.shape[:-1]), a.shape[-1]) for n, a in found.items()}
        setup = pipeline.setup
        if setup is not None and record.mean is not None and task.options.dl_mean == "flux":
            how = record.mean, density, pipeline.total
            found["p"] += mean_pressure(task, setup.frame, points.arrays, *how)[1]
        return record.rows(found, points.arrays.get("norms"))

    def _placed(self, points: Points, pipeline: Pipeline) -> tuple[Pipeline, Points]:
        """Return a pipeline for points, with the plan's parameters if that has the same matrix."""
        kept, setup = self.kept, pipeline.setup
        if kept is not None and kept.plan is points:
            return kept.pipeline, kept.points
        alike = self.record.finer is None and setup is not None
        given = None
        if kept is not None and (kept.setup is setup or not alike):
            before = kept.pipeline
            given = before.setup if alike else None
        else:
            before = pipeline.empty()
            given = setup.exchanged(self.task) if alike and setup is not None else None
        exchanged = self._exchanged(points)
        other = before.exchanged(self.task, exchanged, given)
        self.kept = _Kept(points, exchanged, setup, other)
        return other, exchanged

    def _exchanged(self, points: Points) -> Points:
        """Return points whose targets are the sources."""
        survey, arrays = points.survey, points.arrays
        turned = survey._replace(totals=survey.totals[::-1], before=survey.before[::-1])
        tolerance = points.tolerance
        if self.record.finer is not None:
            components = self.task.sum.source_components
            asked = self.task.options.random_tolerance(
                turned.totals[1], components, self.task.dtype
            )
            tolerance = max(self.record.finer * asked, SMALLEST_TOLERANCE[self.task.dtype])
        swapped = {"trg": arrays["src"], "src": arrays["trg"]}
        return Points(swapped, points.extents, turned, points.box, tolerance, None)


def mean_pressure(
    task: Task,
    frame: Frame,
    arrays: dict[str, Any],
    mean: Mean,
    density: Any,
    total: Callable[[float], float] = float,
) -> tuple[list[float], Any]:
    """Return what the exchanged sum's pressure has more, of a double layer without net flux.

    Parameters
    ----------
    task : Task
    frame : Frame
        Of the box.
    arrays : dict
        "trg" and "src".
    mean : callable
        The record's.
    density : array (rows, targets)
        Of the exchanged sum.
    total : callable
        Adds up numbers of all ranks.

    Returns
    -------
    slope : list of 3 floats
        Gradient of the pressure.
    pressure : array, shape (sources,)
    """
    order, wrapped = list(frame.axes), []
    for name in ("trg", "src"):
        cloud = frame.wrap(task, arrays[name][order])
        wrapped.append(cloud[[order.index(axis) for axis in range(3)]] * frame.unit)
    factor = 8 * math.pi / math.prod((frame.box * frame.unit).tolist())
    *slope, constant = (factor * total(float(part)) for part in mean(density, wrapped[0]))
    pressure = sum(part * row for part, row in zip(slope, wrapped[1], strict=True)) + constant
    return slope, pressure


@dataclass
class _Kept:
    """A pipeline with its points, the plan's points and the set-up it was made for."""

    plan: Points
    points: Points
    setup: Setup | None
    pipeline: Pipeline
