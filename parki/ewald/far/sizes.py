"""Sizes that the stages of the far field and the choice of parameters share, as pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from numpy.typing import DTypeLike

from parki.ewald.options.variants import UNORDERED
from parki.ewald.sums import SUMS
from parki.interchange import vector_row

ATOMIC = (*UNORDERED, "tile")
# p2g_tile, in grid steps: tiles, and a warp's blocks of columns, which also sort the sources.
SIDES, TILE = (4, 8), (8, 8)
# Most and fewest entries of a part of a tile's list, and the number of parts wanted.
P2G_PART, P2G_LEAST, P2G_PARTS = 1024, 64, 8192
# Up to this many sources, lists of p2g_tile are written without a count: see `most_reached`.
UNCOUNTED = 2**20
# From this many targets on, a CPU gathers in their sorted order and permutes results at the end: a
# thread that adds to places out of a cache's reach waits for each.
IN_ORDER = 1 << 18
# g2p_tile: most and fewest targets of a part, the number of parts wanted, and cells along x of a
# part of few targets, so that small sums need not wait for the longest walk along a column.
G2P_PART, G2P_LEAST, G2P_PARTS, LEAST_CELLS = 512, 64, 1024, 12
# g2p_block: most targets of a work item, and work items wanted for each thread.
BLOCK_PART, BLOCK_PARTS = 4096, 4
WIDTHS = range(4, 13)  # widths of the columns of g2p_tile, in grid steps
LINE = 64  # bytes of a CPU's cache line
# Scratch memory of an H100 or H200, for where there is no device to ask.
SCRATCH = (115_000, 232_000)
# Real numbers that a thread transforms in about the time that another takes to wake.
FFT_LEAST = 1 << 16
# Values of windows, of all components, that a thread spreads or gathers in about that time, thrice.
WINDOWS_LEAST = 1 << 20
# Up to FEW threads start freely, as Python runs one at a time (GIL); each further one needs LARGE
# real numbers of work.
FEW, LARGE = 8, 1 << 20
# Bytes of modes that a CPU thread transforms at a time; half a MB to two MB perform the same.
PART = 1 << 20
# Bytes of modes, of all components, up to which a host stores them apart from the grid.
APART = 32 << 20
# Bytes of the lines along x that a device transforms at a time, which bounds its work area.
LINES = 1 << 30
# Grid points up to which a device transforms all components at once, periodic along all axes: each
# of few points takes as long as its launches.
AT_ONCE = 1 << 18
# Bytes of modes that a CPU thread convolves at a time: about what its cache holds.
CHUNK = 2 << 20


class FarSizes(NamedTuple):
    """Sizes for a kind of space.

    Attributes
    ----------
    block : int
        Bytes of a block of padded modes. The multiplier is made block by block; a device also
        transforms block by block.
    tile : tuple of 2 ints
        Columns of a team of p2g_tile along y and z: one for each thread, or all for one thread.
    gathered : int
        Targets of a batch of g2p_tile, times the lanes of each.
    plane : int
        Sources whose lowest modes are summed at a time: few for a cache, many for few launches.
    cells : int or None
        Fewest cells along x of a part of g2p_tile; None where a thread walks on to the end.
    """

    block: int
    tile: tuple[int, int]
    gathered: int
    plane: int
    cells: int | None


CPU = FarSizes(16 << 20, SIDES, 32, 1 << 13, None)
DEVICE = FarSizes(1 << 30, TILE, 512, 1 << 18, LEAST_CELLS)


def sizes_of(on_device: bool) -> FarSizes:
    """Return the sizes of a kind of space."""
    return DEVICE if on_device else CPU


def owner_tiles(cells: Sequence[float], points: int, wraps: Sequence[bool]) -> tuple[int, int]:
    """Return the number of tiles of `p2g_owner` along x and y, on a grid of ``cells``.

    The number is even where the axis ``wraps``, that is, is periodic (for two colours). Tiles have
    at least P + 1 steps, which keeps tiles of one colour apart: a tile's sources reach P - 1 points
    into the next one, whose own edge may lie between grid points.
    """
    x, y = int(cells[0] // (points + 1)), int(cells[1] // (points + 1))
    if wraps[0]:
        x -= x % 2
    if wraps[1]:
        y -= y % 2
    return max(1, x), max(1, y)


def shared_work(parts: int) -> float:
    """Return the work of `p2g_owner` for a tile in ``parts``, over that in one part.

    Windows are computed for each part, which adds 4 (P = 7) to 13 percent (P = 18).
    """
    return 1 + 0.12 * (parts - 1)


def owner_rounds(tiles: int, parts: int, threads: int) -> float:
    """Return the time of a colour of `p2g_owner`, over the time of one tile in one part."""
    return -(-tiles * parts // threads) / parts * shared_work(parts)


@lru_cache
def owner_parts(tiles: int, threads: int, points: int) -> int:
    """Return the parts into which `p2g_owner` cuts a tile, for a colour of ``tiles`` tiles.

    It is the smallest number that takes the least time, and at most P ``points``, the planes of a
    source.
    """
    return min(range(1, min(threads, points) + 1), key=lambda n: owner_rounds(tiles, n, threads))


def p2g_part(entries: int) -> int:
    """Return the most entries of a part of `p2g_tile`."""
    return min(P2G_PART, max(P2G_LEAST, entries // P2G_PARTS))


def reached(points: int, tile: tuple[int, int] = TILE) -> float:
    """Return the average number of tiles that list a source, for P ``points``, on a device."""
    edges = zip(tile, SIDES, strict=True)
    return math.prod((edge + -(-(points - 1) // side) * side) / edge for edge, side in edges)


def most_reached(points: int, tile: tuple[int, int] = TILE) -> int:
    """Return the most tiles that list a source; the box may cut the last tile of an axis."""
    edges = zip(tile, SIDES, strict=True)
    return math.prod(2 - (2 - side - points) // edge for edge, side in edges)


def entries_of(points: int, sources: int, on_device: bool = True) -> int:
    """Return the entries in the lists of p2g_tile: as many as expected, where they are counted."""
    tile, counted = sizes_of(on_device).tile, not on_device or sources > UNCOUNTED
    return int((reached(points, tile) if counted else most_reached(points, tile)) * sources)


def spreading_tiles(
    method: str, cells: Sequence[int], points: int, wraps: Sequence[bool]
) -> tuple[int, int, int]:
    """Return the tiles along each axis by which a variant of P2G sorts, for P ``points``.

    ``wraps`` says which axes are periodic.
    """
    x, y, z = cells
    if method == "owner":
        return (*owner_tiles(cells, points, wraps), max(1, z // 8))
    if method == "base":
        return 1, 1, 1
    # The paper's variants have cubes of half a window.
    edges = (1, *SIDES) if method == "tile" else 3 * ((points + 1) // 2,)
    return -(-x // edges[0]), -(-y // edges[1]), -(-z // edges[2])


def part_cells(tiles: tuple[int, ...], on_device: bool) -> int:
    """Return the most cells along x of a part of `g2p_tile`; a CPU thread has no limit."""
    least = sizes_of(on_device).cells
    return tiles[0] if least is None else max(least, math.prod(tiles) // G2P_PARTS)


def g2p_part(targets: int) -> int:
    """Return the most targets of a part of `g2p_tile`."""
    return min(G2P_PART, max(G2P_LEAST, targets // G2P_PARTS))


def block_part(targets: int, threads: int) -> int:
    """Return the targets of a work item of `g2p_block`."""
    return max(1, min(BLOCK_PART, -(-targets // (BLOCK_PARTS * threads))))


def scratch(teams: int, most: tuple[int, int]) -> int:
    """Return the bytes for each of ``teams``, from the ``most`` for each of two and for one."""
    half, whole = most
    # The driver keeps a kilobyte for each team.
    return min(whole, 2 * (half + 1024) // teams - 1024)


def along_z(points: int, dtype: DTypeLike, wraps: bool, on_device: bool) -> tuple[int, int]:
    """Return the values of a window's row along z, and the spill of the grid, for P ``points``."""
    row = points if on_device else vector_row(points, dtype)
    return row, row - points + (points - 1 if wraps else 0)


