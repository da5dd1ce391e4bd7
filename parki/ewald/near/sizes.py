"""Sizes that the near field and the choice of parameters share: cells, tiles and launches."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from parki.ewald.options.variants import CELL_METHODS
from parki.runtime import ExecutionSpace

# Variants of the literature, by cells. In STAGED ones the team copies sources to scratch memory.
STAGED = CELL_METHODS[2:]
# Columns of cells are at most r_c / COLUMNS wide; along z a cell is r_c / DEPTH deep.
COLUMNS, DEPTH = 2, 8
# Tiles of p2p_tile have few targets, so that their bounding boxes cull tightly, and one warp of
# lanes. Lanes with long lists drift apart, and find less of what others have read in the cache.
# Where the positions near the targets of a multiprocessor fill the cache, smaller tiles and fewer
# candidates keep lanes together. Few targets fill fewer tiles than a device runs at once, and the
# longest list takes all the time. Smaller tiles serve them, too; the smallest serve few targets
# with long lists.
FEW = 50_000  # targets
# From this many sources of `Problem.read` on, tiles are smaller: the number for few targets, and
# the number for many targets times the bytes of a position. Fitted: see docs/notebook/constants.md.
FEW_READ, MANY_READ = 7000, 80_000


class Launch(NamedTuple):
    """Sizes of a variant's launch.

    Attributes
    ----------
    team : int
        Threads of a team on a device; a host team is one thread.
    vectors : int
        Lanes of each thread that share the sources of its target: a power of two up to 32; 1 for
        variants without lanes.
    targets : int
        Most targets of a team: other teams take the rest of the cell.
    chunk : int
        Sources copied at a time, for variants that copy.
    width : float
        Least width of the cells over r_c: up to 1.
    """

    team: int
    vectors: int
    targets: int
    chunk: int
    width: float


class Tile(NamedTuple):
    """A tile: most targets, lanes that share a target's sources, and candidates of each lane."""

    targets: int
    lanes: int = 1
    candidates: int = 0


# By whether targets are few, and whether `Problem.read` is large.
TILES = {
    (False, False): Tile(8, 4, 256),
    (True, False): Tile(4, 8, 128),
    (False, True): Tile(4, 8, 64),
    (True, True): Tile(2, 16, 32),
}


class NearSizes(NamedTuple):
    """Sizes for a kind of space.

    Attributes
    ----------
    staged : Tile
        Tile of p2p_staged.
    chunk, stage : int
        Most sources that p2p_staged stages at a time, and most bytes of these, of which a core's
        first cache has more than twice as many.
    vector : int
        Bytes of a row of sources that are copied together.
    cells : float
        Most cells for each source. A cloud of two scales has a cut-off for the denser scale, for
        which the box would have too many cells.
    column : float
        Sources in a depth r_c of a column from which columns are narrower, so that fewer pairs
        beyond the cut-off are computed. Runs of fewer sources take longer to copy than they save.
    """

    staged: Tile
    chunk: int
    stage: int
    vector: int
    cells: float
    column: float


CPU = NearSizes(Tile(4), 256, 20_000, 64, 4.0, 12.0)
DEVICE = NearSizes(Tile(16), 64, 2**20, 0, 64.0, np.inf)


def sizes_of(space: ExecutionSpace) -> NearSizes:
    """Return the sizes of a space."""
    return DEVICE if space.on_device else CPU


def copied_at_once(space: ExecutionSpace, dtype: DTypeLike) -> int:
    """Return the sources that p2p_staged copies at a time, in the longest vector."""
    return max(1, sizes_of(space).vector // int(np.dtype(dtype).itemsize))


def staged_at_once(space: ExecutionSpace, size: int) -> int:
    """Return the number of sources that p2p_staged stages at a time, of ``size`` bytes each."""
    sizes = sizes_of(space)
    return sizes.chunk >> max(0, math.ceil(math.log2(sizes.chunk * size / sizes.stage)))


def choose_launch(method: str, space: ExecutionSpace) -> Launch | None:
    """Return the best launch of a variant of the literature; None for parki's own variants.

    On devices the blocks are the best ones of the paper. On a host the processor's vectors take
    several sources at a time in all variants, so that nothing is left for lanes to share.
    """
    if method not in CELL_METHODS:
        return None
    if not space.on_device:
        return Launch(1, 1, targets=64, chunk=256, width=1.0)
    team, vectors = {"gm1d": (64, 1), "gm2d": (8, 32), "sm1d": (32, 1), "sm2d": (64, 2)}[method]
    return Launch(team, vectors, targets=team, chunk=max(64, team * vectors), width=1.0)


def near_tile(
    space: ExecutionSpace, method: str, targets: int, read: float, dtype: np.dtype[Any]
) -> Tile:
    """Return the tile of ``method``, tile or staged, for a number of ``targets``.

    ``read`` is the number of sources near the targets that a device works on at a time.
    """
    if method == "staged":
        return sizes_of(space).staged
    few = targets <= FEW
    return TILES[few, read > (FEW_READ if few else MANY_READ / dtype.itemsize)]


def tile_of_slopes(method: str, tile: Tile) -> Tile:
    """Return the tile of derivatives on a device, which is ``tile`` if ``method`` has tiles."""
    return tile if method == "tile" else TILES[False, False]


def cells_of(
    box: np.ndarray[Any, Any],
    cutoff: float,
    sources: int,
    launch: Launch | None,
    space: ExecutionSpace,
    systems: int = 1,
) -> tuple[int, int, int]:
    """Return the cells along each axis: a number for each r_c, up to a useful limit.

    The cells are one system's, of ``systems`` that share the ``sources``.
    """
    per_edge, sizes = box / cutoff, sizes_of(space)
    if launch is None:
        near = sources / systems / float(np.prod(np.maximum(per_edge, (1e-9, 1e-9, 1.0))))
        columns = max(COLUMNS, math.sqrt(near / sizes.column))
        # Hardly a pair is beyond the cut-off along an edge within it.
        across = np.where(per_edge > 1, columns, COLUMNS)
        per_edge = per_edge * (across[0], across[1], DEPTH)
    else:
        per_edge = per_edge / launch.width
    # Cells are numbered with 32 bits.
    most = min(max(sizes.cells * sources / systems, 64.0), 2.0**30 / systems)
    excess = float(np.prod(per_edge)) / most
    if excess > 1:
        per_edge /= excess ** (1 / 3)
    x, y, z = np.maximum(per_edge, 1).astype(int).tolist()
    return x, y, z
