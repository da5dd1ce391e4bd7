"""Particle-mesh operations: spread values of points onto a grid, and interpolate a grid at points.

These functions use the classes and kernels of the far field of `parki.ewald`. They work in 2-D and
3-D, for any number of components, on every execution space:

    grid = parki.mesh.Grid((64, 64, 64), spacing=1 / 64)
    spread = parki.mesh.spread(points, charges, grid)            # a grid with values
    potential = parki.mesh.interpolate(points, spread)           # (N,), by the transpose

    plan = parki.mesh.SpreadPlan(points, grid)                   # set up the points once
    values = plan(charges)                                       # spread values many times

    grid            Grid: shape, spacing and origin of a grid, and perhaps values on it
    spreading       SpreadPlan, spread
    interpolation   InterpolatePlan, interpolate
"""

from parki.ewald.split.windows import bspline, kaiser_bessel, m4prime, prolate
from parki.mesh.grid import Grid
from parki.mesh.interpolation import INTERPOLATE_METHODS, InterpolatePlan, interpolate
from parki.mesh.spreading import SPREAD_METHODS, SpreadPlan, spread

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
