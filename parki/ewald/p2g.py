"""P2G on the host side: sorts the sources by grid tiles, and launches a variant.

Takes points in solver units and the window's tables; knows nothing of kernels' symbols. parki's own
variants are here, `p2g_owner` for CPUs and `p2g_tile` for devices; the literature's in `p2g_paper`.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from parki.arrays import spread_flags
from parki.cell_list import CellList, runs
from parki.ewald import p2g_paper
from parki.ewald.mesh import Mesh, Tiles
from parki.runtime import Kernel, load

P2G_METHODS = ("auto", "owner", "tile", "base", "source", "grid", "hybrid")
COMPONENTS = {"laplace": 1, "stokes_sl": 3, "stokes_dl": 4, "stokes_comb": 4, "stokes_rotlet": 3}
# p2g_tile: sources of a share, sources staged at a time.
SHARE, BATCH = 256, 16


class Variant(Protocol):
    """One way to spread.

    Attributes
    ----------
    launches : list of Kernel
        All kernels of the variant.
    tiles : Tiles
        What the sources are sorted by.
    shape : tuple of 3 ints
        Of a grid component.
    adds : bool
        Whether the kernels add to the grid, which must then be zero, rather than write it.
    """

    launches: list[Kernel]
    tiles: Tiles
    shape: tuple[int, int, int]
    adds: bool

    def work(self, sources: CellList) -> dict[str, Any]:
        """Return the kernels' arguments that depend on the sorted sources."""

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch, given all arguments of the kernels."""


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
        xp = mesh.space.array_module
        self.variant = variant(kernel, mesh, executor)
        self.sources = mesh.sort(src, self.variant.tiles, executor)
        # One tile holds the points as they were given, and densities need no sorting.
        self.sorts = self.variant.tiles.counts != (1, 1, 1)
        if norms is not None:
            norms = self.sources.sort(norms)
        shape = (COMPONENTS[kernel], *self.variant.shape)
        size = math.prod(shape)
        self.memory = xp.zeros(max(size, least), dtype=mesh.dtype)
        self.grid = self.memory[:size].reshape(shape)
        self.arguments = dict(mesh.arguments, norms=norms, src=self.sources.points)
        self.arguments["tiles"] = xp.asarray(self.variant.tiles.counts, dtype=np.int32)
        self.arguments.update(self.variant.work(self.sources))

    @staticmethod
    def kernels(kernel: str, mesh: Mesh, executor: str | None) -> list[Kernel]:
        """Return the kernels of the mesh's variant."""
        return variant(kernel, mesh, executor).launches

    def apply(self, dens: Any, buffer: Any) -> Any:
        """Spread ``dens`` (rows, sources); return the grid (components, x, y, z), reused."""
        if self.sorts:
            self.sources.sort(dens, out=buffer)
            dens = buffer
        if self.variant.adds:
            self.grid.fill(0)
        self.variant.spread(dict(self.arguments, dens=dens, grid=self.grid))
        return self.grid


def variant(kernel: str, mesh: Mesh, executor: str | None) -> Variant:
    """Return the mesh's variant for a sum."""
    chosen: Variant
    if mesh.spread == "owner":
        chosen = Owner(kernel, mesh, executor)
    elif mesh.spread == "tile":
        chosen = Tile(kernel, mesh, executor)
    elif mesh.spread == "grid":
        chosen = p2g_paper.Grid(kernel, mesh, executor)
    elif mesh.spread == "hybrid":
        chosen = p2g_paper.Hybrid(kernel, mesh, executor)
    else:
        chosen = p2g_paper.Source(kernel, mesh, executor)
    return chosen


