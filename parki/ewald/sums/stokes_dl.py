"""Double layer: the stresslets of densities q and normals n."""

from __future__ import annotations

import math

from parki.ewald.sums import symbols
from parki.ewald.sums.adjoint import (
    Adjoint,
    layer_curvature,
    mean_of_dipoles,
    mean_of_forces,
    of_pressure,
    traction,
)
from parki.ewald.sums.names import always
from parki.ewald.sums.record import Interaction, ProlateError, error_terms_of
from parki.ewald.sums.sources import LAYER
from parki.ewald.sums.words import Words
from parki.ewald.sums.written import pair_of

_PI = math.pi
TERMS = error_terms_of(
    name="stokes_dl",
    symbol=symbols.FLOW_OF_LAYERS,
    source=LAYER,
    aligned={"u": 1.4, "p": 1.8, "grad_u": 1.5, "grad_tensor": 1.5},
    prolate={
        "u": ProlateError(rms=56 / 9, rms_power=1.5, peak=7 / (18 * _PI), peak_power=2.5),
        "p": ProlateError(
            rms=4 / 27,
            rms_power=3.5,
            peak=1 / (72 * _PI),
            peak_power=4.5,
            zero=16 / (27 * _PI**2),
            zero_power=3,
        ),
        "grad_u": ProlateError(
            rms=7 / 27,
            rms_power=3.5,
            peak=7 / (288 * _PI),
            peak_power=4.5,
            zero=4 / (5 * _PI**2),
            zero_power=3,
        ),
    },
)
STOKES_DL = Interaction(
    name="stokes_dl",
    symbol=symbols.FLOW_OF_LAYERS,
    pair=pair_of(symbols.FLOW_OF_LAYERS, (LAYER,), operations=(3, 40)),
    sources=(LAYER,),
    gauge=None,
    terms=TERMS,
    adjoints={
        "u": Adjoint("stokes_sl", ("p", "grad_u"), traction, mean=mean_of_forces),
        "p": of_pressure(("grad_u",), layer_curvature, 0.43),
        "grad_u": Adjoint("stokes_dipole", ("p", "grad_u"), traction, mean=mean_of_dipoles),
    },
)
WORDS = Words(
    title="the double layer (stresslets)",
    formula="u = sum -6 r (r.q) (r.n) / r^5",
    density="Vectors q.",
    variable="densities",
    physical="velocity = sum / (8 pi), pressure = mu sum / (8 pi) for the viscosity mu, q a "
    "velocity times an area",
    pressure="sum 4 [ q.n / r^3 - 3 (r.q) (r.n) / r^5 ]",
)
FAMILY = always(STOKES_DL, WORDS)
