"""Which spheres are close to each other, and the slots to which their pairs write."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from parki.core import EwaldOptions
from parki.runtime import ExecutionSpace, Kernel, load
from parki.solving.pairs import require_pairs
from parki.solving.search import kernels as search_kernels
from parki.solving.search import search, threads
from parki.typing import AnyArray

SLICE = 32  # spheres whose pairs are side by side


def kernel(file: str, name: str, space: ExecutionSpace, **constants: Any) -> Kernel:
    """Return a kernel of pairs of spheres, which are in double precision."""
    return load(file, name, space, REAL="double", SLICE=SLICE, **constants)


def kernels(space: ExecutionSpace) -> list[Kernel]:
    """Return all kernels of pairs of spheres."""
    workunits = {
        "close_pairs": (
            "measure_pairs",
            "tabulate_pairs",
            "act",
            "shake",
            "add_up",
            "count_slots",
            "place_slots",
        ),
        "resist": (
            "resist",
            "multiply_blocks",
            "write_numbers",
            "resist_alone",
            "join_blocks",
            "part_blocks",
        ),
    }
    others = [kernel(file, name, space) for file, names in workunits.items() for name in names]
    steps = [load("iterate", name, space, REAL="double") for name in ("direct", "go")]
    return search_kernels(space, spheres=1) + others + steps


class Pairs(NamedTuple):
    """Pairs of spheres: the larger ones (n,), the others, and the vectors to these (3, n)."""

    first: Any
    second: Any
    vectors: Any


def close_pairs(
    space: ExecutionSpace,
    points: AnyArray,
    radii: AnyArray,
    largest: float,
    options: EwaldOptions,
    reach: float,
) -> Pairs:
    """Return the pairs of spheres nearer than ``reach`` times the sum of their radii, with images.

    Parameters
    ----------
    space : ExecutionSpace
    points : array, shape (3, N), float64
    radii : array, shape (N,), float64
        At least one.
    largest : float
        The largest radius, for which no device is waited for.
    options : EwaldOptions
        Its periodicity and its box count.
    reach : float

    Raises
    ------
    ParkiMemoryError, ParkiValueError
        If there are too many.
    """
    count = points.shape[1]
    require_pairs(space, options, (count, count), 2 * reach * largest)
    pairs = search(
        space,
        points,
        points,
        options,
        reach=reach,
        radii=radii,
        largest=largest,
        refusal=f"radii up to {largest:g} have 2**31 close pairs or more; expected "
        "fewer: give smaller ones, or lubrication=False",
    )
    return Pairs(pairs.first, pairs.second, pairs.apart)


class Slots:
    """A slot for each of the two spheres of pairs.

    Slots of a slice of spheres are side by side: first the first ones of all its spheres, then the
    second ones, and so on.

    Parameters
    ----------
    space : ExecutionSpace
    first, second : array, shape (n,), int32
    count : int
        Number of spheres.

    Attributes
    ----------
    places : array, shape (2, n), int32
    counts, begins : array, shape (N,)
        How many slots a sphere has, and the first one; others follow after `SLICE` each.
    size : int
        Number of slots, some of which nobody has.
    """

    def __init__(self, space: ExecutionSpace, first: Any, second: Any, count: int) -> None:
        self.space, self.count, self.size = space, count, 0
        self.places = np.zeros_like(first, shape=(2, 0))
        self.counts = np.zeros_like(first, shape=(count,))
        self.begins = np.zeros_like(first, shape=(count,), dtype=np.int64)
        if first.size:
            self._share(first, second)

    def _share(self, first: Any, second: Any) -> None:
        """Give slots to the spheres of pairs."""
        spheres, slices = np.concatenate([first, second]), -(-self.count // SLICE)
        order = np.argsort(spheres, kind="stable")
        counts, starts = np.empty_like(spheres, shape=(2, SLICE * slices))
        total, every = spheres.size, slices * SLICE
        arguments = {"starts": starts, "counts": counts, "begins": self.begins, "order": order}
        count = kernel("close_pairs", "count_slots", self.space)
        count(every, threads(every), arguments=arguments, ordered=spheres[order], total=total)
        longest = counts.reshape(-1, SLICE).max(axis=1)
        ends, places = np.cumsum(longest, dtype=np.int64), np.empty_like(spheres)
        place = kernel("close_pairs", "place_slots", self.space)
        arguments |= {"longest": longest, "ends": ends, "places": places}
        place(self.count, threads(self.count), arguments=arguments)
        self.counts, self.places = counts[: self.count], places.reshape(2, -1)
        self.size = SLICE * int(ends[-1])  # for which a device waits

    def add_up(self, said: Any) -> Any:
        """Return the sums (rows, N) of what is said (rows, size)."""
        rows = len(said)
        found = np.empty_like(said, shape=(rows, self.count))
        arguments = {"counts": self.counts, "begins": self.begins, "said": said, "found": found}
        add = kernel("close_pairs", "add_up", self.space)
        add(self.count, threads(self.count), arguments=arguments, rows=rows)
        return found
