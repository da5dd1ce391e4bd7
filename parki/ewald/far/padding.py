"""Lengths of the grid and of its padded transforms: "Modes that decay" of docs/theory.md.

Along a periodic axis the grid has exactly the box's points. Along a free axis it is longer by one
window, and transforms need zero padding on top. A mode's images decay with its wavenumber along the
periodic axes. So most modes need little padding for the plain multiplier, and modes of small
wavenumber need more. The few that need most take the multiplier of a truncated kernel.

Libraries are fast for lengths with small factors. On devices these lengths still differ by up to
2.5 times per value, so that a longer transform often takes less time. A typical cost is 1.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcinv

from parki.runtime.forks import cached_property

SMOOTH = sorted(
    2**a * 3**b * 5**c * 7**d
    for a in range(1, 14)
    for b in range(6)
    for c in range(4)
    for d in range(3)
    if 2**a * 3**b * 5**c * 7**d <= 20000
)
# Most values that a cheaper length may make of the next one's: memory grows with them.
MOST = 1.35
LAST = 8
# Cost per value of all transforms along the other axes, where lines are along one axis.
OTHER_AXES = 4.0


class Lengths:
    """Lengths to choose from: even numbers with factors 2, 3, 5, 7 only, or from a table.

    Parameters
    ----------
    costs : iterable of (int, float)
        Lengths and their costs per value, relative to a typical one. Without any, all smooth
        numbers cost the same. Lengths beyond a table cost as its longest on average.
    """

    def __init__(self, costs: Iterable[tuple[int, float]] = ()) -> None:
        self.costs = dict(costs)
        longest = [self.costs[n] for n in sorted(self.costs)[-LAST:]]
        self.beyond = sum(longest) / len(longest) if longest else 1.0
        first, self.last = min(self.costs, default=0), max(self.costs, default=0)
        lengths = sorted({n for n in SMOOTH if not first <= n <= self.last} | self.costs.keys())
        self.lengths = lengths
        self._best: dict[tuple[int, int], int] = {}  # by the place of the least one, and axes

    def at_least(self, length: float, axes: int) -> int:
        """Return the cheapest length of at least ``length``.

        Parameters
        ----------
        length : float
        axes : {1, 2, 3}
            Number of axes along which transforms grow with the length.
        """
        index = bisect_left(self.lengths, math.ceil(length - 1e-9))
        if index == len(self.lengths):
            return 2 * math.ceil(length / 2)
        if (index, axes) not in self._best:
            reach = bisect_left(self.lengths, self.lengths[index] * MOST ** (1 / axes) + 1e-9)
            choice = self.lengths[index : max(reach, index + 1)]
            beside = OTHER_AXES if axes == 1 else 0.0
            cheapest = min(choice, key=lambda n: n**axes * (self.cost(n) + beside))
            self._best[index, axes] = cheapest
        return self._best[index, axes]

    def cost(self, *lengths: int) -> float:
        """Return the cost per value of a transform along axes of these lengths."""
        costs = [self.costs.get(n, 1.0 if n < self.last else self.beyond) for n in lengths]
        return sum(costs) / len(costs)


# Equal costs, without a table.
EQUAL = Lengths()


class TransformLengths(NamedTuple):
    """Lengths for each way in which transforms run.

    Attributes
    ----------
    planes : Lengths
        Complex modes along both axes of planes.
    lines : Lengths
        Real values along the first axis.
    boxes : Lengths
        Real values along three axes.
    """

    planes: Lengths = EQUAL
    lines: Lengths = EQUAL
    boxes: Lengths = EQUAL


EQUAL_LENGTHS = TransformLengths()


# Change of the field by fading, over the tolerance: far below the other errors.
FADED = 0.01
# Exponent by which it has fallen further, at the ends of its integrals, than where fading begins.
FAINT = 12.0
EPSILON = float(np.finfo(np.float64).eps)
# A level has at most this part of the area of the one before, and saves this many modes.
SMALLER, SAVED = 0.75, 1 << 16


class Level(NamedTuple):
    """Modes of the first axis with the same padding, from ``first`` on.

    Attributes
    ----------
    first : int
    lengths : tuple of 3 ints
        Lengths of the transforms.
    ends : bool
        Whether the kernel ends beyond all pairs; otherwise the multiplier is the plain one.
    """

    first: int
    lengths: tuple[int, int, int]
    ends: bool


@dataclass(frozen=True)
class Padding:
    """Sizes of the far field's grid and transforms.

    Attributes
    ----------
    cells : tuple of 3 ints
        Grid cells in which a point's window can start, along each axis.
    grid : tuple of 3 ints
        Grid points along each axis: ``cells`` where periodic, plus a window where free.
    levels : tuple of Level
        Levels in the order of their first modes; the first level has mode 0.
    period : float
        Length along free axes at which kernels that end at the radius below may repeat.
    diameter : float
        The largest distance of two points along the free axes.
    kept, width : float
        Distance beyond the diameter up to which kernels are kept, and length of their fading.
    steepness : float
        Steepness s of the fading: ``erfc(s t) / 2`` for t from -1 to 1 over the width.
    """

    cells: tuple[int, int, int]
    grid: tuple[int, int, int]
    levels: tuple[Level, ...]
    period: float = 0.0
    diameter: float = 0.0
    kept: float = 0.0
    width: float = 0.0
    steepness: float = 0.0

    @property
    def local(self) -> tuple[int, int, int]:
        """Lengths of the longest transforms, of mode 0."""
        return self.levels[0].lengths

    @property
    def plain(self) -> tuple[int, int, int]:
        """Lengths of the shortest transforms, of most modes."""
        return self.levels[-1].lengths

    @property
    def onset(self) -> float:
        """Radius where the kernel of the local modes begins to fade."""
        return self.diameter + self.kept

    @property
    def radius(self) -> float:
        """Radius where it ends."""
        return self.onset + self.width

    @cached_property
    def wraps(self) -> tuple[bool, ...]:
        """Whether windows wrap at the end of each axis."""
        return tuple([n == m for n, m in zip(self.grid, self.cells, strict=True)])

    @cached_property
    def whole(self) -> bool:
        """Whether all axes are periodic and transformed together."""
        return self.grid == self.cells

    @cached_property
    def modes(self) -> tuple[int, int, int]:
        """Shape of a component's modes before planes are padded."""
        x, y, z = self.grid
        return (x, y, z // 2 + 1) if self.whole else (self.local[0] // 2 + 1, y, z)

    def spans(self) -> list[tuple[int, int, Level]]:
        """Return first mode and last + 1 of each level, where planes are padded."""
        firsts = [level.first for level in self.levels[1:]] + [self.local[0] // 2 + 1]
        return [(n.first, last, n) for n, last in zip(self.levels, firsts, strict=True)]

    def blocks(
        self, most: int, part: tuple[int, int] | None = None
    ) -> list[tuple[int, int, tuple[int, int, int], bool]]:
        """Return the blocks of planes that are padded at a time.

        A block has first mode along x, last + 1, transform lengths, and whether the kernel ends.
        It has at most ``most`` modes, or one plane. ``part`` is a range of modes along x, from the
        first to the last + 1; None takes all.
        """
        begin, end = part or (0, self.local[0] // 2 + 1)
        return [
            (first, min(first + size, stop, end), level.lengths, level.ends)
            for start, stop, level in self.spans()
            for size in [max(1, most // (level.lengths[1] * level.lengths[2]))]
            for first in range(max(start, begin), min(stop, end), size)
        ]

    def values(self, lengths: TransformLengths = EQUAL_LENGTHS) -> tuple[float, float, float]:
        """Return the real values of one component over all passes of its transforms.

        They are of boxes along all axes, of lines along x, and of padded planes, whose complex
        modes count as two reals each. A pass transforms along one axis. Values are weighted by the
        costs of their lengths.
        """
        if self.whole:
            boxes = 3.0 * math.prod(self.plain) * lengths.boxes.cost(*self.plain)
            return boxes, 0.0, 0.0
        # Complex modes take two passes; before them real values take one.
        x, (_, y, z) = self.local[0], self.grid
        return (
            0.0,
            x * y * z * lengths.lines.cost(x),
            sum(
                4.0 * (last - first) * y * z * lengths.planes.cost(y, z)
                for first, last, (_, (_, y, z), _) in self.spans()
            ),
        )


def pad(
    periodicity: int,
    box: NDArray[np.float64],
    steps: NDArray[np.float64],
    points: int,
    cutoff: float,
    band: float,
    tolerance: float,
    lengths: TransformLengths = EQUAL_LENGTHS,
) -> Padding:
    """Return the sizes for a box and grid.

    Parameters
    ----------
    periodicity : {0, 1, 2, 3}
    box, steps : ndarray, shape (3,)
        Edge lengths and grid spacings; a periodic edge is a whole number of steps.
    points : int
        Window points P.
    cutoff : float
        Cut-off of the near field, over which the mollifier decays to the tolerance.
    band : float
        Largest wavenumber of the split; it may be infinite.
    tolerance : float
        Allowed contribution of images, relative to the mode.
    lengths : TransformLengths
        Lengths to choose from.
    """
    edges, spacings = box.tolist(), steps.tolist()  # plain numbers: this is called many times
    exact = [b / h for b, h in zip(edges, spacings, strict=True)]
    cells = [
        round(n) if axis < periodicity else math.floor(n + 1e-9) + 1 for axis, n in enumerate(exact)
    ]
    grid = [n if axis < periodicity else n + points - 1 for axis, n in enumerate(cells)]
    if periodicity == 3:
        whole = (grid[0], grid[1], grid[2])
        return Padding(whole, whole, (Level(0, whole, False),))
    free = edges[periodicity:]
    diameter, largest = math.hypot(*free), min(band, math.pi / max(spacings[periodicity:]))
    onset = diameter + cutoff
    # Size of the biharmonic kernel where it fades: R/2, R^2 / (2 L), and zero for a plane.
    size = (onset / 2, onset**2 / (2 * edges[0]), 0.0)[periodicity]
    rounding = size * math.prod(edges) ** (2 / 3)
    width, steepness = fading(onset, min(free), largest, tolerance, rounding)
    # Grids may be so coarse, for screened charges or the largest tolerances, that what fading adds
    # would begin before r = 0, where kernels have no values: none of it is left at any pair.
    kept = max(cutoff, width / 2 * (math.sqrt(1 + FAINT / steepness**2) - 1))
    plain, local = list(grid), list(grid)
    # One period away, an image's kernel has ended before the kernel of the pairs begins to fade.
    period = max(free) + diameter + 2 * (kept + width)
    wall = math.inf
    for axis in range(periodicity, 3):
        # The cost to minimise is n (cost(n) + OTHER_AXES) for lines and n^2 cost(n) for planes.
        table, axes = (lengths.lines, 1) if axis == 0 else (lengths.planes, 2)
        plain[axis] = table.at_least(exact[axis] + 2.5 * points, axes)
        least = (2 * (edges[axis] + kept) + width) / spacings[axis]
        local[axis] = table.at_least(max(least, grid[axis]), axes)
        wall = min(wall, plain[axis] * spacings[axis] - edges[axis])
    levels = [Level(0, (local[0], local[1], local[2]), True)]
    if periodicity > 0:
        # The image at distance W contributes (1 + x) exp(-x) of the mode, x = K (W - L). The
        # factor of 1000 is for its gradients.
        x = math.log(1000 / tolerance)
        for _ in range(4):
            x = math.log(1000 / tolerance) + math.log1p(x)
        decay = x * edges[0] / (2 * math.pi)  # the distance that mode 1 needs
        last = min(grid[0] // 2 + 1, math.ceil(decay / wall))
        # Mode m needs lengths a + c / m and b + d / m.
        a, b = exact[1] if periodicity == 1 else grid[1], exact[2]
        c, d = decay / spacings[1] if periodicity == 1 else 0.0, decay / spacings[2]
        half, area = (a * d + b * c) / 2, float(local[1] * local[2])
        while (area := SMALLER * area) > a * b:
            rest = area - a * b
            mode = math.ceil((half + math.sqrt(half**2 + c * d * rest)) / rest)
            if mode >= last:
                break
            y, z = plain[1], max(plain[2], lengths.planes.at_least(b + d / mode, 2))
            if periodicity == 1:
                y = max(y, lengths.planes.at_least(a + c / mode, 2))
            before = math.prod(levels[-1].lengths[1:])
            if y * z <= SMALLER * before and (before - y * z) * (last - mode) >= SAVED:
                levels.append(Level(mode, (plain[0], y, z), False))
        if last < local[0] // 2 + 1:
            levels.append(Level(last, (plain[0], plain[1], plain[2]), False))
    return Padding(
        cells=(cells[0], cells[1], cells[2]),
        grid=(grid[0], grid[1], grid[2]),
        levels=tuple(levels),
        period=period if periodicity < 2 else local[2] * spacings[2],
        diameter=diameter,
        kept=kept,
        width=width,
        steepness=steepness,
    )


def fading(
    onset: float, shortest: float, largest: float, tolerance: float, size: float = 0.0
) -> tuple[float, float]:
    """Return how kernels fade: ``width`` and ``steepness`` of `Padding`.

    Fading must not touch what a mollified source still meets, so kernels are kept for a cut-off
    beyond all pairs. Two errors remain, both proportional to the kernel's size where it fades. In
    flat and thin boxes that size far exceeds the kernel's change across the shortest edge: the size
    of a biharmonic kernel is the square of the onset. With the diagonal of the box in its place,
    which cut-offs exceed 18 times in boxes of 1:0.0001:0.0001, errors were up to 180 promises.

    - At the onset, chi differs from 1 by half of ``erfc(steepness)``. That is a hundredth of the
      tolerance over the square of onset / shortest edge.
    - The fading needs modes beyond the largest wavenumber K, which the split's band or the grid
      leaves out. Its spectrum there is exp(-(K width / 4 steepness)^2). The split damps these modes
      to the tolerance, as it does the modes of the kernel itself. What remains is the kernel's size
      relative to its second derivatives at K, (K onset)^2. With the spectrum at a third of its
      inverse, errors stay below 0.2 of the promise (boxes of 1:1/8 to 1:8 along each free axis,
      tolerances 0.1 to 1e-6, by sums over modes). With the spectrum of the grid in
      place of the split's band, they reached 4.8.

    Rounding is a third error. Double layers take third derivatives of the kernel, whose size is
    (steepness / width)^3 of the kernel's where it fades, and transforms round all places equally.
    A thirtieth of the tolerance is left to rounding. It decides at 1e-11 and below: 1-periodic
    boxes of 1:8:8 broke the promise 5 times at 1e-12.

    Parameters
    ----------
    onset : float
        Where kernels begin to fade: the diagonal of the box along its free axes, and the cut-off.
    shortest : float
        Shortest edge of the box along its free axes.
    largest : float
        Largest wavenumber.
    tolerance : float
    size : float
        Size of the kernel where it fades, over the unit of a double layer's promise.
    """
    steepness = float(erfcinv(FADED * min(tolerance, 1.0) * (shortest / onset) ** 2))
    exponent = math.log(3 + 3 * (largest * onset) ** 2)
    width = 4 * steepness * math.sqrt(exponent) / largest
    rounded = steepness * (30 * EPSILON * size / tolerance) ** (1 / 3)
    return max(width, rounded), steepness
