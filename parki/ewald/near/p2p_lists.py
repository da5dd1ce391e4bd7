"""Launches P2P by tiles, and keeps its lists of the sources in reach for other densities.

A plan that is applied once has no use for lists. A plan that is applied often searches for the same
pairs every time, which takes a quarter to a half of the near field's time on an H200. So the second
sum keeps the lists, if there is memory, and all later sums use them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from parki.interchange import to_host
from parki.runtime import ExecutionSpace, Kernel, prepare
from parki.runtime.spaces import free_memory
from parki.typing import AnyArray

TEAM = 4  # tiles of a team of p2p_tile
# Part of the free memory that lists may take.
PART = 1 / 3
MOST_ROWS = 2**31  # rows are counted with 32 bits
# Rows of each tile, over the longest lists of the points before; and over the mean of the lists,
# up to which there is memory for that.
SPARE, UNEVEN = 1.15, 4.0
# Bytes of the lists for a pair within the cut-off, and the part of the free memory that a plan
# leaves. No more than this many pairs per target are assumed, so that few sums query free memory.
BYTES, LEFT, PAIRS = 5.0, 0.75, 10_000
# What the kernel does with lists: its constant LISTS.
FORGETS, COUNTS, KEEPS, TAKES = range(4)


def most_pairs(space: ExecutionSpace, targets: int, ranks: int = 1) -> float:
    """Return about how many pairs lists can hold, for the choice of a cut-off.

    All ``ranks`` count: they share the targets and have the same memory. They are
    rounded to steps of a sixth: choices are cached, and free memory fluctuates.
    """
    if not space.on_device:
        return math.inf
    free = PART * LEFT * free_memory(space) / BYTES
    stepped = math.pow(2.0, math.floor(4 * math.log2(max(free, 1.0))) / 4)
    return min(ranks * stepped, float(PAIRS * targets))


class PairLists:
    """P2P by tiles for fixed points.

    Parameters
    ----------
    space : ExecutionSpace
    kernel : callable
        Returns the kernel for a use of lists and a number of densities.
    tiles, lanes : int
        Number of tiles, and lanes of each.
    keep : bool
        Whether lists may be kept. Sums that use them differ from the first sum by rounding.

    Attributes
    ----------
    size : int or None
        Bytes of the lists, kept or not; None before the second sum.
    rows : array or None
        Where the lists of each tile begin, and the end.
    """

    def __init__(
        self,
        space: ExecutionSpace,
        kernel: Callable[[int, int], Kernel],
        tiles: int,
        lanes: int,
        keep: bool,
    ) -> None:
        self.space, self.kernel = space, cache(kernel)
        self.tiles, self.lanes, self.keep = tiles, lanes, keep
        self._stride = 0  # rows for each tile, if lists were about as long for other points
        self.drop()

    def drop(self) -> None:
        """Begin again, as for other points."""
        self.size: int | None = None
        self.begun = False  # whether a sum was made
        self.use = FORGETS
        self.rows: Any = None
        self.lists: Any = None
        self.ordered: Any = None  # the tiles, with the longest lists first

    @property
    def kept(self) -> bool:
        """Whether lists can be used."""
        return self.use == TAKES

    @property
    def due(self) -> bool:
        """Whether the next sum keeps lists, if there is memory."""
        return self.begun and self.keep and self.size is None

    def __call__(self, many: int, arguments: dict[str, Any]) -> None:
        """Compute the near field of ``many`` densities: of one, where lists are due.

        The arguments are the kernel's, except the arguments for lists.
        """
        if not (self.due and self._keep_by_stride(arguments)):
            if self.due:
                self._make_space(arguments)
            self._launch(self.use, arguments, many)
        self.begun = True
        if self.use == KEEPS:
            self.use = TAKES

    def without(self, many: int, arguments: dict[str, Any]) -> None:
        """Compute the near field of ``many`` densities without lists, which stay the same."""
        self.kernel(FORGETS, many)(
            -(-self.tiles // TEAM),
            arguments=arguments,
            number=self.tiles,
            rows=None,
            used=None,
            lists=None,
        )

    def _launch(self, use: int, arguments: dict[str, Any], many: int = 1) -> Any:
        """Launch a kernel; return how many rows each tile used, if it counts or keeps them."""
        teams, used = -(-self.tiles // TEAM), None
        if use in (COUNTS, KEEPS):
            used = self.space.array_module.zeros(self.tiles, dtype=np.int32)
        if self.ordered is not None:
            arguments = dict(arguments, tiles=self.ordered)
        self.kernel(use, many)(
            teams,
            arguments=arguments,
            number=self.tiles,
            rows=self.rows,
            used=used,
            lists=self.lists,
        )
        return used

    def _keep_by_stride(self, arguments: dict[str, Any]) -> bool:
        """Compute the near field of a density, and keep lists in as many rows for each tile.

        Return whether they are enough. They are as for the points before, and not counted first.
        """
        xp, stride = self.space.array_module, self._stride
        total = stride * self.tiles
        try:
            self.lists = xp.empty((total, self.lanes), dtype=np.int32) if stride else None
        except MemoryError:
            self.lists = None
        if self.lists is None:
            return False
        self.rows, self.use = xp.arange(0, total + 1, stride, dtype=np.int32), KEEPS
        # On the host, as CuPy compiles such a reduction for two seconds.
        if to_host(self._launch(KEEPS, arguments)).max() > stride:
            self.drop()
            self.begun = True
            return False
        self.size = 4 * self.lanes * total
        return True

    def _make_space(self, arguments: dict[str, Any]) -> None:
        """Allocate the memory for lists, if there is enough."""
        xp, self._stride = self.space.array_module, 0
        prepare([self.kernel(use, 1) for use in (COUNTS, KEEPS, TAKES)])
        # The host orders tiles: a device would compile a dozen small kernels for a second.
        rows = to_host(self._launch(COUNTS, arguments))
        total, longest = int(rows.sum(dtype=np.int64)), int(rows.max()) if self.tiles else 0
        self.size, most = 4 * self.lanes * total, PART * free_memory(self.space)
        fits = total < MOST_ROWS and self.size <= most
        try:
            self.lists = xp.empty((total, self.lanes), dtype=np.int32) if fits else None
        except MemoryError:  # no block is large enough: sums do without
            self.lists = None
        if self.lists is not None:
            order, self.use = self._longest_first(rows), KEEPS
            self.rows = xp.asarray(np.append(0, rows[order].cumsum(dtype=np.int64)).astype("i4"))
            self.ordered = xp.asarray(to_host(arguments["tiles"]).take(order, axis=1))
            stride = math.ceil(SPARE * longest)
            if stride * self.tiles < min(UNEVEN * total, MOST_ROWS, most / (4 * self.lanes)):
                self._stride = stride

    def _longest_first(self, rows: AnyArray) -> Any:
        """Return an order of the tiles, by teams, in which teams of long lists begin first.

        Neighbouring teams read nearly the same sources. They remain neighbours if their lists have
        similar lengths: more than half, a quarter, ... of the longest.
        """
        full = self.tiles - self.tiles % TEAM  # the last team may lack tiles, and stays last
        if not full:
            return np.arange(self.tiles)
        lengths = 1.0 + rows[:full].reshape(-1, TEAM).sum(axis=1)
        halvings = np.log2(lengths.max() / lengths).astype(np.int32)
        teams = np.argsort(halvings, kind="stable")
        tiles = teams[:, None] * TEAM + np.arange(TEAM)
        return np.concatenate([tiles.ravel(), np.arange(full, self.tiles)])
