"""The far field of a slab: P2G onto its planes and a window beyond them, FGC, and G2P."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from parki.distributed.fgc import slab_fgc
from parki.distributed.halo import Halo
from parki.distributed.slabs import Slabs
from parki.distributed.transport import Transport
from parki.ewald.far.buffers import components_of
from parki.ewald.far.faxen import FaxenCorrections
from parki.ewald.far.g2p import G2P
from parki.ewald.far.gauge import PlaneModes
from parki.ewald.far.p2g import P2G
from parki.ewald.far.spreading import place_sources
from parki.ewald.pipeline.setup import Setup
from parki.ewald.points.cloud import Cloud
from parki.ewald.task import Task
from parki.memory import Buffers, declare
from parki.typing import AnyArray


def slab_grids(task: Task, stored: tuple[int, int, int]) -> Buffers:
    """Return the grid of spread values of a slab and a window, and the field."""
    (inputs, outputs), (x, y, z) = components_of(task), stored
    y *= task.sum.symbol.grids
    return declare(task.dtype, grid=(inputs, x, y, z), field=(outputs, x, y, z))


class SlabFar:
    """P2G, FGC and G2P of a slab, for the points given to `placed`."""

    def __init__(self, transport: Transport, slabs: Slabs, setup: Setup) -> None:
        self.transport, self.slabs, rank = transport, slabs, transport.team.rank
        task, mesh = setup.task, setup.mesh
        self.setup, self.mesh = setup, mesh
        self.slab = slab = setup.slab_mesh(slabs.cells[rank], slabs.cells[rank + 1])
        self.fgc = slab_fgc(transport, slabs, setup)
        self.halo = Halo(transport, slabs)
        self.planes = slabs.planes[rank + 1] - slabs.planes[rank]
        self.grids = task.sum.symbol.grids
        shape, dtype = slab_grids(task, slab.stored)["field"]
        self.stored = transport.xp.zeros(shape, dtype)
        self.field = self.stored[..., : mesh.padding.grid[2]]
        self.p2g: P2G
        self.g2p: G2P
        self.faxen: FaxenCorrections | None
        self.plane: PlaneModes | None
        self.buffer: Any
        self.memory: Any = None  # the grid's, once there are points
        self.modes: Any = None

    def placed(
        self,
        on_grid: Cloud,
        faxen: FaxenCorrections | None,
    ) -> SlabFar:
        """Return this far field for other points; both share their grids, so use one at a time.

        Parameters
        ----------
        on_grid : Cloud
            Points of the slab: see `cloud_on_grid`.
        faxen : FaxenCorrections or None
            Of the slab's points.
        """
        far, mesh, task = copy.copy(self), self.mesh, self.setup.task
        corner = self.slabs.cells[self.transport.team.rank] * float(mesh.steps[0])
        on_slab, norms = _shifted(on_grid.src, corner), on_grid.arrays.get("norms")
        far.p2g = place_sources(self.slab, on_slab, norms, memory=self.memory, grids=self.grids)
        far.faxen, far.memory = faxen, far.p2g.memory
        on_slab = on_slab if on_grid.same else _shifted(on_grid.trg, corner)
        sources, tensors = far.p2g.sources, on_grid.arrays.get("tensors")
        far.g2p = G2P(self.slab, on_slab, sources, on_grid.same, tensors=tensors)
        far.plane = None
        if PlaneModes.needed(mesh):
            far.plane = PlaneModes(mesh, sources.points[2], far.p2g.arguments["norms"])
        far.buffer = task.xp.empty((task.sum.rows, on_grid.sources), dtype=mesh.dtype)
        return far

    def spread(self, dens: AnyArray) -> None:
        """P2G: spread the densities (rows, sources) of the slab."""
        modes = list[Any]()
        for number, part in enumerate([dens] if self.faxen is None else self.faxen.densities(dens)):
            grid = self.p2g.apply(part, self.buffer, first=number)
            if self.plane is not None:
                modes.append(self.plane.apply(self.buffer if self.p2g.sorts else part))
        self.grid = grid[..., : self.mesh.padding.grid[2]]
        if modes:
            self.modes = self.setup.task.xp.concatenate(modes, axis=1)

    def add_halo(self) -> None:
        """Add the values spread beyond the slab to the owners' planes."""
        self.halo.add(self.grid)

    def convolve(self) -> None:
        """FGC: compute the field on the slab's own planes from the spread values."""
        if self.modes is not None:
            self.modes = self.transport.team.sum(self.modes)
        _, y, z = self.mesh.padding.grid

        def owned(values: AnyArray) -> Any:
            return values[:, : self.planes].reshape(len(values), self.planes, self.grids, y, z)

        self.fgc.apply(owned(self.grid), owned(self.field), self.modes)

    def copy_halo(self) -> None:
        """Fetch the field beyond the slab from its owners."""
        self.halo.copy(self.field)
        if self.mesh.periodicity == 3:
            n = self.field.shape[3]
            self.stored[..., n:] = self.stored[..., : self.stored.shape[3] - n]

    def gather(self, results: dict[str, AnyArray]) -> None:
        """G2P: add the field to the results (rows, targets) of the slab."""
        self.g2p.apply(self.stored, results)
        if self.faxen is not None:
            self.faxen.gather(self.g2p, self.stored, results, 1)


def _shifted(points: AnyArray, corner: float) -> Any:
    """Return points shifted along the first axis, so that the slab's first plane is zero."""
    moved = points.copy()
    # In double precision: a slab far from the corner should not lose digits.
    moved[0] = points[0].astype(np.float64) - corner
    return moved
