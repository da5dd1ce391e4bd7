"""`CellList`: points sorted by the cells of a uniform partition of a box.

The near field, spreading and gathering all start from one. It works on every execution space, and
equal input gives equal output, bit for bit. `runs` cuts columns of cells into parts of bounded
size. The module is independent of the sums and of the far field's grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

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
    real_name,
    shown,
    to_host,
    whole,
)
from parki.memory import Buffer, Buffers, require, telling
from parki.runtime import ExecutionSpace, Kernel, get_execution_space, load, load_all
from parki.runtime.forks import Uncopied
from parki.settings import MOST_THREADS, thread_count
from parki.typing import AnyArray, ArrayModule

# Launches over fewer points run in the calling thread: to wake another one takes longer.
FEW = 4096
# Points that a device sorts in one launch, and runs that it cuts in one. A launch takes the host as
# long as these take the device; where launches are recorded, several sort as many points sooner.
SORTED_AT_ONCE, CUT_AT_ONCE = 1024, 128
# Bytes of a cell: in the lists, and while they are made.
CELL = 16.0
# What counts the points of cells and puts them in order, by whether it runs on a device.
SORTING = {
    False: ("count_chunk", "place_chunk"),
    True: ("sort_few", "count_cells", "list_cells", "order_cells"),
}

# What sorts rows along with points, by the kernels of a list: by dtype and number of rows.
_GATHERS: dict[tuple[Kernel, ...], dict[tuple[Any, int], Kernel]] = {}


def list_buffers(points: int, cells: int, dtype: DTypeLike, spare: int = 0) -> Buffers:
    """Return the arrays of a `CellList`, with columns to ``spare`` after the sorted points."""
    return {  # in place, as each sum of few points feels a call
        "points": Buffer((3, points + spare), dtype),
        "cells": Buffer((points,), np.int32),
        "order": Buffer((points,), np.int32),
        "counts": Buffer((cells,), np.int32),
        "starts": Buffer((cells + 1,), np.int32),
    }


class CellList(Uncopied):
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

    _made_of = "points and box"

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
        self.space = get_execution_space(execution_space, points)
        xp = self.xp = self.space.array_module
        points = as_array("points", points)
        check_space({"points": points}, self.space)
        points = xp.ascontiguousarray(points)
        if points.ndim != 2 or points.shape[0] != 3:
            raise ParkiValueError(f"points has shape {points.shape}; expected (3, N)")
        if points.dtype not in REAL_NAMES:
            raise _wrong_dtype("points", points)
        self.box = numbers("box", box, as_number, "3 positive lengths")
        limits = np.finfo(points.dtype)
        least, most = float(limits.tiny) * 2**31, float(limits.max)
        if len(self.box) != 3 or not all(least <= edge <= most for edge in self.box):
            raise ParkiValueError(
                f"box is {self.box}; expected 3 positive lengths that {points.dtype} holds"
            )
        if given := shape is None:
            shape = _cells_of(cutoff, self.box)
        elif cutoff is not None:
            raise ParkiValueError("cutoff and shape both set the cells; give one of them")
        self.shape = numbers("shape", shape, as_whole, "3 positive counts")
        self.periodic = numbers("periodic", periodic, as_flag, "3 truth values")
        corner = numbers("origin", origin, as_number, "3 finite coordinates")
        scale = positive("scale", scale)
        spare = whole("spare", spare, "a number of columns, 0 or more", 0)
        self.systems = 1 if offsets is None else _systems_of(offsets, points.shape[1])
        cells = math.prod(self.shape) * self.systems
        if len(self.shape) != 3 or min(self.shape) < 1 or cells >= 2**31:
            of = f" for each of {self.systems} systems" if self.systems > 1 else ""
            if given:
                raise ParkiValueError(
                    f"cutoff is {shown(cutoff)}, which makes 2**31 cells or more{of} in a box of "
                    f"{self.box}; take a larger one"
                )
            raise ParkiValueError(
                f"shape is {shown(self.shape)}{of}; expected 3 positive counts, under 2**31 cells"
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
        remedy = "take a larger cutoff" if given else "take a shape of fewer cells"
        require(self.space, CELL * cells, f"lists of {cells:.3g} cells", remedy)
        if tilts is not None:
            tilts = _checked_tilts(tilts, points)
        self._make(
            points,
            self.shape,
            self.box,
            self.periodic,
            corner,
            self.space,
            scale=scale,
            spare=spare,
            offsets=offsets,
            tilts=tilts,
            executor=executor,
            along=flag("along", along),
        )

    @classmethod
    def made(
        cls,
        points: AnyArray,
        shape: Sequence[int],
        box: NDArray[np.float64],
        periodic: Sequence[bool],
        origin: Sequence[float],
        space: ExecutionSpace,
        *,
        scale: float = 1.0,
        spare: int = 0,
        offsets: AnyArray = None,
        tilts: AnyArray = None,
        executor: str | None = None,
    ) -> CellList:
        """Return a list of the solver's own points, which nothing is checked of.

        A device may record it.
        """
        new = cls.__new__(cls)
        new._make(
            points,
            shape,
            box,
            periodic,
            origin,
            space,
            scale=scale,
            spare=spare,
            offsets=offsets,
            tilts=tilts,
            executor=executor,
        )
        return new

    def _make(
        self,
        points: AnyArray,
        shape: Sequence[int],
        box: Iterable[float],
        periodic: Sequence[bool],
        origin: Sequence[float],
        space: ExecutionSpace,
        *,
        scale: float = 1.0,
        spare: int = 0,
        offsets: AnyArray = None,
        tilts: AnyArray = None,
        executor: str | None = None,
        along: bool = False,
    ) -> None:
        """Sort points by the cells of a box."""
        xp = self.xp = space.array_module
        self.space = space
        self.box, self.shape, self.periodic = (*map(float, box),), tuple(shape), tuple(periodic)
        self.systems = 1 if offsets is None else len(offsets) - 1
        self.executor = executor
        self.dtype = points.dtype
        self.n_cells = math.prod(self.shape) * self.systems
        find, *kernels = made = self.kernels(self.space, REAL_NAMES[points.dtype], executor)
        self._gathers = _GATHERS.setdefault(made, {})
        wrapped, self.cells = locate(
            points,
            self.box,
            self.shape,
            self.periodic,
            origin,
            space,
            scale=scale,
            along=along,
            tilts=tilts,
            executor=executor,
            find=find if tilts is None else None,
        )
        if offsets is not None:
            load("cell_list", "place_systems", self.space, executor=executor)(
                self.cells.size,
                cells=self.cells,
                offsets=self.space.adapter.constant(offsets, np.int32),
                systems=self.systems,
                each=math.prod(self.shape),
            )
        if self.space.on_device:
            self._sort_on_device(*kernels)
        else:
            self._sort_on_host(*kernels)
        self.points = self.sort(wrapped, out=with_spare(xp, wrapped.shape, spare, self.dtype))

    @staticmethod
    def kernels(
        space: ExecutionSpace, real: str, executor: str | None = None
    ) -> tuple[Kernel, ...]:
        """Return the kernels of a cell list with ``real`` arithmetic, of which the first finds."""
        names = SORTING[space.on_device]
        return load_all("cell_list", ("find_cells", *names), space, executor=executor, REAL=real)

    def _sort_on_device(
        self, sort_few: Kernel, count_cells: Kernel, list_cells: Kernel, order_cells: Kernel
    ) -> None:
        """Sort without waiting for the device: see ``kernels/cell_list.py``."""
        xp, n = self.xp, self.cells.size
        if self.n_cells == 1:  # `order_cells` would compare each point with all others
            self.order = xp.arange(n, dtype=np.int32)
            self.counts = xp.full(1, n, dtype=np.int32)
            self.starts = xp.arange(2, dtype=np.int32) * n
            return
        declared = list_buffers(n, self.n_cells, self.dtype)
        self.order = xp.empty(*declared["order"])
        if n <= SORTED_AT_ONCE and not self.space.adapter.capturing():
            last = self.n_cells
            self.counts, self.starts = (xp.empty(*declared[n]) for n in ("counts", "starts"))
            sort_few(
                max(n, last + 1),
                cells=self.cells,
                total=n,
                last=last,
                counts=self.counts,
                starts=self.starts,
                order=self.order,
            )
            return
        numbers, listed = (xp.empty(n, dtype=np.int32) for _ in range(2))
        zeros = xp.zeros(*declared["starts"])
        self.counts = zeros[1:]
        count_cells(n, cells=self.cells, counts=self.counts, numbers=numbers)
        self.starts = xp.cumsum(zeros, dtype=np.int32)
        list_cells(n, numbers=numbers, cells=self.cells, starts=self.starts, listed=listed)
        order_cells(n, order=self.order, cells=self.cells, starts=self.starts, listed=listed)

    def _sort_on_host(self, count_chunk: Kernel, place_chunk: Kernel) -> None:
        """Sort by counting: chunks count their points, then place them after earlier chunks."""
        n = self.cells.size
        threads = thread_count() if self.space.name == "OpenMP" else 1
        # A chunk's histogram should stay smaller than the chunk.
        chunks = max(1, min(threads, n // max(FEW, self.n_cells)))
        size = -(-n // chunks)
        histogram = np.zeros((chunks, self.n_cells), dtype=np.int32)
        count_chunk(chunks, cells=self.cells, histogram=histogram, size=size, total=n)
        self.counts = histogram.sum(axis=0, dtype=np.int32)
        declared = list_buffers(n, self.n_cells, self.dtype)
        self.starts = np.zeros(*declared["starts"])
        np.cumsum(self.counts, out=self.starts[1:])
        np.subtract(np.cumsum(histogram, axis=0, dtype=np.int32), histogram, out=histogram)
        histogram += self.starts[:-1]
        self.order = np.empty(*declared["order"])
        place_chunk(
            chunks, cells=self.cells, histogram=histogram, order=self.order, size=size, total=n
        )

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
            raise _wrong_dtype("rows", rows)
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


def locate(
    points: AnyArray,
    box: Sequence[float] | NDArray[np.float64],
    shape: Sequence[int],
    periodic: Sequence[bool],
    origin: Sequence[float],
    space: ExecutionSpace,
    *,
    scale: float = 1.0,
    along: bool = False,
    tilts: AnyArray = None,
    executor: str | None = None,
    find: Kernel | None = None,
) -> tuple[Any, Any]:
    """Scale points, wrap them into a box and find their cells; nothing is sorted or checked.

    Parameters
    ----------
    points, box, shape, periodic, origin, scale, along, tilts
        As for `CellList`.
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
        name = "find_cells" if tilts is None else "find_tilted_cells"
        find = load("cell_list", name, space, executor=executor, REAL=REAL_NAMES[dtype])
    x, y, z = shape
    strides = (1, x, x * y) if along else (y * z, z, 1)
    corner, length, inverse_width = constant([origin, box, np.divide(shape, box)], dtype)
    cells_along, steps, wraps = constant([shape, strides, periodic], np.int32)
    find(
        n,
        _threads(n),
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
    )
    return wrapped, cells


