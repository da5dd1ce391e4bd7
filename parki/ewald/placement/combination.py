"""`LinearCombination`: what a plan sums, put together from its terms.

A plan of one sum that changes no points, densities and results is that sum: nothing is copied for
it. Results of several terms add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from itertools import pairwise
from operator import add
from typing import Any, cast

import numpy as np

from parki.ewald.checks import Sample, promise
from parki.ewald.derivatives.between_walls import Correction, correction_of
from parki.ewald.geometry.columns import WHOLE
from parki.ewald.pipeline.protocol import Watch, unwatched
from parki.ewald.pipeline.replay import Replay, launch_mode
from parki.ewald.placement.placement import Placement
from parki.ewald.placement.places import Places
from parki.ewald.placement.term import CorrectionTerm, PlacedTerm, Term
from parki.ewald.points import check_outputs
from parki.ewald.points.request import SumRequest
from parki.ewald.sums.composite import Composite, by_density
from parki.ewald.sums.plates import applied
from parki.interchange import to_host
from parki.typing import AnyArray


class LinearCombination:
    """Sums of a plan, whose results add up. Whoever calls it has the placement's `access`.

    Parameters
    ----------
    placement : Placement
    request : SumRequest
    part : slice
        Its terms, of those of the placement.

    Attributes
    ----------
    plain : bool
        Whether it is one sum, which takes all as it is.
    """

    def __init__(self, placement: Placement, request: SumRequest, part: slice) -> None:
        self.placement, self.request, self._part = placement, request, part
        first = self.terms[0]
        self.plain = first.shared is None and first.group is None
        self.space = first.task.space
        self._records = placement.options.walled and self.space.adapter.records()
        # By densities: graphs of sums, and one of all.
        self._graphs: dict[int, tuple[list[object], Replay]] = {}
        self._problem = ""  # why a device cannot record it
        # Plans that transpose, by result; and the versions of the points that these have.
        self._plans: dict[str, Any] = {}
        self._versions: dict[str, object] = {}
        # The last correction by its box, and at the last points by their version.
        self._corrections: dict[Any, Correction] = {}
        self._corrected: tuple[object, CorrectionTerm | None] = None, None
        # Terms that take the densities of the one before.
        self._again = [False, *(after.takes_as(one) for one, after in pairwise(self.all_terms))]

    @property
    def terms(self) -> tuple[PlacedTerm, ...]:
        """Its sums at the present points."""
        return self.placement.state.terms[self._part]

    @property
    def counts(self) -> tuple[int, int]:
        """Targets and sources of this rank."""
        if self.plain:
            return self.terms[0].sum.counts
        return self.placement.cloud.targets, self.placement.cloud.sources

    @property
    def density_shape(self) -> tuple[int, ...]:
        """The shape of a density."""
        return (*self.request.density, self.counts[1])

    def shapes(self, several: tuple[int, ...] = ()) -> dict[str, tuple[int, ...]]:
        """Return the shape of each result; for ``several`` densities at once, if it is given."""
        count = self.counts[0]
        return {n: (*several, *shape, count) for n, shape in self.request.results.items()}

    @property
    def all_terms(self) -> tuple[Term, ...]:
        """Its sums at the present points; and last, between two walls, what their images lack."""
        if not self.placement.options.corrected or not self.request.near:
            return self.terms
        version, last = self._corrected
        if last is None or version is not self.placement.version:
            cloud = self.placement.cloud
            places = Places(WHOLE, {}, {}).moved(cloud.trg, cloud.src, cloud.norms)
            last = CorrectionTerm(self._correction, places)
            self._corrected = self.placement.version, last
        return *self.terms, last

    @property
    def _correction(self) -> Correction:
        """What images in two walls lack in the present box."""
        options = self.placement.options
        count = self.counts[1] if options.densities == "any" else 1
        points = 2 ** max(self.counts).bit_length()
        key = count, points, str(options.box)
        if key not in self._corrections:
            correction = correction_of(
                self.request.near,
                options,
                sources=count,
                components=math.prod(self.request.density),
                points=points,
                dtype=self.placement.cloud.trg.dtype,
                space=self.space,
            )
            self._corrections = {key: correction}
        return self._corrections[key]

    # ------------------------------------------------------------------ apply
    def apply(self, values: AnyArray, out: AnyArray, watch: Watch) -> Any:
        """Return the wanted results of a density that was checked, or of several."""
        several, want = values.shape[:-2], self.request.want
        results, totals = check_outputs(out, want, self.shapes(several), values, self.space)
        values = values if several else values[None]
        recorded = self._records and watch is unwatched
        done = not len(values) or (recorded and self._recorded(values, totals))
        while not done:
            if self.plain:
                self.terms[0].sum.overwrite(totals, values, watch)
            else:
                self._sum(values, totals, watch)
            done = not self.placement.commit_pending()  # else the points were placed anew
        return results

    def _apply_voltage(self, totals: dict[str, Any], trg: AnyArray) -> None:
        """Add to results (k, rows, N) at targets what a voltage between two plates makes."""
        if slope := self.placement.options.slope:
            for name, total in totals.items():
                total += applied(name, slope, trg)

    def _sum(self, values: AnyArray, totals: dict[str, Any], watch: Watch) -> None:
        """Overwrite results (k, rows, N) by what all terms find, with their maps."""
        results, places, dens = [], list[Places](), None
        for term, again in zip(self.all_terms, self._again, strict=True):
            dens = dens if again else term.densities(values)
            places.append(cast(Places, term.places))
            results.append(term.summed(dens, watch, places[-1]))
        self._add(results, totals, places)

    def _add(self, results: list[Any], totals: dict[str, Any], places: list[Places]) -> None:
        """Overwrite results (k, rows, N) by the results of all terms, at places."""
        for array in totals.values():
            array.fill(0)
        for term, rows, where in zip(self.all_terms, results, places, strict=True):
            term.add_results(rows, totals, where)
        self._apply_voltage(totals, places[0].of_targets["points"])

    def _recorded(self, values: AnyArray, totals: dict[str, Any]) -> bool:
        """Sum near a wall by one graph, if a device has one of each term.

        All arrays of points are copied as densities are: another cloud has others.
        """
        terms, many, cloud = self.all_terms, len(values), self.placement.cloud
        graphs = [term.recorded(many) for term in terms]
        if self._problem or None in graphs:
            return False

        def work(arrays: dict[str, AnyArray]) -> None:
            results: list[Any] = [None] * len(terms)
            points = {name: arrays[name] for name in cloud.distinct}
            moved = replace(cloud, arrays={"src": arrays["trg"], **points})
            places = [
                cast(Places, term.places).moved(moved.trg, moved.src, moved.norms) for term in terms
            ]

            def run(first: int = 0) -> None:  # terms are branches, of one and the rest
                rest = partial(run, first + 1) if first + 1 < len(terms) else None
                with self.space.adapter.beside(rest):
                    dens = terms[first].densities(arrays["dens"], places[first].of_sources)
                    results[first] = terms[first].summed(dens, unwatched, places[first])

            run()
            self._add(results, {name: arrays[name] for name in totals}, places)

        inputs = {"dens": values, **cloud.distinct}
        before, graph = self._graphs.get(many, (None, None))
        if before != graphs or graph is None or not graph.takes({**inputs, **totals}):
            graph = Replay(self.space, work, {**inputs, **totals})
            self._graphs[many], self._problem = (graphs, graph), graph.problem
            if self._problem:
                return False
        graph(inputs, totals)
        return not self.placement.commit_pending()

    def describe(self) -> list[str]:
        """Return all terms in words, and why there is no graph of them, if so."""
        lines = [term.describe() for term in self.all_terms]
        if self._problem:
            lines.insert(0, f"  launches of all sums: {launch_mode(self._problem)}")
        return lines

    # ------------------------------------------------------------------ transposed
    def transposed(self, rows: dict[str, Any], make: Callable[..., Any]) -> Any:
        """Return densities (k, rows, N) of values (k, rows, N) at the targets, by result.

        Sums without a transpose of their own are transposed by other plans: from the targets to
        the sources, or of the same result by sums that have transposes.

        A plan that is needed for it is made by ``make``, on the same device or the same ranks;
        were it kept here, plans would refer to themselves, and outlive their last name.
        """
        parts = self.request.parts
        if not any(part.transposed for part in parts) or not all(map(len, rows.values())):
            return self._transposed_terms(rows)
        by_part = zip(parts, rows.items(), strict=True)
        dens = [self._of_part(part, name, values, make) for part, (name, values) in by_part]
        return reduce(add, dens)

    def _of_part(
        self, part: Composite, name: str, values: AnyArray, make: Callable[..., Any]
    ) -> Any:
        """Return densities (k, rows, N) of values of one result."""
        count = values.shape[-1]
        shaped = values.reshape((len(values), *part.result, count))
        if isinstance(back := part.transposed or part, Composite):
            dens = self._plan_for(name, make, back, "u", swapped=False).adjoint(shaped)
            return dens.reshape(len(values), math.prod(part.density), dens.shape[-1])
        kernel, want, results = back
        sums = self._plan_for(name, make, kernel, want, swapped=True)(shaped)
        cloud = {"points": self.placement.cloud.src, "norms": self.placement.cloud.norms}
        return np.stack([results(by_name, cloud) for by_name in by_density((want,), (sums,))])

    def _plan_for(
        self, name: str, make: Callable[..., Any], kernel: Any, want: str, swapped: bool
    ) -> Any:
        """Return a plan where points are now; ``swapped`` says from the targets to the sources."""
        placement = self.placement
        cloud, options, boxes = placement.cloud, placement.options, placement.boxes
        trg, src, norms, systems, labels = (
            cloud.trg,
            cloud.src,
            cloud.norms,
            cloud.systems,
            cloud.labels,
        )
        if swapped:
            trg, src, systems = src, trg, systems and systems.swapped()
            labels = labels and labels.swapped(systems)
            norms = norms[::-1] if isinstance(norms, tuple) else None
        plan = self._plans.get(name)
        if plan is None or plan.options != options:
            plan = self._plans[name] = make(
                kernel,
                trg,
                src,
                norms,
                options,
                want=want,
                systems=systems,
                exclude=labels,
                boxes=boxes,
            )
        elif self._versions[name] is not placement.version:
            norms = None if isinstance(norms, tuple) else norms  # radii stay
            plan.update_points(trg, src, norms, systems=systems, exclude=labels)
        self._versions[name] = placement.version
        return plan

    def _transposed_terms(self, values: dict[str, Any]) -> Any:
        """Return the densities that `transposed` returns, by the transposes of the terms."""
        first, rows = next(iter(values.values())), math.prod(self.request.density)
        if self.plain:
            return self.terms[0].transposed(values, rows)
        dens = np.zeros_like(first, shape=(len(first), rows, self.counts[1]))
        for term in self.all_terms if len(first) else ():
            dens[..., term.columns.place("src")] += term.transposed(values, rows)
        return dens

    # ------------------------------------------------------------------ errors
    def bounds(self, values: AnyArray) -> tuple[Any, ...]:
        """Return the bound of each result's error, for a density that was checked.

        A number, of k densities an array (k,), and of systems (S,) or (k, S).
        """
        if self.plain:
            one = self.terms[0]
            return promise(one.task, one.sum.cloud, self.placement.ranks, values)
        several, systems = values.ndim == 3, self.placement.cloud.systems
        values = values if several else values[None]
        shape = len(values), 1 if systems is None else systems.count
        totals = {name: np.zeros(shape) for name in self.request.results}
        for term in self.all_terms if len(values) else ():
            for name, bound in term.bounds(values):
                total = totals[name]
                total[:, term.numbers] += np.reshape(bound, (len(values), -1))
        per_result = [total if systems else total[:, 0] for total in totals.values()]
        if several:
            return tuple(per_result)
        return tuple(
            totals_of_one[0] if systems else float(totals_of_one[0]) for totals_of_one in per_result
        )

    def exact(self, sample: Sample, values: AnyArray) -> dict[str, Any]:
        """Return results (rows, N) at sampled targets by other parameters, of one density."""
        rows = {name: math.prod(shape) for name, shape in self.request.results.items()}
        count = sample.chosen.size
        totals = {
            name: np.zeros_like(values, shape=(1, size, count), dtype=np.float64)
            for name, size in rows.items()
        }
        for term in self.all_terms:
            term.add_exact(sample, values[None], totals, self.placement.ranks)
        chosen = self.space.array_module.asarray(sample.chosen)
        self._apply_voltage(totals, to_host(self.placement.cloud.trg[:, chosen]))
        return {name: total[0] for name, total in totals.items()}
