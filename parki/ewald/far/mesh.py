"""`Mesh`: what spreading and gathering share: the grid, the window's tables, sorting by tiles.

It does not depend on a sum or on the variants, so that `parki.mesh` can use it. `EwaldMesh` is the
mesh of a sum, for FGC and the gauge.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.cells.cell_grid import CellGrid
from parki.cells.sorted_points import SortedPoints
from parki.ewald.far import sizes
from parki.ewald.far.padding import Padding
from parki.ewald.far.sizes import SCRATCH, along_z
from parki.ewald.solver_box import SolverBox
from parki.ewald.split.window import KaiserBessel, Window
from parki.ewald.task import Task
from parki.interchange import real_name
from parki.runtime import ExecutionSpace, Kernel, load
from parki.runtime.forks import cached_property
from parki.runtime.kernel import NOTHING
from parki.runtime.specialise import Constant
from parki.typing import AnyArray, DType


@dataclass(frozen=True)
class Fields:
    """What is spread onto a grid and gathered from it.

    Attributes
    ----------
    sources : mapping
        The constants of P2G's kernels that depend on the sources.
    components, results : int
        Numbers of components that are spread and gathered.
    gradient : bool
        Whether sources are spread with the window's gradient.
    want : tuple of str
        Gathered results: "u", "p", "grad_u", and "grad_tensor".
    deterministic : bool
        Whether grid values must be the same bits every time.
    """

    sources: Mapping[str, Any] = field(hash=False)
    components: int
    results: int
    gradient: bool = False
    want: tuple[str, ...] = ("u",)
    deterministic: bool = False

    @cached_property
    def tensors(self) -> bool:
        """Whether targets have tensors."""
        return "grad_tensor" in self.want

    @cached_property
    def curvature(self) -> bool:
        """Whether sources are spread with the window's second derivatives."""
        return bool(self.sources.get("QUADRUPOLES"))

    @classmethod
    def of(cls, task: Task) -> Fields:
        """Return the fields of a sum."""
        kind = task.sum
        turns = {"TILTED": True} if kind.gradient and task.tilted else {}
        return cls(
            sources={**kind.p2g, **turns},
            components=kind.components,
            results=kind.results,
            gradient=kind.gradient,
            want=task.want,
            deterministic=task.options.deterministic,
        )


