"""`PlacedTerm`: one sum of a linear combination, with the maps around it.

Between two walls there is a `CorrectionTerm`, too, which no sum has. Densities, results, transposes
and bounds of both are taken in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from parki.ewald.checks import Sample, finer_tolerance, promise
from parki.ewald.choice.memory import Memory
from parki.ewald.derivatives.between_walls import Correction, CorrectionAtPoints
from parki.ewald.derivatives.transpose import Transpose
from parki.ewald.describe import describe
from parki.ewald.geometry.boxes import Group
from parki.ewald.geometry.columns import WHOLE, Columns
from parki.ewald.pipeline.ewald_sum import EwaldSum
from parki.ewald.pipeline.one_shot import place_and_sum
from parki.ewald.pipeline.protocol import Watch
from parki.ewald.placement.places import Places
from parki.ewald.ranks import Ranks
from parki.ewald.sums.composite import SharedAddend
from parki.ewald.sums.maps import Arrays, factors, weights
from parki.ewald.task import Task
from parki.interchange import to_host
from parki.runtime.forks import cached_property
from parki.typing import AnyArray


@dataclass(frozen=True, eq=False, kw_only=True)
class PlacedTerm:
    """One sum of a linear combination, at its points. At other points it is another one.

    Attributes
    ----------
    sum : EwaldSum
    places : Places or None
        Where its points are; None if it takes the plan's points.
    shared : SharedAddend or None
        Addends of a composite, which map sources, densities and results; None maps nothing.
    group : Group or None
        Systems that it sums at once, of those that have boxes of their own.
    scale : tuple (float, int) or None
        A length and its power by which results are multiplied, and may have larger errors.
    transposes : list of Transpose
        The last one, which serves other points, too.
    """

    sum: EwaldSum
    places: Places | None = None
    shared: SharedAddend | None = None
    group: Group | None = None
    scale: tuple[float, int] | None = None
    transposes: list[Transpose] = field(default_factory=list)

    @property
    def kernel(self) -> str:
        """The name of the sum."""
        return self.sum.task.kernel

    @property
    def columns(self) -> Columns:
        """The columns of the plan's points that it takes."""
        return WHOLE if self.places is None else self.places.columns

    @property
    def task(self) -> Task:
        """What is asked of the sum, in its present box."""
        return self.sum.task

    @property
    def memory(self) -> Memory | None:
        """Bytes that the sum needs, as predicted; None if there is nothing to sum."""
        return self.sum.pipeline.memory

    @property
    def numbers(self) -> Any:
        """The numbers of its systems, as an index."""
        return slice(None) if self.group is None else self.group.numbers

    # ------------------------------------------------------------------ maps
    def takes_as(self, other: Term) -> bool:
        """Return whether the same maps make its densities and the other term's."""
        if isinstance(other, CorrectionTerm):
            return False
        one, same = self.shared, other.shared
        if one is None or same is None or self.group is not other.group:
            return False
        return one.made_by == same.made_by

    def densities(self, values: AnyArray, cloud: Arrays | None = None) -> Any:
        """Return the densities (k, rows, N) of the sum, for densities of the plan.

        ``cloud`` takes the place of what its maps find.
        """
        columns = WHOLE if self.places is None else self.places.columns
        v = values if columns is WHOLE else columns.take("dens", values)
        if self.shared is not None:
            v = self.shared.densities(v, cloud or cast(Places, self.places).of_sources)
        return self.sum.task.xp.ascontiguousarray(v)

    def summed(self, dens: AnyArray, watch: Watch, places: Places) -> Arrays:
        """Return the results (k, rows, N) of the sum, by name, for densities of the sum."""
        many, count = len(dens), places.of_targets["points"].shape[1]
        rows = {
            name: np.empty_like(dens, shape=(many, size, count))
            for name, size in self.sum.sizes.items()
        }
        self.sum.overwrite(rows, dens, watch)
        return rows

    def shaped(self, dens: AnyArray) -> Any:
        """Return densities (k, rows, N) of the sum in the shape that calls take."""
        return dens.reshape((len(dens), *self.task.sum.density_shape(dens.shape[-1])))

    def add_results(self, results: Arrays, totals: Arrays, places: Places) -> None:
        """Add what the sum has found at places to the results of the plan, all (k, rows, N)."""
        columns = places.columns
        at = slice(None) if columns.targets is None else columns.targets
        if self.shared is None:
            for name, total in totals.items():
                total[..., at] += columns.back(name, results[name])
            return
        done = 0
        for addends in self.shared.lists:
            for n in range(len(totals[addends[0].of])):
                by_name = {name: rows[done + n] for name, rows in results.items()}
                for addend in addends:
                    totals[addend.of][n][:, at] += addend.results(by_name, places.of_targets)
            done += len(totals[addends[0].of])

    def recorded(self, many: int) -> object | None:
        """Return the graph of the sum of ``many`` densities of the plan, if there is one."""
        if self.columns is not WHOLE:
            return None
        shared = cast(SharedAddend, self.shared)
        graph: object | None = self.sum.pipeline.recorded(many * len(shared.lists))
        return graph

    def add_exact(self, sample: Sample, values: AnyArray, totals: Arrays, ranks: Ranks) -> None:
        """Add results at sampled targets by other parameters, of densities (1, rows, N)."""
        of_term, at = sample.of(to_host(self.columns.targets))
        if not ranks.sum(of_term.size):
            return
        places = self.places
        if places is None:
            places = Places(WHOLE, {}, {"points": self.sum.cloud.arrays["trg"]})
        dens = self.shaped(self.densities(values))
        cloud, places_of = sample.cloud(self.sum, of_term)
        exact, want = dens.astype(np.float64), self.sum.want
        placed = place_and_sum(ranks.engine(), self.kernel, cloud, exact, want)
        results = placed[1] if isinstance(placed[1], tuple) else (placed[1],)
        sampled = {
            name: array[..., places_of].reshape(len(dens), size, -1)
            for (name, size), array in zip(placed[0].sizes.items(), results, strict=True)
        }
        columns = self.columns.among(of_term, at)
        of_targets = {n: a[..., of_term].astype(np.float64) for n, a in places.of_targets.items()}
        places = places._replace(columns=columns, of_targets=of_targets)
        self.add_results(sampled, totals, places)

    # ------------------------------------------------------------------ transposed
    def transposed(self, values: dict[str, Any], rows: int) -> Any:
        """Return densities (k, rows, N) of values (k, rows, N) at the targets, by result."""
        values_here = {n: self.columns.take("trg", array) for n, array in values.items()}
        if self.shared is None:
            return self.columns.back("dens", self._transposed(values_here))
        places = cast(Places, self.places)
        back = self._transposed(self.shared.values(values_here, places.of_targets, self.sum.sizes))
        return self.shared.pulled(back, places.of_sources, rows)

    def _transposed(self, values: dict[str, Any]) -> Any:
        """Return the transpose (k, rows, sources) of values (k, rows, targets), by result."""
        order, task = self.task.order, self.task
        if not self.transposes or not self.transposes[0].task.alike(task):
            self.transposes[:] = [Transpose(task)]
        ordered = {name: order.to_solver(array) for name, array in values.items()}
        back = self.transposes[0](self.sum.points, self.sum.pipeline, ordered)
        if not order.is_identity:
            order.to_user(back.copy(), back)
        return back

    # ------------------------------------------------------------------ views
    def describe(self) -> str:
        """Return the sum, its points and its parameters as text of a few lines."""
        return describe(self.task, self.sum.cloud, self.sum.pipeline) + self.sum.pipeline.describe()

    def bounds(self, values: AnyArray) -> Iterator[tuple[str, Any]]:
        """Yield bounds (k,), or (k, systems), of the errors that densities (k, rows, N) have."""
        ranks, task = self.sum.pipeline.ranks, self.task
        per_result = promise(task, self.sum.cloud, ranks, self.densities(values))
        bounds = dict(zip(task.names, per_result, strict=True))
        if self.shared is None:
            yield from bounds.items()
            return
        cloud, many = cast(Places, self.places).of_targets, len(values)
        for n, addends in enumerate(self.shared.lists):
            for addend in addends:
                sizes = {name: self.sum.sizes[name] for name in addend.want}
                for name, factor in factors(weights(addend.results, sizes, cloud)).items():
                    own_bounds = bounds[name][n * many : (n + 1) * many]
                    yield addend.of, ranks.max(factor) * own_bounds


