"""`Variant`: one way to spread; parki has two, and the literature more."""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.ewald.far.mesh import Mesh, Sorted, Tiles
from parki.runtime import Kernel


class Variant:
    """One way to spread.

    Parameters
    ----------
    mesh : Mesh
    tiles : Tiles
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

    def __init__(self, mesh: Mesh, tiles: Tiles) -> None:
        self.mesh, self.tiles = mesh, tiles
        self.shape = mesh.grid
        self.launches: list[Kernel] = []

    def kernel(self, file: str, workunit: str, **constants: Any) -> Kernel:
        """Return a kernel for the mesh's fields."""
        return self.mesh.load(file, workunit, **self.mesh.fields.sources, **constants)

    def load(self, file: str, workunit: str, **constants: Any) -> None:
        """Add a kernel for the mesh's fields."""
        self.launches.append(self.kernel(file, workunit, **constants))

    @property
    def sorts(self) -> bool:
        """Whether the variant takes sources, and their densities, in sorted order."""
        return self.tiles.counts != (1, 1, 1)

    def place(
        self, src: Any, norms: Any = None, offsets: Any = None
    ) -> tuple[Sorted, dict[str, Any]]:
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

    def work(self, sources: Sorted) -> dict[str, Any]:
        """Return the kernels' arguments that depend on the sorted sources."""
        return {}

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch with all arguments of the kernels, a team for each part of the work."""
        self.launches[0](arguments["work"].shape[1], **arguments)
