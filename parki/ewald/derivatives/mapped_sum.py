"""`MappedSum`: a sum of one density in a composite, with its derivatives carried through the maps.

A map of sources, normals or densities may take the points and the normals: what it makes of a
change is in its `Link`. A map of results may take the targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.ewald.derivatives.by_box import by_lattice
from parki.ewald.derivatives.one_sum import OneSum, Parts, Pulled
from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.options import EwaldOptions
from parki.ewald.points import result_rows
from parki.ewald.ranks import Ranks
from parki.ewald.sums import SUMS
from parki.ewald.sums.changes import NAMES, OF_SOURCES
from parki.ewald.sums.composite import Addend, SharedAddend, ordered, unordered
from parki.ewald.sums.maps import (
    Arrays,
    Map,
    along,
    folded,
    slopes,
    still,
)
from parki.typing import AnyArray

# Squares of widths, by the widths themselves; maps of composites take none.
RADII = {"trg_epsilon": "trg_radii", "src_epsilon": "src_radii"}


class Link(NamedTuple):
    """What a map makes of changes of an input.

    Attributes
    ----------
    of : str
        What the map makes: "dens", "src" or "norms" of a sum.
    by : str
        The input: "src" or "norms".
    slopes : list of 3 arrays (rows, N maps), or None
        By each axis; None if the map changes nothing.
    """

    of: str
    by: str
    slopes: list[AnyArray] | None

    def pull(self, values: AnyArray, count: int) -> AnyArray:
        """Return the derivative (..., 3, count) by the input, for one by what is made of it."""
        if self.slopes is None:
            return values
        rows = [(slope * values).sum(axis=-2) for slope in self.slopes]
        return folded(np.stack(rows, axis=-2), count)

    def push(self, move: AnyArray) -> AnyArray:
        """Return the change of what is made of the input."""
        return move if self.slopes is None else along(self.slopes, move)


class MappedSum(NamedTuple):
    """A sum of a composite at its points, with addends that have one density in common."""

    shared: SharedAddend
    sum: OneSum
    cloud: Arrays
    of_targets: Arrays

    @classmethod
    def placed(
        cls,
        shared: SharedAddend,
        *,
        options: EwaldOptions,
        of_targets: Arrays,
        cloud: Arrays,
        labels: Labels | None,
        systems: Systems | None,
        ranks: Ranks,
        motion: NDArray[np.float64] | None,
    ) -> MappedSum:
        """Return the sum at what its maps make of the sources."""
        kind = SUMS[shared.kernel]
        systems, labels, order = shared.arranged(systems, labels)
        cloud = cloud | order
        src, norms = shared.points(cloud, kind)
        one = OneSum(
            kind,
            options=options,
            trg=of_targets["points"],
            src=src,
            norms=norms,
            labels=labels,
            systems=systems,
            ranks=ranks,
            motion=motion,
        )
        return cls(shared, one, cloud, of_targets)

    def _densities(self, dens: AnyArray) -> AnyArray:
        """Return the densities (k, rows, N) of the sum."""
        return self.shared.densities(dens, self.cloud)

    def _links(self, dens: AnyArray, inputs: Iterable[str]) -> list[Link]:
        """Return the links of maps at the sources, for one density of the composite."""
        first = self.shared.addends[0]
        maps = {"dens": (first.density, dens), "src": (first.sources, self.cloud["points"])}
        if self.sum.kind.normals:
            maps["norms"] = first.normals, self.cloud["norms"]
        links = []
        for by in [name for name in OF_SOURCES if name in inputs]:
            for of, (function, values) in maps.items():
                if function is not None:
                    parts = slopes(function, values, self.cloud, NAMES[by])
                    moves = any(part.any() for part in parts)  # on this rank
                    links += [Link(of, by, parts)] if self.sum.ranks.max(moves) else []
                elif of == by:
                    links.append(Link(of, by, None))
        return links

    def _link(self, results: Map, rows: Arrays) -> Link:
        """Return the link of a map of results at the targets."""
        return Link("rows", "trg", slopes(results, rows, self.of_targets, "points"))

    @property
    def _varied(self) -> list[Addend]:
        """Addends whose maps of results may take the targets."""
        return [addend for addend in self.shared.addends if not still(addend.results)]

    def pulled(
        self, v: Arrays, *, dens: AnyArray | None, wrt: Iterable[str], rows: int
    ) -> tuple[Pulled, Callable[[Parts], Parts]]:
        """Return the sum's derivatives, and a function that carries their parts through the maps.

        Parts are (k, rows, N), for values (k, rows, Nt) of results, and k is 1 unless ``wrt``
        is ("dens",). ``rows`` are the density's of the composite. "lattice",
        along with "trg" and "src", is the derivative by lattice vectors, (3, 3), and "box" that by
        lengths, its diagonal.
        """

        def more(addend: Addend) -> Addend:
            """Return the derivative by targets of a map of results, which takes them."""

            def pulled(results: Arrays, _: Arrays) -> AnyArray:
                weights = v[addend.of][0]
                return self._link(addend.results, results).pull(weights, weights.shape[-1])

            return Addend("", want=addend.want, results=pulled)

        sources = self.cloud["points"].shape[1]
        sizes = {name: result_rows(self.shared.kernel, name) for name in self.shared.want}
        values = self.shared.values(v, self.of_targets, sizes)
        links = [] if dens is None else self._links(dens, wrt)
        density = None if dens is None else self._densities(dens[None])[0]
        direct = [name for name in ("dens", "trg", *RADII.values()) if name in wrt]
        boxes = [name for name in ("box", "lattice") if name in wrt]
        alone = ["src"] if boxes else []  # whether it changes with the sources or not
        strain = ["strain"] if boxes else []
        request = dict.fromkeys([*direct, *alone, *strain, *(link.of for link in links)])
        varied = self._varied

        def derivatives_of(parts: Parts) -> Parts:
            derivatives = {name: parts[name] for name in direct}
            if alone:
                moves = {name: parts[name] for name in ("src", "strain")}
                moves["trg"] = parts["trg"][len(varied) :]
                for name in boxes:
                    by_box = self._by_lattice(values, density, moves, name == "box")
                    derivatives[name] = [by_box]
            derivatives |= {name: [] for name in OF_SOURCES}
            if "dens" in derivatives:
                derivatives["dens"] = [
                    self.shared.pulled(part, self.cloud, rows) for part in parts["dens"]
                ]
            for link in links:
                of_sources = [unordered(part, self.cloud) for part in parts[link.of]]
                derivatives[link.by] += [link.pull(part, sources) for part in of_sources]
            return derivatives

        of_sum = self.sum.pulled(values, density, wrt=request, more=tuple(map(more, varied)))
        return of_sum, derivatives_of

    def _by_lattice(
        self, values: AnyArray, dens: AnyArray, moves: dict[str, list[AnyArray]], straight: bool
    ) -> AnyArray:
        """Return the derivative by lattice vectors, for parts of those by the sum's own points."""
        one = self.sum
        slopes = [
            (points, reduce(add, moves[name])[0])
            for name, points in (("trg", one.trg), ("src", one.src))
        ]
        return by_lattice(
            one,
            dens[None],
            values=values,
            moves=slopes,
            strains=moves["strain"],
            straight=straight,
        )

    def pushed(self, dens: AnyArray, moves: Mapping[str, AnyArray]) -> list[tuple[str, AnyArray]]:
        """Return parts (k, rows, Nt) of the changes of results, for changes of inputs.

        "dens" has k of them.
        """
        densities = self._densities(dens)
        inner = {name: moves[name] for name in ("trg", *RADII.values()) if name in moves}
        if "dens" in moves:
            inner["dens"] = self._densities(moves["dens"]).copy()  # it may be the given array
        for n, density in enumerate(dens):
            for link in self._links(density, moves):
                change = ordered(link.push(moves[link.by]), self.cloud)
                if link.of == "dens":
                    inner.setdefault("dens", np.zeros_like(densities))[n] += change
                elif not n:  # it is the same for all densities
                    inner[link.of] = inner[link.of] + change if link.of in inner else change
        varied = self._varied if "trg" in moves else []
        changes, results = self.sum.pushed(
            self.shared.want, densities, moves=inner, with_results=bool(varied)
        )
        by_density, values = (
            [{name: rows[n] for name, rows in by_name.items()} for n in range(len(dens))]
            for by_name in (changes, results)
        )
        rows = self.shared.rows(by_density, self.of_targets)
        changed = [(addend.of, change) for addend, change in rows.items()]
        for addend in varied:
            parts = [self._link(addend.results, one).push(moves["trg"]) for one in values]
            changed.append((addend.of, np.stack(parts)))
        return changed
