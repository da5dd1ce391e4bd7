"""`PlacedSum`: a sum whose points a pipeline has placed; plans of one device and of ranks hold one.

Arguments are checked here, once. What becomes of them is the pipeline's.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.choice.reuse import check_stay
from parki.ewald.far.p2g_paper import check_spreading
from parki.ewald.geometry.axes import Order
from parki.ewald.geometry.extent import resolve
from parki.ewald.geometry.images import look_for_flux, warn_of_images
from parki.ewald.geometry.systems import Systems, check_systems
from parki.ewald.near.p2p_cells import check_wanted
from parki.ewald.pipeline import plan_cache
from parki.ewald.pipeline.one_device import OneDevice
from parki.ewald.pipeline.protocol import Pipeline, Watch, unwatched
from parki.ewald.points import (
    TENSOR_ROWS,
    Arguments,
    check_arguments,
    check_density,
    check_outputs,
    check_want,
    like_points,
    result_shape,
)
from parki.ewald.sums import SUMS, stress
from parki.ewald.task import Points, Request, Task
from parki.interchange import as_given
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
    given, points : Points
        The points as they were given, and as the pipeline takes them.
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
        self._lock = threading.RLock()  # calls share memory: one after the other
        self.done: Any = None  # the event after which another stream may use the memory
        self.result: Any = None  # what is wanted of the density that was requested
        self._flux_seen = False  # by `look_for_flux`
        self.pipeline, once = pipeline, request.once
        with pipeline.together():
            checked = check_arguments(*given)
            kernel, arrays = checked.kernel, checked.arrays
            options, space = checked.options, checked.space
            if options.walled:
                raise ParkiValueError(
                    f"wall is {options.wall!r}, which this sum does not take; near a wall call "
                    "parki.Plan, parki.stokes_sl, parki.vjp or parki.jvp, or parki.distributed, "
                    "parki.torch or parki.jax"
                )
            self.dtype = np.dtype(arrays["src"].dtype)
            names = check_want(kernel, want, request.tensors is not None)
            check_wanted(options.p2p_method, options.radial, kernel, names)
            check_spreading(options.p2g_method, kernel)
            self.want = want if isinstance(want, str) else names
            of, normals = request.transposed_pair or ("", None)
            self._marks: Any = request.marks
            self.task = Task(kernel, space, options.arithmetic(self.dtype), options, names, of)
            self.order = Order(options.axes)
            found = check_systems(systems, arrays, space, options)
            shape, tensors = arrays["trg"].shape, request.tensors
            if tensors is not None:
                arrays["tensors"] = self._of_targets("tensors", tensors, (TENSOR_ROWS, shape[1]))
            if normals is not None:
                arrays["norms"] = self._of_targets("transposed_pair[1]", normals, shape)
            self._mark(kernel, arrays)
            self.given = self._points(checked, found)
            self.points = self.given.ordered(self.order)
            values = self._density(request.density) if once else None
            if pipeline.alone and not found:
                kept, self.done = plan_cache.take(self.task, once)
                self.pipeline = kept or pipeline
            with self.exclusive():
                self.pipeline = self._placed(self.points, once)
                if once:
                    self.result = as_given(self._summed(values, None, unwatched), request.density)
            setup = self.pipeline.setup
            if pipeline.alone and not (once or found) and setup is not None:
                plan_cache.keep(self.task, False, OneDevice(setup, self.pipeline.memory))
        self.seconds = {"plan": time.perf_counter() - start}

    def _points(self, given: Arguments, systems: Systems | None) -> Points:
        """Return the points with what they decide; a plan's box stays, if it has one."""
        options = self.task.options
        survey = self.pipeline.survey(self.task, given.arrays, given.extents)
        warn_of_images(self.task, survey)
        # An empty plan keeps no box or parameters: choose them from these points.
        if self.pipeline.setup is None or None not in options.box or not all(survey.totals):
            box = resolve(options, survey.extents)
        else:
            box = self.given.box
            check_stay(options, box, given.extents)
        components, sources = self.task.sum.source_components, survey.totals[1]
        if systems:
            sources = int(np.diff(systems.sources).max())
        tolerance = options.random_tolerance(sources, components, self.task.dtype)
        return Points(given.arrays, given.extents, survey, box, tolerance, systems)

    def _mark(self, kernel: str, arrays: dict[str, Any]) -> None:
        """Add the marks of points to their arrays, or refuse a sum without them."""
        marks, counts = self._marks, (arrays["trg"].shape[1], arrays["src"].shape[1])
        if SUMS[kernel].pair.marks is None:
            return
        if marks is None or tuple(map(len, marks)) != counts:
            raise ParkiValueError(
                f"{kernel} takes the radius of each point, which parki.Spheres gives it; make "
                "parki.Spheres of these points"
            )
        # The marks of the first points serve the next ones.
        self._marks = tuple(self.task.xp.asarray(each, dtype=self.dtype) for each in marks)
        for name, each in zip(("trg_marks", "src_marks"), self._marks, strict=True):
            arrays[name] = each.reshape(1, -1)

    def _placed(self, points: Points, once: bool) -> Pipeline:
        """Return the pipeline for points."""
        if all(points.survey.totals) and self.task.want:
            return self.pipeline.placed(self.task, points, once)
        return self.pipeline.empty()

    def update_points(self, trg: Any, src: Any, norms: Any, systems: Any) -> None:
        """Place other points: see `parki.Plan.update_points`."""
        start, task = time.perf_counter(), self.task
        with self.exclusive(), self.pipeline.together():
            given = check_arguments(task.kernel, trg, src, norms, task.options, task.space)
            if given.arrays["src"].dtype != self.dtype:
                raise ParkiTypeError(
                    f"trg has dtype {given.arrays['trg'].dtype}, but the plan was made for "
                    f"{self.dtype}; convert the points, or make a new plan"
                )
            self._mark(task.kernel, given.arrays)
            own = self._points(given, self._systems_of(given, systems))
            points = own.ordered(self.order)
            pipeline = self._placed(points, False)
        self.given, self.points, self.pipeline = own, points, pipeline
        self.seconds["update"] = time.perf_counter() - start

    def _systems_of(self, given: Arguments, systems: Any) -> Systems | None:
        """Return the systems of other points; those that there were, if they are the same."""
        old = self.points.systems
        if systems is None:
            systems = old and (old.targets, old.sources)
        elif old is None:
            raise ParkiValueError(
                "systems was given, but the plan was made without; make a new plan with systems"
            )
        new = check_systems(systems, given.arrays, self.task.space, self.task.options)
        return old if new == old else new

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Wait for other threads and, on a device, other streams that use the plan's memory."""
        space = self.task.space
        with self._lock, read_once():
            if space.on_device:
                forks.refuse(space.name)  # before CUDA says something else
                captures.refuse()
            with space.adapter.exclusive(self.done) as end:
                try:
                    yield
                finally:
                    self.done = end()

    def __call__(self, dens: Any, out: Any = None, watch: Watch = unwatched) -> Any:
        """Return what is wanted of a density: see `parki.Plan`."""
        with self.exclusive(), self.pipeline.together():
            results = self._summed(self._density(dens), out, watch)
        return as_given(results, dens) if out is None else results

    def _summed(self, values: Any, out: Any, watch: Watch) -> Any:
        """Return what is wanted of a density, or of several, that were checked."""
        task, shapes = self.task, self.shapes()
        if values.ndim == 3:
            shapes = {name: (len(values), *shape) for name, shape in shapes.items()}
        else:
            values = values[None]
        results = check_outputs(out, self.want, shapes, values, task.space)
        summed = task.want if self.pipeline.setup else ()
        summed += ("transposed_pair",) if summed and task.transposed_pair else ()
        if summed:
            many, count = len(values), self.points.targets
            rows = {
                name: array.reshape(many, math.prod(array.shape[:-1]) // many, count)
                for name, array in results.items()
            }
            parts = stress.split(rows, summed, task.xp)
            self.pipeline.apply(self.order.rows(values), parts, watch)
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
        task, count = self.task, self.points.targets
        shapes = {n: result_shape(task.kernel, n, count) for n in task.names}
        if task.transposed_pair:
            shapes["transposed_pair"] = task.pair.rows, count
        return shapes

    def _density(self, dens: Any) -> Any:
        """Return a density as (rows, sources), or several as (k, rows, sources), C-contiguous.

        Refuse an impossible one.
        """
        values = like_points("dens", dens, self.task.space, self.dtype)
        shape = self.task.sum.density_shape(self.points.sources)
        values = check_density("dens", values, shape, several=True, single=self.task.mixed)
        if not self._flux_seen:
            self._flux_seen = look_for_flux(self.task, self.given, values, self.pipeline.total)
        return values

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


def sum_once(given: tuple[Any, ...], dens: Any, want: str | tuple[str, ...], **others: Any) -> Any:
    """Return the sum of one density, by what the last such sum left; leave it for the next.

    ``given`` has the first five arguments of `parki.Plan`; ``others`` are those of `Request`.
    """
    made = PlacedSum(OneDevice(), given, want, None, Request(True, dens, **others))
    if isinstance(made.pipeline, OneDevice) and made.pipeline.setup is not None:
        plan_cache.keep(made.task, True, made.pipeline, made.done)
    return made.result
