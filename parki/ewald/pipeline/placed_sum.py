"""`PlacedSum`: a sum whose points a pipeline has placed; plans of one device and of ranks hold one.

Arguments are checked here, once. What becomes of them is the pipeline's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import numpy as np

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.choice.reuse import check_stay
from parki.ewald.far.p2g_paper import check_spreading
from parki.ewald.geometry.axes import Order
from parki.ewald.geometry.extent import resolve
from parki.ewald.geometry.images import look_for_flux, may_warn, warn_of_images
from parki.ewald.geometry.labels import Labels, check_labels
from parki.ewald.geometry.lattice import Lattice
from parki.ewald.geometry.systems import Systems, check_systems
from parki.ewald.near.p2p_cells import check_wanted
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline import plan_cache
from parki.ewald.pipeline.misfits import Misfits
from parki.ewald.pipeline.one_device import OneDevice
from parki.ewald.pipeline.protocol import Pipeline, Watch, unwatched
from parki.ewald.points import (
    TENSOR_ROWS,
    Arguments,
    as_rows,
    check_arguments,
    check_density,
    check_outputs,
    check_values,
    check_want,
    like_points,
    marks_of,
    result_shape,
    take_arguments,
)
from parki.ewald.sums import SUMS, stress
from parki.ewald.task import Points, Request, Task
from parki.interchange import as_given
from parki.memory import require, told
from parki.runtime import captures, forks
from parki.settings import read_once


class PlacedSum:
    """A sum with its points. Calls from several threads and streams come one after the other.

    Parameters
    ----------
    pipeline : Pipeline
        Without points.
    given, want, systems
        The arguments of `parki.Plan`, its first five in a tuple.
    request : Request, optional

    Attributes
    ----------
    order : Order
        From the user's axes to the pipeline's, of which the periodic ones come first.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        given: tuple[Any, ...],
        want: str | tuple[str, ...],
        systems: Any = None,
        request: Request | None = None,
    ) -> None:
        start, request = time.perf_counter(), request or Request()
        self._lock = forks.Lock("this plan")  # calls share memory: one after the other
        self.done: Any = None  # the event after which another stream may use the memory
        self.result: Any = None  # what is wanted of the density that was requested
        self._flux_seen = False  # by `look_for_flux`
        # Points that a device has placed: before the host has looked at them, and after that.
        self._late: Arguments | None = None
        self._seen: Arguments | None = None
        self._misfits: Misfits | None = None  # in densities, which a device counts
        self._before: tuple[Task, Order] | None = None  # of the points before these
        self._pipeline, once = pipeline, request.once
        with pipeline.together("Plan"), read_once(), told():
            checked = check_arguments(*given)
            if not once:  # for what a plan does later
                checked = checked.owned()
            kernel, arrays = checked.kernel, checked.arrays
            options, space = checked.options, checked.space
            if options.walled:
                raise ParkiValueError(
                    f"wall is {options.wall!r}, which this sum does not take; near a wall call "
                    "parki.Plan, parki.stokes_sl, parki.vjp or parki.jvp, or parki.distributed, "
                    "parki.torch or parki.jax"
                )
            if options.cell is not None and not pipeline.alone:
                raise ParkiValueError(
                    "box has lattice vectors that are not along the axes, which plans over ranks "
                    "do not take; make a parki.Plan on one device, or give lengths in box"
                )
            self.dtype = np.dtype(arrays["src"].dtype)
            names = check_want(kernel, want, request.tensors is not None)
            check_wanted(options.p2p_method, options.radial, kernel, names)
            check_spreading(options.p2g_method, kernel, options.cell is not None)
            self.want = want if isinstance(want, str) else names
            of, normals = request.transposed_pair or ("", None)
            self._marks = marks_of(arrays)
            found = check_systems(systems, arrays, space, options)
            points = SUMS[kernel].pair.of_points
            labels = check_labels(request.exclude, kernel, points, arrays, options, found)
            how = names, of, labels is not None
            self.task = Task(kernel, space, options.arithmetic(self.dtype), options, *how)
            self.order = _order(options)
            shape, tensors = arrays["trg"].shape, request.tensors
            if tensors is not None:
                arrays["tensors"] = self._of_targets("tensors", tensors, (TENSOR_ROWS, shape[1]))
            if normals is not None:
                arrays["norms"] = self._of_targets("transposed_pair[1]", normals, shape)
            self._given = self._points_of(self.task, checked, found, labels)
            self._points = self._given.ordered(self.order)
            values = self._density(request.density) if once else None
            if pipeline.alone and not found:
                kept, self.done = plan_cache.take(self.task, once)
                self._pipeline = kept or pipeline
            with self.exclusive():
                self._pipeline = self._placed(self.task, self._points, once)
                if once and not request.waits:
                    self.result = as_given(self.summed(values, None, unwatched), request.density)
            made = self._pipeline
            if isinstance(made, OneDevice) and made.setup is not None and not (once or found):
                plan_cache.keep(self.task, False, made.left(), self.done)
        self.seconds = {"plan": time.perf_counter() - start}

    # ------------------------------------------------------------------ what is placed
    @property
    def given(self) -> Points:
        """The points as they were given."""
        with self.exclusive():
            self.settle()
            if self._seen is not None:
                own = self._points_of(
                    self.task, self._as_placed(self._seen), None, self._given.labels
                )
                self._given, self._points, self._seen = own, own.ordered(self.order), None
        return self._given

    @property
    def points(self) -> Points:
        """The points as the pipeline takes them."""
        _ = self.given  # which are looked at first
        return self._points

    @property
    def lattice(self) -> Lattice:
        """The present box, for which no device is waited for."""
        return self._lattice(self.task)

    def _lattice(self, task: Task) -> Lattice:
        """Return the box of a task, which keeps the edges that were the extent of points."""
        return resolve(task.options, np.empty((0, 3)), self._given.lattice)

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline, with points that the host has looked at."""
        if self._late is not None:
            with self.exclusive():
                self.settle()
        return self._pipeline

    @property
    def counts(self) -> tuple[int, int]:
        """Targets and sources of this rank."""
        arrays = (self._late or self._seen or self._given).arrays
        return int(arrays["trg"].shape[1]), int(arrays["src"].shape[1])

    def _points_of(
        self, task: Task, given: Arguments, systems: Systems | None, labels: Labels | None
    ) -> Points:
        """Return the points with what they decide; a plan's box stays, if it has one."""
        options = task.options
        survey = self._pipeline.survey(task, given.arrays, given.extents)
        warn_of_images(task, survey, given.arrays, self._pipeline.total)
        # An empty plan keeps no box or parameters: choose them from these points.
        empty = self._pipeline.setup is None or not all(survey.totals)
        lattice = resolve(options, survey.extents, None if empty else self._given.lattice)
        if not empty:
            check_stay(options, lattice, given.extents)
        tolerance = task.tolerance(survey, systems)
        return Points(given.arrays, given.extents, survey, lattice, tolerance, systems, labels)

    def _placed(self, task: Task, points: Points, once: bool) -> Pipeline:
        """Return the pipeline for points."""
        if all(points.survey.totals) and task.want:
            return self._pipeline.placed(task, points, once)
        return self._pipeline.empty()

    def update_points(
        self, trg: Any, src: Any, norms: Any, systems: Any, exclude: Any = None, box: Any = None
    ) -> None:
        """Place other points, perhaps in another box: see `parki.Plan.update_points`."""
        start, task = time.perf_counter(), self.task
        with self.exclusive(), self._pipeline.together("update_points"):
            self.settle()
            if box is not None:
                if not self._pipeline.alone:
                    raise ParkiValueError(
                        "box was given, but plans over ranks keep their box; make a new plan"
                    )
                task = replace(task, options=task.options.deformed(box))
            norms = self._marks if norms is None else norms  # marks serve the next points, too
            order = self.order if box is None else _order(task.options)
            taken = take_arguments(task.kernel, trg, src, norms, task.options, task.space)
            if taken.arrays["src"].dtype != self.dtype:
                raise ParkiTypeError(
                    f"trg has dtype {taken.arrays['trg'].dtype}, but the plan was made for "
                    f"{self.dtype}; convert the points, or make a new plan"
                )
            anew = systems is not None or exclude is not None
            if anew or not self._follow(task, order, taken):
                given = taken.checked().owned()
                found = self._systems_of(given, systems)
                own = self._points_of(task, given, found, self._labels_of(given, exclude, found))
                points = own.ordered(order)
                self._pipeline = self._placed(task, points, False)
                self._given, self._points, self._seen = own, points, None
            self.task, self.order = task, order
        self.seconds["update"] = time.perf_counter() - start

    def _follow(self, task: Task, order: Order, taken: Arguments) -> bool:
        """Let a device place points before the host has looked at them, if it can.

        Not where it depends on the points what else is done: where they set the box, or a warning
        may be due, or their normals are rounded.
        """
        pipeline, same = self._pipeline, taken.arrays["trg"] is taken.arrays["src"]
        if None in task.options.edges or task.flux or self._given.systems or may_warn(task, same):
            return False
        if task.mixed and task.sum.normals:
            return False
        if self._given.labels is not None:  # of as many points
            counts = self.counts
            if counts != (taken.arrays["trg"].shape[1], taken.arrays["src"].shape[1]):
                return False
        if not isinstance(pipeline, OneDevice):
            return False
        lattice = self._lattice(task)
        if not pipeline.follow(task, lattice, self._named(order, taken)):
            return False
        self._before = self.task, self.order
        if order.rotation is not None:  # the pipeline's copies are turned, and so rounded
            taken = taken.owned()
        self._late = taken
        return True

    def _named(self, order: Order, taken: Arguments) -> dict[str, Any]:
        """Return arrays as the pipeline takes them, without sources that are the targets."""
        arrays = order.arrays(taken.arrays)
        return {n: a for n, a in arrays.items() if n != "src" or a is not arrays["trg"]}

    def settle(self) -> bool:
        """Look at points that a device has placed; return whether it had to place them anew.

        Raises
        ------
        ParkiValueError, ParkiMemoryError
            If some are impossible, or there is no room for what suits them. The points before them
            are placed again.
        """
        late, pipeline = self._late, self._pipeline
        if late is None or not isinstance(pipeline, OneDevice):
            return False
        inside, suited = pipeline.looked_at()
        if not (inside and suited):
            try:
                if not inside:
                    late.checked()  # which says what is wrong
                    raise ParkiValueError(
                        "the points that update_points took were not finite or not in the box, and "
                        "their arrays have changed since; the points before them are back"
                    )
                placed = self._as_placed(late)
                own = self._points_of(self.task, placed, None, self._given.labels)
                points = own.ordered(self.order)
                self._pipeline = pipeline.suiting(self.task, points)
            except BaseException:
                pipeline.undo()
                self._late = None
                self.task, self.order = cast(tuple[Task, Order], self._before)
                raise
            self._given, self._points = own, points
            self._late = self._seen = None
            return self._pipeline is not pipeline
        self._late, self._seen = None, late
        return False

    def _as_placed(self, taken: Arguments) -> Arguments:
        """Return arguments with the points that are placed, whatever became of their arrays."""
        if self.order.rotation is not None:
            return taken.checked()
        arrays = cast(OneDevice, self._pipeline).copies(taken.arrays)
        return taken._replace(arrays=self.order.inverse.arrays(arrays)).checked()

    def _systems_of(self, given: Arguments, systems: Any) -> Systems | None:
        """Return the systems of other points; those that there were, if they are the same."""
        old = self._given.systems
        if systems is None:
            systems = old and (old.targets, old.sources)
        elif old is None:
            raise ParkiValueError(
                "systems was given, but the plan was made without; make a new plan with systems"
            )
        new = check_systems(systems, given.arrays, self.task.space, self.task.options)
        return old if new == old else new

    def _labels_of(self, given: Arguments, exclude: Any, systems: Systems | None) -> Labels | None:
        """Return the labels of other points; those that there were, if they are the same."""
        old, task, same = self._given.labels, self.task, systems is self._given.systems
        if old is None:
            if exclude is None:
                return None
            raise ParkiValueError(
                "exclude was given, but the plan was made without; make a new plan with exclude"
            )
        counts = tuple(given.arrays[name].shape[1] for name in ("trg", "src"))
        if exclude is None:
            if same and counts == (old.targets.size, old.sources.size):
                return old
            exclude = old.targets, old.sources
        new = check_labels(exclude, task.kernel, True, given.arrays, task.options, systems)
        return old if new == old and same else new

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Wait for other threads and, on a device, other streams that use the plan's memory."""
        space = self.task.space
        with self._lock, read_once(), told():
            if space.on_device:
                forks.refuse(space.name)  # before CUDA says something else
                captures.refuse()
            with space.adapter.exclusive(self.done) as end:
                try:
                    yield
                finally:
                    self.done = end()

    def __call__(
        self, dens: Any, out: Any = None, watch: Watch = unwatched, *, checked: bool = False
    ) -> Any:
        """Return the wanted results of a density: see `parki.Plan`.

        The host waits for what a device has counted after all is launched, so that the device does
        not wait for the host; and not at all for a density that was ``checked``.
        """
        with self.exclusive(), self._pipeline.together("plan(dens)"):
            pipeline = self._pipeline
            late = pipeline.alone and not checked and self.task.space.adapter.records()
            values = self._density(dens, late, checked)
            results = self.summed(values, out, watch)
            if self.settle():
                results = self.summed(values, out, watch)
            if late and self._misfits is not None and self._misfits.found():
                check_values("dens", values, self._shape, self.task.mixed)
        return as_given(results, dens) if out is None else results

    def recorded(self, many: int) -> Any:
        """Return the graph that a device has of sums of ``many`` densities, if it has one."""
        pipeline = self._pipeline
        return pipeline.recorded(many) if isinstance(pipeline, OneDevice) else None

    @property
    def _shape(self) -> tuple[int, ...]:
        """The shape of a density."""
        return self.task.sum.density_shape(self.counts[1])

    def summed(self, values: Any, out: Any, watch: Watch) -> Any:
        """Return the wanted results of a density, or of several, that were checked."""
        task, shapes = self.task, self.shapes()
        if values.ndim == 3:
            shapes = {name: (len(values), *shape) for name, shape in shapes.items()}
        else:
            values = values[None]
        results = check_outputs(out, self.want, shapes, values, task.space)
        summed = task.want if self._pipeline.setup and len(values) else ()
        summed += ("transposed_pair",) if summed and task.transposed_pair else ()
        if summed:
            many, count = len(values), self.counts[0]
            rows = {
                name: array.reshape(many, math.prod(array.shape[:-1]) // many, count)
                for name, array in results.items()
            }
            parts = stress.split(rows, summed, task.xp)
            given, lengths, setup = self.order.rows(values), task.sum.lengths, self._pipeline.setup
            if lengths is not None and setup is not None:
                unit = task.space.adapter.constant(setup.frame.factor**lengths, values.dtype)
                given = given * unit
            self._pipeline.apply(given, parts, watch)
            stress.combine(rows, parts)
            if not self.order.kept:
                for array in rows.values():
                    self.order.back(array.copy(), array)
            summed += (*stress.MADE,)
        for name in results.keys() - set(summed):
            results[name].fill(0)
        return results[self.want] if isinstance(self.want, str) else tuple(results.values())

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each result that is wanted."""
        task, count = self.task, self.counts[0]
        shapes = {n: result_shape(task.kernel, n, count) for n in task.names}
        if task.transposed_pair:
            shapes["transposed_pair"] = task.pair.rows, count
        return shapes

    def _density(self, dens: Any, late: bool = False, checked: bool = False) -> Any:
        """Return a density as (rows, sources), or several as (k, rows, sources), C-contiguous.

        Refuse an impossible one. ``late`` says that a device may count impossible values meanwhile.
        """
        task = self.task
        values = like_points("dens", dens, task.space, self.dtype)
        values = as_rows("dens", values, self._shape, several=True)
        self._require_several(values)
        if not (late or checked):
            check_values("dens", values, self._shape, task.mixed)
        elif late and values.size:
            self._misfits = self._misfits or Misfits(task.space, self.dtype, task.mixed)
            self._misfits.count(values)
        if task.flux and not self._flux_seen:
            self._flux_seen = look_for_flux(task, self.given, values, self._pipeline.total)
        return values

    def _require_several(self, values: Any) -> None:
        """Refuse more densities at once than there is memory for: what they need beyond one."""
        if values.ndim < 3:
            return
        task, (targets, sources) = self.task, self.counts
        results = sum(math.prod(shape) for shape in self.shapes().values())
        each = values.dtype.itemsize * (1 if self.order.kept else 2) * results
        if task.mixed:
            each += task.dtype.itemsize * (results + task.sum.rows * sources)
        require(
            task.space,
            (len(values) - 1) * each,
            f"the results of {len(values)} densities at {targets} targets",
            "sum fewer at a time",
        )

    def _of_targets(self, name: str, given: Any, shape: tuple[int, ...], **how: bool) -> Any:
        """Return values of the targets as (rows, targets), or refuse them."""
        values = like_points(name, given, self.task.space, self.dtype)
        return check_density(name, values, shape, of="targets", **how)

    def values(self, given: Any) -> tuple[dict[str, Any], tuple[int, ...]]:
        """Return values at the targets by result, (k, rows, targets); and (k,), if k were given.

        They are in the pipeline's order of axes. Impossible ones are refused.
        """
        many = not isinstance(self.want, str)
        if many and not (isinstance(given, (tuple, list)) and len(given) == len(self.want)):
            raise ParkiTypeError(
                f"values is a {type(given).__name__}; expected a tuple of {len(self.want)} "
                "arrays, as want has"
            )
        given, rows = given if many else (given,), {}
        for place, (name, shape) in enumerate(self.shapes().items()):
            label = f"values[{place}]" if many else "values"
            how = {"several": True, "single": self.task.mixed}
            rows[name] = self._of_targets(label, given[place], shape, **how)
        sizes = {array.shape[:-2] for array in rows.values()}
        if len(sizes) > 1:
            raise ParkiValueError(
                f"values have shapes {', '.join(str(tuple(a.shape)) for a in given)}; expected "
                "as many in each, one or k"
            )
        (several,) = sizes
        found = {name: self.order.rows(array) for name, array in rows.items()}
        return {name: a if several else a[None] for name, a in found.items()}, several


def _order(options: EwaldOptions) -> Order:
    return Order(options.axes, options.cell and options.cell.rotation)


def sum_once(
    given: tuple[Any, ...],
    dens: Any,
    want: str | tuple[str, ...],
    systems: Any = None,
    **others: Any,
) -> Any:
    """Return the sum of one density, by what the last such sum left; leave it for the next.

    ``given`` has the first five arguments of `parki.Plan`; ``others`` are those of `Request`.
    """
    made = PlacedSum(OneDevice(), given, want, systems, Request(True, dens, **others))
    kept = isinstance(made.pipeline, OneDevice) and made.pipeline.setup is not None
    if kept and systems is None:
        plan_cache.keep(made.task, True, made.pipeline, made.done)
    return made.result
