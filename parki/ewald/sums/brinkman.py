"""Brinkman's equation, ``alpha^2 u - laplace u + grad p = 8 pi f``: forces, dipoles and layers.

It is the flow in a porous medium of permeability ``1 / alpha^2``, and a time step of the unsteady
Stokes equations, with ``alpha^2 = 1 / (nu dt)``. Forces have the pressure that they have
without friction. So have double layers, whose sources and sinks add ``-2 alpha^2`` times their
potential.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from parki.errors import ParkiValueError
from parki.ewald.sums import stokes_dipole, stokes_dl, stokes_sl, symbols
from parki.ewald.sums.adjoint import Adjoint, of_itself, velocity
from parki.ewald.sums.composite import Addend
from parki.ewald.sums.dipoles import dipoles_of
from parki.ewald.sums.gauges import WITH_FRICTION
from parki.ewald.sums.maps import Arrays, pressure
from parki.ewald.sums.names import InteractionFamily, named
from parki.ewald.sums.record import Interaction
from parki.ewald.sums.sources import FORCE, LAYER
from parki.ewald.sums.symbols import Symbol
from parki.ewald.sums.words import MEAN_PRESSURE, Words
from parki.ewald.sums.written import pair_of
from parki.interchange import number
from parki.typing import AnyArray


def _symbol(alpha: float) -> tuple[float, Symbol]:
    """Return alpha as a number, and the symbol; or refuse what is none."""
    value = number("alpha", alpha, "a positive number, the inverse of a length")
    if not 0 < value < math.inf:
        raise ParkiValueError(
            f"alpha is {value:g}; expected a positive, finite number, the inverse of the length "
            "over which friction ends a flow; without friction take the sums of Stokes' equations"
        )
    return value, symbols.FLOW._replace(screening=value)


def brinkman_sl(alpha: float) -> Interaction:
    """Return the sum of forces with this friction, or refuse what is none."""
    value, symbol = _symbol(alpha)
    name, dipoles = (named(family, alpha=value) for family in ("brinkman_sl", "brinkman_dipole"))
    # The symbol is smaller at each mode, and so are its errors.
    return Interaction(
        name=name,
        symbol=symbol,
        pair=pair_of(symbol, (FORCE,), operations=(2, 120)),
        sources=(FORCE,),
        gauge=WITH_FRICTION,
        terms=stokes_sl.STOKES_SL.terms,
        adjoints={
            **stokes_sl.STOKES_SL.adjoints,
            "u": of_itself(name),
            "grad_u": Adjoint(dipoles, ("u",), velocity),
        },
        dipoles=dipoles,
    )


def brinkman_dipole(alpha: float) -> Interaction:
    """Return the sum of dipoles of forces, which the derivatives of the other take."""
    value, symbol = _symbol(alpha)
    name, forces = (named(family, alpha=value) for family in ("brinkman_dipole", "brinkman_sl"))
    return dipoles_of(
        kernel=forces,
        name=name,
        symbol=symbol,
        operations=(3, 150),
        terms=stokes_dipole.STOKES_DIPOLE.terms,
    )


def brinkman_dl(alpha: float) -> Interaction:
    """Return the double layer with this friction, or refuse what is none."""
    value, symbol = _symbol(alpha)
    symbol = symbol._replace(components=symbols.FLOW_OF_LAYERS.components)
    name, forces, dipoles = (
        named(f"brinkman_{kind}", alpha=value) for kind in ("dl", "sl", "dipole")
    )
    bare = stokes_dl.STOKES_DL
    return Interaction(
        name=name,
        symbol=symbol,
        pair=pair_of(symbol, (LAYER,), operations=(4, 140)),
        sources=(LAYER,),
        gauge=None,
        terms={name: terms for name, terms in bare.terms.items() if name != "p"},
        adjoints={
            "u": replace(bare.adjoints["u"], kernel=forces),
            "grad_u": replace(bare.adjoints["grad_u"], kernel=dipoles),
        },
        pressure=(
            Addend("stokes_dl", ("p",), pressure),
            Addend("laplace", ("u",), partial(_times, -2 * value**2), _strengths),
        ),
    )


def _times(factor: float, results: Arrays, cloud: Arrays) -> AnyArray:
    """Return a multiple of the potential, by which friction takes the flow from sources."""
    return factor * results["u"]


def _strengths(dens: AnyArray, cloud: Arrays) -> AnyArray:
    """Return the strengths q.n of sources and sinks."""
    return (dens * cloud["norms"]).sum(axis=0, keepdims=True)


_ALPHA = """float
    The inverse of the length over which friction ends a flow, in the inverse unit of
    ``options.box``."""
WORDS = Words(
    title="the single layer of Brinkman's equation",
    formula="u = sum a f + b r (r.f) / r^2",
    density="Forces f.",
    variable="forces",
    physical="velocity = sum / (8 pi mu) for the viscosity mu, pressure = sum / (8 pi), f a "
    "force, where ``mu alpha^2 u - mu laplace u + grad p = f``",
    pressure="sum 2 r.f / r^3",
    text=(
        "Here ``a = 2 e / r - c``, ``b = 3 c - 2 e / r``, ``e = exp(-alpha r)`` and ``c = 2 "
        "(1 - (1 + alpha r) e) / (alpha^2 r^3)``.",
        "A porous medium has the permeability ``1 / alpha^2``; a step dt of unsteady Stokes flow "
        "has ``alpha^2 = 1 / (nu dt)`` for the kinematic viscosity nu. With three periodic axes "
        "the mean velocity is zero, and with fewer nothing is left open, as the flow decays.",
        MEAN_PRESSURE,
    ),
    parameters={"alpha": _ALPHA},
)
OF_LAYERS = Words(
    title="the double layer of Brinkman's equation",
    formula="u = sum (q n^T + n q^T) : G' - 2 (q.n) r / r^3",
    density="Vectors q.",
    variable="densities",
    physical="velocity = sum / (8 pi), pressure = mu sum / (8 pi) for the viscosity mu, q a "
    "velocity times an area",
    pressure="sum 4 [ q.n / r^3 - 3 (r.q) (r.n) / r^5 ] - 2 alpha^2 q.n / r",
    text=("Here G' is the gradient of the single layer's matrix by the target.",),
    parameters={"alpha": _ALPHA},
)
FORCES = InteractionFamily(brinkman_sl, lengths={"alpha": -1}, example={"alpha": 2.0}, words=WORDS)
LAYERS = InteractionFamily(
    brinkman_dl, lengths={"alpha": -1}, example={"alpha": 2.0}, words=OF_LAYERS
)
DIPOLES = InteractionFamily(brinkman_dipole, lengths={"alpha": -1}, example={"alpha": 2.0})
FAMILIES = {"brinkman_sl": FORCES, "brinkman_dl": LAYERS, "brinkman_dipole": DIPOLES}
