"""`Mesh`: what P2G, FGC and G2P share: the grid's geometry, the window's tables, sorting by tiles.

Takes what the parameters and the padding chose; knows nothing of kernels' symbols, nor of the
variants that spread and gather.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from parki.arrays import USUAL, real_name, vector_row
from parki.cell_list import CellList, runs
from parki.ewald.padding import Padding
from parki.ewald.window import KaiserBessel
from parki.runtime import ExecutionSpace

# Scratch memory where there is no device to ask: that of an H100 or H200.
SCRATCH = (115_000, 232_000)


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

    def shares(self, size: int, cells: int) -> Any:
        """Return (column, first, last + 1) of shares of columns, shape (3, shares), int32.

        Each has at most ``size`` points, of at most ``cells`` cells along x.
        """
        length, columns = self.tiles.counts[0], math.prod(self.tiles.counts[1:])
        parts = -(-length // cells)
        cuts = self.xp.arange(parts) * length // parts
        edges = (length * self.xp.arange(columns)[:, None] + cuts).ravel()
        edges = self.xp.append(self.starts[edges], self.starts[-1:])
        found = runs(self.xp, edges, size)
        found[0] //= parts
        return found


@dataclass(frozen=True)
class Mesh:
    """The grid and the window on an execution space.

    Attributes
    ----------
    row : int
        Columns of the tables: P, or more with zeros.
    spill : int
        Grid planes beyond the last along z, which stand for the first ones again where z is
        periodic: windows then need no wrapping along z.
    spread, gather : str
        Variants of P2G and G2P.
    ordered : bool
        Whether P2G must give the same result every time, bit for bit.
    """

    space: ExecutionSpace
    dtype: Any
    box: np.ndarray[Any, np.dtype[np.float64]]
    periodicity: int
    steps: np.ndarray[Any, np.dtype[np.float64]]
    padding: Padding
    window: KaiserBessel
    terms: int
    row: int
    spill: int
    spread: str
    gather: str
    ordered: bool
    arguments: dict[str, Any]

    @classmethod
    def build(
        cls,
        space: ExecutionSpace,
        dtype: Any,
        box: np.ndarray[Any, np.dtype[np.float64]],
        periodicity: int,
        steps: np.ndarray[Any, np.dtype[np.float64]],
        padding: Padding,
        window: KaiserBessel,
        degree: int,
        spread: str = "auto",
        gather: str = "auto",
        ordered: bool = False,
    ) -> Mesh:
        """Tabulate the window and send the geometry to the space.

        ``spread`` is one of P2G_METHODS, ``gather`` one of G2P_METHODS.
        """
        if spread == "auto":
            spread = USUAL[space.on_device][1]
        if gather == "auto":
            gather = USUAL[space.on_device][2]
        xp = space.array_module
        row, spill = along_z(window.points, dtype, periodicity, space.on_device)
        tables = []
        for table in window.piecewise(degree):
            padded = np.zeros((degree + 1, row))
            padded[:, : window.points] = _rounded(table, dtype)
            tables.append(xp.asarray(padded, dtype=dtype))
        arguments = {
            "inverse_step": xp.asarray(1 / steps, dtype=dtype),
            "cells": xp.asarray(padding.cells, dtype=np.int32),
            "shape": xp.asarray(padding.grid, dtype=np.int32),
            "window": tables[0],
            "slope": tables[1],
        }
        return cls(
            space,
            dtype,
            box,
            periodicity,
            steps,
            padding,
            window,
            degree + 1,
            row,
            spill,
            spread,
            gather,
            ordered,
            arguments,
        )

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
        """Return the bytes of scratch memory for each of so many teams on a multiprocessor."""
        return scratch(teams, _scratch(self.space) if self.space.on_device else SCRATCH)

    def constants(self) -> dict[str, Any]:
        """Return the compile-time constants that depend on the window."""
        return {
            "REAL": real_name(self.dtype),
            "P": self.window.points,
            "ROW": self.row,
            "TERMS": self.terms,
        }

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

    def sort(self, points: Any, tiles: Tiles, executor: str | None) -> Sorted:
        """Return the points (wrapped already) sorted by tiles."""
        return Sorted(points, tiles, self.space, executor)


def scratch(teams: int, most: tuple[int, int]) -> int:
    """Return the bytes for each of ``teams`` if there are ``most`` for each of two, and for one."""
    half, whole = most
    # The driver keeps a kilobyte of each team's.
    return min(whole, 2 * (half + 1024) // teams - 1024)


def along_z(points: int, dtype: Any, periodicity: int, on_device: bool) -> tuple[int, int]:
    """Return the values of a window's row along z, and the spill of the grid for P ``points``."""
    row = points if on_device else vector_row(points, dtype)
    return row, row - points + (points - 1 if periodicity == 3 else 0)


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
