"""Spheres of two radii, by Rotne, Prager and Yamakawa, whatever their distance.

``sphere_sl``    velocities of forces: ``u = sum [ m(r) I + l(r) r r^T / r^2 ] f``
``sphere_curl``  velocities of torques: ``u = sum c(r) t x r / r``
``sphere_spin``  turns of forces, which is the same sum, except near a wall
``sphere_turns`` twice the turns of torques, as the first one

The files of ``kernels/pairs`` have m, l and c. A sphere's own force or torque is in the sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from parki.errors import ParkiValueError
from parki.ewald.sums import stokes_rotlet, stokes_sl, symbols
from parki.ewald.sums.adjoint import Adjoint, velocity
from parki.ewald.sums.gauges import OF_FORCES, Gauge
from parki.ewald.sums.names import InteractionFamily, named
from parki.ewald.sums.pairs import PairFunction
from parki.ewald.sums.record import ErrorTerm, Interaction, error_terms_of
from parki.ewald.sums.sources import FORCE, TORQUE, Source
from parki.ewald.sums.symbols import Shell, Symbol
from parki.ewald.sums.tables import FLOW, NUMBERS, Table

FIRST, PSI = Table("smooth", 1), Table("psi", 1)
TURNS = FIRST, PSI
SLOPES_OF_TURNS = Table("psi", 2), Table("smooth", 2)
_TURNING = TORQUE._replace(decay=3)
ROTATION = error_terms_of(
    "sphere_turns", symbols.CURL_OF_CURL, _TURNING, aligned={"u": 1, "grad_u": 1}
)


def _sum(
    family: str,
    radii: dict[str, float],
    turns: tuple[bool, bool],
    symbol: Symbol,
    pair: PairFunction,
    values: tuple[Source, Gauge | None, Mapping[str, tuple[ErrorTerm, ...]]],
) -> Interaction:
    """Return a sum of spheres. Shells make no error larger than it is of points."""
    for name, value in radii.items():
        check_radius(name, value)
    names, (one, other) = list(radii), map(float, radii.values())
    source, gauge, terms = values
    same = turns[0] == turns[1]
    swapped = dict(zip(names, (other, one) if same else (one, other), strict=True))
    # Where one turns and the other does not, the transposed sum is the same one.
    transposed = named(family, **swapped)
    shells = Shell(one, turns[0]), Shell(other, turns[1])
    return Interaction(
        named(family, **dict(zip(names, (one, other), strict=True))),
        symbol._replace(shells=shells),
        pair._replace(lengths=(one, other)),
        (source,),
        gauge,
        terms=terms,
        adjoints={"u": Adjoint(transposed, ("u",), velocity, symmetric=not same or one == other)},
    )


def check_radius(name: str, value: Any) -> None:
    """Refuse what is no radius."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ParkiValueError(f"{name} is {value!r}; expected a length")
    if not 0 <= value < math.inf:
        raise ParkiValueError(f"{name} is {value!r}; expected a length, or 0 for points")


def sphere_sl(radius: float, source_radius: float) -> Interaction:
    """Return the sum of velocities of forces. A radius of 0 stands for points."""
    results = ("u", "grad_u") if radius else ("u", "p", "grad_u")
    terms = {result: stokes_sl.TERMS[result] for result in results}
    equal = (("EQUAL", True),) if radius == source_radius else ()
    pair = PairFunction(
        "spheres",
        (2, 45),
        (FLOW, FIRST, NUMBERS),
        (FIRST, PSI, NUMBERS),
        with_values=(FLOW,),
        constants=equal,
    )
    radii = {"radius": radius, "source_radius": source_radius}
    values = FORCE, OF_FORCES, terms
    return _sum("sphere_sl", radii, (False, False), symbols.FLOW, pair, values)


def sphere_spin(turning: float, moving: float, family: str = "sphere_spin") -> Interaction:
    """Return the sum of turns of forces."""
    pair = PairFunction("sphere_curl", (1, 45), (FIRST, NUMBERS), (FIRST, PSI, NUMBERS), power=2)
    radii = {"turning": turning, "moving": moving}
    values = TORQUE, None, stokes_rotlet.TERMS
    return _sum(family, radii, (True, False), symbols.CURL, pair, values)


def sphere_curl(turning: float, moving: float) -> Interaction:
    """Return the sum of velocities of torques, whose targets move and whose sources turn."""
    found = sphere_spin(turning, moving, "sphere_curl")
    shells = Shell(float(moving), False), Shell(float(turning), True)
    return replace(found, symbol=found.symbol._replace(shells=shells))


def sphere_turns(radius: float, source_radius: float) -> Interaction:
    """Return the sum of twice the turns of torques: of points, the curl of the flow of rotlets."""
    pair = PairFunction(
        "sphere_turns",
        (2, 60),
        (*TURNS, NUMBERS),
        (*SLOPES_OF_TURNS, NUMBERS),
        power=3,
        with_values=(FIRST,),
    )
    radii = {"radius": radius, "source_radius": source_radius}
    values = _TURNING, None, ROTATION
    return _sum("sphere_turns", radii, (True, True), symbols.CURL_OF_CURL, pair, values)


_RADII = {"radius": 1, "source_radius": 1}
_BOTH = {"turning": 1, "moving": 1}
# Parts of `parki.Spheres`, without words.
FAMILIES = {
    make.__name__: InteractionFamily(make, lengths, dict.fromkeys(lengths, 0.02))
    for make, lengths in (
        *((sphere_sl, _RADII), (sphere_curl, _BOTH)),
        *((sphere_spin, _BOTH), (sphere_turns, _RADII)),
    )
}
