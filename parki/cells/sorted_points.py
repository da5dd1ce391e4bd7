"""`SortedPoints`: points sorted by the cells of a `CellGrid`.

The near field, spreading and gathering all start from one. It works on every execution space, and
equal input gives equal output, bit for bit. It is independent of the sums and of the far field's
grid. Nothing is checked here: see `parki.CellList`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from parki.cells.cell_grid import FEW, CellGrid, OwnBoxes, locate
from parki.cells.runs import runs
from parki.errors import ParkiTypeError, ParkiValueError
from parki.interchange import REAL_NAMES, real_name
from parki.memory import Buffer, Buffers
from parki.runtime import ExecutionSpace, Kernel, load, load_all
from parki.runtime.forks import MadeAnew
from parki.settings import MOST_THREADS
from parki.typing import AnyArray, ArrayModule

# Points that a device sorts in one launch. A launch takes the host as long as these take the
# device; where launches are recorded, several sort as many points sooner.
SORTED_AT_ONCE = 1024
# What counts the points of cells and puts them in order, by whether it runs on a device.
SORTING = {
    False: ("count_chunk", "place_chunk"),
    True: ("sort_few", "count_cells", "list_cells", "order_cells"),
}

# What sorts rows along with points, by the kernels of a list: by dtype and number of rows.
_GATHERS: dict[tuple[Kernel, ...], dict[tuple[Any, int], Kernel]] = {}


def list_buffers(points: int, cells: int, dtype: DTypeLike, spare: int = 0) -> Buffers:
    """Return the arrays of `SortedPoints`, with columns to ``spare`` after the sorted points."""
    return {  # in place, as each sum of few points feels a call
        "points": Buffer((3, points + spare), dtype),
        "cells": Buffer((points,), np.int32),
        "order": Buffer((points,), np.int32),
        "counts": Buffer((cells,), np.int32),
        "starts": Buffer((cells + 1,), np.int32),
    }


class SortedPoints(MadeAnew):
    """Points sorted by cells. A device may record that they are made.

    Parameters
    ----------
    points : array, shape (3, N), float32 or float64
        Not modified.
    cell_grid : CellGrid
    space : ExecutionSpace
    scale, spare, offsets, tilts
        As for `parki.CellList`, which also describes the attributes.
    boxes : OwnBoxes, optional
        Of the systems, where each has one of its own.
    """

    _made_of = "points and box"

    def __init__(
        self,
        points: AnyArray,
        cell_grid: CellGrid,
        space: ExecutionSpace,
        *,
        scale: float = 1.0,
        spare: int = 0,
        offsets: AnyArray = None,
        tilts: AnyArray = None,
        boxes: OwnBoxes | None = None,
        executor: str | None = None,
    ) -> None:
        xp = self.xp = space.array_module
        self.space, self.cell_grid, self.executor = space, cell_grid, executor
        self.systems = 1 if offsets is None else len(offsets) - 1
        self.dtype = points.dtype
        cells_of_system = math.prod(cell_grid.counts)
        self.n_cells = cells_of_system * self.systems
        kernels = self.kernels(space, REAL_NAMES[points.dtype], executor)
        self._gathers = _GATHERS.setdefault(kernels, {})
        begins = None if offsets is None else space.adapter.constant(offsets, np.int32)
        wrapped, self.cells = locate(
            points,
            cell_grid,
            space,
            scale=scale,
            tilts=tilts,
            boxes=boxes,
            offsets=begins,
            executor=executor,
            find=kernels[0] if tilts is None and boxes is None else None,
        )
        if offsets is not None:
            load("cell_list", "place_systems", space, executor=executor)(
                self.cells.size,
                cells=self.cells,
                offsets=begins,
                systems=self.systems,
                each=cells_of_system,
            )
        sort = sort_on_device if space.on_device else sort_on_host
        self.order, self.counts, self.starts = sort(space, self.cells, self.n_cells, kernels[1:])
        self.points = self.sort(wrapped, out=with_spare(xp, wrapped.shape, spare, self.dtype))

    @staticmethod
    def kernels(
        space: ExecutionSpace, real: str, executor: str | None = None
    ) -> tuple[Kernel, ...]:
        """Return the kernels of a cell list with ``real`` arithmetic, of which the first finds."""
        names = SORTING[space.on_device]
        return load_all("cell_list", ("find_cells", *names), space, executor=executor, REAL=real)

    def sort(self, rows: AnyArray, out: AnyArray = None) -> Any:
        """Return a payload array sorted along with the points.

        Parameters
        ----------
        rows : array, shape (C, N) or (N,), float32 or float64
            Column i belongs to input point i.
        out : array, optional
            Array for the result: shape (C, N) or wider, same dtype, C-contiguous.
        """
        if rows.dtype not in REAL_NAMES:
            raise wrong_dtype("rows", rows)
        n = self.order.size
        flat = rows.reshape(1, -1) if rows.ndim == 1 else rows
        if not flat.flags.c_contiguous:  # which a device's library takes time to look at
            flat = self.xp.ascontiguousarray(flat)
        if flat.ndim != 2 or flat.shape[1] != n:
            raise ParkiValueError(f"rows has shape {rows.shape}; expected {n} columns")
        result = self.xp.empty_like(flat) if out is None else out
        if result.ndim != 2 or result.shape[0] != flat.shape[0] or result.shape[1] < n:
            raise ParkiValueError(
                f"out has shape {result.shape}; expected {flat.shape}, or more columns"
            )
        dtype, count = kind = flat.dtype, flat.shape[0]
        if kind not in self._gathers:
            self._gathers[kind] = self.gather_kernel(self.space, dtype, count, self.executor)
        gather = self._gathers[kind]
        gather(n, 1 if n < FEW else MOST_THREADS, rows=flat, order=self.order, sorted_rows=result)
        return result.reshape(rows.shape) if out is None else out

    @staticmethod
    def gather_kernel(
        space: ExecutionSpace, dtype: DTypeLike, rows: int, executor: str | None = None
    ) -> Kernel:
        """Return the kernel that `sort` runs for arrays of ``rows`` rows."""
        return load(
            "cell_list", "gather_rows", space, executor=executor, REAL=real_name(dtype), ROWS=rows
        )

    @staticmethod
    def add_kernel(
        space: ExecutionSpace, dtype: DTypeLike, rows: int, executor: str | None = None
    ) -> Kernel:
        """Return the kernel that adds ``rows`` sorted rows to rows in input order."""
        return load(
            "cell_list", "add_rows", space, executor=executor, REAL=real_name(dtype), ROWS=rows
        )

    @staticmethod
    def pairs_kernel(space: ExecutionSpace, executor: str | None = None) -> Kernel:
        """Return the kernel that counts the pairs of two lists that share a cell."""
        return load("cell_list", "count_pairs", space, executor=executor, REAL="double")

    def parts(self, size: int, cells: int) -> Any:
        """Return (column, first, last + 1) of parts of columns, shape (3, parts), int32.

        Each part has at most ``size`` points in at most ``cells`` cells along x.
        """
        length, n = self.cell_grid.counts[0], self.order.size
        return runs(
            self.space,
            self.starts,
            size,
            n,
            length=length,
            pieces=-(-length // cells),
            executor=self.executor,
        )


def sort_on_device(
    space: ExecutionSpace, cells: AnyArray, n_cells: int, kernels: tuple[Kernel, ...]
) -> tuple[Any, Any, Any]:
    """Return the stable order of points by their cells, and how cells are filled and begin.

    It does not wait for the device: see ``kernels/cell_list.py``.

    Parameters
    ----------
    space : ExecutionSpace
    cells : array, shape (N,), int32
    n_cells : int
    kernels : tuple of 4 Kernels
        `SORTING` has their names.

    Returns
    -------
    tuple of 3 arrays, shape (N,), (n_cells,) and (n_cells + 1,), int32
    """
    xp, n = space.array_module, cells.size
    sort_few, count_cells, list_cells, order_cells = kernels
    if n_cells == 1:  # `order_cells` would compare each point with all others
        order, counts = xp.arange(n, dtype=np.int32), xp.full(1, n, dtype=np.int32)
        return order, counts, xp.arange(2, dtype=np.int32) * n
    declared = list_buffers(n, n_cells, np.float64)
    order = xp.empty(*declared["order"])
    if n <= SORTED_AT_ONCE and not space.adapter.capturing():
        counts, starts = (xp.empty(*declared[name]) for name in ("counts", "starts"))
        sort_few(
            max(n, n_cells + 1),
            cells=cells,
            total=n,
            last=n_cells,
            counts=counts,
            starts=starts,
            order=order,
        )
        return order, counts, starts
    numbers, listed = (xp.empty(n, dtype=np.int32) for _ in range(2))
    zeros = xp.zeros(*declared["starts"])
    count_cells(n, cells=cells, counts=zeros[1:], numbers=numbers)
    starts = xp.cumsum(zeros, dtype=np.int32)
    list_cells(n, numbers=numbers, cells=cells, starts=starts, listed=listed)
    order_cells(n, order=order, cells=cells, starts=starts, listed=listed)
    return order, zeros[1:], starts


def sort_on_host(
    space: ExecutionSpace, cells: AnyArray, n_cells: int, kernels: tuple[Kernel, ...]
) -> tuple[Any, Any, Any]:
    """Return order, counts and starts by two kernels: chunks count, then place their points."""
    n, (count_chunk, place_chunk) = cells.size, kernels
    # A chunk's histogram should stay smaller than the chunk.
    chunks = max(1, min(space.threads, n // max(FEW, n_cells)))
    size = -(-n // chunks)
    histogram = np.zeros((chunks, n_cells), dtype=np.int32)
    count_chunk(chunks, cells=cells, histogram=histogram, size=size, total=n)
    counts = histogram.sum(axis=0, dtype=np.int32)
    declared = list_buffers(n, n_cells, np.float64)
    starts = np.zeros(*declared["starts"])
    np.cumsum(counts, out=starts[1:])
    np.subtract(np.cumsum(histogram, axis=0, dtype=np.int32), histogram, out=histogram)
    histogram += starts[:-1]
    order = np.empty(*declared["order"])
    place_chunk(chunks, cells=cells, histogram=histogram, order=order, size=size, total=n)
    return order, counts, starts


def with_spare(xp: ArrayModule, shape: tuple[int, int], spare: int, dtype: DTypeLike) -> Any:
    """Return an uninitialised array of ``shape``, followed by ``spare`` columns of zeros."""
    rows, n = shape
    array = xp.empty((rows, n + spare), dtype=dtype)
    if spare:
        array[:, n:] = 0
    return array


def wrong_dtype(name: str, array: AnyArray) -> ParkiTypeError:
    """Return the error of an array of neither precision."""
    return ParkiTypeError(f"{name} has dtype {array.dtype}; expected float32 or float64")
