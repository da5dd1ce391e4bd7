"""Dipoles of forces: ``u_i(x) = sum D_jk d/dy_k (delta_ij / r + r_i r_j / r^3)``.

The velocity is the single layer's gradient, which the window spreads here and gathers there.
"""

from __future__ import annotations

import math

from parki.ewald.sums import symbols
from parki.ewald.sums.dipoles import dipoles_of
from parki.ewald.sums.names import always
from parki.ewald.sums.record import ProlateError, error_terms_of
from parki.ewald.sums.sources import DIPOLE
from parki.ewald.sums.words import Words

_PI = math.pi
TERMS = error_terms_of(
    name="stokes_dipole",
    symbol=symbols.FLOW,
    source=DIPOLE,
    aligned={"u": 1.3, "p": 1.8, "grad_u": 1.3, "grad_tensor": 1.5},
    prolate={
        "u": ProlateError(rms=16 / 9, rms_power=1.5, peak=1 / (9 * _PI), peak_power=2.5),
        "p": ProlateError(
            rms=1 / 27,
            rms_power=3.5,
            peak=1 / (288 * _PI),
            peak_power=4.5,
            zero=4 / (27 * _PI**2),
            zero_power=3,
        ),
        "grad_u": ProlateError(
            rms=2 / 27,
            rms_power=3.5,
            peak=1 / (144 * _PI),
            peak_power=4.5,
            zero=32 / (135 * _PI**2),
            zero_power=3,
        ),
    },
)
STOKES_DIPOLE = dipoles_of(
    kernel="stokes_sl", name="stokes_dipole", symbol=symbols.FLOW, operations=(2, 55), terms=TERMS
)
WORDS = Words(
    title="dipoles D of forces",
    formula="u = sum [ D r - D^T r - (tr D) r ] / r^3 + 3 r (r.D r) / r^5",
    density="``dens[j, k] = D_jk``: forces along axis j that are apart along axis k.",
    variable="dipoles",
    physical="velocity = sum / (8 pi mu) for the viscosity mu, pressure = sum / (8 pi), D a force "
    "times a length",
    pressure="sum 6 (r.D r) / r^5 - 2 (tr D) / r^3",
    text=(
        "This is ``u_i = sum D_jk d/dy_k (delta_ij / r + r_i r_j / r^3)``. Stresslets are its "
        "symmetric part, ``D = -(q n^T + n q^T)`` for a double layer with ``q.n = 0``, and "
        "rotlets its antisymmetric part, ``D_ik = sum_j eps_ijk t_j / 2``. A multiple of the "
        "identity has no flow, and a pressure in the source alone, except for a constant with "
        "three periodic axes.",
    ),
)
FAMILY = always(STOKES_DIPOLE, WORDS)
