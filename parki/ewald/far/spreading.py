"""The variants of `P2G`: parki has three, and the literature more.

`p2g_owner` and `p2g_block` are for CPUs, and `p2g_tile` for devices. The variants by Kosmacher, Du,
Bagge and Biros (2026) are for comparisons. Their cells are tiles of half a window, (P + 1) // 2
grid steps: a source reaches at most the second next tile. See `kernels/literature/p2g_paper.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from parki.cells.runs import runs
from parki.cells.sorted_points import SortedPoints
from parki.errors import ParkiValueError
from parki.ewald.far.mesh import Mesh
from parki.ewald.far.p2g import P2G
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
from parki.ewald.sums import SUMS
from parki.runtime import Kernel
from parki.typing import AnyArray

# Sources staged at a time, by three threads each, and teams on a multiprocessor.
BATCH, TEAMS = 42, 6
# A tile is crowded if its number of sources is this many times a thread's part of its colour's.
CROWDED = 1.5
MOST_PLANES = 2**19 - 1  # an entry holds the number of a plane up to this


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


class Owner(P2G):
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
        self.threads = mesh.space.threads

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


class Tiles(P2G):
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


# The literature's variants.
FILE = "literature/p2g_paper"
# Sources of a team of p2g_hybrid, and most threads of a team on a device. The paper's fastest at
# P = 8 are 128 threads for P2G-grid and 64 for P2G-hybrid, which has fewer points to divide.
PAPER_BATCH, PAPER_TEAM = 32, 128


def half_window(mesh: Mesh) -> int:
    """Return the edge of the paper's cells in grid steps."""
    return (mesh.window.points + 1) // 2


def _team(items: int) -> int:
    """Return the threads for this many items: whole warps, at most PAPER_TEAM threads."""
    return min(PAPER_TEAM, -(-items // 32) * 32)


class Sources(P2G):
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


class GridPoints(P2G):
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


class Hybrid(P2G):
    """`p2g_hybrid`: a team owns sources, and its threads own the grid points in reach."""

    def __init__(self, mesh: Mesh) -> None:
        edge = half_window(mesh)
        super().__init__(mesh, mesh.cubes(edge))
        points = (edge + mesh.window.points - 1) ** (2 if mesh.planes == 1 else 3)
        constants = {**mesh.fields.sources, "TILE": edge, "BATCH": PAPER_BATCH}
        self.launches = [mesh.load(FILE, "p2g_hybrid", constants, team_size=_team(points))]

    def work(self, sources: SortedPoints) -> dict[str, Any]:
        """Return the tiles' sources in parts, each of which a team holds."""
        return {"work": runs(self.mesh.space, sources.starts, PAPER_BATCH, sources.order.size)}


VARIANTS: dict[str, Callable[[Mesh], P2G]] = {
    "owner": Owner,
    "tile": Tiles,
    "base": Sources,
    "source": Sources,
    "grid": GridPoints,
    "hybrid": Hybrid,
}


def spreading_kernels(mesh: Mesh) -> list[Kernel]:
    """Return the kernels of the mesh's variant."""
    return VARIANTS[mesh.spread](mesh).launches


def place_sources(
    mesh: Mesh,
    src: AnyArray,
    norms: AnyArray = None,
    *,
    scratch: tuple[int, int] = (0, 0),
    memory: AnyArray = None,
    offsets: AnyArray = None,
    grids: int = 1,
) -> P2G:
    """Return the mesh's variant for sources: see `P2G.place` and `P2G.take_grid`."""
    placed = VARIANTS[mesh.spread](mesh)
    placed.place(src, norms, offsets)
    placed.take_grid(scratch, memory, grids)
    return placed
