"""The transpose of a plan's sum, by sums from its targets to its sources.

The `parki.ewald.sums.adjoint.Adjoint` of each result says what to sum. Where possible, that sum
takes the plan's own parameters and has the same matrix as the plan up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.geometry.systems import Systems
from parki.ewald.options import SMALLEST_TOLERANCE
from parki.ewald.pipeline.protocol import Pipeline, unwatched
from parki.ewald.pipeline.setup import Setup
from parki.ewald.points import result_shape
from parki.ewald.sums.adjoint import Adjoint
from parki.ewald.task import Frame, Points, Task


class Transpose:
    """The transpose of a task, for the points of one pipeline at a time.

    Parameters
    ----------
    task : Task
        The plan's task.

    Raises
    ------
    ParkiValueError
        If a wanted result has no transpose among the sums.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        for name in task.want:
            if name not in task.sum.adjoints:
                raise ParkiValueError(
                    f"the adjoint of {task.kernel} needs that of its {name!r}, which takes "
                    "derivatives that parki has no sum for; make a plan whose want is 'u' or "
                    "'grad_u'"
                )
        self.transposed = {n: TransposedSum(task, task.sum.adjoints[n]) for n in task.want}

    def __call__(self, points: Points, pipeline: Pipeline, values: dict[str, Any]) -> Any:
        """Return the transpose (k, rows, sources) of values (k, rows, targets), by result."""
        task, first = self.task, next(iter(values.values()))
        found = task.xp.zeros((len(first), task.sum.rows, points.sources), dtype=first.dtype)
        if pipeline.setup is None:
            return found
        for name, each in seeds(values).items():
            if name in self.transposed:  # others are zero everywhere
                self.transposed[name].add(points, pipeline, each, found)
        return found


def seeds(values: dict[str, Any]) -> dict[str, Any]:
    """Return values (k, rows, targets) of what is summed: a stress becomes its parts."""
    found = {name: rows for name, rows in values.items() if name != "stress"}
    if "stress" in values:
        rows = values["stress"]
        many, _, count = rows.shape
        stress = rows.reshape(many, 3, 3, count)
        of_parts = {
            "p": -rows[:, ::4].sum(axis=1, keepdims=True),
            "grad_u": (stress + stress.swapaxes(1, 2)).reshape(many, 9, count),
        }
        for name, part in of_parts.items():
            found[name] = found[name] + part if name in found else part
    return found


@dataclass
class _Kept:
    """A pipeline with its points, the plan's points and the set-up that it was made for."""

    plan: Points
    points: Points
    setup: Setup | None
    pipeline: Pipeline


