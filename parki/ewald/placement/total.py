"""`Total`: what a plan sums, put together from the sums of its members.

A plan of one sum that changes no points, densities and results is that sum: nothing is copied for
it. Results of several members add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from itertools import pairwise
from operator import add
from typing import Any, cast

import numpy as np

from parki.ewald.checks import Sample, promise
from parki.ewald.geometry.boxes import WHOLE
from parki.ewald.pipeline.placed_sum import place_and_sum
from parki.ewald.pipeline.protocol import Watch, unwatched
from parki.ewald.pipeline.replay import Replay, how
from parki.ewald.placement.member import Member, Places
from parki.ewald.placement.placement import Placement
from parki.ewald.points import check_outputs
from parki.ewald.points.request import SumRequest
from parki.ewald.sums.composite import Composite, by_density
from parki.interchange import to_host


class Total:
    """The sum of a plan's members. Whoever calls it has the placement's `access`.

    Parameters
    ----------
    placement : Placement
    asked : SumRequest
    members : list of Member

    Attributes
    ----------
    plain : bool
        Whether it is one sum, which takes all as it is.
    """

    def __init__(self, placement: Placement, asked: SumRequest, members: list[Member]) -> None:
        self.placement, self.asked, self.members = placement, asked, members
        first = members[0]
        self.plain = first.shared is None and first.group is None
        self.space = first.task.space
        # Members that take the densities of the one before.
        self._again = [False, *(after.takes_as(one) for one, after in pairwise(members))]
        self._records = placement.options.walled and self.space.adapter.records()
        # By densities: graphs of sums, and one of all.
        self._graphs: dict[int, tuple[list[Replay | None], Replay]] = {}
        self._problem = ""  # why a device cannot record it

    @property
    def counts(self) -> tuple[int, int]:
        """Targets and sources of this rank."""
        if self.plain:
            return self.members[0].sum.counts
        given = self.placement.points
        return int(given.trg.shape[1]), int(given.src.shape[1])

    @property
    def density_shape(self) -> tuple[int, ...]:
        """The shape of a density."""
        return (*self.asked.density, self.counts[1])

    def shapes(self, *several: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each result; for ``several`` densities at once, if it is given."""
        count = self.counts[0]
        return {n: (*several, *shape, count) for n, shape in self.asked.results.items()}

    # ------------------------------------------------------------------ apply
    def apply(self, values: Any, out: Any, watch: Watch) -> Any:
        """Return the wanted results of a density that was checked, or of several."""
        settle = self.placement.settle
        if self.plain:
            results = self.members[0].sum.summed(values, out, watch)
            return self.members[0].sum.summed(values, out, watch) if settle() else results
        several, want = values.shape[: values.ndim - 2], self.asked.want
        written = check_outputs(out, want, self.shapes(*several), values, self.space)
        values = values if several else values[None]
        totals = {
            name: array.reshape(len(values), math.prod(shape), array.shape[-1])
            for (name, array), shape in zip(
                written.items(), self.asked.results.values(), strict=True
            )
        }
        recorded = self._records and watch is unwatched
        if len(values) and not (recorded and self._recorded(values, totals)):
            self._sum(values, totals, watch)
            if settle():
                self._sum(values, totals, watch)
        results = tuple(written.values())
        return results[0] if isinstance(want, str) else results

    def _sum(self, values: Any, totals: dict[str, Any], watch: Watch) -> None:
        results, places, dens = [], list[Places](), None
        for member, again in zip(self.members, self._again, strict=True):
            dens = dens if again else member.densities(values)
            results.append(member.summed(dens, watch))
            places.append(cast(Places, member.places))
        self._add(results, totals, places)

    def _add(self, results: list[Any], totals: dict[str, Any], places: list[Places]) -> None:
        """Overwrite results (k, rows, N) by the results of all members, at places."""
        for array in totals.values():
            array.fill(0)
        for member, rows, where in zip(self.members, results, places, strict=True):
            member.add_results(rows, totals, where)

    def _recorded(self, values: Any, totals: dict[str, Any]) -> bool:
        """Sum near a wall by one graph, if a device has one of each member.

        Points are copied as densities are, so that it may be another cloud.
        """
        members, many, given = self.members, len(values), self.placement.points
        if self._problem:
            return False
        counts = [many * len(cast(Any, member.shared).lists) for member in members]
        graphs = [m.sum.pipeline.recorded(n) for m, n in zip(members, counts, strict=True)]
        if None in graphs or any(member.columns is not WHOLE for member in members):
            return False

        def work(arrays: dict[str, Any]) -> None:
            results: list[Any] = [None] * len(members)
            own: Any = {name: arrays[name] for name in ("points", "norms") if name in arrays}
            places = [
                Places(WHOLE, {**of_sources, **own}, {**of_targets, "points": arrays["trg"]})
                for _, of_sources, of_targets in (cast(Places, member.places) for member in members)
            ]

            def run(first: int = 0) -> None:  # members are branches, of one and the rest
                rest = partial(run, first + 1) if first + 1 < len(members) else None
                with self.space.adapter.beside(rest):
                    dens = members[first].densities(arrays["dens"], places[first].of_sources)
                    results[first] = members[first].summed(dens, unwatched)

            run()
            self._add(results, {name: arrays[name] for name in totals}, places)

        inputs = {"dens": values, "trg": given.trg, "points": given.src}
        if given.norms is not None and not isinstance(given.norms, tuple):  # marks stay
            inputs["norms"] = given.norms
        before, graph = self._graphs.get(many, (None, None))
        if before != graphs or graph is None or not graph.takes({**inputs, **totals}):
            graph = Replay(self.space, work, {**inputs, **totals})
            self._graphs[many], self._problem = (graphs, graph), graph.problem
            if self._problem:
                return False
        graph(inputs, totals)
        return not self.placement.settle()

    def describe(self) -> list[str]:
        """Return a line that says why there is no graph of all members, if so."""
        return [f"  launches of all sums: {how(self._problem)}"] if self._problem else []

    # ------------------------------------------------------------------ transposed
    def transposed(self, values: dict[str, Any]) -> Any:
        """Return densities (k, rows, N) of values (k, rows, N) at the targets, by result."""
        first, rows = next(iter(values.values())), math.prod(self.asked.density)
        if self.plain:
            return self.members[0].transposed(values, rows)
        dens = np.zeros_like(first, shape=(len(first), rows, self.counts[1]))
        for member in self.members if len(first) else ():
            dens[..., member.columns.place("src")] += member.transposed(values, rows)
        return dens

    # ------------------------------------------------------------------ errors
    def bounds(self, values: Any) -> tuple[Any, ...]:
        """Return the bound of each result's error, for a density that was checked.

        A number, of k densities an array (k,), and of systems (S,) or (k, S).
        """
        if self.plain:
            one = self.members[0]
            return promise(one.task, one.sum.given, self.placement.ranks, values)
        several, systems = values.ndim == 3, self.placement.points.systems
        values = values if several else values[None]
        shape = len(values), 1 if systems is None else systems.count
        totals = {name: np.zeros(shape) for name in self.asked.results}
        for member in self.members if len(values) else ():
            for name, bound in member.bounds(values):
                total = totals[name]
                total[:, member.numbers] += np.reshape(bound, (len(values), -1))
        per_result = [total if systems else total[:, 0] for total in totals.values()]
        if several:
            return tuple(per_result)
        return tuple(each[0] if systems else float(each[0]) for each in per_result)

    def exact(self, sample: Sample, values: Any) -> dict[str, Any]:
        """Return results (rows, N) at sampled targets by other parameters, of one density."""
        rows = {name: math.prod(shape) for name, shape in self.asked.results.items()}
        count = sample.chosen.size
        totals = {
            name: np.zeros_like(values, shape=(1, size, count), dtype=np.float64)
            for name, size in rows.items()
        }
        for member in self.members:
            own, at = sample.of(to_host(member.columns.targets))
            if not self.placement.ranks.sum(own.size):
                continue
            places = member.places
            if places is None:
                places = Places(WHOLE, {}, {"points": member.sum.given.arrays["trg"]})
            dens = member.shaped(member.densities(values[None]))
            given, places_of, how = sample.given(member.sum, own)
            placed = place_and_sum(
                self.placement.ranks.engine(), given, dens.astype(np.float64), member.want, **how
            )
            results = placed[1] if isinstance(placed[1], tuple) else (placed[1],)
            sampled = {
                name: array[..., places_of].reshape(len(dens), size, -1)
                for (name, size), array in zip(placed[0].sizes.items(), results, strict=True)
            }
            columns = member.columns.among(own, at)
            of_targets = {n: a[..., own].astype(np.float64) for n, a in places.of_targets.items()}
            places = places._replace(columns=columns, of_targets=of_targets)
            member.add_results(sampled, totals, places)
        return {name: total[0] for name, total in totals.items()}


