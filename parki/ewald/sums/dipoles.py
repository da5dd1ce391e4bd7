"""Records of dipoles, which follow from the record of charges or of forces."""

from __future__ import annotations

from collections.abc import Mapping

from parki.ewald.sums.adjoint import Adjoint, curvature, gradient, of_pressure
from parki.ewald.sums.record import ErrorTerm, Interaction
from parki.ewald.sums.sources import CHARGE_DIPOLE, DIPOLE
from parki.ewald.sums.symbols import Symbol
from parki.ewald.sums.written import pair_of


def dipoles_of(
    kernel: str,
    name: str,
    symbol: Symbol,
    operations: tuple[int, int],
    terms: Mapping[str, tuple[ErrorTerm, ...]],
    dipoles: str = "",
) -> Interaction:
    """Return the sum of dipoles of charges or of forces.

    Parameters
    ----------
    kernel, name : str
        The sum of charges or forces, whose matrix is symmetric, and the new one.
    symbol, terms, dipoles
        As of an `Interaction`.
    operations : tuple of two int
        As of a `PairFunction`.
    """
    source = CHARGE_DIPOLE if symbol.results == 1 else DIPOLE
    source = source._replace(decay=terms["u"][0].power)
    viscous = symbol.order == 2
    pressure = {"p": of_pressure(("grad_u",), curvature, 0.86)} if viscous else {}
    return Interaction(
        name=name,
        symbol=symbol,
        pair=pair_of(symbol, (source,), operations),
        sources=(source,),
        gauge=None,
        terms=terms,
        adjoints={
            "u": Adjoint(kernel, ("grad_u",), gradient),
            **pressure,
            "grad_u": Adjoint(name, ("grad_u",), gradient),
        },
        dipoles=dipoles,
    )
