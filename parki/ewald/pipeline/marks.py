"""`Marks`: numbers of points, such as radii, in solver units; and the second grid of their squares.

Spheres of radius a, which differ, multiply a mode k by ``1 - (k a)^2 / 6``, or 1/10 for 1/6 where
they carry couplets, or gradients are averaged over them. Their densities are spread onto the grid,
and times a^2 / 6 onto a second one, for the Laplacian of their field. Targets gather both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from parki.ewald.far.g2p import G2P
from parki.ewald.far.p2g import P2G
from parki.ewald.sums import SUMS
from parki.ewald.task import Frame, Task


class Marks(NamedTuple):
    """The marks of points, and what multiplies Laplacians.

    Attributes
    ----------
    each : tuple of 2 arrays, shapes (Nt,) and (Ns,), or None
        The marks of targets and sources.
    lifts : tuple of 2
        What multiplies the Laplacians that targets take, arrays by result, and of the fields that
        sources make, an array; None where there are none.
    """

    each: tuple[Any, Any] | None = None
    lifts: tuple[dict[str, Any] | None, Any] = (None, None)

    @classmethod
    def of(cls, task: Task, frame: Frame, given: tuple[Any, Any] | None) -> Marks:
        """Return marks in the user's unit, if there are any, in the solver's."""
        of_targets, of_sources = task.sum.symbol.laplacians
        if given is not None:
            unit = task.dtype.type(frame.factor ** (task.sum.pair.marks or 0))
            trg, src = (unit * marks.astype(task.dtype) for marks in given)
        elif of_targets or of_sources:  # all of one radius
            one = SUMS[SUMS.in_unit(task.kernel, frame.unit)].pair.largest
            trg = src = task.dtype.type(one)
        else:
            return cls()
        made = {r: trg**2 * task.dtype.type(task.sum.lift(r)) for r in ("u", *task.want)}
        own: Any = np.asarray(task.sum.lifts, dtype=task.dtype)
        return cls(
            None if given is None else (trg, src),
            (made if of_targets else None, src**2 * task.xp.asarray(own) if of_sources else None),
        )

    def spread(self, p2g: P2G, dens: Any, buffer: Any, grid: Any, first: int, second: int) -> Any:
        """Spread ``dens`` as `P2G.apply` does, onto the grids with the numbers given."""
        sums = p2g.apply(dens, buffer, grid, first)
        if self.lifts[1] is not None:
            p2g.apply(dens * self.lifts[1], buffer, grid, second)
        return sums

    def gather(
        self, g2p: G2P, field: Any, results: dict[str, Any], first: int, second: int
    ) -> None:
        """Add the far field of the grids with the numbers given to the results, as `G2P.apply`."""
        g2p.apply(field, results, first)
        if self.lifts[0] is not None:
            more = {name: np.zeros_like(rows) for name, rows in results.items()}
            g2p.apply(field, more, second)
            for name, rows in more.items():
                results[name] += self.lifts[0][name] * rows
