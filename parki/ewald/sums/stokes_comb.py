"""Single and double layer together: rows 0 to 2 of a density are f, rows 3 to 5 are q."""

from __future__ import annotations

from parki.ewald.sums import stokes_dl, stokes_sl
from parki.ewald.sums.adjoint import (
    Adjoint,
    mean_of_dipoles,
    mean_of_forces,
    velocity_and_traction,
)
from parki.ewald.sums.record import Sum
from parki.ewald.sums.slopes import Slopes, by_normals, layer_tensors, of_both

_WANT = ("u", "p", "grad_u")
STOKES_COMB = Sum(
    "stokes_comb",
    rows=6,
    results=3,
    components=4,
    terms={name: stokes_sl.TERMS[name] + stokes_dl.TERMS[name] for name in stokes_sl.TERMS},
    polynomials=("SXR", "XRW"),
    operations=(3, 50),
    single=True,
    double=True,
    charged=True,
    adjoints={
        "u": Adjoint(
            "stokes_sl", _WANT, velocity_and_traction, mean=mean_of_forces, transposed_pair=True
        ),
        "grad_u": Adjoint("stokes_dipole", _WANT, velocity_and_traction, mean=mean_of_dipoles),
    },
    slopes=Slopes((*_WANT, "grad_tensor"), of_both, layer_tensors, by_normals, layer="stokes_dl"),
)
