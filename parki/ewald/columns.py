"""`Spread`, `Gather`: sizes of the columns of the grid along which teams of a device walk.

A team of `p2g_tile` or `g2p_tile` walks along x through a column of grid steps, with a stretch of
it and of what windows reach around it in scratch memory. Both take columns of the same width, so
that they share their sorted points. Knows nothing of kernels' launches and of sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from parki.ewald.mesh import SCRATCH, Mesh

BANKS = 128  # bytes that scratch memory serves at a time
THREADS = 280  # wanted on a multiprocessor
MOST_TEAMS = 8
# P2G: most sources staged at a time, and how to fill a multiprocessor, best first: teams,
# components of a team, and the largest halo, in grid values written for each value of the grid.
SOURCES = 16
# Measured on an H200, 4e6 points, ms: P = 6, three teams 6.5, two 8.9; P = 9, two teams 18, one 22;
# P = 14, two teams of two components 56, one of four 60; single precision, P = 9, three teams 12.7,
# two 13.8.
FILLINGS = (
    (3, 4, 3.2),
    (2, 4, 5.0),
    (2, 2, 8.0),
    (1, 4, 8.0),
    (1, 2, math.inf),
    (1, 1, math.inf),
)
WIDTHS = range(4, 13)  # of a column, in grid steps
CELLS = 100  # of the grid, that a batch of sources spans at least
# G2P: most threads of a team, and teams on a multiprocessor that scratch memory should allow.
GATHERING = 512


@dataclass(frozen=True)
class Spread:
    """Sizes of `p2g_tile`, its constants of the same names; ``group`` components at a time."""

    tile1: int
    tile2: int
    planes: int
    split: int
    batch: int
    group: int
    pitch: int
    block: int
    plane: int

    @classmethod
    def of(cls, mesh: Mesh) -> Spread:
        """Return the sizes for a mesh: those of the smallest halo that scratch memory holds."""
        limits = tuple(mesh.scratch(teams) for teams in range(1, MOST_TEAMS + 1))
        return _filled(mesh.window.points, mesh.item, limits)

    @classmethod
    def fitted(
        cls, p: int, item: int, tile1: int, tile2: int, split: int, group: int, limit: int
    ) -> Spread:
        """Return a column with as many planes as fit; 0 if none does."""
        turn = BANKS // item
        # Free of conflicts while a warp's rows are whole turns of the banks, or odd multiples of
        # split apart: 61 accesses where rows of no such pitch have 87 (P = 9, double).
        pitch = tile2 + p - 1
        pitch += (split - pitch) % (2 * split)
        block = -(-p * pitch // turn) * turn
        last = tile1 + p - 2
        plane = last // p * block + last % p * pitch + tile2 + p - 1
        plane += (p * pitch - plane) % turn
        staged = SOURCES * (item * (6 * p + 10) + 32) + 64
        planes = (limit - staged) // (group * plane * item) - p + 1
        return cls(tile1, tile2, max(0, min(planes, 8)), split, SOURCES, group, pitch, block, plane)

    @classmethod
    def usual(cls, points: int) -> Spread:
        """Return the sizes in double precision where there is no device to ask."""
        whole = SCRATCH[1]
        limits = tuple(min(whole, (whole + 1024) // n - 1024) for n in range(1, MOST_TEAMS + 1))
        return _filled(points, 8, limits)

    @property
    def cells(self) -> int:
        """Grid cells that a batch may span."""
        return self.planes * self.tile1 * self.tile2

    def halo(self, points: int) -> float:
        """Return how often a grid value is written, at least."""
        return (1 + (points - 1) / self.tile1) * (1 + (points - 1) / self.tile2)


@lru_cache(maxsize=64)
def _filled(p: int, item: int, limits: tuple[int, ...]) -> Spread:
    """Return the best column for bytes of scratch memory of each of 1, 2, ... teams."""
    for teams, group, largest in FILLINGS:
        split = next((s for s in (1, 2, 4) if s * p**2 * teams >= THREADS), min(p, 4))
        teams = max(teams, min(MOST_TEAMS, THREADS // (split * p**2)))
        limit = limits[teams - 1]
        sizes = [Spread.fitted(p, item, a, b, split, group, limit) for a in WIDTHS for b in WIDTHS]
        sizes = [s for s in sizes if s.cells >= CELLS and s.halo(p) <= largest]
        if sizes:
            return min(sizes, key=lambda s: s.halo(p))
    return Spread.fitted(p, item, 1, 1, 1, 1, limits[0])


@dataclass(frozen=True)
class Gather:
    """Sizes of `g2p_tile`, its constants of the same names; ``group`` components at a time."""

    tile1: int
    tile2: int
    planes: int
    bands: int
    split: int
    steps: int
    lanes: int
    batch: int
    group: int
    plane: int

    @classmethod
    def of(cls, mesh: Mesh, components: int, gradient: bool) -> Gather | None:
        """Return the sizes for a mesh, or None if scratch memory holds no column."""
        wide = Spread.of(mesh)
        for tile1, tile2 in ((wide.tile1, wide.tile2), (8, 8), (4, 4)):
            for teams, group in ((3, 3), (2, 3), (2, 1), (1, 1)):
                limit = mesh.scratch(teams)
                shape = cls._fitted(mesh, tile1, tile2, group, 1 + 3 * gradient, limit)
                # Single planes have few targets each: P = 17, 1e6 points, 23 ms instead of 14.
                many = shape.planes > 1 and shape.planes * tile1 * tile2 >= CELLS // 4
                if group <= components and many:
                    return shape
        return None

    @classmethod
    def _fitted(
        cls, mesh: Mesh, tile1: int, tile2: int, group: int, sums: int, limit: int
    ) -> Gather:
        """Return a column with as many planes as fit; 0 if none does."""
        p, turn = mesh.window.points, BANKS // mesh.item
        bands, split, steps, lanes = _threads(mesh)
        batch = max(1, GATHERING // lanes) if mesh.space.on_device else 32
        # Bands of planes lie side by side in the banks; idle heights read beyond a row's end.
        plane = (tile1 + p - 1) * (tile2 + p - 1) + split * steps - p
        plane += (split - plane) % turn
        numbers = 3 * p * (1 + (sums > 1)) + group * sums * bands * split
        staged = batch * (mesh.item * numbers + 24) + 64
        planes = (limit - staged) // (group * plane * mesh.item) - p + 1
        planes = max(0, min(planes, 4))
        return cls(tile1, tile2, planes, bands, split, steps, lanes, batch, group, plane)


def _threads(mesh: Mesh) -> tuple[int, int, int, int]:
    """Return the threads of a target of `g2p_tile`: bands, split, heights of each, and lanes.

    A thread of a CPU takes all, in whole vectors.
    """
    if not mesh.space.on_device:
        return 1, 1, mesh.row, 1
    return device_threads(mesh.window.points, mesh.item)


@lru_cache(maxsize=64)
def device_threads(p: int, item: int) -> tuple[int, int, int, int]:
    """Return those of a device: half a warp or a whole one takes a target."""

    def shape(lanes: int, steps: int) -> tuple[int, int, int, int]:
        split = -(-p // steps)
        return max(1, min(p, lanes // split)), split, steps, lanes

    # Several targets in a warp would meet in the banks, those of half a warp do not in double.
    lanes = (32, 16) if item == 8 else (32,)
    shapes = (shape(n, s) for n in lanes for s in (1, 2, 3) if -(-p // s) <= n)
    return min(shapes, key=lambda each: computed(p, each))


def computed(p: int, threads: tuple[int, int, int, int]) -> int:
    """Return the values of a window's plane that such threads compute, idle ones included."""
    bands, _, steps, lanes = threads
    return -(-p // bands) * steps * lanes
