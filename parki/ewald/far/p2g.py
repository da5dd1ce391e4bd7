"""`P2G`: spreading for fixed sources, onto a grid in memory that it keeps.

Sources are sorted by tiles of the grid. A variant of `parki.ewald.far.spreading` launches.
"""

from __future__ import annotations

import math
import mmap
import weakref
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from parki.cells.cell_grid import CellGrid
from parki.cells.sorted_points import SortedPoints
from parki.ewald.far.mesh import Mesh, basis_of
from parki.runtime import ExecutionSpace, Kernel
from parki.runtime.forks import cuts, run_in_threads
from parki.settings import thread_count
from parki.typing import AnyArray

# Memory of a CPU's grids: a sum reuses what the previous one left, as the first touch of new pages
# can take as long as several stages. What a plan leaves is marked as free (MADV_FREE): the system
# takes it if it runs short. Sums on devices have CuPy's pool for this.
#
# Fewest bytes to keep: the C library returns larger blocks to the system when they are freed.
LEAST = 1 << 20
# Bytes that a thread fills in about ten times the time that another takes to wake.
PIECE = 4 << 20
_left: list[mmap.mmap] = []  # one at most


def zeros(space: ExecutionSpace, size: int, dtype: DTypeLike) -> Any:
    """Return zeros, shape (size,): on a host in memory that was left, if it is large enough."""
    needed = size * np.dtype(dtype).itemsize
    if space.on_device or needed < LEAST or not hasattr(mmap, "MADV_FREE"):
        return space.array_module.zeros(size, dtype=dtype)
    block = _left.pop() if _left else None
    if block is not None and len(block) >= needed:
        memory = np.asarray(_Loan(block, size, np.dtype(dtype)))
        clear(memory)  # memory left may be of another precision
        return memory
    block = mmap.mmap(-1, needed, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        block.madvise(mmap.MADV_HUGEPAGE)
    return np.asarray(_Loan(block, size, np.dtype(dtype)))


def clear(memory: AnyArray) -> None:
    """Fill a contiguous array, of the CPU or a device, with zeros."""
    pieces = memory.nbytes // PIECE
    threads = min(thread_count(), pieces) if pieces > 1 and isinstance(memory, np.ndarray) else 1
    if threads < 2:
        memory.fill(0)
        return
    flat = memory.reshape(-1)
    run_in_threads(lambda part: flat[part].fill(0), cuts(flat.size, threads), threads)


class _Loan:
    """The base of an array and its views; the block is left once the last of them is gone."""

    def __init__(self, block: mmap.mmap, size: int, dtype: np.dtype[Any]) -> None:
        address = np.frombuffer(block, dtype=np.uint8).ctypes.data
        self.__array_interface__ = {
            "shape": (size,),
            "typestr": dtype.str,
            "data": (address, False),
            "version": 3,
        }
        weakref.finalize(self, _leave, block).atexit = False


def _leave(block: mmap.mmap) -> None:
    """Keep a block, unless the one that is kept is larger."""
    block.madvise(mmap.MADV_FREE)
    if not _left or len(_left[0]) < len(block):
        _left[:] = [block]


class P2G:
    """One way to spread; at fixed sources, once `place` was called.

    Parameters
    ----------
    mesh : Mesh
    tiles : CellGrid
        The tiles by which sources are sorted.

    Attributes
    ----------
    launches : list of Kernel
        All kernels; the first one spreads.
    shape : tuple of 3 ints
        Shape of a grid component.
    adds : bool
        Whether the kernels add to the grid, which must be zero before, or overwrite it.
    several : bool
        Whether the kernels support grids side by side.
    sorts : bool
        Whether sources, and their densities, are taken in sorted order.
    sources : SortedPoints
    arguments : dict
        The kernels' arguments except density and grid.
    memory : array, 1-D
        The memory of the grid; all values are finite. It is free after FGC has read the grid and
        until the next `apply`.
    """

    adds = True
    several = False
    sources: SortedPoints
    arguments: dict[str, Any]
    memory: Any
    grid: Any

    def __init__(self, mesh: Mesh, tiles: CellGrid) -> None:
        self.mesh, self.tiles = mesh, tiles
        self.shape, self.sorts = mesh.grid, tiles.counts != (1, 1, 1)
        self.launches: list[Kernel] = []
        # The axes of a tilted box, along which quadrupoles are spread.
        self.basis = mesh.arguments.get("basis") if mesh.fields.curvature else None

    def place(self, src: AnyArray, norms: AnyArray = None, offsets: AnyArray = None) -> None:
        """Sort sources, and make the kernels' arguments.

        Parameters
        ----------
        src, norms : array, shape (3, N)
            Sources and their normals (or None) in solver units, wrapped.
        offsets : ndarray, optional
            Offsets of the sources of each system: see `parki.CellList`. Grids lie side by side
            along y.
        """
        mesh, sources = self.mesh, self.mesh.sort(src, self.tiles, offsets)
        if norms is not None:
            norms = sources.sort(norms)
        arguments = dict(mesh.arguments, norms=norms, src=sources.points)
        arguments["tiles"] = mesh.space.adapter.constant(self.tiles.counts, np.int32)
        arguments["systems"] = sources.systems
        self._boxes = mesh.boxes_of(offsets)
        arguments.update(self.work(sources))
        self.sources, self.arguments = sources, arguments

    def work(self, sources: SortedPoints) -> dict[str, Any]:
        """Return the kernels' arguments that depend on the sorted sources."""
        return {}

    def take_grid(
        self, scratch: tuple[int, int] = (0, 0), memory: AnyArray = None, grids: int = 1
    ) -> None:
        """Take memory for the grid, which `apply` spreads onto.

        Parameters
        ----------
        scratch : tuple of 2 ints
            Numbers in `memory` before the grid, and the fewest from there on.
        memory : array, optional
            Memory of another `P2G` of the same mesh and ``scratch`` that is no longer used.
        grids : int
            Grids of each system.
        """
        x, y, z = self.shape
        shape = (self.mesh.fields.components, x, grids * self.sources.systems * y, z)
        size = math.prod(shape)
        self.scratch = before, least = scratch
        if memory is None:
            memory = zeros(self.mesh.space, before + max(size, least), self.mesh.dtype)
        self.memory = memory
        self.grid = self.memory[before : before + size].reshape(shape)

    def apply(self, dens: AnyArray, buffer: AnyArray, grid: AnyArray = None, first: int = 0) -> Any:
        """Spread ``dens`` (rows, sources); return the grid (components, x, y, z), reused.

        With ``grid``, spread onto that array: several grids side by side along y, from number
        ``first`` on.
        """
        if self.sorts:
            self.sources.sort(dens, out=buffer)
            dens = buffer
        if self.basis is not None:
            dens, basis = dens.copy(), basis_of(self.basis, self._boxes)
            for _ in range(2):  # one index after the other
                tensors = dens[4:].reshape(3, 3, -1)
                rows = sum(basis[:, n, None] * tensors[n] for n in range(3))
                dens[4:] = rows.swapaxes(0, 1).reshape(9, -1)
        grid = self.grid if grid is None else grid
        if self.adds and first == 0:
            clear(grid)
        self.spread(dict(self.arguments, dens=dens, grid=grid, first=first))
        return grid

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch with all arguments of the kernels, a team for each part of the work."""
        self.launches[0](arguments["work"].shape[1], arguments=arguments)
