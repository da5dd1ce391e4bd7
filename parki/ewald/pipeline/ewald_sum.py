"""`EwaldSum`: one sum whose points a pipeline has placed. A plan has one or more of them.

Its arguments are checked when it is made; `place` places the points, and `overwrite` sums
densities. Whoever holds it takes its `access` first.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.far.spreading import check_spreading
from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.near.near_field import check_wanted
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.protocol import (
    Access,
    Pipeline,
    Watch,
    cache_pipeline,
    cached_pipeline,
    keeps,
    peek_pipeline,
)
from parki.ewald.points import (
    RESULTS,
    TENSOR,
    TENSOR_ROWS,
    Cloud,
    SurveyedCloud,
    as_rows,
    check_density,
    check_names,
    check_values,
    check_want,
    like_points,
    result_shape,
)
from parki.ewald.points.extent import look_for_flux, may_warn, resolve
from parki.ewald.points.survey import survey
from parki.ewald.sums import stress, sum_of
from parki.ewald.task import Task
from parki.memory import require, told
from parki.runtime import ExecutionSpace
from parki.settings import read_once
from parki.typing import AnyArray, DType


class EwaldSum:
    """A sum with its points. At other points it is another one: see `moved`.

    Parameters
    ----------
    pipeline : Pipeline
        Without points.
    kernel, want
        As for `parki.Plan`.
    cloud : Cloud
        Its values are looked at here, and borrowed arrays are copied.
    tensors : array, shape (10, Nt), optional
        A tensor D, with D_jk in row 3 j + k, and a strength s for each target of a single layer.
        The target reads ``D_jk d u_j / d x_k + s p``, and ``want`` may ask for the gradient of
        that, "grad_tensor", of shape (3, Nt). It is what a source of `parki.vjp` feels.
    access : Access, optional
        That of the plan it belongs to. Default: one of its own.
    one_shot : bool
        Whether one density follows at once. It takes what the last such sum has left. If a device
        can place the points by that before the host has looked at their values, they are `pending`.

    Attributes
    ----------
    sizes : dict of str to int
        The rows of each result.
    lattice : Lattice
        The present box, for which no device is waited for.
    pipeline : Pipeline
        With the points placed last; `pending` says whether the host has looked at these.
    pending : callable or None
        What returns points that a device has placed before the host has looked at them.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        kernel: Any,
        cloud: Cloud,
        want: str | tuple[str, ...],
        *,
        tensors: AnyArray = None,
        access: Access | None = None,
        one_shot: bool = False,
    ) -> None:
        self._flux_seen = False  # by `look_for_flux`
        self.pending: Callable[[], Cloud] | None = None
        self._seen: Callable[[], Cloud] | None = None  # of which `cloud` is not made yet
        self.pipeline = pipeline
        with pipeline.ranks.collective("Plan"), read_once(), told():
            if not one_shot:
                cloud = cloud.checked()
            cloud, names = cloud.owned(), check_names(want, (*RESULTS, TENSOR))
            arrays, self.dtype = cloud.arrays, np.dtype(cloud.src.dtype)
            self.want = want if isinstance(want, str) else names
            self.task, self._result_shapes = _task_of(
                sum_of(kernel).name,
                cloud.space,
                self.dtype,
                cloud.options,
                names=names,
                tensors=tensors is not None,
                labelled=cloud.labels is not None,
            )
            self.sizes = {name: math.prod(shape) for name, shape in self._result_shapes.items()}
            self.access = access or Access(cloud.space)
            if tensors is not None:
                shape = TENSOR_ROWS, cloud.targets
                tensors = like_points("tensors", tensors, self.task.space, self.dtype)
                arrays["tensors"] = check_density("tensors", tensors, shape, of="targets")
            self._one_shot = one_shot
            cached = None
            if one_shot and pipeline.ranks.serial:
                cached = peek_pipeline(self.task, cloud.sizes)
            may_follow = False
            if cached is not None:
                cloud = _as_recorded(cloud, *cached.groups)
                # The order of axes keeps the shapes of arrays.
                may_follow = cached.follows(cloud.distinct) and self.may_follow(cached, cloud)
            if may_follow:
                self.lattice = cloud.options.lattice  # which has all lengths
                self._cloud, self.pending = cast(SurveyedCloud, cloud), lambda: cloud
            else:
                self._survey(cloud if cloud.extents is not None else cloud.checked())

    def _survey(self, cloud: Cloud) -> None:
        """Take points that were looked at; a plan's box stays while it holds them."""
        # An empty plan keeps no box or parameters: choose them from these points.
        lattice = None if self.pipeline.setup is None else self.lattice
        self._cloud = survey(self.pipeline.ranks, self.task, cloud, lattice)
        self.lattice, self._seen = self._cloud.lattice, None
        self._points = self._cloud.ordered(self.task.order)

    def may_follow(self, pipeline: Pipeline, cloud: Cloud) -> bool:
        """Return whether a pipeline may place points before the host has looked at them.

        Not where they set the box, or a warning may be due, or their normals are rounded.
        """
        task = self.task
        if cloud.systems or cloud.labels is not pipeline.groups[1]:
            return False
        if None in task.options.edges or task.flux or may_warn(task, cloud):
            return False
        return not (task.mixed and task.sum.normals)

    def _placed_async(self, pipeline: Pipeline, cloud: Cloud) -> bool:
        """Let a device place points before the host has looked at them; return whether it can."""
        arrays = self.task.order.all_to_solver(cloud.distinct)
        return pipeline.place_async(self.task, self.lattice, arrays)

    def place(self) -> None:
        """Place the points, by what the last sum of this kind has left.

        On a device the near field of one density runs while the far field is set up.
        """
        cached, done = None, None
        if self.pipeline.ranks.serial and (self._one_shot or not self._cloud.systems):
            sizes = self._cloud.sizes if self._one_shot else None
            cached, done = cached_pipeline(self.task, sizes)
        with self.access():
            self.access.follow(done)
            if (late := self.pending and self.pending()) is not None:
                # Others may have taken the pipeline that was there, and this is another.
                same = cached is not None and cached.groups[1] is late.labels
                if cached is not None and same and self._placed_async(cached, late):
                    self.pipeline = cached
                    return
                self.pending = None
                self._survey(late.checked())
            if cached is not None and self._is_at(cached.copied):
                self.pipeline = cached
                return
            pipeline = cached or self.pipeline
            self.pipeline = pipeline.placed(self.task, self._points, self._one_shot)

    def _is_at(self, points: SurveyedCloud | None) -> bool:
        """Return whether the points and their box are those that one sum before had copied."""
        before = self._points
        if points is None or (points.lattice, points.systems) != (before.lattice, before.systems):
            return False
        placed, arrays = points.distinct, before.distinct
        return (points.labels is before.labels and placed.keys() == arrays.keys()) and all(
            np.array_equal(array, placed[name]) for name, array in arrays.items()
        )

    def cache_setup(self) -> None:
        """Leave a set-up for other plans like this one; after one sum, the pipeline itself.

        On a CPU with copies of the points, as sums at the same ones need not place them again.
        """
        pipeline = self.pipeline
        if pipeline.ranks.serial and pipeline.setup is not None:
            if self._one_shot:
                copied = keeps(self.task) and not self.task.space.on_device
                if copied and not self._is_at(pipeline.copied):
                    copies = {name: array.copy() for name, array in self._points.distinct.items()}
                    pipeline.copied = self._points.within(copies)
                cache_pipeline(self.task, self._cloud.sizes, pipeline, self.access.done)
            elif not self._cloud.systems:
                cache_pipeline(self.task, None, pipeline.for_new_plans(), self.access.done)

    # ------------------------------------------------------------------ what is placed
    @property
    def cloud(self) -> SurveyedCloud:
        """The points in the user's axes, once the host has looked at them."""
        if self._seen is not None:
            self._survey(self._as_placed(self._seen()))
        return self._cloud

    @property
    def points(self) -> SurveyedCloud:
        """The points as the pipeline takes them."""
        _ = self.cloud  # which makes them
        return self._points

    @property
    def systems(self) -> Systems | None:
        """The systems, for which no device is waited for."""
        return self._cloud.systems

    @property
    def labels(self) -> Labels | None:
        """The labels, for which no device is waited for."""
        return self._cloud.labels

    @property
    def radii(self) -> tuple[Any, Any] | None:
        """The radii (N,) of targets and of sources, if they have any."""
        return self._cloud.radii

    @property
    def counts(self) -> tuple[int, int]:
        """Targets and sources of this rank."""
        late = self.pending or self._seen
        cloud = late() if late else self._cloud
        return cloud.targets, cloud.sources

    # ------------------------------------------------------------------ other points
    def moved(self, cloud: Cloud) -> EwaldSum:
        """Return the sum at other points, perhaps in another box: see `parki.Plan.update_points`.

        This sum serves no more, or again after `Pipeline.undo`.
        """
        with self.pipeline.ranks.collective("update_points"):
            if cloud.src.dtype != self.dtype:
                raise ParkiTypeError(
                    f"trg has dtype {cloud.trg.dtype}, but the plan was made for "
                    f"{self.dtype}; convert the points, or make a new plan"
                )
            cloud = _as_recorded(cloud, self._cloud.systems, self._cloud.labels)
            new = copy.copy(self)
            if cloud.options is not self.task.options and cloud.options != self.task.options:
                new.task = replace(self.task, options=cloud.options)
                # It keeps the edges that were the extent of points.
                new.lattice = resolve(cloud.options, np.empty((0, 3)), self.lattice)
            pipeline = self.pipeline
            if not (new.may_follow(pipeline, cloud) and new._placed_async(pipeline, cloud)):
                new._survey(cloud.checked().owned())
                new.pipeline = pipeline.placed(new.task, new._points)
            else:
                late = cloud.owned() if new.task.order.changes else cloud  # which is copied
                new.pending = lambda: late
        return new

    def validate_pending(self) -> tuple[bool, bool]:
        """Return whether late points were in the box, and suit the set-up; the host waits."""
        return (True, True) if self.pending is None else self.pipeline.validate_pending()

    def committed(self, *, inside: bool, suited: bool) -> EwaldSum:
        """Return the sum with its late points looked at: this one, or one of another set-up.

        Raises
        ------
        ParkiValueError, ParkiMemoryError
            If some are impossible, or there is no room for what suits them.
        """
        pending = self.pending
        if pending is None:
            return self
        if not inside:
            pending().checked()  # which says what is wrong
            raise ParkiValueError(
                "the points that update_points took were not finite or not in the box, and "
                "their arrays have changed since; the points before them are back"
            )
        if suited:
            self.pending, self._seen = None, pending
            return self
        new = copy.copy(self)
        new.pending = None
        new._survey(self._as_placed(pending()))
        new.pipeline = self.pipeline.replan(self.task, new._points)
        return new

    def _as_placed(self, cloud: Cloud) -> Cloud:
        """Return a cloud with the points that are placed, whatever became of its arrays."""
        if cloud.borrowed:
            cloud = replace(cloud, arrays=self.pipeline.copies(cloud.arrays), borrowed=False)
        return cloud.checked()

    # ------------------------------------------------------------------ apply
    def overwrite(
        self,
        rows: dict[str, Any],
        values: AnyArray,
        watch: Watch,
        motion: NDArray[np.float64] | None = None,
        weights: AnyArray = None,
    ) -> None:
        """Overwrite results (k, rows, targets) by the sums of densities (k, rows, sources).

        "strain" of shape (k, 9, systems), if it is among them, takes what dens.u gains by strains
        of points and box: see `Stages.run`. With a ``motion`` (3, 3) results are how they change
        along the strain ``dx = motion x``: see `Stages.run_changed`. With ``weights`` of "u", of
        one system, "strain" is the only result: see `Stages.run_strains`.
        """
        task, pipeline, order = self.task, self.pipeline, self.task.order
        if task.flux and not self._flux_seen:
            self._flux_seen = look_for_flux(task, self.cloud, values, pipeline.ranks.sum)
        if pipeline.setup is None or not task.want or not len(values):
            for array in rows.values():
                array.fill(0)
            return
        rows = {**rows}
        strain = rows.pop("strain", None)
        as_wanted = task.want == (*rows,) or weights is not None
        parts = rows if as_wanted else stress.split(rows, task.want, task.xp)
        results = parts if strain is None else {**parts, "strain": strain}
        if strain is None and motion is None:
            pipeline.apply(self.to_solver(values), results, watch)
        else:
            along = None if motion is None else order.matrix @ motion @ order.matrix.T
            of_u = None if weights is None else order.to_solver(weights)
            pipeline.apply_strained(self.to_solver(values), results, along, of_u)
        if parts is not rows:
            stress.combine(rows, parts)
            for name in rows.keys() - {*task.want, *stress.MADE}:
                rows[name].fill(0)
        if not order.is_identity:
            for array in rows.values() if strain is None else (*rows.values(), strain):
                order.to_user(array.copy(), array)

    def to_solver(self, values: AnyArray) -> Any:
        """Return densities (k, rows, N) in the order of the pipeline's axes and in its unit."""
        ordered = values if self.task.order.is_identity else self.task.order.to_solver(values)
        if self.task.sum.lengths is None or self.pipeline.setup is None:
            return ordered
        return self.pipeline.setup.measured(ordered)

    def shapes(self, several: tuple[int, ...] = ()) -> dict[str, tuple[int, ...]]:
        """Return the shape of each result; for ``several`` densities at once, if it is given."""
        count = self.counts[0]
        return {n: (*several, *shape, count) for n, shape in self._result_shapes.items()}

    @property
    def density_shape(self) -> tuple[int, ...]:
        """The shape of a density."""
        return (*self.task.sum.density, self.counts[1])

    def density(self, dens: AnyArray, shape: tuple[int, ...], looked: bool = True) -> Any:
        """Return a density as (rows, sources), or several as (k, rows, sources), C-contiguous.

        Refuse one of another ``shape``, or an impossible one. If its values are not ``looked`` at
        here, they are later.
        """
        values = like_points("dens", dens, self.task.space, self.dtype)
        values = as_rows("dens", values, shape, several=True)
        self.require_several(values)
        if looked:
            check_values("dens", values, shape, self.task.mixed)
        return values

    def require_several(self, values: AnyArray) -> None:
        """Refuse more densities at once than there is memory for: what they need beyond one."""
        if values.ndim < 3:
            return
        task, (targets, sources) = self.task, self.counts
        results = sum(math.prod(shape) for shape in self.shapes().values())
        bytes_of_one = values.dtype.itemsize * (1 if self.task.order.is_identity else 2) * results
        if task.mixed:
            bytes_of_one += task.dtype.itemsize * (results + task.sum.rows * sources)
        require(
            task.space,
            (len(values) - 1) * bytes_of_one,
            f"the results of {len(values)} densities at {targets} targets",
            "sum fewer at a time",
        )


