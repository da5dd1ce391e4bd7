"""P2G with the conflict handling of Ljungkvist (2014), to compare with parki's own.

See `kernels/literature/conflicts.py` for what each variant does.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, ClassVar

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.far.mesh import Mesh, Sorted, Tiles
from parki.ewald.far.spreading import Variant
from parki.runtime import Kernel
from parki.settings import thread_count

FILE = "literature/conflicts"


class _Conflicts(Variant):
    """`spread_items` over a list of items."""

    switches: ClassVar[dict[str, bool]]

    def __init__(self, mesh: Mesh, tiles: Tiles | None = None) -> None:
        super().__init__(mesh, tiles or mesh.cubes(mesh.window.points))
        self.load(FILE, "spread_items", **self.switches)

    def kernel(self, file: str, workunit: str, **constants: Any) -> Kernel:
        """Return a kernel; the only layer of these is the number of components."""
        return self.mesh.load(file, workunit, COMPONENTS=self.mesh.fields.components, **constants)

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch over the sources."""
        self.launches[0](arguments["src"].shape[1], items=None, starts=None, **arguments)


class Atomics(_Conflicts):
    """`atomics`: a work item owns a source, and every addition is an atomic one."""

    switches: ClassVar[dict[str, bool]] = {"EACH": True, "ATOMIC": True}


class Unprotected(_Conflicts):
    """`unprotected`: as `Atomics`, but contributions are lost where two threads meet."""

    switches: ClassVar[dict[str, bool]] = {"EACH": True}


class Colouring(_Conflicts):
    """`colouring`: a work item owns a tile; tiles of one colour never touch the same grid point.

    There are up to eight colours, four in two dimensions: every other tile along each axis.
    """

    switches: ClassVar[dict[str, bool]] = {}

    def __init__(self, mesh: Mesh) -> None:
        # Tiles are as wide as for `p2g_owner`, along each axis.
        wide = mesh.window.points + 1
        counts = [max(1, n // wide) for n in mesh.cells]
        # Tiles along an axis that wraps are even in number.
        counts = [max(1, n - (w and n % 2)) for n, w in zip(counts, mesh.wraps, strict=True)]
        super().__init__(mesh, mesh.divided(*counts))
        numbers = np.arange(math.prod(counts), dtype=np.int32).reshape(counts)
        parities = itertools.product(*(range(min(2, n)) for n in counts))
        of_colour = [numbers[tuple(slice(p, None, 2) for p in parity)] for parity in parities]
        constant = mesh.space.adapter.constant
        self.colours = [constant(numbers.reshape(-1), np.int32) for numbers in of_colour]

    def work(self, sources: Sorted) -> dict[str, Any]:
        """Return where the tiles' sources start."""
        return {"starts": sources.starts}

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch once for each colour."""
        for items in self.colours:
            self.launches[0](items.size, items=items, **arguments)


class Private(_Conflicts):
    """`private`: CPU threads spread onto grids of their own, which are then summed."""

    switches: ClassVar[dict[str, bool]] = {"PRIVATE": True}
    adds = False

    def __init__(self, mesh: Mesh) -> None:
        if mesh.space.on_device:
            raise ParkiValueError(
                f"method is 'private', which has a grid for each of a CPU's threads, but the space "
                f"is {mesh.space}; choose another, or leave it to 'auto'"
            )
        super().__init__(mesh)
        self.load(FILE, "sum_buffers")
        self.threads = thread_count() if mesh.space.name == "OpenMP" else 1

    def work(self, sources: Sorted) -> dict[str, Any]:
        """Return the threads' parts of the sources, and their grids."""
        x, y, z = self.shape
        parts = np.zeros((self.mesh.fields.components, x, self.threads * y, z), self.mesh.dtype)
        n = sources.order.size
        return {
            "items": np.arange(self.threads, dtype=np.int32),
            "starts": (n * np.arange(self.threads + 1) // self.threads).astype(np.int32),
            "parts": parts,
        }

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch over the threads, then over the rows of the grid."""
        grid = arguments.pop("grid")
        parts = arguments["parts"][: len(grid)]
        parts.fill(0)
        self.launches[0](self.threads, grid=parts, **arguments)
        arguments["parts"] = parts
        rows = math.prod(self.shape[:2])
        self.launches[1](rows, buffers=self.threads, grid=grid, **arguments)


VARIANTS = {
    "atomics": Atomics,
    "colouring": Colouring,
    "private": Private,
    "unprotected": Unprotected,
}
