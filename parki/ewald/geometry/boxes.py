"""Which systems in boxes of their own one sum can take, and the columns of their points.

Systems with the same periodic axes are taken together. A sum takes systems of like size at once:
they share a cut-off, and grids of one shape, as `Enclosed` says. Vectors are rotated, so that boxes
begin along the first axis. Some sums need equal periods. Along free axes boxes have the longest
length; without lengths, systems are moved to one place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.ewald.geometry.columns import Columns
from parki.ewald.geometry.own_boxes import OwnBox
from parki.ewald.geometry.systems import Labels, Systems
from parki.ewald.geometry.upright import Upright
from parki.ewald.lattice import ENCLOSING, NONE, Cell, Lattice
from parki.ewald.options import EwaldOptions
from parki.interchange import to_host
from parki.typing import AnyArray, ArrayModule

Array = NDArray[np.float64]

# Systems are summed at once while what encloses their boxes has at most this many times the volume
# of the smallest one: grids are as much larger than they need be.
LARGER = 8.0
LONGER = 2.0  # the same of the longest extents along free axes


class Group(NamedTuple):
    """Systems that are summed at once, by their numbers.

    Attributes
    ----------
    options : EwaldOptions
        With their box, or the one that stands for boxes of their own.
    numbers : list of int
    boxes : Upright or None
        Their boxes, if they have boxes of their own.
    centred : bool
        Whether they are moved, so that all have their middle at one place along the free axes
        without lengths.
    """

    options: EwaldOptions
    numbers: list[int]
    boxes: Upright | None = None
    centred: bool = False

    @property
    def open(self) -> NDArray[np.bool_]:
        """For each axis whether its length follows from the points."""
        return np.array([length is None for length in self.options.box])

    def widths(self, extents: Array) -> Array:
        """Return the largest extent of a system along each axis, of all `extents_of`."""
        low, high = extents[self.numbers].swapaxes(0, 1)
        return np.asarray((high - low).max(axis=0, initial=0.0))

    def columns(
        self, systems: Systems, xp: ArrayModule, extents: Callable[[], Array], middle: Any = 0.0
    ) -> Columns:
        """Return the columns of the systems, of points that are moved to a ``middle``, or stay.

        ``extents()`` are `extents_of` all systems.
        """
        offsets = [systems.targets, systems.sources]
        if np.array_equal(offsets[0], offsets[1]):
            del offsets[1]  # arrays of both are the same
        counts = [np.diff(ends)[self.numbers] for ends in offsets]
        among = np.isin(np.arange(systems.count), self.numbers)
        places = [xp.asarray(np.flatnonzero(np.repeat(among, np.diff(ends)))) for ends in offsets]
        columns = Columns(places[0], places[-1])
        if self.boxes is not None and self.boxes.rotated.any():
            repeated = [np.repeat(self.boxes.rotations, count, axis=0) for count in counts]
            rotations = [xp.asarray(array.transpose(1, 2, 0)) for array in repeated]
            columns = replace(columns, rotations=(rotations[0], rotations[-1]))
        if not self.centred:
            return columns
        low, high = extents()[self.numbers].swapaxes(0, 1)
        # Few digits, so that subtracting them is exact where possible.
        digit = 2.0 ** (np.frexp(self.widths(extents()))[1] - 5)
        with np.errstate(invalid="ignore"):  # without points
            shifts = np.rint((0.5 * (low + high) - middle) / digit) * digit
        shifts[~(np.isfinite(shifts) & self.open)] = 0.0
        moved = [xp.asarray(np.repeat(shifts, count, axis=0).T) for count in counts]
        return replace(columns, shifts=(moved[0], moved[-1]))

    def marked(
        self,
        columns: Columns,
        systems: Systems,
        labels: Labels | None,
        options: EwaldOptions | None = None,
    ) -> tuple[Systems, Labels | None]:
        """Return the systems and labels of these columns; ``options`` may have more lengths."""
        targets, sources = (
            np.concatenate([[0], np.cumsum(np.diff(offsets)[self.numbers])]).astype(np.int32)
            for offsets in (systems.targets, systems.sources)
        )
        boxes: Any = None
        if self.boxes is not None:
            boxes = self.boxes.within(lengths_along_free(options or self.options)).matrices
        first = self.numbers[0]
        chosen = Systems(targets, sources, systems.space, systems.executor, boxes, first)
        return chosen, labels and labels.of_columns(columns, chosen)


def extents_of(systems: Systems, trg: AnyArray, src: AnyArray) -> Array:
    """Return the smallest and the largest coordinates of each system, shape (S, 2, 3).

    They are infinite, the largest below the smallest, where there are no points.
    """
    extents: Array = np.full((systems.count, 2, 3), np.inf)
    extents[:, 1] = -np.inf
    for points, ends in ((trg, systems.targets), (src, systems.sources)):
        there = np.flatnonzero(np.diff(ends))
        if there.size:
            host, starts = to_host(points), ends[there]
            low, high = (end.reduceat(host, starts, axis=1).T for end in (np.minimum, np.maximum))
            extents[there, 0] = np.minimum(extents[there, 0], low)
            extents[there, 1] = np.maximum(extents[there, 1], high)
        if trg is src:
            break
    return extents


def grouped(
    options: EwaldOptions,
    boxes: tuple[OwnBox, ...],
    *,
    several: Callable[[EwaldOptions], bool],
    exact: bool,
    apart: bool = False,
    extents: Callable[[], Array] | None = None,
) -> list[Group]:
    """Return the groups of systems that are summed at once.

    Parameters
    ----------
    options : EwaldOptions
        Of all systems, up to periodic axes and the box.
    boxes : tuple of OwnBox
        Of each system.
    several : callable
        Whether a sum of options may take several boxes.
    exact : bool
        Whether it may take rotated ones, of points that rounding then moves.
    apart : bool
        Whether each system needs a box of its own, if others have the same one.
    extents : callable, optional
        Returns `extents_of` all systems, if a sum may move them.
    """
    by_axes: dict[Any, dict[int, Any]] = {}
    for number, system in enumerate(boxes):
        box = tuple(options.box) if system.box is None else system.box
        by_axes.setdefault(system.periodicity, {})[number] = box
    groups = list[Group]()
    for members in by_axes.values():
        first, *_ = members
        of_axes = boxes[first].of(options)
        repeats = any(of_axes.periodic)
        groups += _of_axes(of_axes, members, several(of_axes), exact, apart and repeats, extents)
    return sorted(groups, key=lambda group: group.numbers)


def _of_axes(
    options: EwaldOptions,
    boxes: dict[int, Any],
    several: bool,
    exact: bool,
    apart: bool,
    extents: Callable[[], Array] | None,
) -> list[Group]:
    """Return the groups of systems, by number, with the same periodic axes: see `grouped`."""
    by_unknown: dict[tuple[bool, ...], dict[Any, list[int]]] = {}
    for number, box in boxes.items():
        unknown = tuple(
            [
                not repeats and length in (None, 0, (0, 0, 0))
                for length, repeats in zip(box, options.periodic, strict=True)
            ]
        )
        by_unknown.setdefault(unknown, {}).setdefault(box, []).append(number)
    alone, groups = apart and not (several and exact), list[Group]()
    for unknown, by_box in by_unknown.items():
        many = len(by_box) > 1 or (apart and sum(map(len, by_box.values())) > 1)
        if several and many and not alone and not (any(unknown) and extents is None):
            groups += _enclosed(options, by_box, unknown, exact, apart, extents)
            continue
        equal: dict[Any, tuple[EwaldOptions, list[int]]] = {}
        for box, numbers in by_box.items():
            of_box = options.within(box)
            for number in numbers:
                equal.setdefault(number if alone else of_box.box, (of_box, []))[1].append(number)
        for of_box, numbers in equal.values():
            if extents is None or not any(unknown):
                groups.append(Group(of_box, sorted(numbers)))
                continue
            known = [length for length in of_box.edges if length is not None]
            sizes = _sizes(extents, numbers, unknown, max(known, default=0.0))
            groups += [Group(of_box, part, centred=True) for part in _of_like_size(sizes, numbers)]
    return groups


def _sizes(
    extents: Callable[[], Array], numbers: list[int], unknown: tuple[bool, ...], longest: Any
) -> Array:
    """Return the longest extents of systems along ``unknown`` axes, or a longer length."""
    ends = extents()[numbers]
    widths = (ends[:, 1] - ends[:, 0])[:, unknown]
    return np.asarray(np.maximum(widths.max(axis=1), longest))


def _of_like_size(sizes: Array, numbers: list[int]) -> list[list[int]]:
    """Return the numbers of systems in parts of like sizes."""
    if len(numbers) == 1:
        return [numbers]
    parts, least = list[list[int]](), 0.0
    for n in np.argsort(-sizes, kind="stable").tolist():
        if not parts or 0 < sizes[n] < least:
            parts.append([])
            least = float(sizes[n]) / LONGER
        parts[-1].append(numbers[n])
    return [sorted(part) for part in parts]


def lengths_along_free(options: EwaldOptions) -> list[float | None]:
    """Return the lengths of a box along free axes; None along periodic ones, and if unknown."""
    pairs = zip(options.edges, options.periodic, strict=True)
    return [None if repeats else length for length, repeats in pairs]


def _enclosed(
    options: EwaldOptions,
    by_box: dict[Any, list[int]],
    unknown: tuple[bool, ...],
    exact: bool,
    apart: bool,
    extents: Callable[[], Array] | None,
) -> list[Group]:
    """Return groups of systems in boxes of like size, which have no length along ``unknown`` axes.

    There systems have a size of their own.
    """
    if (box := next(iter(by_box))) != options.box:  # which was looked at, and others need not be
        options.within(box)
    distinct, periodic = [*by_box], np.array(options.periodic)
    upright = _upright(tuple(distinct), options, unknown)
    alone = upright.rotated & (not exact)
    all_sides = upright.matrices.diagonal(axis1=1, axis2=2)
    parts, bins = [*enumerate(by_box.values())], list[_Bin]()  # boxes, with systems in them
    if extents is not None and any(unknown):
        all_numbers = [number for numbers in by_box.values() for number in numbers]
        owners = np.repeat(np.arange(len(parts)), [len(numbers) for _, numbers in parts])
        periods = all_sides[:, periodic].max(axis=1)
        sizes = _sizes(extents, all_numbers, unknown, periods[owners])
        size_of = dict(zip(all_numbers, sizes.tolist(), strict=True))
        parts = [
            (n, part)
            for n, numbers in parts
            for part in _of_like_size(np.array([size_of[k] for k in numbers]), numbers)
        ]
        largest = np.array([max(size_of[k] for k in numbers) for _, numbers in parts])
        all_sides = np.where(unknown, largest[:, None], all_sides[[n for n, _ in parts]])
    for place in np.argsort(all_sides.prod(axis=1), kind="stable").tolist():
        apart_from_all, sides = alone[parts[place][0]], all_sides[place]
        fitting = (one for one in bins if not apart_from_all and one.takes(sides))
        if (first := next(fitting, None)) is None:
            least = -1.0 if apart_from_all else float(sides.prod())
            bins.append(_Bin([place], sides, least))
        else:
            first.members.append(place)
            first.sides = np.maximum(first.sides, sides)
    groups = list[Group]()
    for one in bins:
        members = sorted((k, parts[place][0]) for place in one.members for k in parts[place][1])
        numbers, boxes = (list(column) for column in zip(*members, strict=True))
        if len({*boxes}) == 1 and not (apart and len(numbers) > 1):
            of_box = options.within(distinct[boxes[0]])
            groups.append(Group(of_box, numbers, centred=any(unknown)))
            continue
        length = float(np.cbrt(all_sides[one.members].prod(axis=1)).mean())
        if not periodic.all():  # by which heights are bounded from below
            length = float(one.sides[periodic].max())
        longest = ENCLOSING ** np.ceil(np.log2(one.sides) / np.log2(ENCLOSING) - 1e-9)
        along_free = [
            None if is_unknown else size
            for size, is_unknown in zip(longest.tolist(), unknown, strict=True)
        ]
        standing = options.standing(length, along_free)
        groups.append(Group(standing, numbers, upright.chosen(boxes), centred=any(unknown)))
    return groups


@lru_cache(maxsize=64)
def _upright(boxes: tuple[Any, ...], options: EwaldOptions, unknown: tuple[bool, ...]) -> Upright:
    """Return boxes that begin along the first axis; the boxes of the last batches are kept."""
    upright, right = Upright.quickly(boxes, options, unknown)
    for n in np.flatnonzero(~right).tolist():
        of_box = options.within(boxes[n])
        edges = [of_box.edges[axis] or 1.0 for axis in of_box.axes]
        upright.take(n, of_box.cell or Cell(Lattice(np.array(edges), 3, NONE), None))
    return upright


@dataclass
class _Bin:
    """Boxes of like size, by their numbers, the smallest first; and their longest sides."""

    members: list[int]
    sides: NDArray[np.float64]
    least: float  # volume; less where no other box fits

    def takes(self, sides: NDArray[np.float64]) -> bool:
        """Return whether another box is of like size."""
        return bool(np.maximum(self.sides, sides).prod() <= LARGER * self.least)