def _as_recorded(cloud: Cloud, systems: Systems | None, labels: Labels | None) -> Cloud:
    """Return a cloud with systems and labels that are recorded, where they equal its own."""
    if cloud.systems is systems and cloud.labels is labels:
        return cloud
    if (cloud.systems, cloud.labels) != (systems, labels):
        return cloud
    systems = systems and systems.at(cast(Systems, cloud.systems))
    return replace(cloud, systems=systems, labels=labels)


@lru_cache(maxsize=64)
def _task_of(
    kernel: str,
    space: ExecutionSpace,
    dtype: DType,
    options: EwaldOptions,
    *,
    names: tuple[str, ...],
    tensors: bool,
    labelled: bool,
) -> tuple[Task, dict[str, tuple[int, ...]]]:
    """Return the task of a sum, and the shape of each result for a target.

    Raises
    ------
    ParkiValueError
        If there is no such sum.
    """
    if options.walled:
        raise ParkiValueError(
            f"wall is {options.wall!r}, which this sum does not take; near a wall call "
            "parki.Plan, parki.stokes_sl, parki.vjp or parki.jvp, or parki.distributed, "
            "parki.torch or parki.jax"
        )
    check_want(kernel, names, tensors)
    check_wanted(options.expert.p2p_method, options.expert.radial, kernel, names)
    check_spreading(options.expert.p2g_method, kernel, options.cell is not None)
    real = options.arithmetic(dtype)
    task = Task(kernel, space, real, options, names=names, labelled=labelled)
    return task, {name: result_shape(kernel, name, 1)[:-1] for name in names}
