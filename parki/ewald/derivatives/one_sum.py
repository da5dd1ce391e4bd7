"""`OneSum`: derivatives of the results of one sum by its densities, normals, targets and sources.

They are composites of sums again, from `parki.ewald.sums.slopes` and from the record of the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from parki.ewald.derivatives.transpose import options_of
from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.ewald_sum import sum_once
from parki.ewald.pipeline.one_device import SERIAL
from parki.ewald.points import result_rows
from parki.ewald.points.extent import resolve
from parki.ewald.ranks import Ranks
from parki.ewald.sums import SUMS
from parki.ewald.sums.adjoint import Adjoint
from parki.ewald.sums.composite import Addend, by_density, together
from parki.ewald.sums.maps import Arrays, mapped
from parki.ewald.sums.record import Sum
from parki.ewald.sums.slopes import (
    bilinear,
    by_normals,
    by_sources,
    by_targets,
    changes,
    lacking,
)
from parki.typing import AnyArray


class OneSum(NamedTuple):
    """A sum whose arguments were checked: points, and normals (3, N) or marks (Nt,) and (Ns,)."""

    kind: Sum
    options: EwaldOptions
    trg: AnyArray
    src: AnyArray
    norms: AnyArray
    labels: Labels | None = None
    systems: Systems | None = None
    ranks: Ranks = SERIAL  # what all ranks share

    def pulled(
        self, values: Arrays, dens: AnyArray, wrt: Iterable[str], more: tuple[Addend, ...] = ()
    ) -> dict[str, list[Any]]:
        """Return parts (k, rows, N) of the derivatives, for values (k, rows, Nt) of results.

        k is 1 unless ``wrt`` is ("dens",). ``more`` is part of the derivative by the targets.
        """
        parts: dict[str, list[Any]] = {name: [] for name in wrt}
        values = {n: v for n, v in values.items() if self.kind.terms[n]}  # others are zero
        names = [name for name in parts if name != "trg"]
        if "trg" in parts:
            more = (*more, *by_targets(self.kind, values))
        for result, v in values.items() if names else ():
            if (record := self.kind.adjoints.get(result)) is None:
                raise lacking(self.kind.name, result, names[0])
            cloud = {"dens": dens, "norms": self.norms, "trg": self.trg, "src": self.src}
            back: dict[str, tuple[Addend, ...]] = {
                "dens": record.all,
                "norms": tuple(map(by_normals, record.all)),
            }
            if "src" in parts:  # which are the targets of the transposed sum
                sizes = tuple((name, result_rows(record.kernel, name)) for name in record.want)
                matrices = bilinear(record.results, sizes, self.kind.normals)
                cloud |= by_sources(matrices, dens, self.norms)
                lacks = self.kind.name, result, "src"
                back["src"] = record.each(by_targets(SUMS[record.kernel], record.want, lacks))
            back = {name: back[name] for name in names}
            own = self._replace(options=options_of(record, self.options))
            for name, rows in own.rows(back, v, cloud, record).items():
                parts[name] += rows
        if "trg" in parts:
            cloud = {result: v[0] for result, v in values.items()}
            parts["trg"] += self.rows({"trg": more}, dens[None], cloud)["trg"]
        return parts

    def pushed(
        self, want: tuple[str, ...], dens: AnyArray, moves: Mapping[str, AnyArray], own: bool
    ) -> tuple[Arrays, Arrays]:
        """Return the changes (k, rows, Nt) of results; and with ``own`` results themselves.

        ``dens`` are (k, rows, Ns), and so is their change ``moves["dens"]``.
        """
        kind, many, count = self.kind, len(dens), self.trg.shape[1]
        shapes = {name: (many, result_rows(kind.name, name), count) for name in want}
        changed = {name: np.zeros_like(self.trg, shape=shape) for name, shape in shapes.items()}
        moving = tuple(name for name in want if kind.terms[name])  # others are zero
        cloud = {name: move for name, move in moves.items() if name != "dens"}
        cloud["points"] = self.trg
        for name in ("dens", "norms"):
            if name in moves:
                linear = {result: changes(kind, result, name) for result in moving}
                rows = self.rows(linear, moves["dens"] if name == "dens" else dens, cloud)
                for result, (row,) in rows.items():
                    changed[result] += row
        of: dict[Any, tuple[Addend, ...]] = {}
        for result in want:
            by = [name for name in ("trg", "src") if name in moves and result in moving]
            moved = [changes(kind, result, name) for name in by]
            of |= {result: tuple(chain(*moved))} if moved else {}
            of |= {("own", result): changes(kind, result, "dens")} if own else {}
        each = [self.rows(of, one[None], cloud) for one in dens] if of else []
        for n, rows in enumerate(each):
            for result in rows.keys() & changed.keys():
                for row in rows[result]:
                    changed[result][n] += row[0]
        values = {n: np.stack([rows["own", n][0][0] for rows in each]) for n in want if own}
        return changed, values

    def rows(
        self,
        of: Mapping[Any, tuple[Addend, ...]],
        dens: AnyArray,
        cloud: Arrays,
        back: Adjoint | None = None,
    ) -> dict[Any, list[Any]]:
        """Return the rows (k, rows, N) of composites' addends, for densities (k, rows, N).

        ``back`` is the transposed result, from the targets to the sources.
        """
        rows: dict[Addend, Any] = {}
        trg, src = (self.src, self.trg) if back else (self.trg, self.src)
        own = back.kernel if back else self.kind.name
        systems = self.systems and self.systems.swapped() if back else self.systems
        labels = self.labels.swapped(systems) if back and self.labels else self.labels

        def total(parts: AnyArray) -> Any:
            if systems is not None:
                return systems.of_targets(systems.sums(parts))
            return self.ranks.sum(parts.sum(axis=1, keepdims=True))

        for shared in together(chain(*of.values()), own):
            kind, first, want = SUMS[shared.kernel], shared.addends[0], shared.want
            given_norms = self.trg if self.norms is None else self.norms
            norms = mapped(first.normals, given_norms, cloud) if kind.normals else None
            if kind.pair.marks is not None:
                norms = self.norms[:: -1 if back else 1]
            tensors = next((each.tensors(cloud) for each in shared.addends if each.tensors), None)
            v = of_last_rows(shared.densities(dens, cloud), kind)
            shaped = v.reshape(len(v), *kind.density_shape(v.shape[-1]))
            results = sum_once(
                kind.name,
                trg,
                src,
                shaped,
                norms,
                self.options,
                want=want,
                systems=systems,
                exclude=labels,
                tensors=tensors,
                ranks=self.ranks,
            )
            by_dens = by_density(want, results)
            if back and self.options.dl_mean == "flux":
                volume = resolve(self.options, np.empty((0, 3))).volume
                for values, each in zip(v, by_dens, strict=True):
                    back.add_mean(each, values, cloud, volume, total, tensors)
            rows |= shared.rows(by_dens, cloud)
        return {name: [rows[each] for each in addends] for name, addends in of.items()}


def of_last_rows(dens: AnyArray, kind: Sum) -> Any:
    """Return densities (k, rows, N) with zeros before them, if they are the last parts alone."""
    if dens.shape[1] >= kind.rows:
        return dens
    whole = np.zeros_like(dens, shape=(len(dens), kind.rows, dens.shape[2]))
    whole[:, -dens.shape[1] :] = dens
    return whole
