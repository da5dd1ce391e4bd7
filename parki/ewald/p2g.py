"""P2G on the host side: sorts the sources by grid tiles, and launches a variant.

Takes points in solver units and the window's tables; knows nothing of kernels' symbols. parki's own
variants are here, `p2g_owner` for CPUs and `p2g_tile` for devices; the literature's in `p2g_paper`.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from parki.arrays import spread_flags
from parki.ewald import p2g_paper
from parki.ewald.columns import Spread
from parki.ewald.mesh import Mesh, Sorted, Tiles
from parki.runtime import Kernel, load

P2G_METHODS = ("auto", "owner", "tile", "base", "source", "grid", "hybrid")
# They add to the grid by atomics, in any order.
ATOMIC = ("tile", "base", "source", "hybrid")
COMPONENTS = {"laplace": 1, "stokes_sl": 3, "stokes_dl": 4, "stokes_comb": 4, "stokes_rotlet": 3}
# p2g_tile: sources of a share at most and at least, and the shares wanted.
SHARE, LEAST, SHARES = 512, 64, 1024


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

    def work(self, sources: Sorted) -> dict[str, Any]:
        """Return the kernels' arguments that depend on the sorted sources."""

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch, given all arguments of the kernels."""


class P2G:
    """Spreading for fixed sources.

    Parameters
    ----------
    kernel : str
    mesh : Mesh
    src, norms : array, shape (3, N)
        Sources and their normals (or None) in solver units, wrapped.
    executor : str or None
    least : int
        Values that `memory` has at least.
    memory : array, optional
        That of another `P2G` of the same mesh and ``least``, which is not used any more.

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
        memory: Any = None,
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
        if memory is None:
            memory = xp.zeros(max(size, least), dtype=mesh.dtype)
        self.memory = memory
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

    def work(self, sources: Sorted) -> dict[str, Any]:
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
    """`p2g_tile`: teams roll through columns in scratch memory, some components at a time."""

    adds = True

    def __init__(self, kernel: str, mesh: Mesh, executor: str | None) -> None:
        self.shape = mesh.padding.grid
        size = Spread.of(mesh)
        self.tiles = mesh.columns(size.tile1, size.tile2)
        components = COMPONENTS[kernel]
        self.launches = [
            load(
                "p2g_tile",
                "p2g_tile",
                mesh.space,
                executor=executor,
                team_size=mesh.window.points**2 * size.split,
                FIRST=first,
                GROUP=min(size.group, components - first),
                TILE1=size.tile1,
                TILE2=size.tile2,
                PLANES=size.planes,
                SPLIT=size.split,
                BATCH=size.batch,
                PITCH=size.pitch,
                BLOCK=size.block,
                PLANE=size.plane,
                **mesh.constants(),
                **spread_flags(kernel),
            )
            for first in range(0, components, size.group)
        ]

    def work(self, sources: Sorted) -> dict[str, Any]:
        """Return where the cells' sources start, and the columns' in shares of bounded size."""
        share = min(SHARE, max(LEAST, sources.order.size // SHARES))
        return {"starts": sources.starts, "work": sources.shares(share)}

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
