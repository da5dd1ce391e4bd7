"""P2G on the host side: sorts the sources by grid tiles, and launches the variant of the space.

Takes points in solver units and the window's tables; knows nothing of kernels' symbols.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from parki.arrays import real_name, spread_flags, vector_row
from parki.cell_list import CellList, runs
from parki.ewald.padding import Padding
from parki.ewald.window import KaiserBessel
from parki.runtime import ExecutionSpace, Kernel, load

P2G_METHODS = ("auto", "owner", "tile")
COMPONENTS = {"laplace": 1, "stokes_sl": 3, "stokes_dl": 4, "stokes_comb": 4, "stokes_rotlet": 3}
# p2g_tile: sources of a share, threads along z, sources staged at a time.
SHARE, SPLIT, BATCH = 256, 2, 16
# Scratch memory of a team: at most half of what a multiprocessor has, so that two teams share one,
# and at most all of it where that cannot be. HIP devices have 64 KiB.
SCRATCH = {"Cuda": (113_000, 220_000), "HIP": (60_000, 60_000)}


@dataclass(frozen=True)
class Mesh:
    """What P2G and G2P share: the grid's geometry and the window's tables on the device.

    Attributes
    ----------
    row : int
        Columns of the tables: P, or more with zeros.
    spill : int
        Grid planes beyond the last along z, which stand for the first ones again where z is
        periodic: windows then need no wrapping along z.
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
    method: str
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
        method: str = "auto",
    ) -> Mesh:
        """Tabulate the window and send the geometry to the space; ``method`` as in P2G_METHODS."""
        if method == "auto":
            method = "tile" if space.on_device else "owner"
        xp = space.array_module
        row = window.points if space.on_device else vector_row(window.points, dtype)
        spill = row - window.points + (window.points - 1 if periodicity == 3 else 0)
        tables = []
        for table in window.piecewise(degree):
            padded = np.zeros((degree + 1, row))
            padded[:, : window.points] = table
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
            method,
            arguments,
        )

    @property
    def stored(self) -> tuple[int, int, int]:
        """Shape of a grid component in memory: with the spill along z."""
        x, y, z = self.padding.grid
        return x, y, z + self.spill

    def constants(self) -> dict[str, Any]:
        """Return the compile-time constants that depend on the window."""
        return {
            "REAL": real_name(self.dtype),
            "P": self.window.points,
            "ROW": self.row,
            "TERMS": self.terms,
        }

    @property
    def tile(self) -> tuple[int, int]:
        """Grid points along the edges of a `p2g_tile` tile, and components a team takes at once."""
        p, item = self.window.points, np.dtype(self.dtype).itemsize
        staged = BATCH * (item * (6 * p + 10) + 16)
        half, whole = SCRATCH.get(self.space.name, SCRATCH["Cuda"])
        for edge, group, limit in ((8, 4, half), (8, 2, half), (8, 1, whole), (4, 1, whole)):
            extent = edge + p - 1
            if group * extent * extent * (extent + 3) * item + staged <= limit:
                return edge, group
        return 1, 1

    @property
    def tiles(self) -> tuple[int, int, int]:
        """Number of tiles along each axis.

        For `p2g_tile` they have TILE steps, the last one cut by the box. For `p2g_owner` their
        number is even where periodic (for two colours), and tiles of at least P + 1 steps keep
        those of one colour apart: a tile's sources reach P - 1 points into the next one, whose own
        edge may lie between grid points.
        """
        if self.method == "tile":
            x, y, z = (-(-n // self.tile[0]) for n in self.padding.cells)
            return x, y, z
        counts = []
        for axis in range(2):
            n = self.padding.cells[axis] // (self.window.points + 1)
            if axis < self.periodicity:
                n = 2 * (n // 2)
            counts.append(max(1, n))
        depth = max(1, self.padding.cells[2] // 8)
        return counts[0], counts[1], depth

    def sort(self, points: Any, executor: str | None) -> CellList:
        """Return the points (wrapped already) sorted by tiles."""
        tiles = self.tiles
        extent = np.array(tiles) * self.tile[0] * self.steps if self.method == "tile" else self.box
        return CellList(points, extent, tiles, space=self.space, executor=executor)


class P2G:
    """Spreading for fixed sources.

    Attributes
    ----------
    memory : array, 1-D
        What the grid lies in: at least ``least`` values, all finite. Free after FGC has read the
        grid, and until the next `apply`.
    """

    def __init__(
        self,
        kernel: str,
        mesh: Mesh,
        src: Any,
        norms: Any,
        executor: str | None,
        least: int = 0,
    ) -> None:
        self.mesh = mesh
        xp = mesh.space.array_module
        self.launches = self.kernels(kernel, mesh, executor)
        self.sources = mesh.sort(src, executor)
        self.norms = None if norms is None else self.sources.sort(norms)
        shape = (COMPONENTS[kernel], *self.stored())
        size = math.prod(shape)
        self.memory = xp.zeros(max(size, least), dtype=mesh.dtype)
        self.grid = self.memory[:size].reshape(shape)
        self.arguments = dict(mesh.arguments, norms=self.norms, src=self.sources.points)
        self.arguments["tiles"] = xp.asarray(mesh.tiles, dtype=np.int32)
        if mesh.method == "tile":
            self.work = runs(xp, self.sources.starts, SHARE)
            self.arguments["work"] = self.work
        else:
            self.colours = _colours(mesh.tiles)
            self.arguments["starts"] = self.sources.starts

    @staticmethod
    def kernels(kernel: str, mesh: Mesh, executor: str | None) -> list[Kernel]:
        """Return the kernels of the mesh's variant: all run, each for some components."""
        constants = dict(mesh.constants(), **spread_flags(kernel))
        if mesh.method == "owner":
            return [load("p2g", "p2g_owner", mesh.space, executor=executor, **constants)]
        edge, group = mesh.tile
        tile = {"TILE0": edge, "TILE1": edge, "TILE2": edge, "SPLIT": SPLIT, "BATCH": BATCH}
        team_size = mesh.window.points**2 * SPLIT
        components = COMPONENTS[kernel]
        return [
            load(
                "p2g",
                "p2g_tile",
                mesh.space,
                executor=executor,
                team_size=team_size,
                FIRST=first,
                GROUP=min(group, components - first),
                **tile,
                **constants,
            )
            for first in range(0, components, group)
        ]

    def stored(self) -> tuple[int, int, int]:
        """Return the shape of a component: `p2g_owner` spreads into the spill, `p2g_tile` wraps."""
        return self.mesh.stored if self.mesh.method == "owner" else self.mesh.padding.grid

    def apply(self, dens: Any, buffer: Any) -> Any:
        """Spread ``dens`` (rows, sources); return the grid (components, x, y, z), reused."""
        self.sources.sort(dens, out=buffer)
        self.grid.fill(0)
        if self.mesh.method == "tile":
            for launch in self.launches:
                launch(self.work.shape[1], dens=buffer, grid=self.grid, **self.arguments)
        else:
            for count, colour in self.colours:
                self.launches[0](
                    count, colour=colour, dens=buffer, grid=self.grid, **self.arguments
                )
            if self.mesh.periodicity == 3:
                n = self.mesh.padding.grid[2]
                self.grid[..., : self.mesh.spill] += self.grid[..., n : n + self.mesh.spill]
        return self.grid


def _colours(tiles: tuple[int, ...]) -> list[tuple[int, Any]]:
    """Return (work items, (first x, first y, step x, step y, items per row)) for each colour."""
    colours = []
    for x in range(min(2, tiles[0])):
        for y in range(min(2, tiles[1])):
            rows = (tiles[0] - x + 1) // 2
            per_row = (tiles[1] - y + 1) // 2
            colours.append((rows * per_row, np.array([x, y, 2, 2, per_row], dtype=np.int32)))
    return colours
