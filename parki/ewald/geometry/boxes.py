"""Columns of points that a sum takes, and which systems in boxes of their own one sum can take.

A sum without a length of its own is the same in a box of twice the size, up to a power of two. So
with three periodic axes systems are summed at once if their boxes have one shape, and their points
are scaled to the box of the first of them. Other sums, and other periodicities, need equal boxes.
So do points in single precision, where scaled positions would be rounded too much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.options import EwaldOptions
from parki.typing import AnyArray, ArrayModule

DIGITS = 14  # to which the shapes of boxes agree
OF_TARGETS = (
    "trg",
    "u",
    "p",
    "grad_u",
    "stress",
)  # inputs and results that have a column for each target


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of targets and of sources, and the sizes over which their lengths are taken.

    Attributes
    ----------
    targets, sources : array of int, or None
        Which columns; None for all of them.
    scales : tuple of 2 arrays or None
        The size of each of these targets and sources; None where lengths stay.
    """

    targets: Any = None
    sources: Any = None
    scales: tuple[Any, Any] = (None, None)

    @property
    def alike(self) -> bool:
        """Whether sources have the columns and sizes of targets."""
        return self.targets is self.sources and self.scales[0] is self.scales[1]

    def place(self, name: str) -> Any:
        """Return the columns of an input or a result, as an index."""
        columns = self.targets if name in OF_TARGETS else self.sources
        return slice(None) if columns is None else columns

    def take(self, name: str, values: AnyArray) -> Any:
        """Return the columns of an input or a result; itself, if these are all."""
        whole = (self.targets if name in OF_TARGETS else self.sources) is None
        return values if whole else values[..., self.place(name)]

    def scaled(self, name: str, values: AnyArray) -> Any:
        """Return lengths of points or normals, or derivatives by them, over their sizes."""
        scale = self.scales[name not in OF_TARGETS]
        return values if scale is None or name == "dens" else values / scale

    def results(self, values: AnyArray, power: int) -> Any:
        """Return results, or values for the adjoint, over a power of the targets' sizes."""
        return values if self.scales[0] is None else values / self.scales[0] ** power

    def among(self, chosen: AnyArray, targets: AnyArray) -> Columns:
        """Return the ``chosen`` ones of these targets, which are columns ``targets`` elsewhere."""
        scale = self.scales[0]
        scale = None if scale is None else scale[chosen]
        return Columns(targets, self.sources, (scale, self.scales[1]))

    def points(self, trg: AnyArray, src: AnyArray, norms: AnyArray) -> tuple[Any, Any, Any]:
        """Return targets, sources and normals of these columns."""
        of_trg = self.scaled("trg", self.take("trg", trg))
        same = trg is src and self.alike
        of_src = of_trg if same else self.scaled("src", self.take("src", src))
        if norms is not None:
            norms = self.scaled("norms", self.take("norms", norms))
        return of_trg, of_src, norms


WHOLE = Columns()


class Group(NamedTuple):
    """Systems that are summed at once, by their numbers; sizes of their boxes over that box."""

    options: EwaldOptions
    numbers: list[int]
    sizes: list[float]

    def columns(self, systems: Systems, xp: ArrayModule) -> Columns:
        """Return the columns of the systems."""
        offsets = systems.targets, systems.sources
        counts = [np.diff(ends)[self.numbers] for ends in offsets]
        columns = [
            xp.asarray(np.concatenate([np.arange(a[n], a[n + 1]) for n in self.numbers]))
            for a in offsets
        ]
        if np.array_equal(offsets[0], offsets[1]):
            columns[1] = columns[0]
        if all(size == 1 for size in self.sizes):
            return Columns(columns[0], columns[1])
        scales = [xp.asarray(np.repeat(self.sizes, count)) for count in counts]
        return Columns(columns[0], columns[1], (scales[0], scales[columns[0] is not columns[1]]))

    def marked(
        self, columns: Columns, systems: Systems, labels: Labels | None
    ) -> tuple[Systems, Labels | None]:
        """Return the systems and labels of these columns."""
        targets, sources = (
            np.concatenate([[0], np.cumsum(np.diff(offsets)[self.numbers])]).astype(np.int32)
            for offsets in (systems.targets, systems.sources)
        )
        chosen = Systems(targets, sources, systems.space, systems.executor)
        return chosen, labels and labels.of_columns(columns, chosen)


def grouped(options: EwaldOptions, boxes: tuple[Any, ...], similar: bool) -> list[Group]:
    """Return the groups of systems that are summed at once.

    Parameters
    ----------
    options : EwaldOptions
        Of all systems, up to the box.
    boxes : tuple
        The box of each system.
    similar : bool
        Whether boxes of one shape will do.
    """
    groups: dict[Any, Group] = {}
    for number, box in enumerate(boxes):
        of_system = replace(options, box=box)
        key: Any = of_system.box
        edge: Any = of_system.edges[0]
        if similar:
            key = tuple(round(length / edge, DIGITS) for length in np.ravel(key).tolist())
        group = groups.setdefault(key, Group(of_system, [], []))
        first: Any = group.options.edges[0]
        group.numbers.append(number)
        group.sizes.append(edge / first if similar else 1.0)
    return list(groups.values())
