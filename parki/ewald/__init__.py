"""Ewald sums, in the order data flows.

options      what the user chooses
points       the public boundary: arrays checked once
clustering   how far the cloud is from uniform
parameters   tolerance -> cut-off, split, grid, window   (problem, estimates, grids, padding)
cost         what a choice takes                         (machines, lengths)
split        near and far field divided; radial polynomials
window       spreading window; piecewise polynomials
mesh         the grid and the window on an execution space; sorting by tiles
columns      sizes of the columns through which teams of a device walk
plan         joins the stages below; `Plan(...)` once, `plan(dens)` many times (timing, description)
p2p          near field                                  (p2p_cells)
p2g          sources to grid                             (p2g_paper)
fgc          FFT, convolution, inverse FFT               (multiplier, plane)
g2p          grid to targets
checking     the error of a sum, measured
api          one-shot calls
"""

from parki.ewald.api import laplace, stokes_comb, stokes_dl, stokes_rotlet, stokes_sl
from parki.ewald.options import EwaldOptions
from parki.ewald.plan import Plan

__all__ = [
    "EwaldOptions",
    "Plan",
    "laplace",
    "stokes_comb",
    "stokes_dl",
    "stokes_rotlet",
    "stokes_sl",
]