@dataclass(frozen=True, eq=False)
class CorrectionTerm:
    """What images in two walls lack, at the points of a plan. At other points it is another one.

    Attributes
    ----------
    correction : Correction
        In the present box.
    places : Places
    """

    correction: Correction
    places: Places
    columns = WHOLE
    numbers = slice(None)

    @cached_property
    def _here(self) -> CorrectionAtPoints:
        return self.correction.place(self.places.of_sources, self.places.of_targets)

    def takes_as(self, other: Term) -> bool:
        """Return whether it has the densities of another term: see `PlacedTerm.takes_as`."""
        return False

    def densities(self, values: AnyArray, cloud: Arrays | None = None) -> Any:
        """Return the densities (k, rows, N), which are the plan's."""
        return values

    def summed(self, dens: AnyArray, watch: Watch, places: Places) -> Arrays:
        """Return the results (k, rows, N), by name, at these places."""
        recorded = places is not self.places
        here = self._here
        if recorded:
            here = self.correction.placed_by_graph(places.of_sources, places.of_targets)
        with watch("correction"):
            results = here.summed(dens)
        self.correction.launched = True
        return results

    def add_results(self, results: Arrays, totals: Arrays, places: Places) -> None:
        """Add results to the results of the plan, all (k, rows, N)."""
        for name, total in totals.items():
            total += results[name].astype(total.dtype, copy=False)

    def recorded(self, many: int) -> object | None:
        """Return the graph that has placed the points, if there is one."""
        return self.correction.graph(self.places.of_sources, self.places.of_targets)

    def add_exact(self, sample: Sample, values: AnyArray, totals: Arrays, ranks: Ranks) -> None:
        """Add results at sampled targets by more modes, of densities (1, rows, N)."""
        chosen = self.correction.flow.xp.asarray(sample.chosen)
        targets = {n: array[..., chosen] for n, array in self.places.of_targets.items()}
        finer = self.correction.finer(finer_tolerance(self.correction.tolerance))
        results = finer.place(self.places.of_sources, targets).summed(values)
        self.add_results(results, totals, self.places)

    def transposed(self, values: dict[str, Any], rows: int) -> Any:
        """Return densities (k, rows, N) of values (k, rows, N) at the targets, by result."""
        return self._here.transposed(values, rows)

    def bounds(self, values: AnyArray) -> Iterator[tuple[str, Any]]:
        """Yield bounds (k,) of the errors that densities (k, rows, N) have."""
        yield from self.correction.bounds(values, self.places.of_sources).items()

    def describe(self) -> str:
        """Return the walls and the modes as a line."""
        return self.correction.describe()

    @property
    def memory(self) -> Memory:
        """Bytes that grids and tables need, as predicted."""
        clouds = self.places.of_sources, self.places.of_targets
        size = self.correction.flow.bytes(max(cloud["points"].shape[1] for cloud in clouds))
        return Memory({"": size}, 0.0, size)

    kernel = "correction"


Term = PlacedTerm | CorrectionTerm