def multiplied(
    points: AnyArray, matrix: AnyArray, space: ExecutionSpace, executor: str | None = None
) -> Any:
    """Return points (3, N) times a matrix (3, 3) of their dtype, in their memory."""
    points = space.array_module.ascontiguousarray(points)
    product = space.array_module.empty_like(points)
    kernel = load("cell_list", "multiply", space, executor=executor, REAL=real_name(points.dtype))
    kernel(points.shape[1], points=points, matrix=matrix, multiplied=product)
    return product


def with_spare(xp: ArrayModule, shape: tuple[int, int], spare: int, dtype: DTypeLike) -> Any:
    """Return an uninitialised array of ``shape``, followed by ``spare`` columns of zeros."""
    rows, n = shape
    array = xp.empty((rows, n + spare), dtype=dtype)
    if spare:
        array[:, n:] = 0
    return array


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


def _wrong_dtype(name: str, array: AnyArray) -> ParkiTypeError:
    return ParkiTypeError(f"{name} has dtype {array.dtype}; expected float32 or float64")


def runs(
    space: ExecutionSpace,
    starts: AnyArray,
    size: int,
    total: int,
    *,
    length: int = 1,
    pieces: int = 1,
    executor: str | None = None,
) -> Any:
    """Cut columns of cells into parts of at most ``size`` sorted points.

    Parameters
    ----------
    space : ExecutionSpace
    starts : array, shape (columns * length + 1,), int32
        Cell c holds the points ``starts[c]`` to ``starts[c + 1] - 1``.
    size : int
        Largest number of points in a part.
    total : int
        Upper bound of the number of points.
    length, pieces : int
        Cells in a column, and number of pieces into which each column is cut first.

    Returns
    -------
    array, shape (3, parts), int32
        Column, first point and last point + 1 of each part, in order. On a device, which the host
        does not wait for, the number of parts is an upper bound, and the last ones are empty.
    """
    xp, columns = space.array_module, (starts.size - 1) // length
    count, write, *few = parts_kernels(space, executor)
    most = most_parts(total, size, columns * pieces)
    if few and columns * pieces <= CUT_AT_ONCE:
        parts = xp.empty((3, most), dtype=np.int32)
        list_few = few[0]
        list_few(
            most,
            columns=columns,
            parts=parts,
            starts=starts,
            length=length,
            pieces=pieces,
            size=size,
        )
        return parts
    cells = columns * pieces
    counts = xp.zeros(cells + 1, dtype=np.int32)
    count(
        cells,
        _threads(cells),
        counts=counts[1:],
        starts=starts,
        length=length,
        pieces=pieces,
        size=size,
    )
    begins = xp.cumsum(counts, dtype=np.int32)
    parts = xp.empty((3, most if space.on_device else int(begins[-1])), dtype=np.int32)
    write(
        parts.shape[1],
        _threads(parts.shape[1]),
        runs=cells,
        begins=begins,
        parts=parts,
        starts=starts,
        length=length,
        pieces=pieces,
        size=size,
    )
    return parts


def most_parts(points: int, size: int, columns: int) -> int:
    """Return the most parts of at most ``size`` points into which `runs` cuts columns."""
    return points // size + min(points, columns)


def _threads(count: int) -> int:
    """Return the most threads for a kernel that does little for each of ``count`` points."""
    return 1 if count < FEW else MOST_THREADS


def parts_kernels(space: ExecutionSpace, executor: str | None = None) -> tuple[Kernel, ...]:
    """Return the kernels of `runs`."""
    names = ("count_parts", "list_parts", "list_few")
    return load_all("cell_list", names[: 2 + space.on_device], space, executor=executor)
