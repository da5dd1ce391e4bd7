"""`CellList`: points sorted by the cells of a box, as users make it: all of it is checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.cells.cell_grid import CellGrid
from parki.cells.sorted_points import SortedPoints, wrong_dtype
from parki.errors import ParkiTypeError, ParkiValueError
from parki.interchange import (
    REAL_NAMES,
    as_array,
    as_flag,
    as_number,
    as_whole,
    check_space,
    flag,
    numbers,
    positive,
    shown,
    to_host,
    whole,
)
from parki.memory import require, telling
from parki.runtime import ExecutionSpace, get_execution_space
from parki.typing import AnyArray

# Bytes of a cell: in the lists, and while they are made.
CELL = 16.0


class CellList(SortedPoints):
    """Points sorted by cells.

    Parameters
    ----------
    points : array, shape (3, N), float32 or float64
        Positions, in the unit of ``box``; NumPy or CuPy, any strides. Not modified.
    cutoff : float or None
        Smallest width of a cell, so that points within ``cutoff`` of each other are in the same
        cell or in adjacent ones. None if ``shape`` is given.
    box : sequence of 3 floats
        Edge lengths of the box, which starts at ``origin``.
    periodic : sequence of 3 bools
        Axes along which points are wrapped into the box. Along the others, points outside of it
        belong to the nearest cell.
    origin : sequence of 3 floats
        Corner of the box.
    execution_space : ExecutionSpace or str, optional
        The default is the memory of the points.
    shape : sequence of 3 ints, optional
        Number of cells along each axis, in place of ``cutoff``; a cell's width is box / shape.
    scale : float
        Factor applied to the points first; ``box`` and ``origin`` are in the scaled unit.
    spare : int
        Number of columns of zeros that follow the N sorted ``points``.
    offsets : array, shape (S + 1,), int32, optional
        Offsets of S systems: system s has the points ``offsets[s]`` to ``offsets[s + 1] - 1``. Each
        system has separate cells, numbered after the cells of the previous system.
    along : bool
        Whether cells along the first axis follow each other, in place of the last.
    tilts : array, shape (3,), optional
        In the dtype and memory of the points: tilts xy, xz and yz of a box whose points fill the
        brick of edges ``box``. A period along y is also xy along x, and one along z xz along x and
        yz along y.

    Attributes
    ----------
    points : array, shape (3, N + spare)
        Wrapped points in sorted order.
    n_cells : int
        Number of cells in all systems.
    order : array, shape (N,), int32
        ``points[:, i]`` is the input's column ``order[i]``. The sort is stable.
    cells : array, shape (N,), int32
        Cell of each input point, in input order.
    counts : array, shape (n_cells,), int32
        Number of points in each cell.
    starts : array, shape (n_cells + 1,), int32
        Offsets: cell c holds the sorted points ``starts[c]`` to ``starts[c + 1] - 1``.

    Raises
    ------
    ParkiValueError
        If the shape of the points, the box or the number of cells is invalid.
    ParkiTypeError
        If the points are neither float32 nor float64.
    """

    @telling
    def __init__(
        self,
        points: AnyArray,
        cutoff: float | None,
        box: Sequence[float] | NDArray[np.float64],
        periodic: Sequence[bool] = (False, False, False),
        origin: Sequence[float] = (0.0, 0.0, 0.0),
        execution_space: ExecutionSpace | str | None = None,
        *,
        shape: Sequence[int] | None = None,
        scale: float = 1.0,
        spare: int = 0,
        offsets: NDArray[np.int32] | None = None,
        along: bool = False,
        tilts: AnyArray = None,
        executor: str | None = None,
    ) -> None:
        space = get_execution_space(execution_space, points)
        points = as_array("points", points)
        check_space("points", points, space)
        points = space.array_module.ascontiguousarray(points)
        if points.ndim != 2 or points.shape[0] != 3:
            raise ParkiValueError(f"points has shape {points.shape}; expected (3, N)")
        if points.dtype not in REAL_NAMES:
            raise wrong_dtype("points", points)
        self.box = numbers("box", box, as_number, "3 positive lengths")
        limits = np.finfo(points.dtype)
        least, most = float(limits.tiny) * 2**31, float(limits.max)
        if len(self.box) != 3 or not all(least <= edge <= most for edge in self.box):
            raise ParkiValueError(
                f"box is {self.box}; expected 3 positive lengths that {points.dtype} holds"
            )
        if by_cutoff := shape is None:
            shape = _cells_of(cutoff, self.box)
        elif cutoff is not None:
            raise ParkiValueError("cutoff and shape both set the cells; give one of them")
        self.shape = numbers("shape", shape, as_whole, "3 positive counts")
        self.periodic = numbers("periodic", periodic, as_flag, "3 truth values")
        corner = numbers("origin", origin, as_number, "3 finite coordinates")
        scale = positive("scale", scale)
        spare = whole("spare", spare, "a number of columns, 0 or more", 0)
        systems = 1 if offsets is None else _systems_of(offsets, points.shape[1])
        cells = math.prod(self.shape) * systems
        if len(self.shape) != 3 or min(self.shape) < 1 or cells >= 2**31:
            per_system = f" for each of {systems} systems" if systems > 1 else ""
            if by_cutoff:
                raise ParkiValueError(
                    f"cutoff is {shown(cutoff)}, which makes 2**31 cells or more{per_system} in a "
                    f"box of {self.box}; take a larger one"
                )
            raise ParkiValueError(
                f"shape is {shown(self.shape)}{per_system}; expected 3 positive counts, under "
                "2**31 cells"
            )
        if len(self.periodic) != 3:
            raise ParkiValueError(f"periodic is {self.periodic}; expected 3 truth values")
        if len(corner) != 3 or not all(map(math.isfinite, corner)):
            raise ParkiValueError(f"origin is {corner}; expected 3 finite coordinates")
        if points.shape[1] + spare >= 2**31 - 2**16:
            raise ParkiValueError(
                f"points holds {points.shape[1]} points, and spare is {shown(spare)}; expected at "
                "most 2**31 - 2**16 in all"
            )
        remedy = "take a larger cutoff" if by_cutoff else "take a shape of fewer cells"
        require(space, CELL * cells, f"lists of {cells:.3g} cells", remedy)
        if tilts is not None:
            tilts = _checked_tilts(tilts, points)
        super().__init__(
            points,
            CellGrid(self.shape, self.box, self.periodic, corner, flag("along", along)),
            space,
            scale=scale,
            spare=spare,
            offsets=offsets,
            tilts=tilts,
            executor=executor,
        )

    def padded(self) -> Any:
        """Return the padded form: shape (n_cells, largest count), int32.

        Row c holds the sorted indices of cell c's points, padded by -1.
        """
        xp = self.xp
        capacity = int(self.counts.max()) if self.order.size else 0
        index = self.starts[:-1, None] + xp.arange(capacity, dtype=np.int32)[None, :]
        return xp.where(index < self.starts[1:, None], index, np.int32(-1))

    def neighbours(self, reach: int = 1) -> Any:
        """Return the cells around each cell: shape (n_cells, (2 reach + 1)^3), int32.

        Periodic axes wrap; a neighbour beyond the end of a free axis is -1. If a periodic axis has
        fewer than 2 reach + 1 cells, a cell occurs once for each of its images.
        """
        xp = self.xp
        steps = xp.arange(-reach, reach + 1)
        flat, valid = xp.zeros((1, 1), dtype=np.int64), xp.ones((1, 1), dtype=bool)
        for n, periodic in zip(self.shape, self.periodic, strict=True):
            near = xp.arange(n)[:, None] + steps[None, :]
            inside = xp.ones_like(near, dtype=bool) if periodic else (near >= 0) & (near < n)
            near = near % n
            rows, columns = flat.shape[0] * n, flat.shape[1] * steps.size
            flat = (flat[:, None, :, None] * n + near[None, :, None, :]).reshape(rows, columns)
            valid = (valid[:, None, :, None] & inside[None, :, None, :]).reshape(rows, columns)
        return xp.where(valid, flat, -1).astype(np.int32)


def _cells_of(cutoff: Any, box: tuple[float, ...]) -> tuple[int, ...]:
    """Return the number of cells along each edge of a box, at least ``cutoff`` wide."""
    width = positive("cutoff", cutoff, "a positive, finite width of a cell")
    return tuple(int(min(max(edge / width, 1.0), 2.0**31)) for edge in box)


def _systems_of(offsets: AnyArray, count: int) -> int:
    """Return the number of systems; refuse what are no offsets of them."""
    ends = to_host(as_array("offsets", offsets))
    if ends.ndim != 1 or ends.dtype.kind not in "iu":
        raise ParkiTypeError(f"offsets is {shown(offsets)}; expected whole numbers in a list")
    if ends.size < 2 or ends[0] != 0 or ends[-1] != count or (np.diff(ends) < 0).any():
        raise ParkiValueError(
            f"offsets is {shown(offsets)}; expected two or more numbers, from 0 to the {count} "
            "points given, none smaller than the one before"
        )
    return int(ends.size) - 1


def _checked_tilts(tilts: AnyArray, points: AnyArray) -> Any:
    """Return tilts; refuse what is not 3 of them like the points."""
    array = as_array("tilts", tilts)
    if array.shape != (3,) or array.dtype != points.dtype or type(array) is not type(points):
        raise ParkiValueError(
            f"tilts has shape {array.shape} and dtype {array.dtype}; expected (3,) and the points' "
            f"{points.dtype}, in their memory"
        )
    return array
