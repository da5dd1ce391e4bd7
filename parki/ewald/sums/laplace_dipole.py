"""Dipoles of charges: ``u(x) = sum d.r / r^3``, its gradient, and no pressure.

Charges of either sign are apart along d: the window's gradient spreads them.
"""

from __future__ import annotations

import math

from parki.ewald.sums import symbols
from parki.ewald.sums.dipoles import dipoles_of
from parki.ewald.sums.names import always
from parki.ewald.sums.record import ProlateError, error_terms_of
from parki.ewald.sums.sources import CHARGE_DIPOLE
from parki.ewald.sums.words import Words

_PI = math.pi
TERMS = error_terms_of(
    name="laplace_dipole",
    symbol=symbols.POTENTIAL,
    source=CHARGE_DIPOLE,
    aligned={"u": 1, "grad_u": 1},
    prolate={
        "u": ProlateError(rms=4 / 3, rms_power=0, peak=2 / (3 * _PI), peak_power=0.5),
        "grad_u": ProlateError(rms=4 / 3, rms_power=1.5, peak=1 / (6 * _PI), peak_power=2.5),
    },
)
LAPLACE_DIPOLE = dipoles_of(
    kernel="laplace",
    name="laplace_dipole",
    symbol=symbols.POTENTIAL,
    operations=(1, 19),
    terms=TERMS,
    dipoles="multipoles(order=2)",  # of which they are the last rows
)
WORDS = Words(
    title="dipoles d of charges",
    formula="phi = sum d.r / r^3",
    density="Dipoles d: charges of either sign that are apart along d.",
    variable="dipoles",
    physical="potential = sum / (4 pi), d a charge times a length",
    text=(
        "The flow of source doublets is minus its gradient. With three periodic axes the mean "
        "potential over the box is zero.",
    ),
)
FAMILY = always(LAPLACE_DIPOLE, WORDS)
