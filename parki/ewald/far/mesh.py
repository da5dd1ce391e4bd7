"""`Mesh`: what P2G, FGC and G2P share: the grid's geometry, the window's tables, sorting by tiles.

Takes what the parameters and the padding chose; knows nothing of kernels' symbols, nor of the
variants that spread and gather.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from parki.arrays import real_name
from parki.cell_list import CellList, runs
from parki.ewald.far import sizes
from parki.ewald.far.padding import Padding
from parki.ewald.far.sizes import SCRATCH, along_z
from parki.ewald.split.window import KaiserBessel, default_degree
from parki.ewald.task import Frame, Task
from parki.runtime import ExecutionSpace, Kernel, load


@dataclass(frozen=True)
class Tiles:
    """How points are sorted: ``counts`` tiles along each axis, which divide ``extent`` evenly.

    The last axis runs fastest, or the first one if ``along`` says that columns are along x.
    """

    counts: tuple[int, ...]
    extent: tuple[float, ...]
    along: bool = False


class Sorted(CellList):
    """Points sorted by tiles."""

    def __init__(
        self, points: Any, tiles: Tiles, space: ExecutionSpace, executor: str | None
    ) -> None:
        step = -1 if tiles.along else 1
        super().__init__(
            points[::step],
            None,
            tiles.extent[::step],
            execution_space=space,
            shape=tiles.counts[::step],
            executor=executor,
        )
        self.tiles = tiles
        if tiles.along:
            self.points = self.xp.ascontiguousarray(self.points[::-1])

    def parts(self, size: int, cells: int) -> Any:
        """Return (column, first, last + 1) of parts of columns, shape (3, parts), int32.

        Each has at most ``size`` points, of at most ``cells`` cells along x.
        """
        length, n = self.tiles.counts[0], self.order.size
        how: dict[str, Any] = {"length": length, "executor": self.executor}
        return runs(self.space, self.starts, size, n, pieces=-(-length // cells), **how)


class Mesh:
    """The grid and the window of a task, on its execution space.

    Parameters
    ----------
    task : Task
    frame : Frame
        Its box is that of the grid.
    steps : ndarray, shape (3,)
        Grid spacings in solver units.
    padding : Padding
    window : KaiserBessel
    spread, gather : str
        Variants of P2G and G2P: of P2G_METHODS and G2P_METHODS, but "auto".

    Attributes
    ----------
    row : int
        Columns of the tables: P, or more with zeros.
    spill : int
        Grid planes beyond the last along z, which stand for the first ones again where z is
        periodic: windows then need no wrapping along z.
    arguments : dict
        The kernels' arguments that depend on the grid and the window.
    """

    def __init__(
        self,
        task: Task,
        frame: Frame,
        steps: np.ndarray[Any, np.dtype[np.float64]],
        padding: Padding,
        window: KaiserBessel,
        spread: str,
        gather: str,
    ) -> None:
        self.task, self.space, self.dtype = task, task.space, task.dtype
        self.frame, self.box, self.periodicity = frame, frame.box, frame.periodicity
        self.steps, self.padding, self.window = steps, padding, window
        self.spread, self.gather = spread, gather
        xp, dtype, degree = task.xp, task.dtype, default_degree(window.points)
        self.row, self.spill = along_z(window.points, dtype, self.periodicity, self.space.on_device)
        tables = dict(zip(("window", "slope"), window.piecewise(degree), strict=True))
        if task.probes:
            tables["curvature"] = window.curvature(degree)
        self.arguments = {
            "inverse_step": xp.asarray(1 / steps, dtype=dtype),
            "cells": xp.asarray(padding.cells, dtype=np.int32),
            "shape": xp.asarray(padding.grid, dtype=np.int32),
        }
        for name, table in tables.items():
            padded = np.zeros((degree + 1, self.row))
            padded[:, : window.points] = _rounded(table, dtype)
            self.arguments[name] = xp.asarray(padded, dtype=dtype)

    @property
    def stored(self) -> tuple[int, int, int]:
        """Shape of a grid component in memory: with the spill along z."""
        x, y, z = self.padding.grid
        return x, y, z + self.spill

    @property
    def item(self) -> int:
        """Bytes of a number."""
        return int(np.dtype(self.dtype).itemsize)

    def scratch(self, teams: int) -> int:
        """Return the bytes of scratch memory for each of ``teams`` teams on a multiprocessor."""
        return sizes.scratch(teams, _scratch(self.space) if self.space.on_device else SCRATCH)

    @property
    def terms(self) -> int:
        """Coefficients of the window's polynomials."""
        return default_degree(self.window.points) + 1

    def load(self, file: str, workunit: str, **constants: Any) -> Kernel:
        """Return a kernel that takes the window's tables, given the rest of what `load` takes."""
        return load(
            file,
            workunit,
            self.space,
            executor=self.task.executor,
            REAL=real_name(self.dtype),
            P=self.window.points,
            ROW=self.row,
            TERMS=self.terms,
            **constants,
        )

    def cubes(self, edge: int) -> Tiles:
        """Return tiles of ``edge`` grid steps along each axis, the last ones cut by the box."""
        counts = tuple(-(-n // edge) for n in self.padding.cells)
        return Tiles(counts, tuple((np.array(counts) * edge * self.steps).tolist()))

    def columns(self, tile1: int, tile2: int) -> Tiles:
        """Return columns along x of ``tile1`` by ``tile2`` grid steps, in tiles of one step."""
        edges = (1, tile1, tile2)
        counts = tuple(-(-n // e) for n, e in zip(self.padding.cells, edges, strict=True))
        extent = np.array(counts) * edges * self.steps
        return Tiles(counts, tuple(extent.tolist()), along=True)

    def divided(self, *counts: int) -> Tiles:
        """Return as many tiles along each axis, all of one size; one keeps points as given."""
        return Tiles(counts, tuple(self.box.tolist()))

    def sort(self, points: Any, tiles: Tiles) -> Sorted:
        """Return the points (wrapped already) sorted by tiles."""
        return Sorted(points, tiles, self.space, self.task.executor)


def _rounded(table: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """Round a window's table to ``dtype``, but keep the sums over its points.

    They are what modes of small wavenumber see, and truncated kernels of free directions multiply
    by large numbers: in single precision a box of 1:1:10 was at 7 promises.
    """
    rounded = table.astype(dtype).astype(np.float64)
    smallest = np.abs(table).argmin(axis=1)
    rounded[np.arange(len(table)), smallest] += (table - rounded).sum(axis=1)
    return rounded


@lru_cache(maxsize=8)
def _scratch(space: ExecutionSpace) -> tuple[int, int]:
    """Ask the current device for the scratch memory of a team, of two and of one."""
    device = space.array_module.cuda.Device().attributes
    most = int(device.get("MaxSharedMemoryPerBlockOptin", 0)) or int(
        device["MaxSharedMemoryPerBlock"]
    )
    return min(most, int(device["MaxSharedMemoryPerMultiprocessor"]) // 2 - 1024), most
