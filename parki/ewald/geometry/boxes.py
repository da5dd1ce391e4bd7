"""Columns of points that a sum takes, and which systems in boxes of their own one sum can take.

With three periodic axes a sum takes systems of like size at once: they share a cut-off, and grids
of one shape, as `Enclosed` says. Vectors are rotated, so that boxes begin along the first axis.
Other sums, and other periodicities, need equal boxes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.ewald.geometry.rotation import rotated
from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.geometry.upright import Upright
from parki.ewald.lattice import NONE, Cell, Lattice
from parki.ewald.options import EwaldOptions
from parki.typing import AnyArray, ArrayModule

# Systems are summed at once while what encloses their boxes has at most this many times the volume
# of the smallest one: grids are as much larger than they need be.
LARGER = 8.0
OF_TARGETS = (
    "trg",
    "u",
    "p",
    "grad_u",
    "stress",
)  # inputs and results that have a column for each target


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of targets and of sources, and how their vectors are rotated.

    Attributes
    ----------
    targets, sources : array of int, or None
        Which columns; None for all of them.
    rotations : tuple of 2 arrays, shape (3, 3, N), or None
        Of each of these targets and sources; None where vectors stay.
    """

    targets: Any = None
    sources: Any = None
    rotations: tuple[Any, Any] = (None, None)

    @property
    def alike(self) -> bool:
        """Whether sources have the columns and rotations of targets."""
        return self.targets is self.sources and self.rotations[0] is self.rotations[1]

    def place(self, name: str) -> Any:
        """Return the columns of an input or a result, as an index."""
        columns = self.targets if name in OF_TARGETS else self.sources
        return slice(None) if columns is None else columns

    def take(self, name: str, values: AnyArray, axes: int = 1) -> Any:
        """Return the columns of an input or a result, rotated; itself, if these are all.

        A value has the last ``axes`` before the columns.
        """
        whole = (self.targets if name in OF_TARGETS else self.sources) is None
        return values if whole else self._rotated(name, values[..., self.place(name)], axes, 1)

    def back(self, name: str, values: AnyArray, axes: int = 1) -> Any:
        """Return values of these columns, of which `take` would make the values."""
        return self._rotated(name, values, axes, -1)

    def _rotated(self, name: str, values: AnyArray, axes: int, way: int) -> Any:
        rotation = self.rotations[name not in OF_TARGETS]
        if rotation is None or not axes:
            return values
        *many, count = values.shape
        flat = values.reshape((*many[: len(many) - axes], -1, count))
        if flat.shape[-2] == 1:
            return values
        rotation = rotation if way > 0 else rotation.swapaxes(0, 1)
        return rotated(flat, rotation).reshape(values.shape)

    def among(self, chosen: AnyArray, targets: AnyArray) -> Columns:
        """Return the ``chosen`` ones of these targets, which are columns ``targets`` elsewhere."""
        rotation = self.rotations[0]
        rotation = None if rotation is None else rotation[..., chosen]
        return Columns(targets, self.sources, (rotation, self.rotations[1]))

    def points(self, trg: AnyArray, src: AnyArray, norms: AnyArray) -> tuple[Any, Any, Any]:
        """Return targets, sources and normals of these columns."""
        of_trg = self.take("trg", trg)
        of_src = of_trg if trg is src and self.alike else self.take("src", src)
        return of_trg, of_src, None if norms is None else self.take("norms", norms)


WHOLE = Columns()


