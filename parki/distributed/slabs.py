"""`Slabs`: which rank owns which planes of the grid; boundaries balance the work.

A slab is a range of grid cells along the first axis. Windows that start in its cells reach P - 1
planes beyond it. The slab touches these planes, but other slabs own them, except at the end of a
free axis. A slab may be empty, thinner than a window, or the whole grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Touched(NamedTuple):
    """Planes that a slab touches and another slab (or its own periodic image) owns.

    ``touched`` and ``owned`` count from the first plane of either slab.
    """

    owner: int
    touched: int
    owned: int
    planes: int


@dataclass(frozen=True)
class Slabs:
    """Slabs along the first axis.

    Attributes
    ----------
    cells : tuple of ints
        Slab r has the grid cells ``cells[r]`` to ``cells[r + 1] - 1``.
    planes : tuple of ints
        Slab r owns the planes ``planes[r]`` to ``planes[r + 1] - 1``.
    periodic : bool
    window : int
        Window points P.
    """

    cells: tuple[int, ...]
    planes: tuple[int, ...]
    periodic: bool
    window: int

    @classmethod
    def balanced(cls, work: NDArray[np.float64], planes: int, size: int, window: int) -> Slabs:
        """Return slabs of about equal work.

        Parameters
        ----------
        work : ndarray, shape (cells,)
            Work of each cell along the first axis.
        planes : int
            Planes of the grid; a free axis has more of them than cells.
        size : int
            Number of ranks. If it exceeds the number of cells, some slabs are empty.
        window : int
        """
        # Slabs thinner than a window would send halos beyond their neighbours.
        bounds = divide(work, size, min(window, work.size // size))
        owned = (*bounds[:-1], planes)
        return cls(bounds, owned, planes == work.size, window)

    @property
    def size(self) -> int:
        """Number of slabs."""
        return len(self.cells) - 1

    def load(self, work: NDArray[np.float64]) -> float:
        """Return the largest work of a slab, given the work of each cell."""
        done = np.concatenate([[0.0], np.cumsum(work)])
        return float(np.diff(done[list(self.cells)]).max())

    def touched(self, rank: int) -> list[Touched]:
        """Return the overlaps: planes that a slab touches beyond its own."""
        first, last = self.cells[rank], self.cells[rank + 1]
        if first == last:
            return []
        last += self.window - 1
        touched = []
        period = self.planes[-1]
        for shift in range(0, last if self.periodic else 1, period):
            for owner in range(self.size):
                begin = max(first, self.planes[owner] + shift)
                end = min(last, self.planes[owner + 1] + shift)
                if begin < end and (owner != rank or shift):
                    owned = begin - shift - self.planes[owner]
                    touched.append(Touched(owner, begin - first, owned, end - begin))
        return touched

    def near(self, rank: int, reach: int) -> NDArray[np.bool_]:
        """Return which cells are at most ``reach`` cells from a slab, its own included."""
        near = np.zeros(self.cells[-1], dtype=bool)
        if self.cells[rank] < self.cells[rank + 1]:
            index = np.arange(self.cells[rank] - reach, self.cells[rank + 1] + reach)
            inside = (index >= 0) & (index < near.size)
            near[index % near.size if self.periodic else index[inside]] = True
        return near

    def stretch(self, rank: int, reach: int) -> tuple[int, int, int] | None:
        """Return a range of cells that holds a slab and all cells within ``reach`` of it.

        Returns
        -------
        tuple of 3 ints, or None
            First cell, last cell + 1, and first cell of the period that holds them without a
            break; None if there is no such period. The period begins at the corner of the box or
            in its middle, because positions wrapped into it then keep their digits (in the second
            case, relative to half a box).
        """
        count = self.cells[-1]
        first, last = self.cells[rank] - reach, self.cells[rank + 1] + reach
        if not self.periodic:
            return first, last, 0
        for corner in (-(count // 2), 0):
            for shift in (0, -count):
                if corner <= first + shift and last + shift <= corner + count:
                    return first + shift, last + shift, corner
        return None


def divide(work: NDArray[np.float64], size: int, least: int = 0) -> tuple[int, ...]:
    """Return the bounds of ``size`` consecutive ranges of about equal work.

    Each range has at least ``least`` items; there must be enough of them.
    """
    n = work.size
    done = np.concatenate([[0.0], np.cumsum(work)])
    bounds = [0]
    for rank in range(1, size):
        bound = int(np.searchsorted(done, done[-1] * rank / size))
        # Take the nearer of the two bounds around the aim.
        if bound and done[bound] + done[bound - 1] > 2 * done[-1] * rank / size:
            bound -= 1
        bounds.append(min(max(bound, bounds[-1] + least), n - (size - rank) * least))
    return (*bounds, n)


def near_work(
    targets: NDArray[np.float64], sources: NDArray[np.float64], reach: int, periodic: bool
) -> NDArray[np.float64]:
    """Return each cell's fraction of all pairs within reach, by its targets; they add up to 1."""
    n = sources.size
    reach = min(reach, n)
    if periodic and 2 * reach >= n:  # all cells, each once
        reach, periodic, sources = 0, False, np.full(n, sources.sum())
    around = np.pad(sources, reach, mode="wrap" if periodic else "constant")
    sums = np.concatenate([[0.0], np.cumsum(around)])
    pairs = targets * (sums[2 * reach + 1 :] - sums[:n])
    return np.asarray(pairs / max(float(pairs.sum()), 1e-300))


def longest_first(box: NDArray[np.float64], periodicity: int) -> list[int]:
    """Return the axes in the best order for slabs: periodic before free, then the longest first.

    The longer the divided axis, the fewer points of a slab are within reach of its neighbours.
    """
    kind = periodicity or 3
    first = int(np.argmax(box[:kind]))
    if kind == 2:
        return [first, 1 - first, 2]
    return [(first + axis) % 3 for axis in range(3)]
