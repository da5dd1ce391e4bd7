"""Spheres of two radii, by Rotne, Prager and Yamakawa, whatever their distance.

``sphere_sl``    velocities of forces: ``u = sum [ m(r) I + l(r) r r^T / r^2 ] f``
``sphere_curl``  velocities of torques: ``u = sum c(r) t x r / r``
``sphere_spin``  turns of forces, which is the same sum, except near a wall
``sphere_turns`` twice the turns of torques, as the first one

The files of ``kernels/pairs`` have m, l and c. A sphere's own force or torque is in the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
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
    name="sphere_turns", symbol=symbols.CURL_OF_CURL, source=_TURNING, aligned={"u": 1, "grad_u": 1}
)


def _sum(
    make: Callable[[float, float], str],
    radii: tuple[float, float],
    *,
    symbol: Symbol,
    turns: tuple[bool, bool],
    pair: PairFunction,
    source: Source,
    gauge: Gauge | None,
    terms: Mapping[str, tuple[ErrorTerm, ...]],
) -> Interaction:
    """Return a sum of spheres. Shells make no error larger than it is of points.

    ``make`` returns the sum's name from the radii of targets and sources.
    """
    one, other = radii
    # Where one turns and the other does not, the transposed sum is the same one.
    same = turns[0] == turns[1]
    transposed = make(other, one) if same else make(one, other)
    return Interaction(
        name=make(one, other),
        symbol=symbol._replace(shells=(Shell(one, turns[0]), Shell(other, turns[1]))),
        pair=pair._replace(lengths=(one, other)),
        sources=(source,),
        gauge=gauge,
        terms=terms,
        adjoints={
            "u": Adjoint(
                kernel=transposed,
                want=("u",),
                results=velocity,
                symmetric=not same or one == other,
            )
        },
    )


def check_radius(name: str, value: Any) -> None:
    """Refuse what is no radius."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ParkiValueError(f"{name} is {value!r}; expected a length")
    if not 0 <= value < math.inf:
        raise ParkiValueError(f"{name} is {value!r}; expected a length, or 0 for points")


def _checked(names: tuple[str, str], radii: tuple[float, float]) -> tuple[float, float]:
    """Return radii as numbers, or refuse what is none."""
    for name, value in zip(names, radii, strict=True):
        check_radius(name, value)
    return float(radii[0]), float(radii[1])


def sphere_sl(radius: float, source_radius: float) -> Interaction:
    """Return the sum of velocities of forces. A radius of 0 stands for points."""
    radii = _checked(("radius", "source_radius"), (radius, source_radius))
    results = ("u", "grad_u") if radius else ("u", "p", "grad_u")
    return _sum(
        lambda one, other: named("sphere_sl", radius=one, source_radius=other),
        radii,
        symbol=symbols.FLOW,
        turns=(False, False),
        pair=PairFunction(
            file="spheres",
            operations=(2, 45),
            values=(FLOW, FIRST, NUMBERS),
            derivatives=(FIRST, PSI, NUMBERS),
            with_values=(FLOW,),
            constants=(("EQUAL", True),) if radius == source_radius else (),
        ),
        source=FORCE,
        gauge=OF_FORCES,
        terms={result: stokes_sl.TERMS[result] for result in results},
    )


def sphere_spin(turning: float, moving: float, family: str = "sphere_spin") -> Interaction:
    """Return the sum of turns of forces."""
    return _sum(
        lambda one, other: named(family, turning=one, moving=other),
        _checked(("turning", "moving"), (turning, moving)),
        symbol=symbols.CURL,
        turns=(True, False),
        pair=PairFunction(
            file="sphere_curl",
            operations=(1, 45),
            values=(FIRST, NUMBERS),
            derivatives=(FIRST, PSI, NUMBERS),
            power=2,
        ),
        source=TORQUE,
        gauge=None,
        terms=stokes_rotlet.TERMS,
    )


def sphere_curl(turning: float, moving: float) -> Interaction:
    """Return the sum of velocities of torques, whose targets move and whose sources turn."""
    record = sphere_spin(turning, moving, "sphere_curl")
    shells = Shell(float(moving), False), Shell(float(turning), True)
    return replace(record, symbol=record.symbol._replace(shells=shells))


def sphere_turns(radius: float, source_radius: float) -> Interaction:
    """Return the sum of twice the turns of torques: of points, the curl of the flow of rotlets."""
    return _sum(
        lambda one, other: named("sphere_turns", radius=one, source_radius=other),
        _checked(("radius", "source_radius"), (radius, source_radius)),
        symbol=symbols.CURL_OF_CURL,
        turns=(True, True),
        pair=PairFunction(
            file="sphere_turns",
            operations=(2, 60),
            values=(*TURNS, NUMBERS),
            derivatives=(*SLOPES_OF_TURNS, NUMBERS),
            power=3,
            with_values=(FIRST,),
        ),
        source=_TURNING,
        gauge=None,
        terms=ROTATION,
    )


# Parts of `parki.Spheres`, without words.
FAMILIES = {
    make.__name__: InteractionFamily(
        make, lengths=dict.fromkeys(names, 1), example=dict.fromkeys(names, 0.02)
    )
    for make, names in (
        (sphere_sl, ("radius", "source_radius")),
        (sphere_curl, ("turning", "moving")),
        (sphere_spin, ("turning", "moving")),
        (sphere_turns, ("radius", "source_radius")),
    )
}
