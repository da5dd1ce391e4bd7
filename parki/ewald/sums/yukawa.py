"""Screened charges: ``u(x) = sum q exp(-kappa r) / r``, its gradient, and no pressure."""

from __future__ import annotations

import math

from parki.errors import ParkiValueError
from parki.ewald.sums import laplace, symbols
from parki.ewald.sums.adjoint import of_itself
from parki.ewald.sums.gauges import OF_SCREENED
from parki.ewald.sums.names import Family, named
from parki.ewald.sums.pairs import PairFunction, ScreenedPolynomials
from parki.ewald.sums.record import Sum
from parki.ewald.sums.sources import CHARGE
from parki.ewald.sums.words import Words
from parki.interchange import number

_PAIR = PairFunction(
    "yukawa",
    (1, 28),
    values="LK",
    derivatives="XK",
    with_values="L",
    polynomials=ScreenedPolynomials,
)


def yukawa(kappa: float) -> Sum:
    """Return the sum of an inverse screening length, or refuse what is none."""
    value = number("kappa", kappa, "a positive number, the inverse screening length")
    if not 0 < value < math.inf:
        raise ParkiValueError(
            f"kappa is {value:g}; expected a positive, finite number, the inverse screening "
            "length; for charges that are not screened take laplace"
        )
    name = named("yukawa", kappa=value)
    # Its symbol is smaller at each mode, and so are its errors.
    return Sum(
        name,
        symbols.POTENTIAL._replace(screening=value),
        _PAIR,
        (CHARGE,),
        OF_SCREENED,
        terms={"u": (laplace.POTENTIAL,), "grad_u": (laplace.GRADIENT_TERM,)},
        adjoints={"u": of_itself(name)},
    )


WORDS = Words(
    "screened charges",
    "phi = sum q exp(-kappa r) / r",
    "Charges q.",
    "charges",
    "potential = sum / (4 pi), where ``laplace phi - kappa^2 phi`` is minus the charge",
    text=(
        "Unlike the sum of point charges it needs no background: with three periodic axes the mean "
        "potential is ``4 pi (sum q) / (kappa^2 V)``.",
    ),
    parameters={
        "kappa": "float\n    The inverse screening length, in the inverse unit of ``options.box``."
    },
)
FAMILY = Family(yukawa, lengths={"kappa": -1}, example={"kappa": 2.0}, words=WORDS)