class Mesh:
    """A grid and a window on an execution space.

    Parameters
    ----------
    space : ExecutionSpace
    dtype : dtype
    fields : Fields
    box : ndarray, shape (3,)
        Edge lengths of the box that holds the points.
    steps : ndarray, shape (3,)
        Grid spacings.
    cells, grid : tuple of 3 ints
        Grid cells in which a point's window can start, and grid points. An axis has as many points
        as cells if it is periodic, and P - 1 more otherwise.
    window : Window
    spread, gather : str
        Variants of P2G and G2P: of P2G_METHODS and G2P_METHODS, except "auto".
    executor : str, optional
    factor : float
        Factor of derivatives along the axes.
    planar : bool
        Whether the grid has two dimensions: one cell along x, where the window is 1.
    spills : bool
        Whether grids have a spill. `g2p_target` of a field alone, and teams that stage tiles, need
        none.

    Attributes
    ----------
    row : int
        Columns of the tables: P, or more, with zeros.
    spill : int
        Grid planes beyond the last one along z. Where z is periodic they stand for the first ones
        again, so that windows need no wrapping along z.
    wraps : tuple of 3 bools
        Whether windows wrap at the end of each axis.
    planes : int
        Points of the window along x: P, or 1.
    arguments : dict
        Arguments of the kernels that depend on the grid and the window.
    tables : dict
        First half of the columns of the window's tables, which determines the rest; NumPy.
    """

    def __init__(
        self,
        space: ExecutionSpace,
        dtype: DType,
        fields: Fields,
        box: NDArray[np.float64],
        steps: NDArray[np.float64],
        cells: tuple[int, int, int],
        grid: tuple[int, int, int],
        window: Window,
        spread: str,
        gather: str,
        *,
        executor: str | None = None,
        factor: float = 1.0,
        planar: bool = False,
        spills: bool = True,
    ) -> None:
        self.space, self.dtype, self.fields, self.executor = (
            space,
            np.dtype(dtype),
            fields,
            executor,
        )
        self.box, self.steps, self.cells, self.grid = box, steps, cells, grid
        self.window, self.spread, self.gather, self.factor = window, spread, gather, factor
        self.planes = 1 if planar else window.points
        xp, dtype, degree = self.xp, self.dtype, window.degree
        self.wraps = tuple(n == periods for n, periods in zip(grid, cells, strict=True))
        self.row, self.spill = along_z(window.points, dtype, self.wraps[2], space.on_device)
        self.spills = spills
        if not spills:
            self.spill = 0
        tables = dict(zip(("window", "slope"), window.piecewise(degree), strict=True))
        if (fields.tensors or fields.curvature) and isinstance(window, KaiserBessel):
            tables["curvature"] = window.curvature(degree)
        self.arguments = {
            "inverse_step": xp.asarray(1 / steps, dtype=dtype),
            "cells": xp.asarray(cells, dtype=np.int32),
            "shape": xp.asarray(grid, dtype=np.int32),
        }
        self.tables: dict[str, Any] = {}
        for name, table in tables.items():
            padded = np.zeros((degree + 1, self.row))
            padded[:, : window.points] = _rounded(table, dtype, odd=name == "slope")
            self.arguments[name] = xp.asarray(padded, dtype=dtype)
            half = padded[:, : (window.points + 1) // 2]
            self.tables[name] = np.ascontiguousarray(half, dtype=dtype)

    @cached_property
    def xp(self) -> Any:
        """The array module of the space."""
        return self.space.array_module

    @cached_property
    def stored(self) -> tuple[int, int, int]:
        """Shape of a grid component in memory, with the spill along z."""
        x, y, z = self.grid
        return x, y, z + self.spill

    def waves(self, axis: int, length: int) -> NDArray[np.float64]:
        """Return the wave numbers of a transform along an axis, in the order of its modes."""
        index = np.arange(length)
        index[length // 2 + 1 :] -= length
        return np.asarray(2 * np.pi / (length * self.steps[axis]) * index)

    @cached_property
    def item(self) -> int:
        """Bytes of a number."""
        return int(np.dtype(self.dtype).itemsize)

    def scratch(self, teams: int) -> int:
        """Return the bytes of scratch memory for each of ``teams`` teams on a multiprocessor."""
        return sizes.scratch(teams, _scratch(self.space) if self.space.on_device else SCRATCH)

    def few(self, points: int, components: int) -> bool:
        """Return whether the windows of points are too little work to wake threads of a CPU."""
        values = points * components * self.planes * self.window.points**2
        return not self.space.on_device and values < sizes.WINDOWS_LEAST

    @cached_property
    def terms(self) -> int:
        """Coefficients of the window's polynomials."""
        return self.window.degree + 1

    def load(
        self,
        file: str,
        workunit: str,
        constants: Mapping[str, Constant] = NOTHING,
        *,
        team_size: int = 1,
        vector_length: int = 1,
        tables: dict[str, tuple[int, ...]] | None = None,
        **others: Constant,
    ) -> Kernel:
        """Return a kernel that takes the window's tables; the arguments are as for `load`."""
        shared: dict[str, Constant] = {
            "REAL": real_name(self.dtype),
            "P": self.window.points,
            "ROW": self.row,
            "TERMS": self.terms,
        }
        planar = {"PX": 1} if self.planes == 1 else {}
        return load(
            file,
            workunit,
            self.space,
            {**shared, **constants, **others, **planar},
            executor=self.executor,
            team_size=team_size,
            vector_length=vector_length,
            tables=tables,
        )

    def cubes(self, edge: int) -> CellGrid:
        """Return tiles of ``edge`` grid steps along each axis; the box cuts the last ones."""
        counts = tuple(-(-n // edge) for n in self.cells)
        return CellGrid(counts, tuple((np.array(counts) * edge * self.steps).tolist()))

    def columns(self, tile1: int, tile2: int) -> CellGrid:
        """Return columns along x of ``tile1`` by ``tile2`` grid steps, in tiles of one step."""
        edges = (1, tile1, tile2)
        counts = tuple(-(-n // e) for n, e in zip(self.cells, edges, strict=True))
        extent = np.array(counts) * edges * self.steps
        return CellGrid(counts, tuple(extent.tolist()), along=True)

    def divided(self, counts: tuple[int, ...]) -> CellGrid:
        """Return this many equal tiles along each axis; one tile keeps the points' order."""
        return CellGrid(counts, tuple(self.box.tolist()))

    def boxes_of(self, offsets: AnyArray) -> Any:
        """Return the number of each point's system, (N,), where these have boxes of their own.

        Sorted points have the same ones, as the points of a system stay together.
        """
        if offsets is None or len(self.arguments.get("basis", ())) <= 3:
            return None
        numbers = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        return self.space.adapter.constant(numbers, np.int32)

    def sort(self, points: AnyArray, tiles: CellGrid, offsets: AnyArray = None) -> SortedPoints:
        """Return the (wrapped) points sorted by tiles, of one system or of several."""
        return SortedPoints(points, tiles, self.space, offsets=offsets, executor=self.executor)


class EwaldMesh(Mesh):
    """The grid of a sum, in solver units.

    Parameters
    ----------
    task : Task
    solver_box : SolverBox
        Its box is the grid's.
    steps : ndarray, shape (3,)
    padding : Padding
    window : KaiserBessel
    spread, gather : str
        As for `Mesh`.

    Attributes
    ----------
    blocks : tuple
        The blocks of modes that FGC made last, with their multipliers, after what they are for.
    """

    window: KaiserBessel
    blocks: tuple[Any, list[Any]] = (None, [])

    def __init__(
        self,
        task: Task,
        solver_box: SolverBox,
        steps: NDArray[np.float64],
        padding: Padding,
        window: KaiserBessel,
        spread: str,
        gather: str,
    ) -> None:
        self.task, self.solver_box, self.padding = task, solver_box, padding
        self.periodicity = solver_box.lattice.periodicity
        super().__init__(
            task.space,
            task.dtype,
            fields=Fields.of(task),
            box=solver_box.lattice.edges,
            steps=steps,
            cells=padding.cells,
            grid=padding.grid,
            window=window,
            spread=spread,
            gather=gather,
            executor=task.executor,
            factor=solver_box.factor,
        )
        self._take_basis()

    def _take_basis(self) -> None:
        if self.solver_box.lattice.tilted:
            self.arguments["basis"] = self.solver_box.basis_on(self.space, self.dtype)
            self.arguments["boxes"] = self.solver_box.lattice.boxes

    def within(self, solver_box: SolverBox) -> EwaldMesh:
        """Return the same grid in a box of other tilts."""
        other = copy(self)
        other.solver_box, other.arguments, other.blocks = (
            solver_box,
            dict(self.arguments),
            (None, []),
        )
        other._take_basis()
        return other


def basis_of(basis: AnyArray, boxes: AnyArray) -> Any:
    """Return the basis of each point, shape (3, 3, 1) or (3, 3, N): see `Mesh.boxes_of`."""
    if boxes is None:
        return basis[..., None]
    return basis.reshape(-1, 9).T[:, boxes].reshape(3, 3, -1)


def _rounded(table: np.ndarray[Any, Any], dtype: DType, odd: bool) -> np.ndarray[Any, Any]:
    """Round a window's table to ``dtype``, but keep its symmetry and the sums over its points.

    Modes of small wavenumber see these sums, and truncated kernels of free directions multiply them
    by large numbers: in single precision a box of 1:1:10 was at 7 promises. A window is even, and
    its slope ``odd``: column P - 1 - p is column p, with the sign of each power.
    """
    rows, points = table.shape
    signs = np.where(np.arange(rows)[::-1] % 2 == odd, 1.0, -1.0)  # powers, highest first
    half = table[:, : (points + 1) // 2].astype(dtype).astype(np.float64)
    counts = np.full(half.shape[1], 2.0)
    if points % 2 == 1:  # the middle one is its own mirror image
        half[signs < 0, -1], counts[-1] = 0, 1
    smallest = np.abs(half).argmin(axis=1)
    rest = table.sum(axis=1) - (half * counts).sum(axis=1)
    rest = np.where(signs > 0, rest / counts[smallest], 0.0)
    half[np.arange(rows), smallest] += rest
    return np.concatenate([half, (signs[:, None] * half[:, : points // 2])[:, ::-1]], axis=1)


@lru_cache(maxsize=8)
def _scratch(space: ExecutionSpace) -> tuple[int, int]:
    """Query the current device for the scratch memory of a team: of two teams, and of one."""
    device = space.array_module.cuda.Device().attributes
    most = int(device.get("MaxSharedMemoryPerBlockOptin", 0)) or int(
        device["MaxSharedMemoryPerBlock"]
    )
    return min(most, int(device["MaxSharedMemoryPerMultiprocessor"]) // 2 - 1024), most
