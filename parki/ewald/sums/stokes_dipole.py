"""Dipoles of forces: ``u_i(x) = sum D_jk d/dy_k (delta_ij / r + r_i r_j / r^3)``.

The velocity is the single layer's gradient, which the window spreads here and gathers there.
"""

from __future__ import annotations

import math

from parki.ewald.sums import symbols
from parki.ewald.sums.dipoles import dipoles_of
from parki.ewald.sums.names import always
from parki.ewald.sums.record import CURVATURE, GRADIENT, PLAIN, Far, Term
from parki.ewald.sums.sizes import square
from parki.ewald.sums.sources import DIPOLE
from parki.ewald.sums.words import Words

_PI = math.pi


VELOCITY = Term(
    "stokes_dipole",
    2,
    square(symbols.FLOW, DIPOLE),
    Far(GRADIENT, PLAIN),
    (16 / 9, 1.5, 1 / (9 * _PI), 2.5, 0, 0),
    aligned_factor=1.3,
)
VELOCITY_GRADIENT = Term(
    "stokes_dipole_grad",
    3,
    square(symbols.FLOW, DIPOLE, "grad_u"),
    Far(GRADIENT, GRADIENT),
    (2 / 27, 3.5, 1 / (144 * _PI), 4.5, 32 / (135 * _PI**2), 3),
    aligned_factor=1.3,
    derived=True,
)
PRESSURE = Term(
    "stokes_dipole_p",
    3,
    square(symbols.FLOW, DIPOLE, "p"),
    Far(GRADIENT, PLAIN),
    (1 / 27, 3.5, 1 / (288 * _PI), 4.5, 4 / (27 * _PI**2), 3),
    aligned_factor=1.8,
    derived=True,
)
TENSOR_GRADIENT = Term(
    "stokes_dipole_tensor",
    4,
    square(symbols.FLOW, DIPOLE, "grad_tensor"),
    Far(GRADIENT, CURVATURE),
    aligned_factor=1.5,
    derived=True,
)
TERMS = {"u": (VELOCITY,), "p": (PRESSURE,), "grad_u": (VELOCITY_GRADIENT,)}
STOKES_DIPOLE = dipoles_of(
    "stokes_sl",
    "stokes_dipole",
    symbols.FLOW,
    (2, 55),
    {**TERMS, "grad_tensor": (TENSOR_GRADIENT,)},
)
WORDS = Words(
    "dipoles D of forces",
    "u = sum [ D r - D^T r - (tr D) r ] / r^3 + 3 r (r.D r) / r^5",
    "``dens[j, k] = D_jk``: forces along axis j that are apart along axis k.",
    "dipoles",
    "velocity = sum / (8 pi mu) for the viscosity mu, pressure = sum / (8 pi), D a force times "
    "a length",
    "sum 6 (r.D r) / r^5 - 2 (tr D) / r^3",
    (
        "This is ``u_i = sum D_jk d/dy_k (delta_ij / r + r_i r_j / r^3)``. Stresslets are its "
        "symmetric part, ``D = -(q n^T + n q^T)`` for a double layer with ``q.n = 0``, and "
        "rotlets its antisymmetric part, ``D_ik = sum_j eps_ijk t_j / 2``. A multiple of the "
        "identity has no flow, and a pressure in the source alone, except for a constant with "
        "three periodic axes.",
    ),
)
FAMILY = always(STOKES_DIPOLE, WORDS)
