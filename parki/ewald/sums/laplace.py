"""Laplace: ``u(x) = sum q / r``, its gradient, and no pressure."""

from __future__ import annotations

import math

from parki.ewald.sums import symbols
from parki.ewald.sums.adjoint import Adjoint, of_itself, velocity
from parki.ewald.sums.gauges import OF_CHARGES
from parki.ewald.sums.names import always
from parki.ewald.sums.record import Interaction, ProlateError, error_terms_of
from parki.ewald.sums.sources import CHARGE
from parki.ewald.sums.words import Words
from parki.ewald.sums.written import pair_of

TERMS = error_terms_of(
    name="laplace",
    symbol=symbols.POTENTIAL,
    source=CHARGE,
    aligned={"u": 1, "grad_u": 1},
    prolate={
        "u": ProlateError(rms=2, rms_power=-1, peak=0.116, peak_power=-1),
        "grad_u": ProlateError(rms=4, rms_power=0, peak=2 / math.pi, peak_power=0.5),
    },
)
LAPLACE = Interaction(
    name="laplace",
    symbol=symbols.POTENTIAL,
    pair=pair_of(symbols.POTENTIAL, (CHARGE,), operations=(1, 12)),
    sources=(CHARGE,),
    gauge=OF_CHARGES,
    terms=TERMS,
    adjoints={
        "u": of_itself("laplace"),
        "grad_u": Adjoint("laplace_dipole", ("u",), velocity),
    },
    dipoles="laplace_dipole",
)
WORDS = Words(
    title="point charges",
    formula="phi = sum q / r",
    density="Charges q.",
    variable="charges",
    physical="potential = sum / (4 pi), in units where the field's divergence is the charge",
    text=("With three periodic axes a uniform background neutralises the charges.",),
)
FAMILY = always(LAPLACE, WORDS)