def workers(modes: float, threads: int) -> int:
    """Return how many CPU threads transform ``modes`` modes."""
    numbers = int(2 * modes)
    return max(1, min(threads, numbers // FFT_LEAST, max(FEW, numbers // LARGE)))


def parts(size: float, threads: int) -> int:
    """Return into how many parts to cut a block of ``size`` bytes."""
    return threads * math.ceil(size / (threads * CHUNK))


def scratch_before(components: int, modes: float, grid: float, item: int) -> float:
    """Return the numbers before the grid that keep modes off components that are still unread.

    ``modes`` and ``grid`` are the numbers of a component, of ``item`` bytes each. The modes of the
    first c components end before the grid's component c - 1; on the way back the last component
    comes first. Few modes lie apart from the grid, and all components are transformed at a time.
    """
    if components * modes * item <= APART:
        return components * modes
    return max(modes, components * modes - (components - 1) * grid)


def field_rows(kernel: str, want: tuple[str, ...]) -> int:
    """Return the number of components that are transformed back."""
    flags = wanted(want)
    return SUMS[kernel].results * flags["VELOCITY"] + flags["PRESSURE"]


def wanted(want: tuple[str, ...]) -> dict[str, bool]:
    """Return the switches of the convolution; gradients are gathered from the velocity."""
    names = {*want}
    return {
        "VELOCITY": bool(names & {"u", "grad_u", "grad_tensor"}),
        "PRESSURE": bool(names & {"p", "grad_tensor"}),
    }
