"""Single layer: ``u(x) = sum (delta / r + r r / r^3) f``."""

from __future__ import annotations

import math

from parki.ewald.sums import symbols
from parki.ewald.sums.adjoint import Adjoint, of_itself, of_pressure, velocity
from parki.ewald.sums.gauges import OF_FORCES
from parki.ewald.sums.names import always
from parki.ewald.sums.record import Sum, terms_of
from parki.ewald.sums.sources import FORCE
from parki.ewald.sums.words import MEAN_PRESSURE, Words
from parki.ewald.sums.written import pair_of

_PI = math.pi
TERMS = terms_of(
    "stokes_sl",
    symbols.FLOW,
    FORCE,
    u=(1, 8 / 3, 0.5, (4 / (3 * _PI)) ** 2, 1, (4 / (3 * _PI)) ** 2, 1),
    p=(1, 8 / 3, 1.5, 1 / (6 * _PI), 2.5, 0, 0),
    grad_u=(1, 16 / 3, 1.5, 1 / (3 * _PI), 2.5, 0, 0),
    grad_tensor=(1.5, 7 / 81, 3.5, 7 / (864 * _PI), 4.5, 4 / (15 * _PI**2), 3),
)
STOKES_SL = Sum(
    "stokes_sl",
    symbols.FLOW,
    pair_of(symbols.FLOW, (FORCE,), (2, 25)),
    (FORCE,),
    OF_FORCES,
    terms=TERMS,
    adjoints={
        "u": of_itself("stokes_sl"),
        "p": of_pressure(("u",), lambda found, _: 2 * found["u"], 0.86),
        "grad_u": Adjoint("stokes_dipole", ("u",), velocity),
    },
    dipoles="stokes_dipole",
)
WORDS = Words(
    "the single layer (Stokeslets)",
    "u = sum (I / r + r r^T / r^3) f",
    "Forces f.",
    "forces",
    "velocity = sum / (8 pi mu) for the viscosity mu, pressure = sum / (8 pi), f a force",
    "sum 2 r.f / r^3",
    (MEAN_PRESSURE,),
)
FAMILY = always(STOKES_SL, WORDS)
