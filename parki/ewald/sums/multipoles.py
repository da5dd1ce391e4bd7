"""Charges q with dipoles d and quadrupoles Q: ``phi = sum (q + d.D + Q : D D) (1 / r)``, D = d/dy.

They share a pair walk and one component of a grid. ``multipoles(order=1)`` has no quadrupoles, and
``multipoles(order=0)`` charges alone. The flow grad phi is ``multipole_flow(order=2)``, or
``multipole_flow(order=1)`` without quadrupoles. Images near a wall take them, in whose gauge they
are; spheres there take ``multipole_rise(up=2)``, the slope of the flow along an axis. See
`parki.ewald.sums.walls`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from parki.ewald.sums import laplace, laplace_dipole, symbols
from parki.ewald.sums.adjoint import Adjoint
from parki.ewald.sums.gauges import OF_IMAGES
from parki.ewald.sums.maps import Arrays
from parki.ewald.sums.names import Family, named
from parki.ewald.sums.record import CURVATURE, GRADIENT, PLAIN, Array, Far, Sum, Term, WindowWeights
from parki.ewald.sums.sizes import square
from parki.ewald.sums.sources import CHARGE, CHARGE_DIPOLE, QUADRUPOLE, Source
from parki.ewald.sums.symbols import Symbol
from parki.ewald.sums.written import pair_of

_SOURCES = CHARGE, CHARGE_DIPOLE, QUADRUPOLE
RISE = symbols.SLOPE._replace(structure="rise", up=2)  # of the same size along any axis


def _term(name: str, symbol: Symbol, source: Source, result: str, spread: WindowWeights) -> Term:
    """Return a term of a multipole."""
    derived = result == "grad_u"
    power = source.decay + (symbol.structure != "scalar") + (symbol.structure == "rise") + derived
    return Term(
        name,
        power,
        square(symbol, source, result),
        Far(spread, GRADIENT if derived else PLAIN, order=1),
        aligned_factor=1.3 if source.curvature else 1.0,
        derived=derived,
    )


def _terms(
    name: str, symbol: Symbol, source: Source, spread: WindowWeights, ends: tuple[str, ...]
) -> tuple[Term, ...]:
    """Return the terms of "u", and of "grad_u" if there are two ends of names."""
    pairs = zip(ends, ("u", "grad_u"), strict=False)
    return tuple(_term(name + end, symbol, source, result, spread) for end, result in pairs)


_OF_QUADRUPOLES = _terms("quadrupole", symbols.POTENTIAL, QUADRUPOLE, CURVATURE, ("", "_grad"))
_FLOWS = tuple(
    (
        *_terms(name, symbols.SLOPE, source, spread, ("_flow", "_flow_grad")),
        *_terms(name, RISE, source, spread, ("_rise",)),
    )
    for name, source, spread in zip(
        ("charge", "dipole", "quadrupole"), _SOURCES, (PLAIN, GRADIENT, CURVATURE), strict=True
    )
)
QUADRUPOLES = Sum(
    "multipoles(order=2)",
    symbols.POTENTIAL,
    pair_of(symbols.POTENTIAL, _SOURCES, (4, 90), fused=True),
    _SOURCES,
    OF_IMAGES,
    terms={
        "u": (laplace.POTENTIAL, laplace_dipole.POTENTIAL, _OF_QUADRUPOLES[0]),
        "grad_u": (laplace.GRADIENT_TERM, laplace_dipole.GRADIENT_TERM, _OF_QUADRUPOLES[1]),
    },
)


def _both(found: Arrays, at: Arrays) -> Array:
    """Return the transposes for charges and for dipoles."""
    return np.concatenate([found["u"], found["grad_u"]])


_BOTH = ("u", "grad_u")
DIPOLES = replace(
    QUADRUPOLES,
    name="multipoles(order=1)",
    pair=pair_of(symbols.POTENTIAL, _SOURCES[:2], (3, 40), fused=True),
    sources=_SOURCES[:2],
    terms={name: terms[:2] for name, terms in QUADRUPOLES.terms.items()},
    adjoints={
        "u": Adjoint("multipoles(order=0)", _BOTH, _both),
        "grad_u": Adjoint("laplace_dipole", _BOTH, _both),
    },
    dipoles="multipoles(order=2)",
)
CHARGES = replace(laplace.LAPLACE, name="multipoles(order=0)", gauge=OF_IMAGES)


def multipoles(order: int) -> Sum:
    """Return the sum of multipoles up to an order."""
    return (CHARGES, DIPOLES, QUADRUPOLES)[order]


def multipole_flow(order: int) -> Sum:
    """Return the sum of their flow."""
    own = multipoles(order)
    return replace(
        own,
        name=named("multipole_flow", order=order),
        symbol=symbols.SLOPE,
        pair=pair_of(symbols.SLOPE, own.sources, (3, 70)),
        sources=tuple(each._replace(decay=each.decay + 1) for each in own.sources),
        gauge=None,
        dipoles=named("multipole_flow", order=order + 1) if order < 2 else "",
        terms={name: tuple(t[n] for t in _FLOWS[: order + 1]) for n, name in enumerate(_BOTH)},
        adjoints={},
    )


def multipole_rise(up: int) -> Sum:
    """Return the sum of the slope of their flow along an axis, in the solver's order."""
    own, symbol = multipole_flow(2), RISE._replace(up=up)
    return replace(
        own,
        name=named("multipole_rise", up=up),
        symbol=symbol,
        pair=pair_of(symbol, own.sources, (4, 110)),
        sources=tuple(each._replace(decay=each.decay + 1) for each in own.sources),
        terms={"u": tuple(terms[2] for terms in _FLOWS)},
    )


FAMILIES = {
    "multipoles": Family(multipoles, example={"order": 2}),
    "multipole_flow": Family(multipole_flow, example={"order": 2}),
    "multipole_rise": Family(multipole_rise, example={"up": 2}),
}
