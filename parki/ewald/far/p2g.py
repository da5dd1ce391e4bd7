"""P2G on the host side: sorts the sources by grid tiles, and launches a variant.

It takes points in solver units and the window's tables. parki's own variants are here: `p2g_owner`
and `p2g_block` for CPUs, and `p2g_tile` for devices. The variants of the literature are in
`spreading`.
"""

from __future__ import annotations

import math
import mmap
import weakref
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from parki.cells.runs import runs
from parki.cells.sorted_points import SortedPoints
from parki.errors import ParkiValueError
from parki.ewald.far.mesh import Mesh
from parki.ewald.far.sizes import (
    LINE,
    P2G_PARTS,
    SIDES,
    UNCOUNTED,
    most_reached,
    owner_parts,
    p2g_part,
    sizes_of,
    spreading_tiles,
)
from parki.ewald.far.spreading import GridVariant, Hybrid, SourceVariant, Variant
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


# Sources staged at a time, by three threads each, and teams on a multiprocessor.
BATCH, TEAMS = 42, 6
# A tile is crowded if its number of sources is this many times a thread's part of its colour's.
CROWDED = 1.5
MOST_PLANES = 2**19 - 1  # an entry holds the number of a plane up to this


class P2G:
    """Spreading for fixed sources.

    Parameters
    ----------
    mesh : Mesh
    src, norms : array, shape (3, N)
        Sources and their normals (or None) in solver units, wrapped.
    scratch : tuple of 2 ints
        Numbers in `memory` before the grid, and the fewest from there on.
    memory : array, optional
        Memory of another `P2G` of the same mesh and ``scratch`` that is no longer used.
    offsets : ndarray, optional
        Offsets of the sources of each system: see `parki.CellList`. Grids lie side by side along y.
    grids : int
        Grids of each system.

    Attributes
    ----------
    memory : array, 1-D
        The memory of the grid; all values are finite. It is free after FGC has read the grid and
        until the next `apply`.
    """

    def __init__(
        self,
        mesh: Mesh,
        src: AnyArray,
        norms: AnyArray,
        scratch: tuple[int, int] = (0, 0),
        memory: AnyArray = None,
        offsets: AnyArray = None,
        grids: int = 1,
    ) -> None:
        self.variant = VARIANTS[mesh.spread](mesh)
        self.sources, self.arguments = self.variant.place(src, norms, offsets)
        self.sorts = self.variant.sorts
        # The axes of a tilted box, along which quadrupoles are spread.
        self.basis = mesh.arguments.get("basis") if mesh.fields.curvature else None
        x, y, z = self.variant.shape
        shape = (mesh.fields.components, x, grids * self.sources.systems * y, z)
        size = math.prod(shape)
        self.scratch = before, least = scratch
        self.clean = memory is None
        if memory is None:
            memory = zeros(mesh.space, before + max(size, least), mesh.dtype)
        self.memory = memory
        self.grid = self.memory[before : before + size].reshape(shape)

    @staticmethod
    def kernels(mesh: Mesh) -> list[Kernel]:
        """Return the kernels of the mesh's variant."""
        return VARIANTS[mesh.spread](mesh).launches

    def apply(self, dens: AnyArray, buffer: AnyArray, grid: AnyArray = None, first: int = 0) -> Any:
        """Spread ``dens`` (rows, sources); return the grid (components, x, y, z), reused.

        With ``grid``, spread onto that array: several grids side by side along y, from number
        ``first`` on.
        """
        if self.sorts:
            self.sources.sort(dens, out=buffer)
            dens = buffer
        if self.basis is not None:
            dens = dens.copy()
            for _ in range(2):  # one index after the other
                own = (self.basis @ dens[4:].reshape(3, -1)).reshape(3, 3, -1)
                dens[4:] = own.swapaxes(0, 1).reshape(9, -1)
        own = grid is None
        grid = self.grid if own else grid
        if self.variant.adds and first == 0 and not (own and self.clean):
            clear(grid)
        self.clean = self.clean and not own
        self.variant.spread(dict(self.arguments, dens=dens, grid=grid, first=first))
        return grid


