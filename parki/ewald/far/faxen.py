"""`FaxenCorrections`: what spheres of finite size add to spreading and gathering."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from parki.ewald.far.g2p import G2P
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

    radii: tuple[Any, Any] | None
    faxen_factors: tuple[dict[str, Any] | None, Any]

    @classmethod
    def of(
        cls, task: Task, solver_box: SolverBox, radii: tuple[Any, Any] | None
    ) -> FaxenCorrections | None:
        """Return the corrections for radii in the user's unit; None if there are none."""
        of_targets, of_sources = task.sum.symbol.laplacians
        if radii is not None:
            unit = task.dtype.type(solver_box.factor ** (task.sum.pair.point_radii or 0))
            trg, src = (unit * point_radii.astype(task.dtype) for point_radii in radii)
        elif of_targets or of_sources:  # all of one radius
            one = SUMS[in_unit(task.kernel, solver_box.unit)].pair.largest
            trg = src = task.dtype.type(one)
        else:
            return None
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

    def densities(self, dens: AnyArray) -> list[Any]:
        """Return the densities (rows, sources) that are spread, one for each grid."""
        factors = self.faxen_factors[1]
        return [dens] if factors is None else [dens, dens * factors]

    def gather(self, g2p: G2P, field: AnyArray, results: dict[str, AnyArray], first: int) -> None:
        """Add what targets take of the Laplacian's grids, ``first`` on, to results: see `G2P`."""
        if self.faxen_factors[0] is not None:
            more = {name: np.zeros_like(rows) for name, rows in results.items()}
            g2p.apply(field, more, first)
            for name, rows in more.items():
                results[name] += self.faxen_factors[0][name] * rows
