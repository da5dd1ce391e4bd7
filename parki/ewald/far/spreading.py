"""`Variant`: one way to spread, of which parki has two and the literature four."""

from __future__ import annotations

from typing import Any

from parki.ewald.far.mesh import Mesh, Sorted, Tiles
from parki.runtime import Kernel


class Variant:
    """One way to spread.

    Parameters
    ----------
    mesh : Mesh
    tiles : Tiles
        What the sources are sorted by.

    Attributes
    ----------
    launches : list of Kernel
        All kernels of the variant; the first one spreads.
    shape : tuple of 3 ints
        Of a grid component.
    adds : bool
        Whether the kernels add to the grid, which must then be zero, rather than write it.
    several : bool
        Whether they know of grids side by side.
    """

    adds = True
    several = False

    def __init__(self, mesh: Mesh, tiles: Tiles) -> None:
        self.mesh, self.tiles = mesh, tiles
        self.shape = mesh.grid
        self.launches: list[Kernel] = []

    def kernel(self, file: str, workunit: str, **constants: Any) -> Kernel:
        """Return a kernel for the mesh's fields."""
        return self.mesh.load(file, workunit, **self.mesh.fields.layers, **constants)

    def load(self, file: str, workunit: str, **constants: Any) -> None:
        """Add a kernel for the mesh's fields."""
        self.launches.append(self.kernel(file, workunit, **constants))

    def work(self, sources: Sorted) -> dict[str, Any]:
        """Return the kernels' arguments that depend on the sorted sources."""
        return {}

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch, given all arguments of the kernels: a team for each part of the work."""
        self.launches[0](arguments["work"].shape[1], **arguments)
