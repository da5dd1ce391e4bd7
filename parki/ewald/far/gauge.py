"""What grid and pairs do not fix: constants of the sums, and the mean of the double layer.

The gauges of `parki.ewald.sums.gauges` are for densities that do not add up to zero. The triply
periodic double layer is fixed up to a linear function only. `Constants` adds both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.ewald.far.mesh import EwaldMesh
from parki.ewald.far.truncated import zero_mode
from parki.ewald.geometry.systems import Systems
from parki.ewald.split.hasimoto import Split
from parki.ewald.sums.gauges import Ends

Array = NDArray[np.float64]
SHORT = 200_000  # numbers of a row that a single block of a device adds up in time


class Constants:
    """What a plan adds to the sums of grid and pairs.

    Parameters
    ----------
    mesh : EwaldMesh
    split : Split
        Solver units.
    points : tuple of arrays (trg, src, norms), or None
        For the double layer with a mean of zero flux: positions as they were given, not wrapped, in
        the user's unit, and normals in solver units.
    together : callable, optional
        Adds up arrays of all ranks, where these share the sources out.
    systems : Systems, optional
        Which targets and sources are together. Default: all.
    """

    def __init__(
        self,
        mesh: EwaldMesh,
        split: Split,
        points: tuple[Any, Any, Any] | None,
        together: Callable[[Any], Any] | None = None,
        systems: Systems | None = None,
    ) -> None:
        self.together, self.systems = together, systems
        self.xp, kind = mesh.task.xp, mesh.task.sum
        self.rows = kind.results
        self.points, self.factor = None, mesh.frame.factor
        if points is not None:
            # Copies: the caller's arrays may change. A power of two scales them exactly.
            trg, src, norms = points
            scale, self.dtype = trg.dtype.type(self.factor), mesh.dtype
            scaled = trg * scale
            # Targets from one of them on, in which their distances keep their digits.
            self.first = scaled[:, :1].astype(np.float64)
            away = (scaled - scaled[:, :1]).astype(mesh.dtype, copy=False)
            self.points = away, scaled if src is trg else src * scale, norms
        self.constant: Any = None
        volume = mesh.frame.lattice.volume
        self.flux = 8 * np.pi * self.factor / volume
        value: Any = None
        if kind.gauge and mesh.periodicity < 3:
            value = kind.gauge.ends(_ends(mesh, split))
        elif kind.gauge and kind.gauge.background:
            value = np.array([-split.background / volume])
        if value is not None:
            column = value[:, None] * self.factor
            # With little screening it is far larger than the rest: its own rounding would show.
            dtype = np.float64 if split.screening or split.friction else mesh.dtype
            self.constant = mesh.space.adapter.constant(column, dtype)

    def add(self, dens: Any, results: dict[str, Any]) -> None:
        """Add to the results (rows, targets) what belongs to a density (rows, sources)."""
        if self.constant is not None and "u" in results:
            dtype = np.result_type(dens.dtype, self.constant.dtype)
            rows = dens[: self.rows].astype(dtype, copy=False)
            results["u"] += self.constant * self._total(rows)
        if self.points is None:
            return
        # In double precision, whatever the arithmetic: a body of many points has a sum of q.n near
        # zero, which the moment multiplies by its distance from the origin, many boxes perhaps.
        away, src, norms = self.points
        moments = self.xp.zeros((4, src.shape[1]))
        for q, normal in zip(dens[-3:], norms, strict=True):  # rows fit into a CPU's cache
            moments[3] += self.xp.multiply(q, normal, dtype=np.float64)
        self.xp.multiply(src, moments[3], out=moments[:3])
        sums = self.flux * self._total(moments)
        slope = sums[3:].astype(self.dtype)
        if "u" in results:
            start = (sums[:3] - sums[3:] * self.first).astype(self.dtype)
            results["u"] += start - slope * away
        if "grad_u" in results:
            results["grad_u"][::4] -= slope * self.dtype.type(self.factor)

    def _total(self, rows: Any) -> Any:
        """Return the sums of rows that targets see, shape (rows, 1) or (rows, targets)."""
        if self.systems is not None:
            return self.systems.of_targets(self.systems.sums(rows))
        if self.xp is np or rows.shape[1] <= SHORT:
            sums = rows.sum(axis=1, keepdims=True)
        else:  # CuPy gives each row to a single block: long ones are added up one at a time
            sums = self.xp.empty((len(rows), 1), dtype=rows.dtype)
            for place, row in enumerate(rows):  # what `stack` uploads, no graph would keep
                sums[place] = row.sum()
        return sums if self.together is None else self.together(sums)


def _ends(mesh: EwaldMesh, split: Split) -> Ends:
    """Return the numbers of kernels that end, for the gauges of free axes."""
    lattice, padding = mesh.frame.lattice, mesh.padding
    edges = np.where(lattice.periodic, lattice.sides, padding.period)
    order = mesh.task.sum.symbol.order
    fades = order, lattice.periodicity, padding, split.screening or split.friction
    mean = zero_mode(*fades) / float(np.prod(edges))
    mean *= split.amplitude
    log = np.log(padding.radius * mesh.frame.unit)
    return Ends(lattice.periodicity, lattice.sides, padding.radius, log, mean)
