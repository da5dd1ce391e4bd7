"""Which spheres are close to each other, and the slots to which their pairs write.

Two launches find the pairs, on a device as on a CPU: one counts them, and one writes them down.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from parki.core import EwaldOptions
from parki.errors import ParkiValueError
from parki.interchange import to_host
from parki.runtime import ExecutionSpace, Kernel, load
from parki.settings import MOST_THREADS
from parki.solving.pairs import MARGIN, MOST, require_pairs
from parki.typing import AnyArray

FEW = 256  # spheres, whose pairs take less time than to wake another thread
SLICE = 32  # spheres whose pairs are side by side


def kernel(file: str, name: str, space: ExecutionSpace, **constants: Any) -> Kernel:
    """Return a kernel of pairs of spheres, which are in double precision."""
    return load(file, name, space, REAL="double", SLICE=SLICE, **constants)


def kernels(space: ExecutionSpace) -> list[Kernel]:
    """Return all kernels of pairs of spheres."""
    given = {
        "close_pairs": (
            "tabulate_pairs",
            "act",
            "shake",
            "add_up",
            "count_slots",
            "place_slots",
            "locate_spheres",
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
    found = [kernel("close_pairs", "find_pairs", space, WRITES=writes) for writes in (0, 1)]
    return found + [kernel(file, name, space) for file, names in given.items() for name in names]


def threads(count: int) -> int:
    """Return the most threads that take spheres, or the pairs of as many."""
    return 1 if count <= FEW else MOST_THREADS


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
    xp, count = space.array_module, points.shape[1]
    farthest = 2 * reach * largest
    require_pairs(space, options, (count, count), farthest)
    vectors, periodic = options.vectors, np.array(options.periodic)
    inverse, constant = np.linalg.inv(vectors), space.adapter.constant
    widths = 1 / np.sqrt((inverse**2).sum(axis=0))
    low, extent = np.zeros(3), np.ones(3)
    if not periodic.all():
        with np.errstate(invalid="ignore"):  # sums refuse points that are no numbers
            places = constant(inverse.T, np.float64) @ points
        ends = np.nan_to_num(to_host(xp.stack([places.min(axis=1), places.max(axis=1)])))
        low[~periodic] = ends[0, ~periodic]
        extent[~periodic] = np.maximum(ends[1] - ends[0], np.finfo(float).tiny)[~periodic]
    # Cells are somewhat wider than spheres reach, so that rounding takes no pair over two of them.
    with np.errstate(over="ignore"):
        many = widths * extent / (farthest * MARGIN)
    shape = np.clip(many, 1, 2 * math.ceil(count ** (1 / 3))).astype(int)
    over = np.ceil(shape / np.where(periodic, many, shape))
    box = {
        "shape": constant(np.stack([shape, periodic, over]), np.int32),
        "vectors": constant(vectors, np.float64),
    }
    inside, cells = xp.empty((3, count)), xp.empty((3, count), np.int32)
    keys, cuts = xp.empty(count, np.int32), constant(np.stack([low, shape / extent]), np.float64)
    locate = kernel("close_pairs", "locate_spheres", space)
    where = {"inside": inside, "cells": cells, "keys": keys, "cuts": cuts}
    inverse, points = constant(inverse, np.float64), xp.ascontiguousarray(points)
    locate(count, threads(count), points=points, inverse=inverse, **where, **box)
    order = xp.argsort(keys, kind="stable")
    starts = xp.searchsorted(keys[order], xp.arange(math.prod(shape) + 1), side="left")
    counts, ends = xp.empty(count, np.int32), None
    given = {
        "points": inside,
        "radii": radii,
        "cells": cells,
        "order": order,
        "starts": starts,
        "reach": reach,
        "counts": counts,
        **box,
    }
    for writes in (0, 1):
        find = kernel("close_pairs", "find_pairs", space, WRITES=writes)
        if not writes:
            find(count, threads(count), ends=None, first=None, second=None, apart=None, **given)
            ends = xp.cumsum(counts, dtype=np.int64)
            total = int(ends[-1])  # for which a device waits
            if total > MOST:
                raise ParkiValueError(
                    f"radii up to {largest:g} have 2**31 close pairs or more; expected "
                    "fewer: give smaller ones, or lubrication=False"
                )
            first, second = xp.empty((2, total), np.int32)
            apart = xp.empty((3, total))
        elif total:
            own = {"ends": ends, "first": first, "second": second, "apart": apart}
            find(count, threads(count), **own, **given)
    return Pairs(first, second, apart)


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
