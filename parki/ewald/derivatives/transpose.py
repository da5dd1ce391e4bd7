"""The transpose of a plan's sum, by sums from its targets to its sources.

The `parki.ewald.sums.adjoint.Adjoint` of each result says what to sum. Where possible, that sum
takes the plan's own parameters and has the same matrix as the plan up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from parki.errors import ParkiValueError
from parki.ewald.options import SMALLEST_TOLERANCE, EwaldOptions
from parki.ewald.pipeline.protocol import Pipeline, unwatched
from parki.ewald.pipeline.setup import Setup
from parki.ewald.points import result_rows
from parki.ewald.points.cloud import SurveyedCloud
from parki.ewald.sums.adjoint import Adjoint
from parki.ewald.sums.maps import Arrays, mapped
from parki.ewald.sums.stress import seeds
from parki.ewald.task import Task
from parki.typing import AnyArray


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
        summed = [name for name in task.want if task.sum.terms[name]]  # others are zero
        for name in summed:
            if name not in task.sum.adjoints:
                others = " or ".join(map(repr, task.sum.adjoints))
                remedy = f"make a plan whose want is {others}" if others else "no result has one"
                raise ParkiValueError(
                    f"the adjoint of {task.kernel} needs that of its {name!r}, but its record has "
                    "none: this sum is but a part of others, of spheres or of images, or one of "
                    f"your own without adjoints; {remedy}"
                )
        self.transposed = {n: TransposedSum(task, task.sum.adjoints[n]) for n in summed}
        for name, one in self.transposed.items():
            rows, taken = result_rows(task.kernel, name), one.task.sum.rows
            if one.record.density is None and rows != taken:
                raise ParkiValueError(
                    f"the adjoint of {task.kernel} hands {rows} rows of {name!r} to "
                    f"{one.task.kernel}, whose densities have {taken}; give Adjoint another "
                    "kernel, or a map as its density"
                )

    def __call__(self, points: SurveyedCloud, pipeline: Pipeline, values: Arrays) -> AnyArray:
        """Return the transpose (k, rows, sources) of values (k, rows, targets), by result."""
        task, first = self.task, next(iter(values.values()))
        dens = task.xp.zeros((len(first), task.sum.rows, points.sources), dtype=first.dtype)
        if pipeline.setup is None or not len(first):
            return dens
        for name, rows in seeds(values).items():
            if name in self.transposed:  # others are zero everywhere
                self.transposed[name].add(points, pipeline, rows, dens)
        return dens


@dataclass
class _Kept:
    """A pipeline with its points, the plan's points and the set-up that it was made for."""

    plan: SurveyedCloud
    points: SurveyedCloud
    setup: Setup | None
    pipeline: Pipeline


def options_of(record: Adjoint, options: EwaldOptions) -> EwaldOptions:
    """Return the options of a transposed sum: other normals have no mean."""
    return options if record.normals is None else replace(options, dl_mean="zero")


class TransposedSum:
    """The transposed sum of one result."""

    def __init__(self, task: Task, record: Adjoint) -> None:
        options = options_of(record, task.options.of_derivatives)
        self.own, self.record = task, record
        self.others = [TransposedSum(task, other) for other in record.others]
        self.task = Task(
            kernel=record.kernel,
            space=task.space,
            dtype=task.dtype,
            options=options,
            names=record.want,
            labelled=task.labelled,
        )
        self.kept: _Kept | None = None

    def add(
        self, points: SurveyedCloud, pipeline: Pipeline, values: AnyArray, totals: AnyArray
    ) -> None:
        """Add the transpose (k, rows, sources) of values (k, rows, targets)."""
        record, task = self.record, self.task
        same = points.all_same and points.labels is None
        if record.symmetric and same and self.own.want == record.want:
            other, transposed = pipeline, points
        else:
            other, transposed = self._placed(points, pipeline)
        rows = {name: result_rows(task.kernel, name) for name in record.want}
        many, count = len(values), transposed.targets
        results = {n: task.xp.empty((many, r, count), values.dtype) for n, r in rows.items()}
        dens = task.xp.ascontiguousarray(values)
        if record.density is not None:
            dens = task.xp.stack([mapped(record.density, v, points.arrays) for v in values])
        other.apply(dens, results, unwatched)

        def total(parts: AnyArray) -> AnyArray:
            if systems := transposed.systems:
                return systems.of_targets(systems.sums(parts))
            return pipeline.ranks.sum(parts.sum(axis=1, keepdims=True))

        for n, (v, into) in enumerate(zip(values, totals, strict=True)):
            by_name = {name: rows[n] for name, rows in results.items()}
            if task.options.dl_mean == "flux":
                record.add_mean(by_name, v, points.arrays, points.lattice.volume, total)
            into += record.rows(by_name, points.arrays)
        for more in self.others:
            more.add(points, pipeline, values, totals)

    def _placed(self, points: SurveyedCloud, pipeline: Pipeline) -> tuple[Pipeline, SurveyedCloud]:
        """Return a pipeline for points, with the plan's parameters if the matrix stays the same."""
        kept, setup = self.kept, pipeline.setup
        if kept is not None and kept.plan is points:
            return kept.pipeline, kept.points
        same_setup = self.record.tolerance_factor is None and setup is not None
        if kept is not None and (kept.setup is setup or not same_setup):
            before = kept.pipeline
            same = before.setup if same_setup else None
        else:
            before = pipeline.ranks.engine()
            same = setup.transposed(self.task) if same_setup and setup is not None else None
        transposed = self._transposed(points)
        self.kept = None  # what is left half placed is made anew
        other = before.placed(self.task, transposed, setup=same)
        self.kept = _Kept(points, transposed, setup, other)
        return other, transposed

    def _transposed(self, points: SurveyedCloud) -> SurveyedCloud:
        """Return points whose targets are the sources."""
        arrays, kept = points.arrays, self.kept
        systems = points.systems
        if systems is not None:
            same = kept is not None and kept.plan.systems is systems
            systems = kept.points.systems if kept and same else systems.swapped()
        swapped = {"trg": arrays["src"], "src": arrays["trg"]}
        if self.record.normals is not None:
            swapped["norms"] = self.record.normals(None, arrays)
        if "src_radii" in arrays:
            swapped |= {"trg_radii": arrays["src_radii"], "src_radii": arrays["trg_radii"]}
        labels = points.labels
        if labels is not None:
            same = kept is not None and kept.plan.labels is labels
            labels = kept.points.labels if kept and same else labels.swapped(systems)
        transposed = replace(
            points,
            arrays=swapped,
            totals=points.totals[::-1],
            before=points.before[::-1],
            systems=systems,
            labels=labels,
        )
        if self.record.tolerance_factor is None:
            return transposed
        random = self.task.tolerance(transposed.most_sources(transposed.totals[1]))
        tolerance = max(self.record.tolerance_factor * random, SMALLEST_TOLERANCE[self.task.dtype])
        return replace(transposed, tolerance=tolerance)