class Owner(Variant):
    """`p2g_owner` and `p2g_block`: work items own tiles, colour by colour.

    They spread into the spill.

    Where a colour has few tiles for the threads, work items own every n-th plane of a tile. For any
    n, a value of the grid sums the same sources in the same order.
    """

    several = True

    def __init__(self, mesh: Mesh) -> None:
        cells, points = mesh.cells, mesh.window.points
        counts = spreading_tiles("owner", cells, points, mesh.wraps)
        super().__init__(mesh, mesh.divided(counts))
        self.shape = mesh.stored
        lanes = LINE // mesh.item
        if _in_blocks(mesh, lanes):
            group = 2 if mesh.fields.components == 2 else 4
            constants = {**mesh.fields.sources, "LANES": lanes, "GROUP": group}
            self.launches = [mesh.load("p2g_block", "p2g_block", constants)]
        else:
            self.launches = [mesh.load("p2g", "p2g_owner", mesh.fields.sources)]
        self.threads = thread_count() if mesh.space.name == "OpenMP" else 1

    def work(self, sources: SortedPoints) -> dict[str, Any]:
        """Return where the tiles' sources start, and the colours."""
        if self.mesh.few(sources.order.size, self.mesh.fields.components):
            self.threads = 1
        return {"starts": sources.starts, "colours": self._shared(sources)}

    def _shared(self, sources: SortedPoints) -> list[tuple[int, Any]]:
        """Return the colours; those with a crowded tile have more parts."""
        constant = self.mesh.space.adapter.constant
        self.colours = _colours(constant, self.tiles.counts, self.threads, self.mesh.planes)
        if self.threads == 1 or sources.systems > 1:
            return self.colours
        tiles = np.diff(sources.starts).reshape(self.tiles.counts).sum(axis=2)
        lists = []
        for count, numbers in self.colours:
            x, y, items, per_row, parts = numbers
            of_colour = tiles[x::2, y::2]
            crowd = self.threads * int(of_colour.max()) / max(1, int(of_colour.sum()))
            if crowd > CROWDED * parts:
                parts = min(self.mesh.planes, math.ceil(crowd))
                count = items * parts
                numbers = np.array([x, y, items, per_row, parts], np.int32)
            lists.append((count, numbers))
        return lists

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch once for each colour, and fold the spill where it stands for the first planes."""
        systems = arguments["systems"]
        for count, colour in arguments["colours"]:
            self.launches[0](systems * count, self.threads, arguments=arguments, colour=colour)
        if self.mesh.wraps[2]:
            (_, y, n), spill = self.mesh.grid, self.mesh.spill
            first = arguments["first"]
            grid = arguments["grid"][:, :, first * y : (first + systems) * y]
            grid[..., :spill] += grid[..., n : n + spill]


class TileVariant(Variant):
    """`p2g_tile`: threads own columns of the grid, whose values stay in registers."""

    several = True

    def __init__(self, mesh: Mesh) -> None:
        super().__init__(mesh, mesh.columns(SIDES[0], SIDES[1]))
        tile = sizes_of(mesh.space.on_device).tile
        self.counts = [-(-n // edge) for n, edge in zip(self.shape[1:], tile, strict=True)]
        self.spots = _spots(tile)
        # A thread of a team owns one column; a team of one thread owns all.
        columns = math.prod(tile)
        edges = {"SIDE1": SIDES[0], "SIDE2": SIDES[1], "TILE1": tile[0], "TILE2": tile[1]}
        owned, sources = 1 if mesh.space.on_device else columns, mesh.fields.sources
        constants = {**sources, "BATCH": _batch(mesh), "OWN": owned, **edges}
        # Passed by value on a device: arithmetic takes their elements as operands.
        half = mesh.terms, (mesh.window.points + 1) // 2
        tables = dict.fromkeys(("window", "slope", "curvature")[: 2 + mesh.fields.curvature], half)
        load = partial(mesh.load, "p2g_tile")
        spread = partial(load, "p2g_tile", constants, team_size=columns, tables=tables)
        self.side_by_side = partial(spread, SEVERAL=True)
        reach = [{**sources, "COUNTING": counting, **edges} for counting in (True, False)]
        self.launches = [spread(), load("reach", reach[0]), load("reach", reach[1])]

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch, a team for each part of the lists."""
        alone = arguments["grid"].shape[2] == self.mesh.grid[1]
        kernel = self.launches[0] if alone else self.side_by_side()
        kernel(arguments["work"].shape[1], arguments=arguments)

    def work(self, sources: SortedPoints) -> dict[str, Any]:
        """Return the lists of the sources that reach each tile, and their parts."""
        xp = self.mesh.xp
        spread, count, fill = self.launches
        planes = self.mesh.cells[0]
        if planes > MOST_PLANES:
            raise ParkiValueError(
                f"the grid has {planes} cells along x; p2g_method='tile' takes {MOST_PLANES}: "
                "choose 'hybrid', or turn the box"
            )
        places = sources.systems * math.prod(self.counts) * planes
        counts = xp.zeros(places + 1, dtype=np.int32)
        constant = self.mesh.space.adapter.constant
        tiles = constant([*self.counts, *self.tiles.counts[1:]], np.int32)
        geometry = dict(self.mesh.arguments, tiles=tiles, starts=sources.starts)
        count(places, arguments=geometry, counts=counts[1:])
        n, most = sources.order.size, most_reached(self.mesh.window.points)
        if n * most >= 2**31:
            raise ParkiValueError(
                f"{n} sources may reach {n * most} times into tiles of the grid, which passes "
                "2**31; share them out over ranks, or choose p2g_method='hybrid'"
            )
        begins = xp.cumsum(counts, dtype=np.int32)
        # Lists of few sources take the most memory they may need; no count has to be waited for.
        total = n * most if n <= UNCOUNTED and self.mesh.space.on_device else int(begins[-1])
        entries = xp.empty((2, max(1, total)), dtype=np.int32)
        geometry |= {"src": sources.points, "begins": begins, "places": places}
        fill(total, arguments=geometry, entries=entries)
        return {
            "work": self._parts(begins, planes, total),
            "entries": entries,
            "tiles": tiles,
            "spots": constant(self.spots, np.int32),
            **{n: spread.table(half, self.mesh.dtype) for n, half in self.mesh.tables.items()},
        }

    def _parts(self, begins: AnyArray, planes: int, total: int) -> Any:
        """Return (tile, first entry, last + 1) of parts of the lists.

        Parts have a bounded size. For deterministic sums they have at least as many planes as a
        window has points: then at most two parts add to a value of the grid, and their sum is the
        same in either order.
        """
        size, pieces = p2g_part(total), 1
        if self.mesh.fields.deterministic:
            pieces = min(P2G_PARTS // math.prod(self.counts), planes // self.mesh.window.points)
            size, pieces = max(1, total), max(1, pieces)
        return runs(
            self.mesh.space,
            begins,
            size,
            total,
            length=planes,
            pieces=pieces,
            executor=self.mesh.executor,
        )


def _in_blocks(mesh: Mesh, lanes: int) -> bool:
    """Return whether a CPU spreads by `p2g_block`, with ``lanes`` numbers to a cache line.

    Windows alone whose rows are no longer than a line took as long without, or less.
    """
    fields = mesh.fields
    long = fields.gradient or mesh.window.points > lanes
    return not mesh.space.on_device and fields.components > 1 and long


@cache
def _spots(tile: tuple[int, int]) -> np.ndarray[Any, Any]:
    """Return y and z of a tile's columns, shape (2, columns): block by block, row by row."""
    y, z = np.divmod(np.arange(math.prod(tile)), tile[1])
    order = np.lexsort((z, y, z // SIDES[1], y // SIDES[0]))
    return np.ascontiguousarray(np.stack([y, z])[:, order])


def _batch(mesh: Mesh) -> int:
    """Return the sources that `p2g_tile` stages at a time: TEAMS teams share scratch memory."""
    fields = mesh.fields
    weights = 3 * (1 + fields.gradient + fields.curvature) * mesh.window.points
    two_kinds = bool(fields.sources["PLAIN"] and fields.sources.get("TENSORS", 0) > 1)
    strengths = 10 + 3 * ("TILTED" in fields.sources) + 2 * two_kinds
    rows = (mesh.scratch(TEAMS) - 64) // (mesh.item * (weights + strengths) + 16)
    return max(1, min(BATCH, rows - 1))


def _colours(
    constant: Any, tiles: tuple[int, ...], threads: int, planes: int
) -> list[tuple[int, Any]]:
    """Return (work items, (first x, first y, tiles, tiles per row, parts)) for each colour."""
    colours = []
    for x in range(min(2, tiles[0])):
        for y in range(min(2, tiles[1])):
            per_row = (tiles[1] - y + 1) // 2
            count = (tiles[0] - x + 1) // 2 * per_row
            parts = owner_parts(count, threads, planes)
            numbers = constant([x, y, count, per_row, parts], np.int32)
            colours.append((count * parts, numbers))
    return colours


VARIANTS: dict[str, Callable[[Mesh], Variant]] = {
    "owner": Owner,
    "tile": TileVariant,
    "base": SourceVariant,
    "source": SourceVariant,
    "grid": GridVariant,
    "hybrid": Hybrid,
}
