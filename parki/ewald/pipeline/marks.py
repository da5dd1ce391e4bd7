"""`Marks`: numbers of points, such as radii, in solver units; and the second grid of their squares.

Spheres of radius a, which differ, multiply a mode k by ``1 - (k a)^2 / 6``. Their densities are
spread onto the grid, and times a^2 / 6 onto a second one, for the Laplacian of their field. Targets
gather both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from parki.ewald.far.g2p import G2P
from parki.ewald.far.p2g import P2G
from parki.ewald.task import Frame, Task


class Marks(NamedTuple):
    """The marks of points, and what multiplies Laplacians.

    Attributes
    ----------
    each : tuple of 2 arrays, shapes (Nt,) and (Ns,), or None
        The marks of targets and sources.
    lifts : tuple of 2 arrays or None
        What multiplies the Laplacians that targets take, and of the fields that sources make.
    """

    each: tuple[Any, Any] | None = None
    lifts: tuple[Any, Any] = (None, None)

    @classmethod
    def of(cls, task: Task, frame: Frame, given: tuple[Any, Any] | None) -> Marks:
        """Return marks in the user's unit, if there are any, in the solver's."""
        if given is None:
            return cls()
        unit = task.dtype.type(frame.factor ** (task.sum.pair.marks or 0))
        trg, src = (unit * marks.astype(task.dtype) for marks in given)
        of_targets, of_sources = task.sum.symbol.laplacians
        return cls(
            (trg, src), (trg**2 / 6 if of_targets else None, src**2 / 6 if of_sources else None)
        )

    def spread(self, p2g: P2G, dens: Any, buffer: Any, grid: Any, first: int, second: int) -> Any:
        """Spread ``dens`` as `P2G.apply` does, onto the grids with the numbers given."""
        found = p2g.apply(dens, buffer, grid, first)
        if self.lifts[1] is not None:
            p2g.apply(dens * self.lifts[1], buffer, grid, second)
        return found

    def gather(
        self, g2p: G2P, field: Any, results: dict[str, Any], first: int, second: int
    ) -> None:
        """Add the far field of the grids with the numbers given to the results, as `G2P.apply`."""
        g2p.apply(field, results, first)
        if self.lifts[0] is not None:
            more = {name: np.zeros_like(rows) for name, rows in results.items()}
            g2p.apply(field, more, second)
            for name, rows in more.items():
                results[name] += self.lifts[0] * rows
