"""Charges q with dipoles d and quadrupoles Q: ``phi = sum (q + d.D + Q : D D) (1 / r)``, D = d/dy.

They share a pair walk and one component of a grid. ``multipoles(order=1)`` has no quadrupoles, and
``multipoles(order=0)`` charges alone. The flow grad phi is ``multipole_flow(order=2)``, or
``multipole_flow(order=1)`` without quadrupoles. Images near a wall take them, in whose gauge they
are; spheres there take ``multipole_rise(up=2)``, the slope of the flow along an axis. See
`parki.ewald.sums.walls`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from parki.ewald.sums import laplace, laplace_dipole, symbols
from parki.ewald.sums.adjoint import Adjoint
from parki.ewald.sums.doublets import squares
from parki.ewald.sums.gauges import OF_IMAGES
from parki.ewald.sums.maps import Arrays
from parki.ewald.sums.names import Family, named
from parki.ewald.sums.pairs import RadialPolynomials
from parki.ewald.sums.record import CURVATURE, GRADIENT, PLAIN, Array, Far, Sum, Term, WindowWeights
from parki.ewald.sums.sources import CHARGE, CHARGE_DIPOLE, QUADRUPOLE
from parki.ewald.sums.written import pair_of

Size = Callable[[Array, RadialPolynomials], Array]


def _gradient(r2: Array, p: RadialPolynomials) -> Array:
    # The third derivatives of P: along r, and six times with one index along r.
    third = (p.R + 3 * p.X) / np.maximum(r2, 1e-12)  # which stays finite: 0 / 0 at a point itself
    return 4 * r2 * ((p.W - 2 * third) ** 2 + 6 * third**2) * 4 / 36


POTENTIAL = Term(
    "quadrupole",
    3,
    lambda r2, p: laplace_dipole.GRADIENT_TERM.square(r2, p) / 3,  # over nine directions, not three
    Far(CURVATURE, PLAIN, order=1),
    aligned_factor=1.3,
)
GRADIENT_TERM = Term(
    "quadrupole_grad",
    4,
    _gradient,
    Far(CURVATURE, GRADIENT, order=1),
    aligned_factor=1.3,
    derived=True,
)


def _flow(
    name: str, spread: WindowWeights, power: int, size: Size, slopes: Size, aligned: float = 1.0
) -> tuple[Term, Term, Term]:
    """Return the terms of a flow, of its gradient and of one slope, of the first two's sizes."""
    far, last = (Far(spread, gather, order=1) for gather in (PLAIN, GRADIENT))

    def slope(r2: Array, p: RadialPolynomials) -> Array:
        return slopes(r2, p) / 3  # over all axes

    return (
        Term(f"{name}_flow", power, size, far, aligned_factor=aligned),
        Term(f"{name}_flow_grad", power + 1, slopes, last, aligned_factor=aligned, derived=True),
        Term(f"{name}_rise", power + 1, slope, far, aligned_factor=aligned),
    )


_ONE, _TWO = laplace.GRADIENT_TERM.square, laplace_dipole.GRADIENT_TERM.square
_FLOWS = (
    _flow("charge", PLAIN, 2, _ONE, lambda r2, p: 3 * _TWO(r2, p)),
    _flow("dipole", GRADIENT, 3, _TWO, lambda r2, p: 3 * _gradient(r2, p)),
    _flow("quadrupole", CURVATURE, 4, _gradient, lambda r2, p: 4 * squares(r2, p)[0] / 9, 1.3),
)
_SOURCES = CHARGE, CHARGE_DIPOLE, QUADRUPOLE
QUADRUPOLES = Sum(
    "multipoles(order=2)",
    symbols.POTENTIAL,
    pair_of(symbols.POTENTIAL, _SOURCES, (4, 90), fused=True),
    _SOURCES,
    OF_IMAGES,
    terms={
        "u": (laplace.POTENTIAL, laplace_dipole.POTENTIAL, POTENTIAL),
        "grad_u": (laplace.GRADIENT_TERM, laplace_dipole.GRADIENT_TERM, GRADIENT_TERM),
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
        terms={name: tuple(t[n] for t in _FLOWS[: order + 1]) for n, name in enumerate(_BOTH)},
        adjoints={},
    )


def multipole_rise(up: int) -> Sum:
    """Return the sum of the slope of their flow along an axis, in the solver's order."""
    own, symbol = multipole_flow(2), symbols.SLOPE._replace(structure="rise", up=up)
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