class Group(NamedTuple):
    """Systems that are summed at once, by their numbers.

    Attributes
    ----------
    options : EwaldOptions
        With their box, or the one that stands for boxes of their own.
    numbers : list of int
    boxes : Upright or None
        Their boxes, if they have boxes of their own.
    """

    options: EwaldOptions
    numbers: list[int]
    boxes: Upright | None = None

    def columns(self, systems: Systems, xp: ArrayModule) -> Columns:
        """Return the columns of the systems."""
        offsets = systems.targets, systems.sources
        columns = [
            xp.asarray(np.concatenate([np.arange(a[n], a[n + 1]) for n in self.numbers]))
            for a in offsets
        ]
        same = np.array_equal(offsets[0], offsets[1])
        if same:
            columns[1] = columns[0]
        if self.boxes is None or not self.boxes.rotated.any():
            return Columns(columns[0], columns[1])
        counts = [np.diff(ends)[self.numbers] for ends in offsets[: 2 - same]]
        repeated = [np.repeat(self.boxes.rotations, count, axis=0) for count in counts]
        rotations = [xp.asarray(array.transpose(1, 2, 0)) for array in repeated]
        return Columns(columns[0], columns[1], (rotations[0], rotations[-1]))

    def marked(
        self, columns: Columns, systems: Systems, labels: Labels | None
    ) -> tuple[Systems, Labels | None]:
        """Return the systems and labels of these columns."""
        targets, sources = (
            np.concatenate([[0], np.cumsum(np.diff(offsets)[self.numbers])]).astype(np.int32)
            for offsets in (systems.targets, systems.sources)
        )
        boxes = None if self.boxes is None else self.boxes.matrices
        chosen = Systems(targets, sources, systems.space, systems.executor, boxes)
        return chosen, labels and labels.of_columns(columns, chosen)


def grouped(
    options: EwaldOptions,
    boxes: tuple[Any, ...],
    *,
    several: bool,
    exact: bool,
    apart: bool = False,
) -> list[Group]:
    """Return the groups of systems that are summed at once.

    Parameters
    ----------
    options : EwaldOptions
        Of all systems, up to the box.
    boxes : tuple
        The box of each system.
    several : bool
        Whether a sum may take several boxes.
    exact : bool
        Whether it may take rotated ones, of points that rounding then moves.
    apart : bool
        Whether each system needs a box of its own, if others have the same one.
    """
    by_box: dict[Any, list[int]] = {}
    for number, box in enumerate(boxes):
        by_box.setdefault(box, []).append(number)
    if apart and not (several and exact):
        return [Group(options.within(box), [number]) for number, box in enumerate(boxes)]
    if not several or (len(by_box) == 1 and not (apart and len(boxes) > 1)):
        return [Group(options.within(box), numbers) for box, numbers in by_box.items()]
    options.within(boxes[0])  # of the others, what is right is not looked at one by one
    distinct = [*by_box]
    upright, right = Upright.quickly(distinct)
    for n in np.flatnonzero(~right).tolist():
        own = options.within(distinct[n])
        cell = own.cell or Cell(Lattice(np.array(own.edges, dtype=float), 3, NONE), None)
        upright.take(n, cell)
    sides = upright.matrices.diagonal(axis1=1, axis2=2)
    alone = upright.rotated & (not exact)
    bins = list[_Bin]()
    for n in np.argsort(sides.prod(axis=1), kind="stable").tolist():
        fitting = (one for one in bins if not alone[n] and one.takes(sides[n]))
        if (first := next(fitting, None)) is None:
            least = -1.0 if alone[n] else float(sides[n].prod())
            bins.append(_Bin([n], sides[n], least))
        else:
            first.members.append(n)
            first.sides = np.maximum(first.sides, sides[n])
    groups = list[Group]()
    for one in bins:
        box = distinct[one.members[0]]
        if len(one.members) == 1 and not (apart and len(by_box[box]) > 1):
            groups.append(Group(options.within(box), by_box[box]))
            continue
        members = sorted((number, n) for n in one.members for number in by_box[distinct[n]])
        numbers, places = (list(column) for column in zip(*members, strict=True))
        length = float(np.cbrt(sides[one.members].prod(axis=1)).mean())
        own_boxes = Upright(upright.matrices[places], upright.rotations[places])
        groups.append(Group(options.standing(length), numbers, own_boxes))
    return sorted(groups, key=lambda group: group.numbers)


@dataclass
class _Bin:
    """Boxes of like size, by their numbers, the smallest first; and their longest sides."""

    members: list[int]
    sides: NDArray[np.float64]
    least: float  # volume; less where no other box fits

    def takes(self, sides: NDArray[np.float64]) -> bool:
        """Return whether another box is of like size."""
        return bool(np.maximum(self.sides, sides).prod() <= LARGER * self.least)
