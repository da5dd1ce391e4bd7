"""`ComposedPlan`: a composite of sums for fixed points, with the methods of a plan.

Each sum of the composite has a plan of its own. Addends with the same results of the same kernel
are one sum of all their sources, and other addends with the same sources are densities of one call:
so a source and its mirror image share a pair walk and a grid.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.checks import Check, Sample
from parki.ewald.choice.memory import Memory
from parki.ewald.derivatives.linear_operator import linear_operator
from parki.ewald.derivatives.mapped_sum import check_maps, labels_of
from parki.ewald.options import LARGEST_TOLERANCE, EwaldOptions
from parki.ewald.pipeline.one_device import OneDevice
from parki.ewald.pipeline.placed_sum import PlacedSum
from parki.ewald.pipeline.protocol import unwatched
from parki.ewald.pipeline.replay import Replay, how
from parki.ewald.plan import AnyPlan, Plan, Uncopied
from parki.ewald.points import (
    check_density,
    check_points,
    like_points,
    result_rows,
    take_options,
)
from parki.ewald.sums import SUMS
from parki.ewald.sums.composite import Composite, Shared, by_density, joined, together
from parki.ewald.sums.maps import Arrays, factors, mapped, weights
from parki.ewald.sums.walls import near_wall
from parki.interchange import as_array, as_given
from parki.memory import telling
from parki.typing import OptionKeywords, Unpack


class ComposedPlan(Uncopied):
    """A composite for fixed points: set up once, apply to many densities.

    Parameters
    ----------
    composite : Composite
        Near a wall the name of a sum, whose composite it becomes.
    trg, src, norms, options, **keywords
        As for `parki.Plan`. What the composite makes of the sources must be in the box as well.
    want : {"u", "p"}
        The result of a sum near a wall.
    systems : None
        There are none.
    exclude
        As for `parki.Plan`, unless the composite moves sources, as near a wall.

    Attributes
    ----------
    sums : list of Shared
        The addends of each sum.
    plans : list of Plan
        The plan of each sum.

    Raises
    ------
    ParkiValueError, ParkiTypeError, ParkiMemoryError
        As of the plan of each sum.
    """

    @telling
    def __init__(
        self,
        composite: Any,
        trg: Any,
        src: Any,
        norms: Any = None,
        options: Any = None,
        *,
        want: Any = "u",
        systems: Any = None,
        exclude: Any = None,
        **keywords: Unpack[OptionKeywords],
    ) -> None:
        with self.together("options"):
            self._given_options: EwaldOptions
            norms, self._given_options = take_options(norms, options, keywords)
            if systems is not None:
                raise ParkiValueError(
                    "systems was given, but plans of composites, as near a wall, have none; make "
                    "a plan for each system"
                )
            if self.options.walled:
                up = self.options.axes.index(2)
                composite = near_wall(composite, self.options.wall, want, up=up)
            self.composite: Composite = composite
            self.sums = together(joined(self.composite.addends))
            self.sources, given = self._given(trg, src, norms, exclude)
        self._places: tuple[Any, Any] = given[0][0][0], self.sources["points"]
        self._back: tuple[Any, Any] | None = None  # the transposed plan, and its places
        self._whole: dict[int, Any] = {}  # by densities: graphs of sums, and one of all
        self._problem = ""  # why a device cannot record it
        self.plans: list[Any] = []
        for one, (arrays, labels) in zip(self.sums, given, strict=True):
            own = self._options(one)
            self.plans.append(self.make(one.kernel, *arrays, own, want=one.want, **labels))
        first = self.plans[0]
        self.task, self.space, self.dtype = first.task, first.space, first.dtype

    @property
    def options(self) -> EwaldOptions:
        """The options, with the present box."""
        return self._given_options

    def _options(self, one: Shared) -> EwaldOptions:
        """Return the options of a sum."""
        options: EwaldOptions = self.options.of_sums()
        scale = {name: (size, power) for name, size, power in self.composite.scales}
        if one.kernel not in scale:
            return options
        size, power = scale[one.kernel]
        times = (self.plans[0]._sum.lattice.length / size) ** power
        larger = min(options.tolerance * times, LARGEST_TOLERANCE)
        return replace(options, tolerance=max(options.tolerance, larger))

    def make(self, *given: Any, want: tuple[str, ...], **labels: Any) -> AnyPlan[Any]:
        """Return the plan of a sum."""
        return Plan(*given, want=want, **labels)

    def again(self, *given: Any, **keywords: Any) -> Any:
        """Return another plan on the same ranks."""
        return Plan(*given, **keywords)

    def together(self, call: str) -> AbstractContextManager[Any]:
        """Raise on all ranks what is raised on one of them; refuse ranks in other calls."""
        return nullcontext()

    def _given(
        self, trg: Any, src: Any, norms: Any, exclude: Any
    ) -> tuple[Arrays, list[tuple[tuple[Any, Any, Any], dict[str, Any]]]]:
        """Return the arrays that maps find at the sources.

        And for each sum targets, sources and normals; and "exclude", if there are labels.
        """
        # Copies, as later calls take the points of now.
        targets = as_array("trg", trg).copy()
        at = {"points": targets if trg is src else as_array("src", src).copy()}
        at["norms"] = None if norms is None else as_array("norms", norms).copy()
        check_points("trg", targets, self.options)
        if at["points"] is not targets:
            check_points("src", at["points"], self.options)
        if not self.options.walled:  # whose maps are parki's own
            check_maps(self.composite, targets, at)
        arrays = {"trg": targets, "src": at["points"]}
        labels = labels_of(self.composite, exclude, arrays, self.options)
        found = []
        for one in self.sums:
            first, has = one.addends[0], SUMS[one.kernel].normals and norms is not None
            normals = mapped(first.normals, at["norms"], at) if has else None
            sources = mapped(first.sources, at["points"], at)
            own = {"exclude": labels.repeated(sources.shape[1])} if labels else {}
            found.append(((targets, sources, normals), own))
        return at, found

    @property
    def _trg(self) -> Any:
        return self._places[0]

    @property
    def _shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of a result and of a density."""
        sources = self.sources["points"].shape[1]
        return (*self.composite.result, self._trg.shape[1]), (*self.composite.density, sources)

    def _rows(self, name: str, given: Any) -> tuple[Any, tuple[int, ...]]:
        """Return densities or values as (k, rows, N); and (k,), if k were given."""
        result, density = self._shapes
        of, shape = ("sources", density) if name == "dens" else ("targets", result)
        with self.together(name):
            values = like_points(name, given, self.space, self.dtype)
            values = check_density(name, values, shape, several=True, of=of)
        several = values.shape[:-2]
        return values if several else values[None], several

    def update_points(
        self, trg: Any, src: Any, norms: Any = None, *, exclude: Any = None, box: Any = None
    ) -> None:
        """Give the plans other points: see `parki.Plan.update_points`."""
        old, done, plans = self.options, [], self.plans
        own = None if box is None else old.box
        try:
            with self.together("update_points"):
                if box is not None:
                    self._given_options = old.deformed(box)
                sources, given = self._given(trg, src, norms, exclude)
            self.plans = [*plans]
            for n, (one, (arrays, labels)) in enumerate(zip(self.sums, given, strict=True)):
                plan, how = plans[n], self._options(one)
                if how.tolerance != plan.options.tolerance:  # as the box has another size
                    self.plans[n] = self.make(one.kernel, *arrays, how, want=one.want, **labels)
                    continue
                before = plan.points
                plan._sum.update_points(*arrays, None, labels.get("exclude"), box)
                done.append((plan, before))
        except BaseException:
            self._given_options, self.plans = old, plans
            for plan, before in done:
                clouds = (before.arrays.get(name) for name in ("trg", "src", "norms"))
                plan._sum.update_points(*clouds, None, before.labels, own)
            raise
        self.sources, self._places = sources, (given[0][0][0], sources["points"])
        self._back = self._back if box is None else None

    # ------------------------------------------------------------------ apply
    @telling
    def __call__(self, dens: Any) -> Any:
        """Return the composite of a density, or of k of them with k first."""
        values, several = self._rows("dens", dens)
        if not len(values):
            return as_given(np.zeros_like(values, shape=(*several, *self._shapes[0])), dens)
        found = self._recorded(values) if self.options.walled else None
        if found is None:
            # The density is checked, so that no sum waits for a device.
            results = [plan._sum(v, checked=True) for _, plan, v in self._densities(values)]
            found = self._combined(results, self._trg)
        return as_given(found.reshape(*several, *self._shapes[0]), dens)

    def _recorded(self, values: Any) -> Any:
        """Return the composite by one graph, once a device has one of each sum; else None.

        Points are copied as densities are, so that it may be another cloud.
        """
        sums, many = [plan._sum for plan in self.plans], len(values)
        counts = [many * len(one.lists) for one in self.sums]
        at = {name: array for name, array in self.sources.items() if array is not None}
        with ExitStack() as stack:
            for each in sums:
                stack.enter_context(each.exclusive())
            graphs = [each.recorded(count) for each, count in zip(sums, counts, strict=True)]
            if None in graphs or self._problem:
                return None

            def work(given: Arrays) -> None:
                results: list[Any] = [None] * len(sums)

                def run(first: int = 0) -> None:  # sums are branches, of one and the rest
                    rest = partial(run, first + 1) if first + 1 < len(sums) else None
                    with self.space.adapter.beside(rest):
                        v = self.sums[first].densities(given["dens"], given)
                        v = self.space.array_module.ascontiguousarray(v)
                        results[first] = sums[first].summed(v, None, unwatched)

                run()
                given["found"][...] = self._combined(results, given["trg"])

            shape = many, math.prod(self.composite.result), self._trg.shape[1]
            found, given = np.empty_like(values, shape=shape), {**at, "trg": self._trg}
            given["dens"] = values
            before, graph = self._whole.get(many, (None, None))
            if before != graphs or not graph.takes({**given, "found": found}):
                graph = Replay(self.space, work, {**given, "found": found})
                self._whole[many], self._problem = (graphs, graph), graph.problem
                if self._problem:
                    return None
            graph(given, {"found": found})
            again = [each.settle() for each in sums]
            return None if any(again) else found

    def _densities(self, values: Any) -> list[tuple[Shared, AnyPlan[Any], Any]]:
        """Return each sum with its plan and its densities, for densities (k, rows, N)."""
        found = []
        with self.together("densities"):
            for one, plan in zip(self.sums, self.plans, strict=True):
                v = one.densities(values, self.sources)
                dens = v.reshape(len(v), *plan.task.sum.density_shape(plan.n_sources))
                found.append((one, plan, dens))
        return found

    def _combined(self, results: list[Any], trg: Any) -> Any:
        """Return the composite (k, rows, N) of the results of its sums at targets."""
        found: list[Any] = []
        for one, arrays in zip(self.sums, results, strict=True):
            found += one.rows(by_density(one.want, arrays), {"points": trg}).values()
        total = reduce(add, found[:2])
        for each in found[2:]:
            total += each
        return total

    def adjoint(self, values: Any) -> Any:
        """Return the transposed composite of values at the targets: see `parki.Plan.adjoint`."""
        rows, several = self._rows("values", values)
        if not len(rows):
            return as_given(np.zeros_like(rows, shape=(*several, *self._shapes[1])), values)
        if self.composite.transposed is not None:
            kernel, want, results = self.composite.transposed
            own = self._swapped(kernel, want)(rows.reshape(len(rows), *self._shapes[0]))
            each = by_density((want,), (own,))
            back = np.stack([results(found, self.sources) for found in each])
            return as_given(back.reshape(*several, *self._shapes[1]), values)
        found = []
        for one, plan in zip(self.sums, self.plans, strict=True):
            given = one.values(rows, {"points": self._trg}, _sizes(one))
            shapes = [(len(v), *plan._sum.shapes()[name]) for name, v in given.items()]
            back = plan.adjoint([v.reshape(s) for v, s in zip(given.values(), shapes, strict=True)])
            back = back.reshape(len(back), plan.task.sum.rows, plan.n_sources)
            found.append(one.pulled(back, self.sources, math.prod(self.composite.density)))
        return as_given(reduce(add, found).reshape(*several, *self._shapes[1]), values)

    def _swapped(self, kernel: str, want: str) -> Any:
        """Return the plan from the targets to the sources, where these are now."""
        if self._back is None:
            plan = self.again(kernel, *self._places[::-1], None, self.options, want=want)
        else:
            plan, places = self._back
            if places is not self._places:
                plan.update_points(*self._places[::-1])
        self._back = plan, self._places
        return plan

    # ------------------------------------------------------------------ views
    def promise(self, dens: Any) -> Any:
        """Return the bound of the rms error: each sum's promise, enlarged by the maps of results.

        Returns
        -------
        float
            For k densities at once, an array of shape (k,).
        """
        values, several = self._rows("dens", dens)
        total, at = np.zeros(len(values)), {"points": self._trg}
        for one, plan, v in self._densities(values) if len(values) else ():
            bounds = dict(zip(one.want, plan.promise(v), strict=True))
            for n, own in enumerate(one.lists):
                for each in own:
                    sizes = {name: _sizes(one)[name] for name in each.want}
                    for name, factor in factors(weights(each.results, sizes, at)).items():
                        many = slice(n * len(values), (n + 1) * len(values))
                        total += plan.pipeline.largest(factor) * bounds[name][many]
        return total if several else float(total[0])

    def check(self, dens: Any, targets: int = 32) -> Check:
        """Measure the error of the composite of a density: see `parki.Plan.check`."""
        values, several = self._rows("dens", dens)
        exact = []
        for one, plan, v in self._densities(values):
            sample = Sample(plan.task, plan.points, v if several else v[0], targets)
            once = sample.request(v)
            exact.append(PlacedSum(OneDevice(), sample.given, one.want, None, once).result)
        found = self._combined(exact, sample.given[1])
        found = found.reshape(*self.composite.result, found.shape[-1])
        return sample.errors((self(dens),), (self.promise(dens),), (found,))[0]

    def describe(self) -> str:
        """Return which sums there are, and what was chosen for them."""
        lines = [
            f"{self.composite.name}: {len(self.composite.addends)} addends, {len(self.sums)} sums"
        ]
        if self._problem:
            lines.append(f"  launches of all sums: {how(self._problem)}")
        return "\n".join([*lines, *(plan.describe() for plan in self.plans)])

    def __repr__(self) -> str:
        return f"<parki.Plan: {self.composite.name}, {self.options.periodicity}-periodic>"

    @property
    def memory(self) -> Memory:
        """Bytes that all plans need, by kernel and part, as predicted."""
        parts: dict[str, float] = {}
        held = peak = 0.0
        for one, plan in zip(self.sums, self.plans, strict=True):
            if (own := plan.memory) is not None:
                peak = max(peak, sum(parts.values()) + own.peak)  # made one after the other
                for name, size in own.parts.items():
                    label = f"{one.kernel} {name}"
                    parts[label] = parts.get(label, 0.0) + size
                held += own.held
        return Memory(parts, held, peak)

    def as_linear_operator(self) -> Any:
        """Return the plan as a linear operator: see `parki.Plan.as_linear_operator`."""
        return linear_operator(self, self.adjoint, self._shapes, self.dtype, self.space)


def _sizes(one: Shared) -> dict[str, int]:
    """Return the rows of the results of a sum."""
    return {name: result_rows(one.kernel, name) for name in one.want}
