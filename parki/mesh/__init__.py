"""Particle-mesh operations: spread values of points onto a grid, and interpolate a grid at points.

The public face of the far field of `parki.ewald`, which spreads and gathers by the same classes and
kernels. In 2-D and 3-D, of any number of components, on every execution space:

    grid = parki.mesh.Grid((64, 64, 64), spacing=1 / 64)
    spread = parki.mesh.spread(points, charges, grid)            # a grid with values
    potential = parki.mesh.interpolate(points, spread)           # (N,), its transpose

    plan = parki.mesh.SpreadPlan(points, grid)                   # points once
    values = plan(charges)                                       # values many times

    grid    Grid: where the points of a grid are, and perhaps their values
    plans   SpreadPlan, InterpolatePlan, spread, interpolate
"""

from parki.ewald.split.windows import bspline, kaiser_bessel, m4prime, prolate
from parki.mesh.grid import Grid
from parki.mesh.plans import (
    INTERPOLATE_METHODS,
    SPREAD_METHODS,
    InterpolatePlan,
    SpreadPlan,
    interpolate,
    spread,
)

__all__ = [
    "INTERPOLATE_METHODS",
    "SPREAD_METHODS",
    "Grid",
    "InterpolatePlan",
    "SpreadPlan",
    "bspline",
    "interpolate",
    "kaiser_bessel",
    "m4prime",
    "prolate",
    "spread",
]