class Owner:
    """`p2g_owner`: work items own tiles, colour by colour; spreads into the spill."""

    adds = True

    def __init__(self, kernel: str, mesh: Mesh, executor: str | None) -> None:
        self.mesh = mesh
        self.shape = mesh.stored
        constants = dict(mesh.constants(), **spread_flags(kernel))
        self.launches = [load("p2g", "p2g_owner", mesh.space, executor=executor, **constants)]
        # An even number of tiles where periodic (for two colours), of at least P + 1 steps: that
        # keeps those of one colour apart, as a tile's sources reach P - 1 points into the next
        # one, whose own edge may lie between grid points.
        counts = []
        for axis in range(2):
            n = mesh.padding.cells[axis] // (mesh.window.points + 1)
            if axis < mesh.periodicity:
                n = 2 * (n // 2)
            counts.append(max(1, n))
        self.tiles = mesh.divided(*counts, max(1, mesh.padding.cells[2] // 8))
        self.colours = _colours(mesh.space.array_module, self.tiles.counts)

    def work(self, sources: CellList) -> dict[str, Any]:
        """Return where the tiles' sources start."""
        return {"starts": sources.starts}

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch once for each colour, and fold the spill where it stands for the first planes."""
        for count, colour in self.colours:
            self.launches[0](count, colour=colour, **arguments)
        if self.mesh.periodicity == 3:
            grid, n, spill = arguments["grid"], self.mesh.padding.grid[2], self.mesh.spill
            grid[..., :spill] += grid[..., n : n + spill]


class Tile:
    """`p2g_tile`: teams add up tiles in scratch memory, some components at a time."""

    adds = True

    def __init__(self, kernel: str, mesh: Mesh, executor: str | None) -> None:
        self.mesh = mesh
        self.shape = mesh.padding.grid
        edge, group = self._size(mesh)
        self.tiles = mesh.cubes(edge)
        components = COMPONENTS[kernel]
        split = self._split(mesh.window.points)
        self.launches = [
            load(
                "p2g",
                "p2g_tile",
                mesh.space,
                executor=executor,
                team_size=mesh.window.points**2 * split,
                FIRST=first,
                GROUP=min(group, components - first),
                TILE0=edge,
                TILE1=edge,
                TILE2=edge,
                SPLIT=split,
                BATCH=BATCH,
                **mesh.constants(),
                **spread_flags(kernel),
            )
            for first in range(0, components, group)
        ]

    @staticmethod
    def _size(mesh: Mesh) -> tuple[int, int]:
        """Return grid steps along the edges of a tile, and components a team takes at once."""
        p = mesh.window.points
        staged = BATCH * (mesh.item * (6 * p + 10) + 16)
        # All components at once even if one team then fills a multiprocessor: on an H200, P = 9,
        # four take 32 ms where twice two take 42.
        for edge, group in ((8, 4), (8, 2), (8, 1), (4, 1)):
            extent = edge + p - 1
            if group * extent * extent * (extent + 3) * mesh.item + staged <= mesh.scratch[1]:
                return edge, group
        return 1, 1

    @staticmethod
    def _split(points: int) -> int:
        """Return the threads along z: some 250 in all, with few idle and few loads for each.

        A thread reads some 25 numbers for a source, and 10 for each of its grid points. Measured
        on an H200, P = 9: 40, 32, 37, 40 and 54 ms with 2, 3, 4, 5 and 9 threads along z.
        """

        def cost(split: int) -> float:
            threads = points**2 * split
            if threads > 512:
                return math.inf
            loads = -(-threads // 32) * (25 + 10 * -(-points // split))
            return loads * max(1.0, 230 / threads)

        return min(range(1, points + 1), key=cost)

    def work(self, sources: CellList) -> dict[str, Any]:
        """Return the tiles' sources in shares of bounded size."""
        return {"work": runs(self.mesh.space.array_module, sources.starts, SHARE)}

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch once for each group of components."""
        for launch in self.launches:
            launch(arguments["work"].shape[1], **arguments)


def _colours(xp: Any, tiles: tuple[int, ...]) -> list[tuple[int, Any]]:
    """Return (work items, (first x, first y, step x, step y, items per row)) for each colour."""
    colours = []
    for x in range(min(2, tiles[0])):
        for y in range(min(2, tiles[1])):
            rows = (tiles[0] - x + 1) // 2
            per_row = (tiles[1] - y + 1) // 2
            colours.append((rows * per_row, xp.asarray([x, y, 2, 2, per_row], dtype=np.int32)))
    return colours
