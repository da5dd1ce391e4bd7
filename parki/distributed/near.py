"""The near field of a slab: its own targets, its own sources and ghosts.

Ghosts are the sources of other slabs in reach of a target: within r_c, rounded up to grid cells.
They come from as many ranks as there are slabs in reach.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.cell_list import locate
from parki.distributed.routes import Route
from parki.distributed.slabs import Slabs
from parki.distributed.transport import Transport
from parki.ewald.p2p import P2P
from parki.ewald.radial import Evaluator
from parki.ewald.split import RadialPolynomials
from parki.ewald.sums import SUMS
from parki.runtime import ExecutionSpace


class SlabP2P:
    """P2P for the points of a slab.

    Parameters
    ----------
    transport : Transport
    slabs : Slabs
    trg, src : array, shape (3, N)
        Points of the slab in the user's unit, as given.
    norms : array, shape (3, N), or None
        Normals in solver units.
    cells : array, shape (N,)
        Grid cells of the sources along the first axis.
    step : float
        Width of a grid cell in solver units.
    kernel, space, box, origin, periodicity, cutoff, radial, factor, want, evaluator, executor
        As for `P2P`, as the next.
    method : str
    keep : bool
    read : float
    """

    def __init__(
        self,
        transport: Transport,
        slabs: Slabs,
        kernel: str,
        space: ExecutionSpace,
        trg: Any,
        src: Any,
        norms: Any,
        cells: Any,
        step: float,
        box: NDArray[np.float64],
        origin: NDArray[np.float64],
        periodicity: int,
        cutoff: float,
        radial: RadialPolynomials,
        factor: float,
        want: tuple[str, ...],
        evaluator: Evaluator | None,
        executor: str | None,
        method: str,
        keep: bool,
        read: float,
    ) -> None:
        xp = self.xp = transport.xp
        rank, reach = transport.team.rank, int(cutoff / step) + 1
        ghosts = []
        for other in range(transport.team.size):
            needed = xp.asarray(slabs.near(other, reach) & (other != rank))
            ghosts.append(xp.flatnonzero(needed[cells]))
        self.ghosts = Route(transport, ghosts)
        src = self.fetch(src)
        if norms is not None:
            norms = self.fetch(norms)
        self.p2p: P2P | None = None
        if not (trg.shape[1] and src.shape[1]):
            return
        # One cell more: ends of the stretch are rounded.
        stretch = slabs.stretch(rank, reach + 1)
        ends = None
        if stretch is not None:
            corner = float(origin[0]) if periodicity == 0 else 0.0
            first, last, start = (corner + n * step for n in stretch)
            ends = (first, last)
            if periodicity:
                turn = (start / factor, box / factor, space, executor)
                src, trg = _turned(src, *turn), _turned(trg, *turn)
        self.p2p = P2P(
            kernel,
            space,
            trg,
            src,
            norms,
            box,
            origin,
            periodicity,
            cutoff,
            radial,
            factor,
            want,
            evaluator,
            executor,
            method,
            stretch=ends,
            keep=keep,
            read=read,
        )
        self.buffer = self.p2p.buffer(SUMS[kernel].rows)

    def fetch(self, values: Any) -> Any:
        """Return an array of the slab's sources (rows, N) with what the ghosts have behind."""
        return self.xp.concatenate([values, self.ghosts.forward("ghosts", values)], axis=1)

    def apply(self, dens: Any, results: dict[str, Any]) -> None:
        """Overwrite ``results`` with the near field of densities fetched, where there are pairs."""
        if self.p2p is not None:
            self.p2p.apply(dens, self.buffer, results)


def _turned(
    points: Any,
    start: float,
    box: NDArray[np.float64],
    space: ExecutionSpace,
    executor: str | None,
) -> Any:
    """Return points with the first coordinate in the period that begins at ``start``."""
    turned, _ = locate(
        points,
        box,
        (1, 1, 1),
        (True, False, False),
        (start, 0.0, 0.0),
        space,
        executor=executor,
    )
    return turned
