"""P2G and G2P of `parki.mesh` alone: variants of the literature.

Conflicts are handled as by Ljungkvist (2014): see `kernels/literature/conflicts.py`. Stored
matrices are by Guo, Liu, Xu, Du and Chow (2014, 2015). Rows of P2G are mesh points: see
`kernels/literature/stored_mesh.py`. `Stored` and `StoredG2P` leave the product to SciPy or CuPy.
Matrices are made once for the points; then weights are read, not computed. Particles are sorted by
tiles first, so that neighbours read neighbouring memory.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, ClassVar

import numpy as np

from parki.cells.cell_grid import CellGrid
from parki.cells.sorted_points import SortedPoints
from parki.errors import ParkiMemoryError, ParkiValueError
from parki.ewald.far.mesh import Mesh
from parki.ewald.far.p2g import P2G
from parki.runtime import Kernel
from parki.runtime.spaces import free_memory
from parki.runtime.specialise import Constant
from parki.typing import AnyArray

FILE = "literature/stored_mesh"
GROUP = 64  # mesh points of a group: Guo et al., Figure 4
LANES = 16  # most threads of a compute unit: Guo et al., section 3.2
TEAM, ROWS = 128, 64  # threads of a team on a device, and rows of a team on a CPU
# Rows that a column must have an entry in, and their least part of all: Bell and Garland (2009).
FEWEST, PART = 4096, 1 / 3
MOST = 2**31 - 1  # most entries of a matrix in CuPy


class _Conflicts(P2G):
    """`spread_items` over a list of items."""

    switches: ClassVar[dict[str, bool]]

    def __init__(self, mesh: Mesh, tiles: CellGrid | None = None) -> None:
        super().__init__(mesh, tiles or mesh.cubes(mesh.window.points))
        # The only layer of these kernels is the number of components.
        self.constants = {"COMPONENTS": mesh.fields.components}
        constants = {**self.constants, **self.switches}
        self.launches = [mesh.load("literature/conflicts", "spread_items", constants)]

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch over the sources."""
        self.launches[0](arguments["src"].shape[1], arguments=arguments, items=None, starts=None)


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
        super().__init__(mesh, mesh.divided(tuple(counts)))
        numbers = np.arange(math.prod(counts), dtype=np.int32).reshape(counts)
        parities = itertools.product(*(range(min(2, n)) for n in counts))
        of_colour = [numbers[tuple(slice(p, None, 2) for p in parity)] for parity in parities]
        constant = mesh.space.adapter.constant
        self.colours = [constant(numbers.reshape(-1), np.int32) for numbers in of_colour]

    def work(self, sources: SortedPoints) -> dict[str, Any]:
        """Return where the tiles' sources start."""
        return {"starts": sources.starts}

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch once for each colour."""
        for items in self.colours:
            self.launches[0](items.size, arguments=arguments, items=items)


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
        self.launches.append(mesh.load("literature/conflicts", "sum_buffers", self.constants))
        self.threads = mesh.space.threads

    def work(self, sources: SortedPoints) -> dict[str, Any]:
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
        parts = arguments["parts"][: len(arguments["grid"])]
        parts.fill(0)
        spread, add_up = self.launches
        spread(self.threads, arguments=arguments, grid=parts)
        rows = math.prod(self.shape[:2])
        add_up(rows, arguments=arguments, buffers=self.threads, parts=parts)


def compute_unit(entries: float) -> int:
    """Return the threads for a row: a power of 2, at most its entries, and at most LANES."""
    return min(LANES, 1 << max(0, int(math.log2(max(entries, 1.0)))))


class _Mesh(P2G):
    """Common part of stored meshes: entries are counted, then collected into rows.

    Attributes
    ----------
    entries : int
        Number of entries of a source's window.
    """

    group = 1

    def __init__(self, mesh: Mesh) -> None:
        super().__init__(mesh, mesh.cubes(mesh.window.points))
        self.lines = mesh.planes * mesh.window.points
        self.entries = self.lines * mesh.window.points

    def kernel(
        self, workunit: str, *, team_size: int = 1, vector_length: int = 1, **constants: Constant
    ) -> Kernel:
        """Return one of the kernels."""
        return self.mesh.load(
            FILE,
            workunit,
            {"COMPONENTS": self.mesh.fields.components, **constants},
            team_size=team_size,
            vector_length=vector_length,
        )

    @property
    def points(self) -> int:
        """Number of mesh points."""
        return math.prod(self.shape)

    def count(self, sources: SortedPoints) -> tuple[Any, dict[str, Any]]:
        """Return the entries of each row, and the arguments of the set-up's kernels."""
        mesh = self.mesh
        entries = sources.order.size * self.entries
        _check_memory(mesh, "mesh", entries * (mesh.item + 4 + 4 * (self.group > 1)))
        counts = mesh.xp.zeros(-(-self.points // self.group), dtype=np.int32)
        arguments = dict(mesh.arguments, src=sources.points, counts=counts)
        self.kernel("count_entries", GROUP=self.group)(self._items(sources), arguments=arguments)
        return counts, arguments

    def collect(
        self, sources: SortedPoints, counts: AnyArray, arguments: dict[str, Any], width: int = 0
    ) -> dict[str, Any]:
        """Return the entries by rows of ``counts``; ``width`` of each are stored by columns."""
        xp, mesh, rows = self.mesh.xp, self.mesh, counts.size
        starts = xp.zeros(rows + 1, dtype=np.int64)
        stored = xp.maximum(counts - width, 0) if width else counts
        xp.cumsum(stored, out=starts[1:], dtype=np.int64)
        total = int(starts[-1])
        entries = {
            "starts": starts,
            "taken": xp.zeros(rows, dtype=np.int32),
            "particles": xp.empty(total, dtype=np.int32),
            "points": xp.empty(total if self.group > 1 or width else 0, dtype=np.int32),
            "weights": xp.empty(total, dtype=mesh.dtype),
            "columns": xp.empty((width, rows), dtype=np.int32),
            "factors": xp.empty((width, rows), dtype=mesh.dtype),
        }
        collect = self.kernel("collect_entries", GROUP=self.group, HYBRID=width > 0)
        collect(self._items(sources), arguments=arguments | entries, width=width)
        return entries

    def work(self, sources: SortedPoints) -> dict[str, Any]:
        """Return the entries by rows."""
        counts, arguments = self.count(sources)
        return self.collect(sources, counts, arguments)

    def _items(self, sources: SortedPoints) -> int:
        return int(sources.order.size) * self.lines


class SingleMesh(_Mesh):
    """`single_mesh`: rows one after the other (CSR), each summed by a compute unit."""

    adds = False

    def __init__(self, mesh: Mesh) -> None:
        super().__init__(mesh)
        self.rows = ROWS

    def work(self, sources: SortedPoints) -> dict[str, Any]:
        """Return the entries by rows, and their kernel, which depends on their number."""
        rows_of_entries = super().work(sources)
        entries = sources.order.size * self.entries / self.points
        lanes = compute_unit(entries) if self.mesh.space.on_device else 1
        rows = TEAM // lanes if self.mesh.space.on_device else ROWS
        return rows_of_entries | {"lanes": lanes, "team": rows}

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch over the rows."""
        lanes, team = arguments["lanes"], arguments["team"]
        kernel = self.kernel("sum_rows", ROWS=team, team_size=team, vector_length=lanes)
        flat = _flat(arguments["grid"])
        kernel(-(-self.points // team), arguments=arguments, rows=self.points, flat=flat)


class GroupMesh(_Mesh):
    """`group_mesh`: rows of `GROUP` mesh points, each summed by a team with atomics."""

    group = GROUP

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch over the groups."""
        kernel = self.kernel("sum_groups", GROUP=self.group, team_size=TEAM)
        flat = _flat(arguments["grid"])
        kernel(arguments["starts"].size - 1, arguments=arguments, flat=flat)


class HybridMesh(_Mesh):
    """`hybrid_mesh`: the first entries of all rows column by column (ELL), the others as COO."""

    adds = False

    def work(self, sources: SortedPoints) -> dict[str, Any]:
        """Return the entries by columns, and the others."""
        counts, arguments = self.count(sources)
        return self.collect(sources, counts, arguments, max(1, self._width(counts)))

    def _width(self, counts: AnyArray) -> int:
        """Return the number of columns in which enough rows have an entry."""
        longer = self.mesh.xp.bincount(counts)[::-1].cumsum()[::-1]  # rows with this many or more
        enough = max(FEWEST, PART * counts.size)
        return int((longer[1:] >= enough).sum())

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch over the rows, then over the other entries."""
        flat, width = _flat(arguments["grid"]), len(arguments["columns"])
        self.kernel("sum_columns")(self.points, arguments=arguments, flat=flat, width=width)
        self.kernel("sum_others")(arguments["weights"].size, arguments=arguments, flat=flat)


class GatherMesh(_Mesh):
    """`gather`: each mesh point holds at most one particle, and gathers from its neighbours.

    Harvey and De Fabritiis (2009). Other particles are spread by atomics.
    """

    adds = False

    def __init__(self, mesh: Mesh) -> None:
        super().__init__(mesh)
        constants = mesh.fields.sources
        self.launches = [mesh.load("literature/p2g_paper", "p2g_source", constants)]

    def work(self, sources: SortedPoints) -> dict[str, Any]:
        """Return which particle each mesh point holds, and the particles that are at none."""
        xp, n = self.mesh.xp, sources.order.size
        holder = xp.full(self.points, -1, dtype=np.int32)
        over = xp.empty(n, dtype=np.int32)
        counts = xp.zeros(self.points, dtype=np.int32)
        arguments = dict(self.mesh.arguments, src=sources.points)
        self.kernel("place_particles")(
            n, arguments=arguments, counts=counts, holder=holder, over=over
        )
        others = xp.flatnonzero(over)
        points = xp.ascontiguousarray(sources.points[:, others])
        return {"holder": holder, "others": others, "other_points": points}

    def spread(self, arguments: dict[str, Any]) -> None:
        """Launch over the mesh points, then over the particles that are at none."""
        flat, src = _flat(arguments["grid"]), arguments["other_points"]
        self.kernel("gather_mesh")(self.points, arguments=arguments, flat=flat)
        dens = self.mesh.xp.ascontiguousarray(arguments["dens"][:, arguments["others"]])
        self.launches[0](src.shape[1], arguments=arguments, src=src, dens=dens)


class Stored(_Mesh):
    """`stored`: the product of a CSR matrix of SciPy or CuPy with the densities."""

    adds = False

    def work(self, sources: SortedPoints) -> dict[str, Any]:
        """Return the matrix, with a row for each mesh point."""
        if self.mesh.space.on_device and sources.order.size * self.entries >= MOST:
            raise ParkiValueError(
                f"{sources.order.size} points have {self.entries} entries each, and a matrix of "
                f"CuPy holds {MOST}; choose 'single_mesh', or leave the method to 'auto'"
            )
        rows = super().work(sources)
        sparse = self.mesh.space.adapter.sparse()
        entries = rows["weights"], rows["particles"], rows["starts"]
        shape = self.points, sources.order.size
        return {"matrix": _matrix(sparse, entries, shape)}

    def spread(self, arguments: dict[str, Any]) -> None:
        """Multiply, one component after the other."""
        grid = arguments["grid"]
        for row, dens in zip(_flat(grid), arguments["dens"], strict=True):
            row[...] = arguments["matrix"] @ dens


class StoredG2P:
    """Interpolation by a matrix of SciPy or CuPy, with a row for each target.

    Parameters
    ----------
    mesh : Mesh
    trg : array, shape (3, N)
        Wrapped targets.
    """

    method = "stored"

    def __init__(self, mesh: Mesh, trg: AnyArray) -> None:
        targets = mesh.sort(trg, mesh.cubes(mesh.window.points))
        n, xp, lines = targets.order.size, mesh.xp, mesh.planes * mesh.window.points
        entries = lines * mesh.window.points
        _check_memory(mesh, "matrix", n * entries * (mesh.item + 4))
        points, weights = (xp.empty(n * entries, dtype=kind) for kind in (np.int32, mesh.dtype))
        shape = mesh.space.adapter.constant(mesh.stored, np.int32)
        arguments = dict(mesh.arguments, src=targets.points, shape=shape)
        list_windows = mesh.load(FILE, "list_windows")
        list_windows(n * lines, arguments=arguments, points=points, weights=weights)
        starts = xp.arange(n + 1, dtype=np.int64) * entries
        arrays = weights, points, starts
        size = n, math.prod(mesh.stored)
        self.matrix = _matrix(mesh.space.adapter.sparse(), arrays, size)
        self.back = xp.empty(n, dtype=np.int32)
        self.back[targets.order] = xp.arange(n, dtype=np.int32)
        self._values: Any = None  # at the sorted targets
        self._mesh = mesh

    def apply(self, field: AnyArray, results: dict[str, AnyArray]) -> None:
        """Add the values at the targets to ``results["u"]``; both have one row per component."""
        rows, mesh = results["u"], self._mesh
        if self._values is None:
            self._values = mesh.xp.empty_like(rows)
        for row, component in zip(self._values, _flat(field), strict=True):
            row[...] = self.matrix @ component
        add = SortedPoints.add_kernel(mesh.space, rows.dtype, len(rows), mesh.executor)
        add(rows.shape[1], rows=self._values, order=self.back, sums=rows)


def _flat(grid: AnyArray) -> Any:
    """Return a grid's components, a row each."""
    return grid.reshape(len(grid), -1)


def _matrix(sparse: Any, entries: tuple[Any, Any, Any], shape: tuple[int, int]) -> Any:
    """Return a CSR matrix with its entries in the given order: CuPy would sort them to multiply."""
    matrix = sparse.csr_matrix(entries, shape=shape)
    matrix.has_canonical_format = True
    return matrix


def _check_memory(mesh: Mesh, what: str, needed: int) -> None:
    if needed > (free := free_memory(mesh.space)):
        raise ParkiMemoryError(
            f"the stored {what} needs {needed / 1e9:.3g} GB, but {free / 1e9:.3g} GB are free; "
            "choose a method that computes the windows, or leave it to 'auto'"
        )


VARIANTS = {
    "atomics": Atomics,
    "colouring": Colouring,
    "private": Private,
    "unprotected": Unprotected,
    "gather": GatherMesh,
    "single_mesh": SingleMesh,
    "group_mesh": GroupMesh,
    "hybrid_mesh": HybridMesh,
    "stored": Stored,
}