class Swapped:
    """The transpose of a plan, by other plans where its sums need them.

    That is one from the targets to the sources, or one of the same result whose sums have
    transposes.

    Parameters
    ----------
    placement : Placement
    asked : SumRequest
    total : Total
        Which transposes what needs no other plan.
    """

    def __init__(self, placement: Placement, asked: SumRequest, total: Total) -> None:
        self.placement, self.asked, self.total = placement, asked, total
        self._plans: dict[str, Any] = {}  # by result
        self._versions: dict[str, object] = {}  # of the points that these have

    def __call__(self, rows: dict[str, Any], make: Callable[..., Any]) -> Any:
        """Return densities (k, rows, N) of values (k, rows, N) at the targets, by result.

        A plan that is needed for it is made by ``make``, on the same device or the same ranks;
        were it kept here, plans would refer to themselves, and outlive their last name.
        """
        parts = self.asked.parts
        if not any(each.transposed for each in parts) or not all(map(len, rows.values())):
            return self.total.transposed(rows)
        each = zip(parts, rows.items(), strict=True)
        return reduce(add, [self._of_part(part, *own, make) for part, own in each])

    def _of_part(self, part: Composite, name: str, values: Any, make: Callable[..., Any]) -> Any:
        """Return densities (k, rows, N) of values of one result."""
        count = values.shape[-1]
        given = values.reshape(len(values), *part.result, count)
        if isinstance(back := part.transposed or part, Composite):
            dens = self._placed(name, make, back, "u", swapped=False).adjoint(given)
            return dens.reshape(len(values), math.prod(part.density), dens.shape[-1])
        kernel, want, results = back
        sums = self._placed(name, make, kernel, want, swapped=True)(given)
        cloud = {"points": self.placement.points.src, "norms": self.placement.points.norms}
        return np.stack([results(by_name, cloud) for by_name in by_density((want,), (sums,))])

    def _placed(
        self, name: str, make: Callable[..., Any], kernel: Any, want: str, swapped: bool
    ) -> Any:
        """Return a plan where points are now; ``swapped`` says from the targets to the sources."""
        placement = self.placement
        points, options, boxes = placement.points, placement.options, placement.boxes
        systems, labels, norms = points.systems, points.exclude, points.norms
        ends = [points.trg, points.src]
        if swapped:
            ends, systems = ends[::-1], systems and systems.swapped()
            labels = labels and labels.swapped(systems)
            norms = norms[::-1] if isinstance(norms, tuple) else None
        how = {"systems": systems and (systems.targets, systems.sources), "exclude": labels}
        how = {of: marks for of, marks in how.items() if marks is not None}
        plan = self._plans.get(name)
        if plan is None or plan.options != options:
            more = how if boxes is None else {"boxes": boxes, **how}
            plan = self._plans[name] = make(kernel, *ends, norms, options, want=want, **more)
        elif self._versions[name] is not placement.version:
            plan.update_points(*ends, *[norms][: not isinstance(norms, tuple)], **how)
        self._versions[name] = placement.version
        return plan
