"""`PlacedSum`: one sum whose points a pipeline has placed. A placement has one or more of them.

Its arguments are checked when it is made; `place` places the points, and `summed` sums a density.
Whoever holds it takes its `access` first.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.choice.reuse import outgrown
from parki.ewald.far.spreading import check_spreading
from parki.ewald.geometry.systems import Labels, Systems, check_labels, check_systems
from parki.ewald.lattice import Lattice
from parki.ewald.near.pair import check_wanted
from parki.ewald.pipeline.one_device import SERIAL
from parki.ewald.pipeline.protocol import Access, Pipeline, Watch, keep, take, unwatched
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
from parki.ewald.points.extent import look_for_flux, may_warn, resolve, warn_of_images
from parki.ewald.ranks import Ranks
from parki.ewald.sums import SUMS, stress
from parki.ewald.task import Order, Points, Request, Survey, Task
from parki.interchange import as_given
from parki.memory import require, told
from parki.settings import read_once


class PlacedSum:
    """A sum with its points. At other points it is another one: see `moved`.

    Parameters
    ----------
    pipeline : Pipeline
        Without points.
    arguments, want, systems
        The arguments of `parki.Plan`, its first five in a tuple.
    request : Request, optional
    access : Access, optional
        That of the placement it belongs to. Default: one of its own.
    owned : bool
        Whether nobody else will change the arrays; otherwise the sum takes copies of them.

    Attributes
    ----------
    sizes : dict of str to int
        The rows of each result.
    order : Order
        From the user's axes to the pipeline's, of which the periodic ones come first.
    lattice : Lattice
        The present box, for which no device is waited for.
    pipeline : Pipeline
        With the points placed last; `late` says whether the host has looked at these.
    late : Arguments or None
        Points that a device has placed before the host has looked at them.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        arguments: tuple[Any, ...],
        want: str | tuple[str, ...],
        systems: Any = None,
        request: Request | None = None,
        access: Access | None = None,
        owned: bool = False,
    ) -> None:
        request, self._owned = request or Request(), owned
        self._flux_seen = False  # by `look_for_flux`
        self.late: Arguments | None = None
        self._seen: Arguments | None = None  # late before, of which `given` is not made yet
        self.pipeline = pipeline
        with pipeline.ranks.collective("Plan"), read_once(), told():
            checked = self._own(check_arguments(*arguments))
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
            check_wanted(options.expert.p2p_method, options.expert.radial, kernel, names)
            check_spreading(options.expert.p2g_method, kernel, options.cell is not None)
            self.want = want if isinstance(want, str) else names
            of, normals = request.transposed_pair or ("", None)
            self._marks = marks_of(arrays)
            systems = check_systems(systems, arrays, space, options)
            points = SUMS[kernel].pair.of_points
            labels = check_labels(request.exclude, kernel, points, arrays, options, systems)
            how = names, of, labels is not None
            self.task = Task(kernel, space, options.arithmetic(self.dtype), options, *how)
            self._result_shapes = {n: result_shape(kernel, n, 1)[:-1] for n in names}
            if of:
                self._result_shapes["transposed_pair"] = (self.task.pair.rows,)
            self.sizes = {name: math.prod(shape) for name, shape in self._result_shapes.items()}
            self.order = _order(self.task)
            self.access = access or Access(space)
            shape, tensors = arrays["trg"].shape, request.tensors
            if tensors is not None:
                arrays["tensors"] = self._of_targets("tensors", tensors, (TENSOR_ROWS, shape[1]))
            if normals is not None:
                arrays["norms"] = self._of_targets("transposed_pair[1]", normals, shape)
            self._given = self._points_of(self.task, checked, systems, labels)
            self._points = self._given.ordered(self.order)
            self.lattice = self._given.lattice

    def place(self, once: bool = False) -> None:
        """Place the points; ``once`` says that one density to sum follows at once.

        On a device the near field of that density runs while the far field is set up.
        """
        kept, done = None, None
        if self.pipeline.ranks.serial and not self._given.systems:
            kept, done = take(self.task, once)
        with self.access():
            self.access.follow(done)
            self.pipeline = self._placed(self.task, self._points, once, kept)

    def leave(self, once: bool = False) -> None:
        """Leave a set-up for other plans like this one; after one sum, the pipeline itself."""
        pipeline = self.pipeline
        if pipeline.ranks.serial and pipeline.setup is not None and not self._given.systems:
            left = pipeline if once else pipeline.left()
            keep(self.task, once, left, self.access.done)

    # ------------------------------------------------------------------ what is placed
    def _own(self, taken: Arguments) -> Arguments:
        """Return arguments whose arrays nobody changes later on."""
        return taken if self._owned else taken.owned()

    @property
    def given(self) -> Points:
        """The points as they were given, once the host has looked at them."""
        if self._seen is not None:
            own = self._points_of(self.task, self._as_placed(self._seen), None, self._given.labels)
            self._given, self._points, self._seen = own, own.ordered(self.order), None
        return self._given

    @property
    def points(self) -> Points:
        """The points as the pipeline takes them."""
        _ = self.given  # which makes them
        return self._points

    @property
    def counts(self) -> tuple[int, int]:
        """Targets and sources of this rank."""
        arrays = (self.late or self._seen or self._given).arrays
        return int(arrays["trg"].shape[1]), int(arrays["src"].shape[1])

    def _points_of(
        self, task: Task, taken: Arguments, systems: Systems | None, labels: Labels | None
    ) -> Points:
        """Return the points with what they decide; a plan's box stays while it holds them."""
        options = task.options
        survey = Survey.of(self.pipeline.ranks, task, taken.arrays, taken.extents)
        warn_of_images(task, survey, taken.arrays, self.pipeline.ranks.sum)
        # An empty plan keeps no box or parameters: choose them from these points.
        empty = self.pipeline.setup is None or not all(survey.totals)
        before, size = None if empty else self._given.lattice, task.sum.pair.size
        lattice = resolve(options, survey.extents, before, size)
        corners = None if empty else outgrown(options, lattice, survey.extents)
        if corners is not None:
            lattice = resolve(options, corners, size=size)
        tolerance = task.tolerance(survey, systems)
        return Points(taken.arrays, taken.extents, survey, lattice, tolerance, systems, labels)

    def _placed(
        self, task: Task, points: Points, once: bool = False, pipeline: Pipeline | None = None
    ) -> Pipeline:
        """Return the pipeline for points."""
        pipeline = pipeline or self.pipeline
        if all(points.survey.totals) and task.want:
            return pipeline.placed(task, points, once)
        empty: Pipeline = pipeline.ranks.engine()
        return empty

    # ------------------------------------------------------------------ other points
    def moved(self, arguments: tuple[Any, ...], box: Any = None) -> PlacedSum:
        """Return the sum at other points, perhaps in another box: see `parki.Plan.update_points`.

        ``arguments`` are targets, sources, normals, systems and labels. This sum serves no more,
        or again after `Pipeline.undo`.
        """
        trg, src, norms, systems, exclude = arguments
        with self.pipeline.ranks.collective("update_points"):
            task, lattice = self.task, self.lattice
            if box is not None:
                task = replace(task, options=task.options.deformed(box))
                # It keeps the edges that were the extent of points.
                lattice = resolve(task.options, np.empty((0, 3)), lattice)
            norms = self._marks if norms is None else norms  # marks serve the next points, too
            order = self.order if box is None else _order(task)
            taken = take_arguments(task.kernel, trg, src, norms, task.options, task.space)
            if taken.arrays["src"].dtype != self.dtype:
                raise ParkiTypeError(
                    f"trg has dtype {taken.arrays['trg'].dtype}, but the plan was made for "
                    f"{self.dtype}; convert the points, or make a new plan"
                )
            new = copy.copy(self)
            new.task, new.order, new.lattice = task, order, lattice
            anew = systems is not None or exclude is not None
            if anew or not self._follows(task, order, lattice, taken):
                taken = self._own(taken.checked())
                systems = self._systems_of(taken, systems)
                labels = self._labels_of(taken, exclude, systems)
                own = self._points_of(task, taken, systems, labels)
                points = own.ordered(order)
                new.pipeline, new.lattice = self._placed(task, points), own.lattice
                new._given, new._points, new._seen = own, points, None
            elif order.rotation is not None or order.finer:  # the pipeline's copies are others
                new.late = taken.owned()
            else:
                new.late = taken
        return new

    def _follows(self, task: Task, order: Order, lattice: Lattice, taken: Arguments) -> bool:
        """Let a device place points before the host has looked at them; return whether it can.

        Not where it depends on the points what else is done: where they set the box, or a warning
        may be due, or their normals are rounded.
        """
        same = taken.arrays["trg"] is taken.arrays["src"]
        if None in task.options.edges or task.flux or self._given.systems or may_warn(task, same):
            return False
        if task.mixed and task.sum.normals:
            return False
        if self._given.labels is not None:  # of as many points
            counts = self.counts
            if counts != (taken.arrays["trg"].shape[1], taken.arrays["src"].shape[1]):
                return False
        return self.pipeline.follow(task, lattice, self._named(order, taken))

    def _named(self, order: Order, taken: Arguments) -> dict[str, Any]:
        """Return arrays as the pipeline takes them, without sources that are the targets."""
        arrays = order.arrays(taken.arrays)
        return {n: a for n, a in arrays.items() if n != "src" or a is not arrays["trg"]}

    def looked_at(self) -> tuple[bool, bool]:
        """Return whether late points were in the box, and suit the set-up; the host waits."""
        return (True, True) if self.late is None else self.pipeline.looked_at()

    def settled(self, inside: bool, suited: bool) -> PlacedSum:
        """Return the sum with its late points looked at, perhaps by another set-up.

        Raises
        ------
        ParkiValueError, ParkiMemoryError
            If some are impossible, or there is no room for what suits them.
        """
        late = self.late
        if late is None:
            return self
        if not inside:
            late.checked()  # which says what is wrong
            raise ParkiValueError(
                "the points that update_points took were not finite or not in the box, and "
                "their arrays have changed since; the points before them are back"
            )
        new = copy.copy(self)
        new.late, new._seen = None, late
        if not suited:
            own = self._points_of(self.task, self._as_placed(late), None, self._given.labels)
            new._given, new._points, new._seen = own, own.ordered(self.order), None
            new.pipeline = self.pipeline.suiting(self.task, new._points)
        return new

    def _as_placed(self, taken: Arguments) -> Arguments:
        """Return arguments with the points that are placed, whatever became of their arrays."""
        if self.order.rotation is not None or self.order.finer:
            return taken.checked()
        arrays = self.pipeline.copies(taken.arrays)
        return taken._replace(arrays=self.order.inverse.arrays(arrays)).checked()

    def _systems_of(self, taken: Arguments, systems: Any) -> Systems | None:
        """Return the systems of other points; those that there were, if they are the same."""
        old = self._given.systems
        systems = as_before("systems", systems, old and (old.targets, old.sources))
        new = check_systems(systems, taken.arrays, self.task.space, self.task.options)
        return old if new == old else new

    def _labels_of(self, taken: Arguments, exclude: Any, systems: Systems | None) -> Labels | None:
        """Return the labels of other points; those that there were, if they are the same."""
        old, task, same = self._given.labels, self.task, systems is self._given.systems
        exclude = as_before("exclude", exclude, old)
        if exclude is None:
            return None
        new = check_labels(exclude, task.kernel, True, taken.arrays, task.options, systems)
        return old if new == old and same else new

    # ------------------------------------------------------------------ apply
    def summed(self, values: Any, out: Any, watch: Watch) -> Any:
        """Return the wanted results of a density, or of several, that were checked."""
        shapes = self.shapes(*values.shape[:-2])
        results = check_outputs(out, self.want, shapes, values, self.task.space)
        values = values if values.ndim == 3 else values[None]
        many = len(values)
        rows = {
            n: array.reshape(many, self.sizes[n], array.shape[-1]) for n, array in results.items()
        }
        self.overwrite(rows, values, watch)
        return results[self.want] if isinstance(self.want, str) else tuple(results.values())

    def overwrite(self, rows: dict[str, Any], values: Any, watch: Watch) -> None:
        """Overwrite results (k, rows, targets) by the sums of densities (k, rows, sources)."""
        task, pipeline, order = self.task, self.pipeline, self.order
        if task.flux and not self._flux_seen:
            self._flux_seen = look_for_flux(task, self.given, values, pipeline.ranks.sum)
        if pipeline.setup is None or not task.want or not len(values):
            for array in rows.values():
                array.fill(0)
            return
        summed = (*task.want, "transposed_pair") if task.transposed_pair else task.want
        parts = rows if summed == (*rows,) else stress.split(rows, summed, task.xp)
        pipeline.apply(self.solvers(values), parts, watch)
        if parts is not rows:
            stress.combine(rows, parts)
            for name in rows.keys() - {*summed, *stress.MADE}:
                rows[name].fill(0)
        if not order.kept:
            for array in rows.values():
                order.back(array.copy(), array)

    def solvers(self, values: Any) -> Any:
        """Return densities (k, rows, N) in the order of the pipeline's axes and in its unit."""
        ordered = values if self.order.kept else self.order.rows(values)
        if self.task.sum.lengths is None or self.pipeline.setup is None:
            return ordered
        return self.pipeline.setup.measured(ordered)

    def shapes(self, *several: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each result; for ``several`` densities at once, if it is given."""
        count = self.counts[0]
        return {n: (*several, *shape, count) for n, shape in self._result_shapes.items()}

    def density(self, dens: Any) -> Any:
        """Return a density as (rows, sources), or several as (k, rows, sources), C-contiguous.

        Refuse an impossible one.
        """
        values = like_points("dens", dens, self.task.space, self.dtype)
        shape = self.task.sum.density_shape(self.counts[1])
        values = as_rows("dens", values, shape, several=True)
        self.require_several(values)
        check_values("dens", values, shape, self.task.mixed)
        return values

    def require_several(self, values: Any) -> None:
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

    def _of_targets(self, name: str, values: Any, shape: tuple[int, ...], **how: bool) -> Any:
        """Return values of the targets as (rows, targets), or refuse them."""
        values = like_points(name, values, self.task.space, self.dtype)
        return check_density(name, values, shape, of="targets", **how)


def as_before(name: str, given: Any, before: Any) -> Any:
    """Return systems or labels for other points; the old ones, if none are given.

    Raises
    ------
    ParkiValueError
        If there were none before.
    """
    if given is not None and before is None:
        raise ParkiValueError(
            f"{name} was given, but the plan was made without; make a new plan with {name}"
        )
    return before if given is None else given


def _order(task: Task) -> Order:
    options = task.options
    return Order(options.axes, options.cell and options.cell.rotation, task.finer)


def place_and_sum(
    pipeline: Pipeline,
    arguments: tuple[Any, ...],
    dens: Any,
    want: str | tuple[str, ...],
    systems: Any = None,
    **others: Any,
) -> tuple[PlacedSum, Any]:
    """Return a sum that is placed for one density, and what is wanted of that.

    ``arguments`` are the first five of `parki.Plan`; ``others`` are those of `Request`. The density
    is checked along with the rest, before any work.
    """
    with pipeline.ranks.collective("sum"):
        placed = PlacedSum(pipeline, arguments, want, systems, Request(**others), owned=True)
        values = placed.density(dens)
        with placed.access():
            placed.place(once=True)
            return placed, as_given(placed.summed(values, None, unwatched), dens)


def sum_once(
    arguments: tuple[Any, ...],
    dens: Any,
    want: str | tuple[str, ...],
    systems: Any = None,
    ranks: Ranks = SERIAL,
    **others: Any,
) -> Any:
    """Return the sum of one density, by what the last such sum left; leave it for the next."""
    placed, result = place_and_sum(ranks.engine(), arguments, dens, want, systems, **others)
    placed.leave(once=True)
    return result
