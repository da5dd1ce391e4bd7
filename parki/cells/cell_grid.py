"""`CellGrid`: a uniform partition of a box into cells; `locate` finds the cells of points."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from parki.interchange import REAL_NAMES, real_name
from parki.runtime import ExecutionSpace, Kernel, load
from parki.settings import MOST_THREADS
from parki.typing import AnyArray

# Launches over fewer points run in the calling thread: to wake another one takes longer.
FEW = 4096


class CellGrid(NamedTuple):
    """Equal cells of a box.

    Attributes
    ----------
    counts : tuple of 3 ints
        Number of cells along each axis.
    edges : tuple of 3 floats
        Edge lengths of the box.
    periodic : tuple of 3 bools
        Axes along which points are wrapped into the box. Along the others, points outside of it
        belong to the nearest cell.
    corner : tuple of 3 floats
        Where the box begins.
    along : bool
        Whether cells along the first axis follow each other, in place of the last.
    """

    counts: tuple[int, ...]
    edges: tuple[float, ...]
    periodic: tuple[bool, ...] = (False, False, False)
    corner: tuple[float, ...] = (0.0, 0.0, 0.0)
    along: bool = False


class OwnBoxes(NamedTuple):
    """The bricks of systems that have boxes of their own, each cut into as many cells.

    Attributes
    ----------
    corners, edges, inverse_widths : array, shape (3 S,)
        Where each begins, its edges, and the inverse of those of its cells.
    tilts : array, shape (3 S,)
        Of each box, as for `parki.CellList`.
    """

    corners: Any
    edges: Any
    inverse_widths: Any
    tilts: Any


def locate(
    points: AnyArray,
    grid: CellGrid,
    space: ExecutionSpace,
    *,
    scale: float = 1.0,
    tilts: AnyArray = None,
    boxes: OwnBoxes | None = None,
    offsets: AnyArray = None,
    executor: str | None = None,
    find: Kernel | None = None,
) -> tuple[Any, Any]:
    """Scale points, wrap them into a box and find their cells; nothing is sorted or checked.

    Parameters
    ----------
    points : array, shape (3, N), float32 or float64
    grid : CellGrid
    scale : float
        Factor applied to the points first; ``grid`` is in the scaled unit.
    tilts : array, shape (3,), optional
        As for `parki.CellList`.
    boxes : OwnBoxes, optional
        In the place of the tilts and of the box of ``grid``, for systems.
    offsets : array, shape (S + 1,), optional
        Where the points of each of these begin.
    find : Kernel, optional
        Which finds the cells. Default: loaded.

    Returns
    -------
    wrapped : array, shape (3, N)
    cells : array, shape (N,), int32
    """
    xp, constant = space.array_module, space.adapter.constant
    if not points.flags.c_contiguous:
        points = xp.ascontiguousarray(points)
    dtype, n = points.dtype, points.shape[1]
    wrapped, cells = xp.empty_like(points), xp.empty(n, dtype=np.int32)
    if find is None:
        name = "find_cells" if tilts is None and boxes is None else "find_tilted_cells"
        constants: dict[str, Any] = {"REAL": REAL_NAMES[dtype]}
        if boxes is not None:
            constants["BOXES"] = True
        find = load("cell_list", name, space, constants, executor=executor)
    x, y, z = counts = grid.counts
    strides = (1, x, x * y) if grid.along else (y * z, z, 1)
    inverse = np.divide(counts, grid.edges)
    corner, length, inverse_width = constant([grid.corner, grid.edges, inverse], dtype)
    if boxes is not None:
        corner, length, inverse_width, tilts = boxes
    cells_along, steps, wraps = constant([counts, strides, grid.periodic], np.int32)
    find(
        n,
        most_threads(n),
        tilts=tilts,
        points=points,
        wrapped=wrapped,
        cells=cells,
        origin=corner,
        length=length,
        inverse_width=inverse_width,
        shape=cells_along,
        strides=steps,
        periodic=wraps,
        scale=scale,
        offsets=offsets,
        systems=1 if offsets is None else len(offsets) - 1,
    )
    return wrapped, cells


def multiplied(
    points: AnyArray,
    matrix: AnyArray,
    space: ExecutionSpace,
    executor: str | None = None,
    *,
    offsets: AnyArray = None,
) -> Any:
    """Return points (3, N) times a matrix (3, 3) of their dtype, in their memory.

    With ``offsets`` of systems, shape (S + 1,), each has a matrix, one below the other.
    """
    points = space.array_module.ascontiguousarray(points)
    product = space.array_module.empty_like(points)
    constants: dict[str, Any] = {"REAL": real_name(points.dtype)}
    if offsets is not None:
        constants["BOXES"] = True
    kernel = load("cell_list", "multiply", space, constants, executor=executor)
    kernel(
        points.shape[1],
        points=points,
        matrix=matrix,
        multiplied=product,
        offsets=offsets,
        systems=1 if offsets is None else len(offsets) - 1,
    )
    return product


def most_threads(count: int) -> int:
    """Return the most threads for a kernel that does little for each of ``count`` points."""
    return 1 if count < FEW else MOST_THREADS
