"""`Variant`: one way to spread; parki has two, and the literature more.

The variants by Kosmacher, Du, Bagge and Biros (2026) are for comparisons. Their cells are tiles of
half a window, (P + 1) // 2 grid steps: a source reaches at most the second next tile. See
`kernels/literature/p2g_paper.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from parki.cells.cell_grid import CellGrid
from parki.cells.runs import runs
from parki.cells.sorted_points import SortedPoints
from parki.errors import ParkiValueError
from parki.ewald.far.mesh import Mesh
from parki.ewald.sums import SUMS
from parki.runtime import Kernel
from parki.typing import AnyArray


class Variant:
    """One way to spread.

    Parameters
    ----------
    mesh : Mesh
    tiles : CellGrid
        The tiles by which sources are sorted.

    Attributes
    ----------
    launches : list of Kernel
        All kernels of the variant; the first one spreads.
    shape : tuple of 3 ints
        Shape of a grid component.
    adds : bool
        Whether the kernels add to the grid, which must be zero before, or overwrite it.
    several : bool
        Whether the kernels support grids side by side.
    """

    adds = True
    several = False

    def __init__(self, mesh: Mesh, tiles: CellGrid) -> None:
        self.mesh, self.tiles = mesh, tiles
        self.shape = mesh.grid
        self.launches: list[Kernel] = []

    @property
    def sorts(self) -> bool:
        """Whether the variant takes sources, and their densities, in sorted order."""
        return self.tiles.counts != (1, 1, 1)

    def place(
        self, src: AnyArray, norms: AnyArray = None, offsets: AnyArray = None
    ) -> tuple[SortedPoints, dict[str, Any]]:
        """Return sorted sources, and the kernels' arguments except density and grid.

        Parameters
        ----------
        src, norms : array, shape (3, N)
            Sources and their normals (or None), wrapped.
        offsets : ndarray, optional
            Offsets of the sources of each system.
        """
        mesh, sources = self.mesh, self.mesh.sort(src, self.tiles, offsets)
        if norms is not None:
            norms = sources.sort(norms)
        arguments = dict(mesh.arguments, norms=norms, src=sources.points)
        arguments["tiles"] = mesh.space.adapter.constant(self.tiles.counts, np.int32)
        arguments["systems"] = sources.systems
        arguments.update(self.work(sources))
        return sources, arguments

    def work(self, sources: SortedPoints) -> dict[str, Any]:
        """Return the kernels' arguments that depend on the sorted sources."""
        return {}

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch with all arguments of the kernels, a team for each part of the work."""
        self.launches[0](arguments["work"].shape[1], arguments=arguments)


FILE = "literature/p2g_paper"
# Sources of a team of p2g_hybrid, and most threads of a team on a device. The paper's fastest at
# P = 8 are 128 threads for P2G-grid and 64 for P2G-hybrid, which has fewer points to divide.
BATCH, TEAM = 32, 128


def half_window(mesh: Mesh) -> int:
    """Return the edge of the paper's cells in grid steps."""
    return (mesh.window.points + 1) // 2


def _team(items: int) -> int:
    """Return the threads for this many items: whole warps, at most TEAM threads."""
    return min(TEAM, -(-items // 32) * 32)


def check_spreading(method: str, kernel: str, tilted: bool = False) -> None:
    """Refuse a variant that has no kernel for a sum, in a tilted box or not.

    Raises
    ------
    ParkiValueError
    """
    usual = method in ("auto", "owner", "tile")
    if SUMS[kernel].symbol.grids > 1 and not usual:
        raise ParkiValueError(
            f"p2g_method is {method!r}, which does not spread spheres of several radii; leave "
            "p2g_method to 'auto'"
        )
    if tilted and SUMS[kernel].gradient and not usual:
        raise ParkiValueError(
            f"p2g_method is {method!r}, which spreads {kernel} in boxes along the axes alone; "
            "leave p2g_method to 'auto'"
        )
    if "TENSORS" in SUMS[kernel].p2g and not usual:
        raise ParkiValueError(
            f"p2g_method is {method!r}, which does not spread the dipoles of {kernel}; "
            "leave p2g_method to 'auto'"
        )


class SourceVariant(Variant):
    """`p2g_source`: a thread owns a source and adds its window by atomics.

    The paper's P2G-base takes the sources in the order given, its P2G-source sorted by tiles.
    """

    def __init__(self, mesh: Mesh) -> None:
        sort = mesh.spread == "source"
        super().__init__(mesh, mesh.cubes(half_window(mesh)) if sort else mesh.divided((1, 1, 1)))
        self.launches = [mesh.load(FILE, "p2g_source", mesh.fields.sources)]

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch over the sources."""
        self.launches[0](arguments["src"].shape[1], arguments=arguments)


class GridVariant(Variant):
    """`p2g_grid`: a thread owns a grid point and sums over the sources in reach."""

    adds = False

    def __init__(self, mesh: Mesh) -> None:
        edge = half_window(mesh)
        super().__init__(mesh, mesh.cubes(edge))
        self.cubes = [-(-n // edge) for n in mesh.grid]
        team, constants = _team(edge**3), mesh.fields.sources
        self.launches = [mesh.load(FILE, "p2g_grid", constants, team_size=team, TILE=edge)]

    def work(self, sources: SortedPoints) -> dict[str, Any]:
        """Return the number of cubes of grid points, and where the tiles' sources start."""
        cubes = self.mesh.space.adapter.constant(self.cubes, np.int32)
        return {"cubes": cubes, "starts": sources.starts}

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch over the cubes."""
        self.launches[0](math.prod(self.cubes), arguments=arguments)


class Hybrid(Variant):
    """`p2g_hybrid`: a team owns sources, and its threads own the grid points in reach."""

    def __init__(self, mesh: Mesh) -> None:
        edge = half_window(mesh)
        super().__init__(mesh, mesh.cubes(edge))
        points = (edge + mesh.window.points - 1) ** (2 if mesh.planes == 1 else 3)
        constants = {**mesh.fields.sources, "TILE": edge, "BATCH": BATCH}
        self.launches = [mesh.load(FILE, "p2g_hybrid", constants, team_size=_team(points))]

    def work(self, sources: SortedPoints) -> dict[str, Any]:
        """Return the tiles' sources in parts, each of which a team holds."""
        return {"work": runs(self.mesh.space, sources.starts, BATCH, sources.order.size)}
