"""`Gather`: sizes of the columns of the grid along which teams of a device walk.

A team of `g2p_tile` walks along x through a column of grid steps. Scratch memory holds a stretch of
it, and of what windows reach around it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from parki.ewald.far.mesh import Mesh
from parki.ewald.far.sizes import SCRATCH, WIDTHS, scratch, sizes_of

BANKS = 128  # bytes that scratch memory serves at a time
# How to fill a multiprocessor, best first: teams, components of a team, and the largest halo, in
# staged values for each grid value. Measured: see docs/notebook/constants.md.
FILLINGS = ((3, 3, 3.0), (2, 3, 5.0), (1, 3, 5.0), (2, 1, 6.0), (1, 1, math.inf))
PLANES = 2, 4  # fewest and most planes: a single plane has few targets
CELLS = 4  # fewest grid cells of a batch for each of its targets
# Time to find where a value is staged over the time to read it; once for a team's components.
PLACE = 1.3
# Window points for which half a warp takes a target in double precision, since it computes less
# than a whole warp.
HALF_WARPS = (2, 3, 4, 6, 11, 12, 15)


@dataclass(frozen=True)
class Gather:
    """Sizes of `g2p_tile`, with the names of its constants; ``group`` components at a time."""

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
    def of(cls, mesh: Mesh) -> Gather | None:
        """Return the sizes for a mesh, or None if scratch memory holds no column."""
        sums, components = 1 + 3 * ("grad_u" in mesh.fields.want), mesh.fields.results
        p, threads, device = mesh.window.points, _threads(mesh), mesh.space.on_device
        limits = tuple(mesh.scratch(teams) for teams, *_ in FILLINGS)
        return _fitted(p, mesh.item, threads, components, sums, limits, device)

    def constants(self) -> dict[str, int]:
        """Return the kernel's constants; the number of components depends on the launch."""
        return {name.upper(): size for name, size in vars(self).items() if name != "group"}

    def halo(self, points: int) -> float:
        """Return how often a grid value is staged, at least: the ratio of areas."""
        return (1 + (points - 1) / self.tile1) * (1 + (points - 1) / self.tile2)


@lru_cache(maxsize=64)
def _fitted(
    p: int,
    item: int,
    threads: tuple[int, int, int, int],
    components: int,
    sums: int,
    limits: tuple[int, ...],
    on_device: bool,
) -> Gather | None:
    """Return the column with the smallest halo for the scratch memory of each filling."""
    bands, split, steps, lanes = threads
    batch = max(1, sizes_of(on_device).gathered // lanes)
    row = BANKS // item
    for (_, group, largest), limit in zip(FILLINGS, limits, strict=True):
        if group > components > 1:
            group = components
        if group > components:
            continue
        numbers = 3 * p * (1 + (sums > 1)) + group * sums * bands * split
        space_left = limit - batch * (item * numbers + 24) - 64
        sizes = []
        for tile1 in WIDTHS:
            for tile2 in WIDTHS:
                # Bands of planes fill the banks one after the other; idle heights read past a row.
                plane = (tile1 + p - 1) * (tile2 + p - 1) + split * steps - p
                plane += (split - plane) % row
                planes = min(space_left // (group * plane * item) - p + 1, PLANES[1])
                if planes >= PLANES[0] and planes * tile1 * tile2 >= CELLS * batch:
                    size = Gather(
                        tile1, tile2, planes, bands, split, steps, lanes, batch, group, plane
                    )
                    sizes.append(size)
        best = min(sizes, key=lambda size: size.halo(p), default=None)
        if best is not None and best.halo(p) <= largest:
            return best
    return None


@lru_cache(maxsize=32)
def usual_staging(points: int) -> float:
    """Return the time of staging for each grid value, over the time to read it.

    It is for three components in double precision, and needs no device.
    """
    limits = tuple(scratch(teams, SCRATCH) for teams, *_ in FILLINGS)
    staged = _fitted(points, 8, device_threads(points, 8), 3, 1, limits, True)
    return staged.halo(points) * (1 + PLACE / staged.group) if staged else 1.0


def _threads(mesh: Mesh) -> tuple[int, int, int, int]:
    """Return the threads of a target of `g2p_tile`: bands, split, heights of each, and lanes.

    One thread of a CPU takes all heights, in whole vectors.
    """
    if not mesh.space.on_device:
        return 1, 1, mesh.row, 1
    return device_threads(mesh.window.points, mesh.item)


@lru_cache(maxsize=64)
def device_threads(p: int, item: int) -> tuple[int, int, int, int]:
    """Return the threads of a target on a device: half a warp or a whole one."""

    def shape(lanes: int, steps: int) -> tuple[int, int, int, int]:
        split = -(-p // steps)
        return max(1, min(p, lanes // split)), split, steps, lanes

    # Targets in one warp conflict in the banks, except two of half a warp in double precision.
    lanes = 16 if item == 8 and p in HALF_WARPS else 32
    shapes = (shape(lanes, s) for s in (1, 2, 3) if -(-p // s) <= lanes)
    return min(shapes, key=lambda threads: computed(p, threads))


def computed(p: int, threads: tuple[int, int, int, int]) -> int:
    """Return the values of a window's plane that these threads compute, with idle ones."""
    bands, _, steps, lanes = threads
    return -(-p // bands) * steps * lanes
