"""`PlacedTerm`: one sum of a linear combination, with the maps around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np

from parki.ewald.checks import promise
from parki.ewald.choice.memory import Memory
from parki.ewald.derivatives.transpose import Transpose
from parki.ewald.describe import describe
from parki.ewald.geometry.boxes import WHOLE, Columns, Group
from parki.ewald.pipeline.ewald_sum import EwaldSum
from parki.ewald.pipeline.protocol import Watch
from parki.ewald.sums.composite import SharedAddend
from parki.ewald.sums.maps import Arrays, factors, weights
from parki.ewald.task import Task
from parki.typing import AnyArray


class Places(NamedTuple):
    """The points of a term, in its columns, where maps or boxes take them.

    Attributes
    ----------
    columns : Columns
    of_sources : dict
        "points" and "norms" of the sources, or None, which maps take; "point_radii", if they have
        any; and the "order" of the sum's sources.
    of_targets : dict
        What maps of results take: "points" of the targets, and their "point_radii".
    """

    columns: Columns
    of_sources: Arrays
    of_targets: Arrays

    def moved(self, trg: AnyArray, src: AnyArray, norms: Any) -> Places:
        """Return the same places at other points with their normals or radii, in its columns."""
        of_sources = {**self.of_sources, "points": src, "norms": norms}
        of_targets = {**self.of_targets, "points": trg}
        if isinstance(norms, tuple):
            of_targets["point_radii"], of_sources["point_radii"] = norms
        return Places(self.columns, of_sources, of_targets)


@dataclass(frozen=True, eq=False, kw_only=True)
class PlacedTerm:
    """One sum of a linear combination, at its points. At other points it is another one.

    Attributes
    ----------
    sum : EwaldSum
    places : Places or None
        Where its points are; None if it takes the plan's points.
    shared : Shared or None
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
    def takes_as(self, other: PlacedTerm) -> bool:
        """Return whether the same maps make its densities and the other term's."""
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

    def summed(self, dens: AnyArray, watch: Watch) -> Arrays:
        """Return the results (k, rows, N) of the sum, by name, for densities of the sum."""
        many, count = len(dens), cast(Places, self.places).of_targets["points"].shape[1]
        rows = {
            name: np.empty_like(dens, shape=(many, size, count))
            for name, size in self.sum.sizes.items()
        }
        self.sum.overwrite(rows, dens, watch)
        return rows

    def shaped(self, dens: AnyArray) -> Any:
        """Return densities (k, rows, N) of the sum in the shape that calls take."""
        return dens.reshape(len(dens), *self.task.sum.density_shape(dens.shape[-1]))

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
        ordered = {name: order.rows(array) for name, array in values.items()}
        back = self.transposes[0](self.sum.points, self.sum.pipeline, ordered)
        if not order.is_identity:
            order.back(back.copy(), back)
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
