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
from parki.ewald.sums.names import InteractionFamily, named
from parki.ewald.sums.record import Array, ErrorTerm, Interaction, error_terms_of
from parki.ewald.sums.sources import CHARGE, CHARGE_DIPOLE, QUADRUPOLE, Source
from parki.ewald.sums.written import pair_of

_SOURCES = CHARGE, CHARGE_DIPOLE, QUADRUPOLE
RISE = symbols.SLOPE._replace(structure="rise", up=2)  # of the same size along any axis


_OF_QUADRUPOLES = error_terms_of(
    "quadrupole", symbols.POTENTIAL, QUADRUPOLE, aligned={"u": 1.3, "grad_u": 1.3}
)


def _slopes(name: str, source: Source, aligned: float = 1) -> dict[str, tuple[ErrorTerm, ...]]:
    """Return the terms of a multipole's flow, and of the slope of this along an axis as "rise"."""
    one, two = (source._replace(decay=source.decay + more) for more in (1, 2))
    of_rise = error_terms_of(f"{name}_rise", RISE, two, aligned={"u": aligned})
    of_flow = error_terms_of(
        f"{name}_flow", symbols.SLOPE, one, aligned={"u": aligned, "grad_u": aligned}
    )
    return {**of_flow, "rise": of_rise["u"]}


_FLOWS = (
    _slopes("charge", CHARGE),
    _slopes("dipole", CHARGE_DIPOLE),
    _slopes("quadrupole", QUADRUPOLE, 1.3),
)
QUADRUPOLES = Interaction(
    "multipoles(order=2)",
    symbols.POTENTIAL,
    pair_of(symbols.POTENTIAL, _SOURCES, (4, 90), fused=True),
    _SOURCES,
    OF_IMAGES,
    terms={
        name: laplace.TERMS[name] + laplace_dipole.TERMS[name] + _OF_QUADRUPOLES[name]
        for name in ("u", "grad_u")
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


def multipoles(order: int) -> Interaction:
    """Return the sum of multipoles up to an order."""
    return (CHARGES, DIPOLES, QUADRUPOLES)[order]


def multipole_flow(order: int) -> Interaction:
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
        terms={name: tuple(t for of in _FLOWS[: order + 1] for t in of[name]) for name in _BOTH},
        adjoints={},
    )


def multipole_rise(up: int) -> Interaction:
    """Return the sum of the slope of their flow along an axis, in the solver's order."""
    own, symbol = multipole_flow(2), RISE._replace(up=up)
    return replace(
        own,
        name=named("multipole_rise", up=up),
        symbol=symbol,
        pair=pair_of(symbol, own.sources, (4, 110)),
        sources=tuple(each._replace(decay=each.decay + 1) for each in own.sources),
        terms={"u": tuple(term for of in _FLOWS for term in of["rise"])},
    )


FAMILIES = {
    "multipoles": InteractionFamily(multipoles, example={"order": 2}),
    "multipole_flow": InteractionFamily(multipole_flow, example={"order": 2}),
    "multipole_rise": InteractionFamily(multipole_rise, example={"up": 2}),
}
