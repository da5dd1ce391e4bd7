"""Single layer: ``u(x) = sum (delta / r + r r / r^3) f``."""

from __future__ import annotations

import math

from parki.ewald.sums import symbols
from parki.ewald.sums.adjoint import Adjoint, of_itself, of_pressure, velocity
from parki.ewald.sums.gauges import OF_FORCES
from parki.ewald.sums.names import always
from parki.ewald.sums.record import Interaction, ProlateError, error_terms_of
from parki.ewald.sums.sources import FORCE
from parki.ewald.sums.words import MEAN_PRESSURE, Words
from parki.ewald.sums.written import pair_of

_PI = math.pi
TERMS = error_terms_of(
    name="stokes_sl",
    symbol=symbols.FLOW,
    source=FORCE,
    aligned={"u": 1, "p": 1, "grad_u": 1, "grad_tensor": 1.5},
    prolate={
        "u": ProlateError(
            rms=8 / 3,
            rms_power=0.5,
            peak=(4 / (3 * _PI)) ** 2,
            peak_power=1,
            zero=(4 / (3 * _PI)) ** 2,
            zero_power=1,
        ),
        "p": ProlateError(rms=8 / 3, rms_power=1.5, peak=1 / (6 * _PI), peak_power=2.5),
        "grad_u": ProlateError(rms=16 / 3, rms_power=1.5, peak=1 / (3 * _PI), peak_power=2.5),
        "grad_tensor": ProlateError(
            rms=7 / 81,
            rms_power=3.5,
            peak=7 / (864 * _PI),
            peak_power=4.5,
            zero=4 / (15 * _PI**2),
            zero_power=3,
        ),
    },
)
STOKES_SL = Interaction(
    name="stokes_sl",
    symbol=symbols.FLOW,
    pair=pair_of(symbols.FLOW, (FORCE,), operations=(2, 25)),
    sources=(FORCE,),
    gauge=OF_FORCES,
    terms=TERMS,
    adjoints={
        "u": of_itself("stokes_sl"),
        "p": of_pressure(("u",), lambda results, _: 2 * results["u"], 0.86),
        "grad_u": Adjoint("stokes_dipole", ("u",), velocity),
    },
    dipoles="stokes_dipole",
)
WORDS = Words(
    title="the single layer (Stokeslets)",
    formula="u = sum (I / r + r r^T / r^3) f",
    density="Forces f.",
    variable="forces",
    physical="velocity = sum / (8 pi mu) for the viscosity mu, pressure = sum / (8 pi), f a force",
    pressure="sum 2 r.f / r^3",
    text=(MEAN_PRESSURE,),
)
FAMILY = always(STOKES_SL, WORDS)
