"""The near field of a slab, from its own sources and ghosts to its own targets.

Ghosts are sources of other slabs within reach of a target: r_c, rounded up to grid cells. They
come from every slab within reach.
"""

from __future__ import annotations

from typing import Any

from parki.cells.cell_grid import CellGrid, locate
from parki.distributed.routes import Route
from parki.distributed.slabs import Slabs
from parki.distributed.transport import Transport
from parki.ewald.near.p2p import P2P
from parki.ewald.pipeline.setup import Setup
from parki.typing import AnyArray


class SlabP2P:
    """P2P for the points of a slab.

    Parameters
    ----------
    reach : int
        Grid cells along the first axis within which a target has its sources.
    trg, src : array, shape (3, N)
        Points of the slab in the user's unit, as given.
    norms : array, shape (3, N), or None
        Normals in solver units.
    point_radii : tuple of 2 arrays, shapes (Nt,) and (Ns,), or None
        Marks of the slab's points in solver units.
    cells : array, shape (N,)
        Grid cells of the sources along the first axis.
    tensors : array, shape (10, Nt), or None
        As of `Request`.
    """

    def __init__(
        self,
        transport: Transport,
        slabs: Slabs,
        setup: Setup,
        *,
        reach: int,
        trg: AnyArray,
        src: AnyArray,
        norms: AnyArray,
        point_radii: AnyArray,
        cells: AnyArray,
        tensors: AnyArray,
    ) -> None:
        task, solver_box, step = setup.task, setup.solver_box, float(setup.mesh.steps[0])
        xp = self.xp = transport.xp
        rank, ghosts = transport.team.rank, []
        for other in range(transport.team.size):
            needed = xp.asarray(slabs.near(other, reach) & (other != rank))
            ghosts.append(xp.flatnonzero(needed[cells]))
        self.ghosts = Route(transport, ghosts)
        src = self.fetch(src)
        if norms is not None:
            norms = self.fetch(norms)
        if point_radii is not None:
            point_radii = point_radii[0], self.fetch(point_radii[1][None])[0]
        self.p2p: P2P | None = None
        if not (trg.shape[1] and src.shape[1]):
            return
        # One cell more, because ends of the stretch are rounded. A slab of a tilted box leans, so
        # it takes the cells of the whole box.
        ends, stretch = None, slabs.stretch(rank, reach + 1)
        if stretch is not None and not task.tilted:
            corner = (
                float(solver_box.lattice.origin[0]) if not solver_box.lattice.periodicity else 0.0
            )
            first, last, start = (corner + n * step for n in stretch)
            ends = (first, last)
            if solver_box.lattice.periodicity:
                src, trg = (_from_start(setup, points, start) for points in (src, trg))
        self.p2p = P2P(
            setup.near,
            solver_box,
            trg,
            src,
            norms,
            tensors=tensors,
            point_radii=point_radii,
            stretch=ends,
        )
        self.buffer = self.p2p.buffer(self.p2p.rows)

    def fetch(self, values: AnyArray) -> Any:
        """Return an array of the slab's sources (rows, N) followed by the ghosts' columns."""
        return self.xp.concatenate([values, self.ghosts.forward("ghosts", values)], axis=1)

    def apply(self, dens: AnyArray, results: dict[str, AnyArray]) -> None:
        """Overwrite ``results`` with the near field of fetched densities, if there are pairs."""
        if self.p2p is not None:
            rows = {name: array[None] for name, array in results.items()}
            self.p2p.apply(dens[None], self.buffer, rows)


def _from_start(setup: Setup, points: AnyArray, start: float) -> Any:
    """Return points with the first coordinate in the period that begins at ``start``."""
    solver_box, task = setup.solver_box, setup.task
    box = CellGrid(
        counts=(1, 1, 1),
        edges=tuple(solver_box.lattice.sides * solver_box.unit),
        periodic=(True, False, False),
        corner=(start * solver_box.unit, 0.0, 0.0),
    )
    wrapped, _ = locate(points, box, task.space, executor=task.executor)
    return wrapped
