"""Single and double layer together: rows 0 to 2 of a density are f, rows 3 to 5 are q."""

from __future__ import annotations

from parki.ewald.sums import stokes_dl, stokes_sl, symbols
from parki.ewald.sums.adjoint import (
    Adjoint,
    both_curvatures,
    mean_of_dipoles,
    mean_of_forces,
    of_pressure,
    velocity_and_traction,
)
from parki.ewald.sums.gauges import OF_FORCES
from parki.ewald.sums.names import always
from parki.ewald.sums.record import Interaction
from parki.ewald.sums.sources import FORCE, LAYER
from parki.ewald.sums.words import MEAN_PRESSURE, Words
from parki.ewald.sums.written import pair_of

_WANT = ("u", "p", "grad_u")
STOKES_COMB = Interaction(
    name="stokes_comb",
    symbol=symbols.FLOW_OF_LAYERS,
    pair=pair_of(symbols.FLOW_OF_LAYERS, (FORCE, LAYER), operations=(3, 50)),
    sources=(FORCE, LAYER),
    gauge=OF_FORCES,
    terms={n: of + stokes_dl.STOKES_DL.terms[n] for n, of in stokes_sl.STOKES_SL.terms.items()},
    adjoints={
        "u": Adjoint("stokes_sl", _WANT, velocity_and_traction, mean=mean_of_forces),
        "p": of_pressure(("u", "grad_u"), both_curvatures, 0.43),
        "grad_u": Adjoint("stokes_dipole", _WANT, velocity_and_traction, mean=mean_of_dipoles),
    },
)
WORDS = Words(
    title="single and double layers",
    formula="u = sum (I / r + r r^T / r^3) f - 6 r (r.q) (r.n) / r^5",
    density="Rows 0 to 2 are f of the single layer, and rows 3 to 5 are q of the double layer.",
    variable="densities",
    physical="velocity = sum / (8 pi mu) for the viscosity mu, pressure = sum / (8 pi), f a "
    "force, q mu times a velocity times an area",
    pressure="sum 2 r.f / r^3 + 4 [ q.n / r^3 - 3 (r.q) (r.n) / r^5 ]",
    text=("Kosmacher, Du, Bagge, Biros (2026), section 2.3.", MEAN_PRESSURE),
)
FAMILY = always(STOKES_COMB, WORDS)