class TransposedSum:
    """The transposed sum of one result."""

    def __init__(self, task: Task, record: Adjoint) -> None:
        options = task.options.of_derivatives()
        self.own, self.record = task, record
        pair = task.kernel if record.transposed_pair else ""
        self.task = Task(record.kernel, task.space, task.dtype, options, record.want, pair)
        self.kept: _Kept | None = None

    def add(self, points: Points, pipeline: Pipeline, values: Any, found: Any) -> None:
        """Add the transpose (k, rows, sources) of values (k, rows, targets)."""
        record, task = self.record, self.task
        if record.symmetric and points.survey.same and self.own.want == record.want:
            other, transposed = pipeline, points
        else:
            other, transposed = self._placed(points, pipeline)
        many, count = len(values), transposed.targets
        results = {
            name: task.xp.empty((many, *result_shape(task.kernel, name, count)), dtype=values.dtype)
            for name in record.want
        }
        if task.transposed_pair:
            shape = (many, self.own.sum.rows, count)
            results["transposed_pair"] = task.xp.empty(shape, dtype=values.dtype)
        other.apply(task.xp.ascontiguousarray(values), results, unwatched)
        setup = pipeline.setup
        flux = record.mean is not None and task.options.dl_mean == "flux"
        for place, into in enumerate(found):
            each = {name: flat(array[place]) for name, array in results.items()}
            if flux and setup is not None:
                pressure = mean_pressure(
                    task,
                    setup.frame,
                    points.arrays,
                    record,
                    values[place],
                    pipeline.total,
                    transposed.systems,
                )
                each["p"] += pressure[1]
            into += record.density(each, points.arrays.get("norms"))

    def _placed(self, points: Points, pipeline: Pipeline) -> tuple[Pipeline, Points]:
        """Return a pipeline for points, with the plan's parameters if the matrix stays the same."""
        kept, setup = self.kept, pipeline.setup
        if kept is not None and kept.plan is points:
            return kept.pipeline, kept.points
        same_setup = self.record.tolerance_factor is None and setup is not None
        given = None
        if kept is not None and (kept.setup is setup or not same_setup):
            before = kept.pipeline
            given = before.setup if same_setup else None
        else:
            before = pipeline.empty()
            given = setup.transposed(self.task) if same_setup and setup is not None else None
        transposed = self._transposed(points)
        other = before.placed(self.task, transposed, given=given)
        self.kept = _Kept(points, transposed, setup, other)
        return other, transposed

    def _transposed(self, points: Points) -> Points:
        """Return points whose targets are the sources."""
        survey, arrays, kept = points.survey, points.arrays, self.kept
        reversed_survey = survey._replace(totals=survey.totals[::-1], before=survey.before[::-1])
        systems = points.systems
        if systems is not None:
            if kept is not None and kept.plan.systems is systems:
                systems = kept.points.systems
            else:
                how = self.task.space, self.task.executor
                systems = Systems(systems.sources, systems.targets, *how)
        tolerance = points.tolerance
        if self.record.tolerance_factor is not None:
            sources, components = reversed_survey.totals[1], self.task.sum.source_components
            if systems is not None:
                sources = int(np.diff(systems.sources).max())
            asked = self.task.options.random_tolerance(sources, components, self.task.dtype)
            tolerance = max(
                self.record.tolerance_factor * asked, SMALLEST_TOLERANCE[self.task.dtype]
            )
        swapped = {"trg": arrays["src"], "src": arrays["trg"]}
        if self.task.transposed_pair and "norms" in arrays:
            swapped["norms"] = arrays["norms"]
        return Points(swapped, points.extents, reversed_survey, points.box, tolerance, systems)


def flat(array: Any) -> Any:
    """Return a result as (rows, targets)."""
    return array.reshape(math.prod(array.shape[:-1]), array.shape[-1])


def mean_pressure(
    task: Task,
    frame: Frame,
    arrays: dict[str, Any],
    record: Adjoint,
    values: Any,
    total: Callable[[float], float] = float,
    systems: Systems | None = None,
) -> tuple[Any, Any]:
    """Return the pressure that a double layer without net flux adds to the transposed sum.

    Parameters
    ----------
    task : Task
    frame : Frame
        Frame of the box.
    arrays : dict
        "trg" and "src" of the plan, as given.
    record : Adjoint
    values : array, shape (rows, targets)
    total : callable
        Sums a number over all ranks.
    systems : Systems, optional
        Systems of the transposed sum.

    Returns
    -------
    slope : array, shape (3, 1) or (3, sources), float64
        Gradient of the pressure.
    pressure : array, shape (sources,), float64
    """
    if record.mean is None:
        return 0.0, 0.0
    trg, src = (arrays[name].astype(np.float64, copy=False) for name in ("trg", "src"))
    factor = 8 * math.pi / math.prod((frame.box * frame.unit).tolist())
    parts = factor * record.mean(values.astype(np.float64, copy=False), trg)
    if systems is not None:
        sums = systems.of_targets(systems.sums(parts))
    else:
        sums = task.xp.asarray([[total(float(row.sum()))] for row in parts])
    return sums[:3], (sums[:3] * src).sum(axis=0) + sums[3]
