"""Charges q with dipoles d and quadrupoles Q: ``phi = sum (q + d.D + Q : D D) (1 / r)``, D = d/dy.

They share a pair walk and one component of a grid. Images near a wall take them: see
`parki.ewald.sums.walls`.
"""

from __future__ import annotations

import numpy as np

from parki.ewald.sums import laplace, laplace_dipole, symbols
from parki.ewald.sums.gauges import OF_CHARGES
from parki.ewald.sums.names import Family
from parki.ewald.sums.pairs import PairFunction, RadialPolynomials
from parki.ewald.sums.record import CURVATURE, GRADIENT, PLAIN, Array, Far, Sum, Term
from parki.ewald.sums.sources import CHARGE, CHARGE_DIPOLE, QUADRUPOLE


def _gradient(r2: Array, p: RadialPolynomials) -> Array:
    # The third derivatives of P: along r, and six times with one index along r.
    third = (p.R + 3 * p.X) / np.maximum(r2, 1e-12)  # which stays finite: 0 / 0 at a point itself
    return 4 * r2 * ((p.W - 2 * third) ** 2 + 6 * third**2) * 4 / 36


POTENTIAL = Term(
    "quadrupole",
    3,
    lambda r2, p: laplace_dipole.GRADIENT_TERM.square(r2, p) / 3,  # over nine directions, not three
    Far(CURVATURE, PLAIN, order=1),
    aligned_factor=1.3,
)
GRADIENT_TERM = Term(
    "quadrupole_grad",
    4,
    _gradient,
    Far(CURVATURE, GRADIENT, order=1),
    aligned_factor=1.3,
    derived=True,
)
MULTIPOLES = Sum(
    "multipoles",
    symbols.POTENTIAL,
    PairFunction("multipoles", (4, 90), values="LXR", derivatives="", slopes="LXYW"),
    (CHARGE, CHARGE_DIPOLE, QUADRUPOLE),
    OF_CHARGES,
    terms={
        "u": (laplace.POTENTIAL, laplace_dipole.POTENTIAL, POTENTIAL),
        "grad_u": (laplace.GRADIENT_TERM, laplace_dipole.GRADIENT_TERM, GRADIENT_TERM),
    },
)
FAMILIES = {MULTIPOLES.name: Family(lambda: MULTIPOLES)}
