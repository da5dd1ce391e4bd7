"""Screened charges: ``u(x) = sum q exp(-kappa r) / r``, its gradient, and no pressure."""

from __future__ import annotations

import math

from parki.errors import ParkiValueError
from parki.ewald.sums import laplace, laplace_dipole, symbols
from parki.ewald.sums.adjoint import Adjoint, of_itself, velocity
from parki.ewald.sums.dipoles import dipoles_of
from parki.ewald.sums.gauges import OF_SCREENED
from parki.ewald.sums.names import InteractionFamily, named
from parki.ewald.sums.record import Interaction
from parki.ewald.sums.sources import CHARGE
from parki.ewald.sums.symbols import Symbol
from parki.ewald.sums.words import Words
from parki.ewald.sums.written import pair_of
from parki.interchange import number


def yukawa(kappa: float) -> Interaction:
    """Return the sum of an inverse screening length, or refuse what is none."""
    symbol, name, dipoles = _named(kappa)
    return Interaction(
        name=name,
        symbol=symbol,
        pair=pair_of(symbol, (CHARGE,), operations=(1, 28)),
        sources=(CHARGE,),
        gauge=OF_SCREENED,
        terms=laplace.LAPLACE.terms,
        adjoints={"u": of_itself(name), "grad_u": Adjoint(dipoles, ("u",), velocity)},
        dipoles=dipoles,
    )


def yukawa_dipole(kappa: float) -> Interaction:
    """Return the sum of dipoles of screened charges, which the derivatives of these take."""
    symbol, charges, name = _named(kappa)
    return dipoles_of(
        kernel=charges,
        name=name,
        symbol=symbol,
        operations=(2, 45),
        terms=laplace_dipole.LAPLACE_DIPOLE.terms,
    )


def _named(kappa: float) -> tuple[Symbol, str, str]:
    """Return the symbol, and the names of both sums; refuse what is no screening length.

    The symbol, and so its errors, are smaller at each mode than Laplace's.
    """
    value = number("kappa", kappa, "a positive number, the inverse screening length")
    if not 0 < value < math.inf:
        raise ParkiValueError(
            f"kappa is {value:g}; expected a positive, finite number, the inverse screening "
            "length; for charges that are not screened take laplace"
        )
    names = named("yukawa", kappa=value), named("yukawa_dipole", kappa=value)
    return symbols.POTENTIAL._replace(screening=value), *names


WORDS = Words(
    title="screened charges",
    formula="phi = sum q exp(-kappa r) / r",
    density="Charges q.",
    variable="charges",
    physical="potential = sum / (4 pi), where ``laplace phi - kappa^2 phi`` is minus the charge",
    text=(
        "Unlike the sum of point charges it needs no background: with three periodic axes the mean "
        "potential is ``4 pi (sum q) / (kappa^2 V)``.",
    ),
    parameters={
        "kappa": "float\n    The inverse screening length, in the inverse unit of ``options.box``."
    },
)
FAMILY = InteractionFamily(yukawa, lengths={"kappa": -1}, example={"kappa": 2.0}, words=WORDS)
FAMILIES = {"yukawa_dipole": FAMILY._replace(make=yukawa_dipole, words=None)}
