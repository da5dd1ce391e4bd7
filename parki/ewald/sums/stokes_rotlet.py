"""Rotlets: ``u(x) = sum t x r / r^3``, without pressure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from parki.ewald.sums import symbols
from parki.ewald.sums.adjoint import Adjoint, half_curl, of_itself
from parki.ewald.sums.maps import Arrays
from parki.ewald.sums.names import always
from parki.ewald.sums.record import Interaction, ProlateError, error_terms_of
from parki.ewald.sums.sources import TORQUE
from parki.ewald.sums.words import Words
from parki.ewald.sums.written import pair_of
from parki.typing import AnyArray

_PI = math.pi
TERMS = error_terms_of(
    name="stokes_rotlet",
    symbol=symbols.CURL,
    source=TORQUE,
    aligned={"u": 1, "grad_u": 1},
    prolate={
        "u": ProlateError(rms=8 / 3, rms_power=0, peak=4 / (3 * _PI), peak_power=0.5),
        "grad_u": ProlateError(rms=8 / 3, rms_power=1.5, peak=1 / (3 * _PI), peak_power=2.5),
    },
)


def torques_as_dipoles(torques: AnyArray, _: Arrays) -> Any:
    """Return the dipoles ``D_ik = sum_j eps_ijk t_j / 2`` of torques."""
    rows = np.zeros_like(torques, shape=(9, torques.shape[1]))
    for j in range(3):
        i, k = (j + 1) % 3, (j + 2) % 3
        rows[3 * k + i], rows[3 * i + k] = torques[j] / 2, -torques[j] / 2
    return rows


STOKES_ROTLET = Interaction(
    name="stokes_rotlet",
    symbol=symbols.CURL,
    pair=pair_of(symbols.CURL, (TORQUE,), operations=(1, 25)),
    sources=(TORQUE,),
    gauge=None,
    terms={**TERMS, "p": ()},
    adjoints={
        "u": of_itself("stokes_rotlet"),
        "grad_u": Adjoint("stokes_dipole", ("grad_u",), half_curl, tolerance_factor=0.81),
    },
    as_dipoles=("stokes_dipole", torques_as_dipoles),
)
WORDS = Words(
    title="rotlets, the flow of torques t",
    formula="u = sum t x r / r^3",
    density="Torques t.",
    variable="torques",
    physical="velocity = sum / (8 pi mu) for the viscosity mu, t a torque",
    text=("With three periodic axes the mean velocity over the box is zero.",),
)
FAMILY = always(STOKES_ROTLET, WORDS)
