"""`Lengths`: which lengths of transforms to use, by their costs.

Libraries are fast for lengths with small factors. On devices these lengths still differ by up to
2.5 times per value, so that a longer transform often takes less time. A typical cost is 1.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

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


class Tables(NamedTuple):
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


NO_TABLES = Tables()
