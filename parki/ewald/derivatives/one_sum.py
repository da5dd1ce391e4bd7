"""`OneSum`: derivatives of the results of one sum by its densities, normals, targets and sources.

They are composites of sums again, from `parki.ewald.sums.slopes` and from the record of the sum.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import partial, reduce
from itertools import chain, pairwise
from operator import add
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from parki.ewald.derivatives.transpose import options_of
from parki.ewald.far.strain import of_modes_alone
from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.one_device import SERIAL
from parki.ewald.pipeline.one_shot import sum_once
from parki.ewald.points import result_rows
from parki.ewald.points.extent import resolve
from parki.ewald.ranks import Ranks
from parki.ewald.sums import SUMS
from parki.ewald.sums.adjoint import Adjoint
from parki.ewald.sums.composite import Addend, by_density, together
from parki.ewald.sums.maps import Arrays, mapped
from parki.ewald.sums.record import Interaction
from parki.ewald.sums.slopes import (
    bilinear,
    by_normals,
    by_sources,
    by_targets,
    by_widths,
    changes,
    lacking,
    weighted,
)
from parki.runtime import get_execution_space
from parki.typing import AnyArray

# A result; or "itself" and a result, next to its change.
Key = str | tuple[str, str]
KeyT = TypeVar("KeyT", bound=Key)


class SumOfPoints(NamedTuple):
    """A sum of densities (k, ..., N), and what is wanted of it."""

    kernel: str
    trg: AnyArray
    src: AnyArray
    dens: AnyArray
    norms: AnyArray
    options: EwaldOptions
    want: tuple[str, ...]
    systems: Systems | None
    labels: Labels | None
    tensors: AnyArray
    ranks: Ranks
    motion: NDArray[np.float64] | None

    def summed(self) -> list[Arrays]:
        """Return the results (rows, N) of each density, by name."""
        return by_density(self.want, self._summed())

    def by_name(self) -> Arrays:
        """Return the results of all densities, by name."""
        return dict(zip(self.want, self._summed(), strict=True))

    def _summed(self, strained: bool = False) -> Any:
        return sum_once(
            self.kernel,
            self.trg,
            self.src,
            self.dens,
            self.norms,
            self.options,
            want=self.want,
            systems=self.systems,
            exclude=self.labels,
            tensors=self.tensors,
            strained=strained,
            motion=self.motion,
            ranks=self.ranks,
        )

    def joins(self, other: SumOfPoints) -> bool:
        """Return whether both are the same sum of points alone at the same points.

        One of them must have all results, so that no density has many that nobody asks for.
        """
        vectors = self.norms, self.tensors, other.norms, other.tensors
        if any(each is not None for each in vectors) or not self.ranks.serial:
            return False
        own, others = ((c.kernel, c.options, c.systems, c.labels) for c in (self, other))
        wants = {*self.want}, {*other.want}
        same = self.trg is other.trg and self.src is other.src and own == others
        same = same and self.motion is other.motion
        return same and (wants[0] <= wants[1] or wants[1] <= wants[0])

    def joined(self, other: SumOfPoints) -> SumOfPoints:
        """Return one sum for the densities of both, of one placement."""
        xp = get_execution_space(None, self.trg).array_module
        want = max(self.want, other.want, key=len)
        return self._replace(dens=xp.concatenate([self.dens, other.dens]), want=want)

    def strained(self) -> tuple[list[Arrays], AnyArray]:
        """Return the results of one density or two, and a derivative (9, systems) by strains.

        It is of the product of one density with its own sum, or with the other's: see
        `strained_with`.
        """
        if len(self.dens) > 1:
            first, second = (self._replace(dens=self.dens[n : n + 1]) for n in range(2))
            return first.strained_with(second)
        results, strain = self._summed(strained=True)
        return by_density(self.want, results), strain[0]

    def strained_with(self, other: SumOfPoints) -> tuple[list[Arrays], AnyArray]:
        """Return the results of both, of one density each, and a derivative by strains.

        This derivative (9, systems) of w.u is symmetric in the two densities w and q. So it is a
        quarter of the difference that ``q + w`` and ``q - w`` make, as their own weights. A power
        of two makes w as large as q, so that no digits of either are lost.
        """
        both = self.joined(other)
        shift = np.subtract(*_powers(both.dens))
        q, w = both.dens[0], np.ldexp(both.dens[1], shift)
        both = both._replace(dens=np.stack([q + w, q - w]))
        results, (plus, minus) = both._summed(strained=True)
        apart = [np.stack([a + b, np.ldexp(a - b, -shift)]) / 2 for a, b in results]
        return by_density(both.want, tuple(apart)), np.ldexp(plus - minus, -shift) / 4


Parts = dict[str, list[AnyArray]]  # parts (k, rows, N) of derivatives, by names of inputs
# Yields sums to make, is sent their results, and returns the rows of composites' addends.
Steps = Generator[SumOfPoints, list[Arrays], dict[KeyT, list[AnyArray]]]


def _powers(dens: AnyArray) -> Any:
    """Return about the logarithm, to the base of 2, of the norm of each density (k, ..., N)."""
    rows = dens.reshape(len(dens), -1)
    _, largest = np.frexp(abs(rows).max(axis=1))
    _, squares = np.frexp((np.ldexp(rows, -largest[:, None]) ** 2).sum(axis=1))
    return largest + squares // 2


def all_rows(
    *steps: Steps[Any], strains: list[AnyArray] | None = None
) -> list[dict[Any, list[AnyArray]]]:
    """Return the rows of several composites, by one sum in the place of those that `joins`.

    ``strains``, if it is given, takes the derivative by strains of such a sum of two densities.
    """
    done: list[dict[Any, list[AnyArray]]] = [{} for _ in steps]
    calls = dict[int, SumOfPoints]()

    def sent(place: int, results: list[Arrays] | None) -> None:
        try:
            calls[place] = steps[place].send(results)  # type: ignore[arg-type]
        except StopIteration as end:
            done[place] = end.value

    for place in range(len(steps)):
        sent(place, None)
    while calls:
        # First the one with fewest partners: after it others may follow that join the rest.
        groups = [[n, *_partners(n, calls)] for n in calls]
        first, *others = group = min(groups, key=len)
        members = {n: calls.pop(n) for n in group}
        if strains is not None and others:
            results, strain = members[first].strained_with(members[others[0]])
            strains.append(strain)
        else:
            results = reduce(SumOfPoints.joined, members.values()).summed()
        for n, call in members.items():
            sent(n, results[: len(call.dens)])
            results = results[len(call.dens) :]
    return done


def _partners(place: int, calls: Mapping[int, SumOfPoints]) -> list[int]:
    """Return the places of other calls that join one, and each other."""
    whole, partners = calls[place], list[int]()
    for n, other in calls.items():
        if n != place and whole.joins(other):
            whole = whole.joined(other)
            partners.append(n)
    return partners


class Pulled(NamedTuple):
    """Derivatives of one sum by the names of inputs, of which ``steps`` make the parts.

    ``strained`` says whether two of them, as one sum, have the derivative by strains as well.
    """

    names: tuple[str, ...]
    steps: list[Steps[str]]
    strained: bool

    @staticmethod
    def parts(every: list[Pulled]) -> list[Parts]:
        """Return the parts of derivatives of several sums, by as few sums as there can be."""
        parts: list[Parts] = [{name: [] for name in one.names} for one in every]
        groups = [[n] for n, one in enumerate(every) if one.strained]
        groups.append([n for n, one in enumerate(every) if not one.strained])
        for group in groups:
            steps = [(n, step) for n in group for step in every[n].steps]
            strains = next((parts[n]["strain"] for n in group if every[n].strained), None)
            every_rows = all_rows(*(step for _, step in steps), strains=strains)
            for (n, _), rows in zip(steps, every_rows, strict=True):
                for name, of_name in rows.items():
                    parts[n][name] += of_name
        return parts


class OneSum(NamedTuple):
    """A sum whose arguments were checked: points, and normals (3, N) or marks (Nt,) and (Ns,)."""

    kind: Interaction
    options: EwaldOptions
    trg: AnyArray
    src: AnyArray
    norms: AnyArray
    labels: Labels | None = None
    systems: Systems | None = None
    ranks: Ranks = SERIAL  # what all ranks share
    motion: NDArray[np.float64] | None = None  # along which sums of charges change, for sums

    def by_system(self) -> Iterator[tuple[OneSum, slice, slice]]:
        """Yield each system of a box of its own as a sum, and its columns of targets and sources.

        The sum itself, if it has no systems.
        """
        systems, labels = self.systems, self.labels
        if systems is None:
            yield self, slice(None), slice(None)
            return
        ends = zip(pairwise(systems.targets), pairwise(systems.sources), strict=True)
        for n, ((first_target, last_target), (first_source, last_source)) in enumerate(ends):
            t, s = slice(first_target, last_target), slice(first_source, last_source)
            options, trg, norms = self.options, self.trg[:, t], self.norms
            if systems.boxes is not None:
                options = options.within(tuple(map(tuple, systems.boxes[n].tolist())))
            if isinstance(norms, tuple):  # marks
                norms = norms[0][t], norms[1][s]
            elif norms is not None:
                norms = norms[:, s]
            alone = self._replace(
                options=options,
                trg=trg,
                src=trg if self.trg is self.src else self.src[:, s],
                norms=norms,
                labels=labels and Labels(labels.targets[t], labels.sources[s], None, labels.side),
                systems=None,
            )
            yield alone, t, s

    def of_all_sources(self) -> OneSum:
        """Return the sum of the sources of all ranks."""
        src, norms = self.ranks.all_columns(self.src), self.norms
        if isinstance(norms, tuple):  # marks
            norms = norms[0], self.ranks.all_columns(norms[1])
        elif norms is not None:
            norms = self.ranks.all_columns(norms)
        return self._replace(src=src, norms=norms)

    def pulled(
        self,
        values: Arrays,
        dens: AnyArray | None,
        *,
        wrt: Iterable[str],
        more: tuple[Addend, ...] = (),
    ) -> Pulled:
        """Return derivatives for values (k, rows, Nt) of results, by steps that sum their parts.

        These are (k, rows, N), and k is 1 unless ``wrt`` is ("dens",). ``more`` is part of the
        derivative by the targets. "strain", along with "trg" and "src", is the derivative
        (9, systems) by strains, if the same sum has it. "trg_radii" and "src_radii" are squares of
        widths.
        """
        wrt = (*wrt,)
        values = {n: v for n, v in values.items() if self.kind.terms[n]}  # others are zero
        names = [name for name in wrt if name not in ("trg", "trg_radii", "strain")]
        at_targets = dict[str, tuple[Addend, ...]]()
        strained = "strain" in wrt and self._strains(values)
        steps = list[Steps[str]]()
        if "trg" in wrt:
            at_targets["trg"] = (*more, *by_targets(self.kind, values))
        if "trg_radii" in wrt:
            pairs = ((name, one) for name in values for one in by_widths(self.kind, name))
            at_targets["trg_radii"] = tuple(weighted(name, one) for name, one in pairs)
        for result, v in values.items() if names else ():
            if (record := self.kind.adjoints.get(result)) is None:
                raise lacking(self.kind.name, result, names[0])
            other_kind = SUMS[record.kernel]
            cloud: Arrays = {
                "dens": dens,
                "norms": self.norms,
                "trg": self.trg,
                "src": self.src,
            }
            back: dict[str, tuple[Addend, ...]] = {
                "dens": record.all,
                "norms": tuple(map(by_normals, record.all)),
            }
            if "src" in wrt:  # which are the targets of the transposed sum
                sizes = tuple((name, result_rows(record.kernel, name)) for name in record.want)
                matrices = bilinear(record.results, sizes, self.kind.normals)
                cloud |= by_sources(matrices, dens, self.norms)
                error = lacking(self.kind.name, result, "src")
                back["src"] = record.each(by_targets(other_kind, record.want, error))
            if "src_radii" in wrt:
                pairs = ((n, one) for n in record.want for one in by_widths(other_kind, n))
                products = tuple(weighted("dens", one, (record.results, n)) for n, one in pairs)
                back["src_radii"] = record.each(products)
            back = {name: back[name] for name in names}
            other = self._replace(options=options_of(record, self.options))
            steps.append(other.steps(back, v, cloud, record))
        if at_targets:
            cloud = {result: v[0] for result, v in values.items()}
            densities = cast(AnyArray, dens)[None]
            steps.append(self.steps(at_targets, densities, cloud))
        return Pulled(wrt, steps, strained)

    def _strains(self, values: Arrays) -> bool:
        """Return whether the sum of values and density at once has the derivative by strains."""
        same = self.trg is self.src and self.trg.size and self.ranks.serial
        if not same or values.keys() != {"u"} or not any(self.options.periodic):
            return False
        return of_modes_alone(self.kind) and self.kind.adjoints["u"].symmetric

    def pushed(
        self,
        want: tuple[str, ...],
        dens: AnyArray,
        *,
        moves: Mapping[str, AnyArray],
        with_results: bool,
    ) -> tuple[Arrays, Arrays]:
        """Return the changes (k, rows, Nt) of results; and results themselves, if wanted.

        ``dens`` are (k, rows, Ns), and so is their change ``moves["dens"]``.
        """
        kind, many, count = self.kind, len(dens), self.trg.shape[1]
        shapes = {name: (many, result_rows(kind.name, name), count) for name in want}
        changed = {name: np.zeros_like(self.trg, shape=shape) for name, shape in shapes.items()}
        moving = tuple(name for name in want if kind.terms[name])  # others are zero
        cloud = {name: move for name, move in moves.items() if name != "dens"}
        cloud["points"] = self.trg
        for name in ("dens", "norms", "trg_radii", "src_radii"):
            if name in moves:
                change = by_widths if name.endswith("radii") else partial(changes, name=name)
                of_sources = moves["dens"] if name == "dens" else dens
                if name == "src_radii":
                    of_sources = dens * moves[name]
                factor = moves[name] if name == "trg_radii" else 1
                linear = {result: change(kind, result) for result in moving}
                for result, parts in self.rows(linear, of_sources, cloud).items():
                    changed[result] += factor * reduce(add, parts)
        addends: dict[Key, tuple[Addend, ...]] = {}
        for result in want:
            by = [name for name in ("trg", "src") if name in moves and result in moving]
            if by:
                parts = [changes(kind, result, name) for name in by]
                addends[result] = tuple(chain.from_iterable(parts))
            if with_results:
                addends["itself", result] = changes(kind, result, "dens")
        by_density = [self.rows(addends, one[None], cloud) for one in dens] if addends else []
        values: Arrays = {}
        for n, sums in enumerate(by_density):
            for result in changed.keys() & sums.keys():
                for row in sums[result]:
                    changed[result][n] += row[0]
        if with_results:
            for name in want:
                values[name] = np.stack([sums["itself", name][0][0] for sums in by_density])
        return changed, values

    def rows(
        self, addends: Mapping[KeyT, tuple[Addend, ...]], dens: AnyArray, cloud: Arrays
    ) -> dict[KeyT, list[AnyArray]]:
        """Return the rows (k, rows, N) of composites' addends, for densities (k, rows, N)."""
        return all_rows(self.steps(addends, dens, cloud))[0]

    def steps(
        self,
        addends: Mapping[KeyT, tuple[Addend, ...]],
        dens: AnyArray,
        cloud: Arrays,
        back: Adjoint | None = None,
    ) -> Steps[KeyT]:
        """Yield the sums that make the rows of composites' addends, for densities (k, rows, N).

        ``back`` is the transposed result, from the targets to the sources.
        """
        rows: dict[Addend, AnyArray] = {}
        trg, src = (self.src, self.trg) if back else (self.trg, self.src)
        kernel = back.kernel if back else self.kind.name
        systems = self.systems and self.systems.swapped() if back else self.systems
        labels = self.labels.swapped(systems) if back and self.labels else self.labels

        def total(parts: AnyArray) -> AnyArray:
            if systems is not None:
                return systems.of_targets(systems.sums(parts))
            return self.ranks.sum(parts.sum(axis=1, keepdims=True))

        for shared in together(chain.from_iterable(addends.values()), kernel):
            kind, first, want = SUMS[shared.kernel], shared.addends[0], shared.want
            vectors = self.trg if self.norms is None else self.norms
            norms = mapped(first.normals, vectors, cloud) if kind.normals else None
            if kind.pair.point_radii is not None:
                norms = self.norms[:: -1 if back else 1]
            tensors = next((one.tensors(cloud) for one in shared.addends if one.tensors), None)
            v = of_last_rows(shared.densities(dens, cloud), kind)
            shaped = v.reshape((len(v), *kind.density_shape(v.shape[-1])))
            by_dens = yield SumOfPoints(
                kernel=kind.name,
                trg=trg,
                src=src,
                dens=shaped,
                norms=norms,
                options=self.options,
                want=want,
                systems=systems,
                labels=labels,
                tensors=tensors,
                ranks=self.ranks,
                motion=self.motion,
            )
            if back and self.options.dl_mean == "flux":
                volume = resolve(self.options, np.empty((0, 3))).volume
                for values, by_name in zip(v, by_dens, strict=True):
                    back.add_mean(by_name, values, cloud, volume, total, tensors)
            rows |= shared.rows(by_dens, cloud)
        return {name: [rows[one] for one in group] for name, group in addends.items()}


def of_last_rows(dens: AnyArray, kind: Interaction) -> AnyArray:
    """Return densities (k, rows, N) with zeros before them, if they are the last parts alone."""
    if dens.shape[1] >= kind.rows:
        return dens
    whole = np.zeros_like(dens, shape=(len(dens), kind.rows, dens.shape[2]))
    whole[:, -dens.shape[1] :] = dens
    return whole
