"""Charges q with dipoles d and quadrupoles Q: ``phi = sum (q + d.D + Q : D D) (1 / r)``, D = d/dy.

They share a pair walk and one component of a grid. ``multipoles(order=1)`` has no quadrupoles, and
``multipoles(order=0)`` charges alone. The flow grad phi is ``multipole_flow(order=2)``, or
``multipole_flow(order=1)`` without quadrupoles. Images near a wall take them, in whose gauge they
are; spheres there take ``multipole_axis_derivative(up=2)``, the slope of the flow along an axis.
See `parki.ewald.sums.walls`.
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
# Its size is the same along any axis.
AXIS_DERIVATIVE = symbols.SLOPE._replace(structure="axis_derivative", up=2)


_OF_QUADRUPOLES = error_terms_of(
    name="quadrupole",
    symbol=symbols.POTENTIAL,
    source=QUADRUPOLE,
    aligned={"u": 1.3, "grad_u": 1.3},
)


def _slopes(name: str, source: Source, aligned: float = 1) -> dict[str, tuple[ErrorTerm, ...]]:
    """Return the terms of a multipole's flow, and of the slope of this along an axis as "axis"."""
    flow = error_terms_of(
        name=f"{name}_flow",
        symbol=symbols.SLOPE,
        source=source._replace(decay=source.decay + 1),
        aligned={"u": aligned, "grad_u": aligned},
    )
    slope = error_terms_of(
        name=f"{name}_slope",
        symbol=AXIS_DERIVATIVE,
        source=source._replace(decay=source.decay + 2),
        aligned={"u": aligned},
    )
    return {**flow, "axis": slope["u"]}


_FLOWS = (
    _slopes("charge", CHARGE),
    _slopes("dipole", CHARGE_DIPOLE),
    _slopes("quadrupole", QUADRUPOLE, 1.3),
)
QUADRUPOLES = Interaction(
    name="multipoles(order=2)",
    symbol=symbols.POTENTIAL,
    pair=pair_of(symbols.POTENTIAL, _SOURCES, operations=(4, 90), fused=True),
    sources=_SOURCES,
    gauge=OF_IMAGES,
    terms={
        name: laplace.TERMS[name] + laplace_dipole.TERMS[name] + _OF_QUADRUPOLES[name]
        for name in ("u", "grad_u")
    },
)


def _potential_and_gradient(results: Arrays, cloud: Arrays) -> Array:
    """Return the transposes for charges and for dipoles."""
    return np.concatenate([results["u"], results["grad_u"]])


_BOTH = ("u", "grad_u")
DIPOLES = replace(
    QUADRUPOLES,
    name="multipoles(order=1)",
    pair=pair_of(symbols.POTENTIAL, _SOURCES[:2], operations=(3, 40), fused=True),
    sources=_SOURCES[:2],
    terms={name: terms[:2] for name, terms in QUADRUPOLES.terms.items()},
    adjoints={
        result: Adjoint(kernel=kernel, want=_BOTH, results=_potential_and_gradient)
        for result, kernel in (("u", "multipoles(order=0)"), ("grad_u", "laplace_dipole"))
    },
    dipoles="multipoles(order=2)",
)
CHARGES = replace(laplace.LAPLACE, name="multipoles(order=0)", gauge=OF_IMAGES)


def multipoles(order: int) -> Interaction:
    """Return the sum of multipoles up to an order."""
    return (CHARGES, DIPOLES, QUADRUPOLES)[order]


def multipole_flow(order: int) -> Interaction:
    """Return the sum of their flow."""
    potential = multipoles(order)
    return replace(
        potential,
        name=named("multipole_flow", order=order),
        symbol=symbols.SLOPE,
        pair=pair_of(symbols.SLOPE, potential.sources, operations=(3, 70)),
        sources=tuple(source._replace(decay=source.decay + 1) for source in potential.sources),
        gauge=None,
        dipoles=named("multipole_flow", order=order + 1) if order < 2 else "",
        terms={
            name: tuple(term for flow in _FLOWS[: order + 1] for term in flow[name])
            for name in _BOTH
        },
        adjoints={},
    )


def multipole_axis_derivative(up: int) -> Interaction:
    """Return the sum of the slope of their flow along an axis, in the solver's order."""
    flow, symbol = multipole_flow(2), AXIS_DERIVATIVE._replace(up=up)
    return replace(
        flow,
        name=named("multipole_axis_derivative", up=up),
        symbol=symbol,
        pair=pair_of(symbol, flow.sources, operations=(4, 110)),
        sources=tuple(source._replace(decay=source.decay + 1) for source in flow.sources),
        terms={"u": tuple(term for flow in _FLOWS for term in flow["axis"])},
    )


FAMILIES = {
    "multipoles": InteractionFamily(multipoles, example={"order": 2}),
    "multipole_flow": InteractionFamily(multipole_flow, example={"order": 2}),
    "multipole_axis_derivative": InteractionFamily(multipole_axis_derivative, example={"up": 2}),
}
