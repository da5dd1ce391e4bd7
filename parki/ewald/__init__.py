"""Ewald sums.

options, points    what the user chooses and gives, checked once
sums               a record for each kernel
split              near and far field divided; the window; the errors of both
choice             tolerance -> all parameters; what they cost and what they need
near               P2P over sorted points
far                P2G, FGC, G2P, and what truncation and gauges add
plan               joins the wings: `Plan(...)` once, `plan(dens)` many times
checking           the error of a sum, measured
api                one-shot calls
adjoint            the transpose of a plan
derivatives        by densities, normals and points
fixed              a plan as a function of densities
"""

from parki.ewald.api import laplace, stokes_comb, stokes_dipole, stokes_dl, stokes_rotlet, stokes_sl
from parki.ewald.derivatives import jvp, vjp
from parki.ewald.options import EwaldOptions
from parki.ewald.plan import Plan
from parki.ewald.recent import forget

__all__ = [
    "EwaldOptions",
    "Plan",
    "forget",
    "jvp",
    "laplace",
    "stokes_comb",
    "stokes_dipole",
    "stokes_dl",
    "stokes_rotlet",
    "stokes_sl",
    "vjp",
]
