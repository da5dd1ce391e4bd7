"""Sizes that the far field's stages and the choice of parameters share: numbers and pure functions.

Launches nothing, and knows no grid and no device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from parki.arrays import vector_row
from parki.ewald.sums import SUMS

LITERATURE = ("base", "source", "grid", "hybrid")  # of P2G
P2G_METHODS = ("auto", "owner", "tile", *LITERATURE)
# They add to the grid by atomics, and the first three in any order.
UNORDERED = ("base", "source", "hybrid")
ATOMIC = (*UNORDERED, "tile")
# p2g_tile, in grid steps: blocks of columns of a warp, by which sources are sorted, too; and tiles.
SIDES, TILE = (4, 8), (8, 8)
# Entries of a part of a tile's list at most and at least, and the parts wanted.
P2G_PART, P2G_LEAST, P2G_PARTS = 1024, 64, 8192
# Sources whose lists of p2g_tile are not counted before they are written: see `most_reached`.
UNCOUNTED = 2**20
# Targets from which on a CPU gathers in their sorted order, and brings results back at the end: a
# thread that adds to places out of a cache's reach waits for each.
IN_ORDER = 1 << 18
G2P_METHODS = ("auto", "target", "base", "tile")
# g2p_tile: targets of a part at most and at least, the parts wanted, and cells along x of a part
# of few targets, so that small sums need not wait for the longest walk along a column.
G2P_PART, G2P_LEAST, G2P_PARTS, LEAST_CELLS = 512, 64, 1024, 12
# Scratch memory where there is no device to ask: that of an H100 or H200.
SCRATCH = (115_000, 232_000)
# Real numbers that a thread transforms in about the time that another takes to wake.
FFT_LEAST = 1 << 16
# Threads that do not get in each other's way, as Python runs one at a time, and real numbers for
# each of more.
FEW, LARGE = 8, 1 << 20
# Bytes of modes that a CPU thread transforms at a time: half a MB to two do as well.
PART = 1 << 20
# Bytes of modes, of all components, up to which a host keeps them apart from the grid.
APART = 32 << 20
# Bytes of the lines along x that a device transforms at a time, which bounds its work area.
LINES = 1 << 30
# A CPU thread convolves about as many bytes of modes as its cache holds.
CHUNK = 2 << 20


class FarSizes(NamedTuple):
    """What a kind of space takes.

    Attributes
    ----------
    block : int
        Bytes of a block of padded modes, of which the multiplier is made at a time, and on a device
        all the rest.
    tile : tuple of 2 ints
        Columns of a team of p2g_tile, along y and z: one for a thread, or all for one.
    gathered : int
        Targets of a batch of g2p_tile, over the lanes of each.
    plane : int
        Sources whose lowest modes are summed at a time: within a cache's reach, or few launches.
    cells : int or None
        Least cells along x of a part of g2p_tile; None where a thread walks on to the end.
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
    """Return how many tiles `p2g_owner` has along x and y, of a grid of ``cells``.

    An even number where the axis ``wraps``, that is, is periodic (for two colours), of at least
    P + 1 steps: that keeps those of one colour apart, as a tile's sources reach P - 1 points into
    the next one, whose own edge may lie between grid points.
    """
    x, y = (int(n // (points + 1)) for n in cells[:2])
    if wraps[0]:
        x -= x % 2
    if wraps[1]:
        y -= y % 2
    return max(1, x), max(1, y)


def shared_work(parts: int) -> float:
    """Return the work of `p2g_owner` for a tile in ``parts``, over that in one part.

    Windows are computed for each part: of P = 7 to 18, 4 to 13 percent more.
    """
    return 1 + 0.12 * (parts - 1)


def owner_rounds(tiles: int, parts: int, threads: int) -> float:
    """Return the time of a colour of `p2g_owner`, in that of one tile in one part."""
    return -(-tiles * parts // threads) / parts * shared_work(parts)


@lru_cache
def owner_parts(tiles: int, threads: int, points: int) -> int:
    """Return in how many parts `p2g_owner` takes the planes of a tile, of a colour of ``tiles``.

    The fewest that take the least time. A source has P ``points`` planes, and as many parts at
    most.
    """
    return min(range(1, min(threads, points) + 1), key=lambda n: owner_rounds(tiles, n, threads))


def p2g_part(entries: int) -> int:
    """Return the most entries of a part of `p2g_tile`."""
    return min(P2G_PART, max(P2G_LEAST, entries // P2G_PARTS))


def reached(points: int, tile: tuple[int, int] = TILE) -> float:
    """Return how many tiles list a source, for P ``points`` of a window: those of a device."""
    edges = zip(tile, SIDES, strict=True)
    return math.prod((edge + -(-(points - 1) // side) * side) / edge for edge, side in edges)


def most_reached(points: int, tile: tuple[int, int] = TILE) -> int:
    """Return how many tiles list a source at most; the last of a periodic axis may be cut."""
    edges = zip(tile, SIDES, strict=True)
    return math.prod(2 - (2 - side - points) // edge for edge, side in edges)


def list_bytes(points: int, sources: int, cells: int, on_device: bool = True) -> float:
    """Return the bytes of the lists, and of starts and counts of sorted cells and of places."""
    tile, counted = sizes_of(on_device).tile, not on_device or sources > UNCOUNTED
    index = 8.0 * cells / math.prod(SIDES) + 16.0 * cells / math.prod(tile)
    listed = reached(points, tile) if counted else most_reached(points, tile)
    return index + 8.0 * listed * sources


def g2p_part(targets: int) -> int:
    """Return the most targets of a part of `g2p_tile`."""
    return min(G2P_PART, max(G2P_LEAST, targets // G2P_PARTS))


def scratch(teams: int, most: tuple[int, int]) -> int:
    """Return the bytes for each of ``teams`` if there are ``most`` for each of two, and for one."""
    half, whole = most
    # The driver keeps a kilobyte of each team's.
    return min(whole, 2 * (half + 1024) // teams - 1024)


def along_z(points: int, dtype: Any, wraps: bool, on_device: bool) -> tuple[int, int]:
    """Return the values of a window's row along z, and the spill of the grid for P ``points``."""
    row = points if on_device else vector_row(points, dtype)
    return row, row - points + (points - 1 if wraps else 0)


def workers(modes: float, threads: int) -> int:
    """Return how many CPU threads transform ``modes`` modes."""
    numbers = int(2 * modes)
    return max(1, min(threads, numbers // FFT_LEAST, max(FEW, numbers // LARGE)))


def parts(size: float, threads: int) -> int:
    """Return into how many parts to cut a block of ``size`` bytes."""
    return threads * math.ceil(size / (threads * CHUNK))


def room_before(components: int, modes: float, grid: float, item: int) -> float:
    """Return the numbers before the grid, so that no modes reach a component still to be read.

    ``modes`` and ``grid`` are the numbers of a component, of ``item`` bytes each. The modes of the
    first c components end before the grid's component c - 1; on the way back the last component
    comes first. Few modes lie apart from the grid, and all components are transformed at a time.
    """
    if components * modes * item <= APART:
        return components * modes
    return max(modes, components * modes - (components - 1) * grid)


def field_rows(kernel: str, want: tuple[str, ...]) -> int:
    """Return how many components are transformed back."""
    flags = wanted(want)
    return SUMS[kernel].results * flags["VELOCITY"] + flags["PRESSURE"]


def wanted(want: tuple[str, ...]) -> dict[str, bool]:
    """Return the switches of the convolution: gradients are gathered from the velocity."""
    found = {*want}
    return {
        "VELOCITY": bool(found & {"u", "grad_u", "grad_tensor"}),
        "PRESSURE": bool(found & {"p", "grad_tensor"}),
    }
