"""G2P on the host side: sorts the targets by grid tiles, and launches.

It adds the far field on the grid to the results at the targets. The gradient comes from the
window's derivative, without transforms of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from parki.cells.sorted_points import SortedPoints
from parki.ewald.far import sizes
from parki.ewald.far.columns import Gather
from parki.ewald.far.mesh import Mesh, basis_of
from parki.ewald.far.sizes import LINE, block_part, g2p_part, part_cells
from parki.runtime import ExecutionSpace, Kernel
from parki.settings import MOST_THREADS
from parki.typing import AnyArray

GROUP = 3  # components that `g2p_target` gathers at a time


@dataclass(frozen=True)
class Gathering:
    """A kernel that gathers components ``first`` to ``first + count - 1`` of result ``name``.

    ``name`` is "u", "p", "grad_u" or "grad_tensor". "grad_u" includes "u" where both are wanted;
    "grad_tensor" includes all. With ``blocks``, work items of the kernel own many targets.
    """

    kernel: Kernel
    name: str
    first: int
    count: int
    blocks: bool = False


class G2P:
    """Gathering for fixed targets.

    Parameters
    ----------
    mesh : Mesh
    trg : array, shape (3, N)
        Targets in solver units, wrapped.
    sources : SortedPoints, optional
        The sources sorted by tiles, which are reused if the targets are the sources.
    same : bool
        Whether the targets are the sources.
    offsets : ndarray, optional
        Offsets of the targets of each system, for the variant by tiles.
    tensors : array, shape (10, N), optional
        Tensors of the targets, in the order given and in the user's unit.

    Attributes
    ----------
    method : str
        The variant in words: the mesh's, or its substitute and the reason.
    """

    def __init__(
        self,
        mesh: Mesh,
        trg: AnyArray,
        sources: SortedPoints | None,
        same: bool,
        offsets: AnyArray = None,
        tensors: AnyArray = None,
    ) -> None:
        self._space, self._executor = mesh.space, mesh.executor
        constant, size = mesh.space.adapter.constant, tile_size(mesh)
        self.method = mesh.gather
        if mesh.gather == "tile" and size is None:
            self.method = f"target (no tile of P = {mesh.window.points} fits scratch memory)"
            if mesh.fields.tensors:
                self.method = "target (tiles have no tensors)"
        if size:
            tiles = mesh.columns(size.tile1, size.tile2)
        elif mesh.gather == "base":
            tiles = mesh.divided((1, 1, 1))
        elif sources is None or mesh.spread == "base":  # the sources are not sorted then
            tiles = mesh.cubes(mesh.window.points)
        else:
            tiles = sources.cell_grid
        ready = same and sources is not None and tiles == sources.cell_grid
        self.targets = sources if sources is not None and ready else mesh.sort(trg, tiles, offsets)
        apart = tensors is not None and offsets is not None  # tiles know of systems by themselves
        self.launches = self.gathers(mesh, apart)
        self.arguments = dict(mesh.arguments, trg=self.targets.points, order=self.targets.order)
        if apart:
            systems = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
            self.arguments["grids"] = constant(systems, np.int32)[self.targets.order]
        self._axes: Any = None  # which turns gradients by the axes of a tilted box
        if "basis" in mesh.arguments and ("grad_u" in mesh.fields.want or mesh.fields.tensors):
            self._axes = mesh.arguments["basis"]
        self._systems = mesh.boxes_of(offsets)
        if tensors is not None and self._axes is not None:
            xp, parts = mesh.xp, tensors[:9].reshape(3, 3, -1)
            g = basis_of(self._axes, self._systems)
            taken = [sum(g[n, k] * parts[:, k] for k in range(n, 3)) for n in range(3)]
            tensors = xp.concatenate([xp.stack(taken, axis=1).reshape(9, -1), tensors[9:]])
        self.arguments["tensors"] = tensors
        self.count = self.targets.order.size
        if size:
            cells = part_cells(tiles.counts, mesh.space.on_device)
            self.arguments["work"] = self.targets.parts(g2p_part(self.count), cells)
            self.arguments["starts"] = self.targets.starts
            self.arguments["tiles"] = constant(tiles.counts, np.int32)
            self.count = self.arguments["work"].shape[1]
        self._threads = mesh.space.threads
        self._few = mesh.few(self.targets.order.size, mesh.fields.results)
        self._back: Any = None  # the place of each target among the sorted ones
        self._found: dict[str, Any] = {}  # results of the sorted targets
        order = self.targets.order
        if in_order(mesh.space, order.size) and mesh.gather != "base" and tensors is None:
            places = np.arange(order.size, dtype=np.int32)
            self._back = np.empty_like(order)
            self._back[order] = places
            self.arguments["order"] = places
        if "grad_u" in mesh.fields.want or mesh.fields.tensors:
            self.arguments["descent"] = constant(-mesh.factor / mesh.steps, mesh.dtype)

    @staticmethod
    def kernels(mesh: Mesh) -> list[Kernel]:
        """Return the gathering kernels."""
        return [g.kernel for g in G2P.gathers(mesh)]

    @staticmethod
    def gathers(mesh: Mesh, systems: bool = False) -> list[Gathering]:
        """Return the launches for the wanted quantities; ``systems``: see `g2p_tensor`."""
        size, components, want = tile_size(mesh), mesh.fields.results, mesh.fields.want
        lanes = LINE // mesh.item
        if mesh.fields.tensors:
            if blocks := in_blocks(mesh, "grad_tensor", 4):
                kernel = mesh.load(
                    "g2p_block",
                    "g2p_block",
                    TENSORS=True,
                    LANES=lanes,
                    VALUES="u" in want,
                    GRADIENT="grad_u" in want,
                    PRESSURE="p" in want,
                    SYSTEMS=systems,
                )
            else:
                kernel = mesh.load(
                    "g2p_tensor",
                    "g2p_tensor",
                    VALUES="u" in want,
                    GRADIENT="grad_u" in want,
                    PRESSURE="p" in want,
                    SYSTEMS=systems,
                )
            return [Gathering(kernel, "grad_tensor", 0, 4, blocks)]
        step = size.group if size else min(components, GROUP)
        wanted = [("grad_u" if "grad_u" in want else "u", components)]
        if "u" not in want and "grad_u" not in want:
            wanted = []
        # Blocks take the pressure with derivatives; it follows the velocity's three components.
        pressure = {"p", "grad_u"} <= {*want} and in_blocks(mesh, "grad_u", components)
        if "p" in want and not pressure:
            wanted.append(("p", 1))
        launches = []
        for name, rows in wanted:
            for first in range(0, rows, step):
                count, gradient = min(step, rows - first), name == "grad_u"
                blocks = in_blocks(mesh, name, count)
                constants = {"COMPONENTS": count, "VALUES": not gradient or "u" in want}
                if size:
                    constants.update(size.constants(), GRADIENT=gradient)
                    team = size.batch * size.lanes
                    kernel = mesh.load("g2p_tile", "g2p_tile", constants, team_size=team)
                elif blocks:
                    constants.update(GRADIENT=gradient, PRESSURE=pressure, LANES=lanes)
                    kernel = mesh.load("g2p_block", "g2p_block", constants)
                else:
                    workunit = "g2p_gradient" if gradient else "g2p_target"
                    if not mesh.spills:
                        constants["SPILL"] = False
                    kernel = mesh.load("g2p", workunit, constants)
                launches.append(Gathering(kernel, name, first, count, blocks))
        return launches

    def apply(self, field: AnyArray, results: dict[str, AnyArray], first: int = 0) -> None:
        """Add the far field (rows, x, y, z), the pressure in its last row, to the ``results``.

        Results have shape (rows, targets). Fields of several systems lie side by side along y;
        ``first`` is the number of this one.
        """
        if self._back is None and self._axes is None:
            self._gather(field, results, first)
            return
        apart = list(results) if self._back is not None else []
        if self._axes is not None:
            apart = apart or [name for name in ("grad_u", "grad_tensor") if name in results]
        for name in apart:
            if name not in self._found:
                self._found[name] = results[name].copy()
            self._found[name].fill(0)
        self._gather(field, {**results, **{name: self._found[name] for name in apart}}, first)
        if self._axes is not None:
            for name in {"grad_u", "grad_tensor"} & {*apart}:
                self._along_axes(self._found[name])
        if self._back is None:
            for name in apart:
                results[name] += self._found[name]
            return
        for name, rows in results.items():
            add = SortedPoints.add_kernel(self._space, rows.dtype, len(rows), self._executor)
            add(rows.shape[1], rows=self._found[name], order=self._back, sums=rows)

    def _along_axes(self, rows: AnyArray) -> None:
        """Turn gradients by the grid's axes, three rows each, to gradients by the user's."""
        g = basis_of(self._axes, self._systems)
        for first in range(0, len(rows), 3):
            for axis in (2, 1, 0):  # what is read comes before
                terms = [g[n, axis] * rows[first + n] for n in range(axis + 1)]
                rows[first + axis] = sum(terms[1:], terms[0])

    def _gather(self, field: AnyArray, results: dict[str, AnyArray], first: int) -> None:
        """Launch all kernels."""
        for g in self.launches:
            rows = slice(g.first, g.first + g.count)
            pot, gradient = results.get("p" if g.name == "p" else "u"), results.get("grad_u")
            part = block_part(self.count, self._threads) if g.blocks else 1
            arguments = {
                **self.arguments,
                "size": part,
                "count": self.count,
                "field": field[-1:] if g.name == "p" else field[g.first :],
                "pot": None if pot is None else pot[rows],
                "gradient": None if gradient is None else gradient[3 * rows.start : 3 * rows.stop],
                "pressure": results.get("p"),
                "pull": results.get("grad_tensor"),
                "first": first,
            }
            threads = 1 if self._few else MOST_THREADS
            g.kernel(-(-self.count // part), threads, arguments=arguments)


def in_order(space: ExecutionSpace, targets: int) -> bool:
    """Return whether results are gathered in the sorted order of targets and then permuted."""
    return not space.on_device and targets >= sizes.IN_ORDER


def in_blocks(mesh: Mesh, name: str, components: int) -> bool:
    """Return whether a CPU gathers ``components`` of a result at a time by `g2p_block`.

    It sorts and copies, which takes longer than narrow windows do. Windows of derivatives are
    narrow if their rows are no longer than a cache line.
    """
    if mesh.gather != "target" or mesh.space.on_device or mesh.planes == 1:
        return False
    if name in ("u", "p"):
        return mesh.window.points > (8 if components > 1 else 11)
    return mesh.window.points > LINE // mesh.item


def tile_size(mesh: Mesh) -> Gather | None:
    """Return the sizes of `g2p_tile`.

    None if the mesh uses another variant, targets have tensors, or no column fits into scratch
    memory.
    """
    return Gather.of(mesh) if mesh.gather == "tile" and not mesh.fields.tensors else None
