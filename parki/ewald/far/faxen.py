"""`FaxenCorrections`: what spheres of finite size add to spreading and gathering."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from parki.ewald.far.g2p import G2P
from parki.ewald.far.gauge import PlaneModes
from parki.ewald.far.p2g import P2G
from parki.ewald.solver_box import SolverBox
from parki.ewald.sums import SUMS, in_unit
from parki.ewald.task import Task
from parki.typing import AnyArray


class FaxenCorrections(NamedTuple):
    """Numbers of points, such as radii, in solver units; and what multiplies Laplacians.

    Spheres of radius a, which differ, multiply a mode k by ``1 - (k a)^2 / 6``, or 1/10 for 1/6
    where they carry force dipoles, or gradients are averaged over them. Their densities are spread
    onto the grid, and times a^2 / 6 onto a second one, for the Laplacian of their field. Targets
    gather both.

    Attributes
    ----------
    radii : tuple of 2 arrays, shapes (Nt,) and (Ns,), or None
        The radii of targets and sources.
    faxen_factors : tuple of 2
        What multiplies the Laplacians that targets take, arrays by result, and of the fields that
        sources make, an array; None where there are none.
    """

    radii: tuple[Any, Any] | None = None
    faxen_factors: tuple[dict[str, Any] | None, Any] = (None, None)

    @classmethod
    def of(
        cls, task: Task, solver_box: SolverBox, radii: tuple[Any, Any] | None
    ) -> FaxenCorrections:
        """Return the corrections for radii in the user's unit, if there are any."""
        of_targets, of_sources = task.sum.symbol.laplacians
        if radii is not None:
            unit = task.dtype.type(solver_box.factor ** (task.sum.pair.point_radii or 0))
            trg, src = (unit * point_radii.astype(task.dtype) for point_radii in radii)
        elif of_targets or of_sources:  # all of one radius
            one = SUMS[in_unit(task.kernel, solver_box.unit)].pair.largest
            trg = src = task.dtype.type(one)
        else:
            return cls()
        of_results = {
            r: trg**2 * task.dtype.type(task.sum.faxen_factor(r)) for r in ("u", *task.want)
        }
        factors = task.sum.faxen_factors
        constant = task.space.adapter.constant  # an upload would keep updates out of a graph
        return cls(
            None if radii is None else (trg, src),
            (
                of_results if of_targets else None,
                src**2 * constant(factors, task.dtype) if of_sources else None,
            ),
        )

    def spread(
        self,
        p2g: P2G,
        dens: AnyArray,
        buffer: AnyArray,
        grid: AnyArray,
        first: int,
        second: int,
        plane: PlaneModes | None = None,
    ) -> tuple[Any, list[Any]]:
        """Spread ``dens`` as `P2G.apply` does, onto the grids with the numbers given.

        With `PlaneModes`, return the modes of each grid as well.
        """
        sums, modes = p2g.apply(dens, buffer, grid, first), list[Any]()
        if plane is not None:
            modes.append(plane.apply(buffer if p2g.sorts else dens))
        if self.faxen_factors[1] is not None:
            scaled = dens * self.faxen_factors[1]
            p2g.apply(scaled, buffer, grid, second)
            if plane is not None:
                modes.append(plane.apply(buffer if p2g.sorts else scaled))
        return sums, modes

    def gather(
        self, g2p: G2P, field: AnyArray, results: dict[str, AnyArray], first: int, second: int
    ) -> None:
        """Add the far field of the grids with the numbers given to the results, as `G2P.apply`."""
        g2p.apply(field, results, first)
        if self.faxen_factors[0] is not None:
            more = {name: np.zeros_like(rows) for name, rows in results.items()}
            g2p.apply(field, more, second)
            for name, rows in more.items():
                results[name] += self.faxen_factors[0][name] * rows
