"""Spheres of any radii, by Rotne, Prager and Yamakawa, whatever their distance.

The radii are marks of the points, and none is larger than ``largest``. What moves by what:

``polydisperse_sl``    velocities of forces
``polydisperse_flow``  the same of points, with their pressure and gradient
``polydisperse_curl``  velocities of torques
``polydisperse_turn``  turns of forces
``polydisperse_turns`` twice the turns of torques
``polydisperse_couplets``  velocities, and gradients of velocity, of forces and couplets
``couplets_in_contact``  the part of its near field that pairs of spheres in contact add
``sphere_couplets``, ``spheres_in_contact``  the same of spheres of one radius

A couplet D is the first moment ``D_jk = int f_j r_k`` of the force on a sphere: the antisymmetric
part is half of its torque, and the symmetric traceless part its stresslet. The gradient is averaged
over the sphere: the antisymmetric part is its turn, and the symmetric one its strain. So forces,
torques and stresslets share one sum, whose matrix is symmetric and positive.

`parki.ewald.sums.spheres` has the same sums of two radii. There shells multiply the far field. Here
``1 - (k a)^2 / 6`` does, for each sphere that moves, or that a force acts on. Both make the same
field outside of spheres.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from parki.ewald.sums import couplets, stokes_dipole, stokes_rotlet, stokes_sl, symbols
from parki.ewald.sums.adjoint import Adjoint, velocity
from parki.ewald.sums.gauges import OF_FORCES
from parki.ewald.sums.maps import Arrays
from parki.ewald.sums.names import InteractionFamily, named
from parki.ewald.sums.pairs import PairFunction
from parki.ewald.sums.record import ErrorTerm, Interaction
from parki.ewald.sums.sources import FORCE, TORQUE, Source
from parki.ewald.sums.spheres import FIRST, PSI, ROTATION, SLOPES_OF_TURNS, TURNS, check_radius
from parki.ewald.sums.symbols import Symbol
from parki.ewald.sums.tables import FLOW, Table, Tables
from parki.typing import AnyArray


class Kind(NamedTuple):
    """One of the sums."""

    symbol: Symbol
    laplacians: tuple[bool, bool]
    pair: PairFunction
    sources: tuple[Source, ...]
    terms: Mapping[str, tuple[ErrorTerm, ...]]
    transposed: str = ""
    back: Mapping[str, Mapping[str, Any]] = {"u": {"want": ("u",), "results": velocity}}


def velocity_and_gradient(found: Arrays, at: Arrays) -> Any:
    """Return both, for the rows of forces and of couplets."""
    return np.concatenate([found["u"], found["grad_u"]])


def forces_alone(values: AnyArray, at: Arrays) -> Any:
    """Return the density of forces without couplets."""
    return np.concatenate([values, np.zeros_like(values, shape=(9, values.shape[1]))])


def couplets_alone(values: AnyArray, at: Arrays) -> Any:
    """Return the density of couplets without forces."""
    return np.concatenate([np.zeros_like(values, shape=(3, values.shape[1])), values])


def _levels(*tables: Table, laplacians: int = 1) -> Tables:
    """Return tables of points, then of the Laplacian of their field, and so on."""
    return tuple(table._replace(laplacians=n) for n in range(laplacians + 1) for table in tables)


_BOTH = "u", "grad_u"
_TURNS = TORQUE._replace(decay=3)
_FLOW = {name: stokes_sl.TERMS[name] for name in ("u", "p", "grad_u")}
KINDS = {
    "polydisperse_sl": Kind(
        symbols.FLOW,
        (True, True),
        PairFunction(
            "spheres",
            (6, 60),
            _levels(FLOW, FIRST, laplacians=2),
            _levels(FIRST, PSI, laplacians=2),
            with_values=_levels(FLOW, laplacians=2),
        ),
        (FORCE,),
        {name: _FLOW[name] for name in ("u", "grad_u")},
        "polydisperse_sl",
    ),
    "polydisperse_flow": Kind(
        symbols.FLOW,
        (False, True),
        PairFunction(
            "spheres",
            (4, 60),
            _levels(FLOW, FIRST),
            _levels(FIRST, PSI),
            with_values=_levels(FLOW),
        ),
        (FORCE,),
        _FLOW,
    ),
    "polydisperse_curl": Kind(
        symbols.CURL,
        (True, False),
        PairFunction("sphere_curl", (2, 45), _levels(FIRST), _levels(FIRST, PSI), power=2),
        (TORQUE,),
        stokes_rotlet.TERMS,
        "polydisperse_turn",
    ),
    "polydisperse_turn": Kind(
        symbols.CURL,
        (False, True),
        PairFunction(
            "sphere_curl",
            (2, 45),
            _levels(FIRST),
            _levels(FIRST, PSI),
            power=2,
            constants=(("TURNING_TARGETS", True),),
        ),
        (TORQUE,),
        stokes_rotlet.TERMS,
        "polydisperse_curl",
    ),
    "polydisperse_turns": Kind(
        symbols.CURL_OF_CURL,
        (False, False),
        PairFunction(
            "sphere_turns", (2, 60), TURNS, SLOPES_OF_TURNS, power=3, with_values=(FIRST,)
        ),
        (_TURNS,),
        ROTATION,
        "polydisperse_turns",
    ),
    "polydisperse_couplets": Kind(
        symbols.FLOW,
        (True, True),
        couplets.PAIR,
        couplets.SOURCES,
        {name: (stokes_sl.TERMS[name][0], stokes_dipole.TERMS[name][0]) for name in _BOTH},
        "polydisperse_couplets",
        {
            "u": {"want": _BOTH, "results": velocity_and_gradient, "density": forces_alone},
            "grad_u": {"want": _BOTH, "results": velocity_and_gradient, "density": couplets_alone},
        },
    ),
}
KINDS["couplets_in_contact"] = KINDS["polydisperse_couplets"]._replace(
    pair=couplets.REST, transposed=""
)


def polydisperse(name: str, largest: Any) -> Interaction:
    """Return one of the sums, for radii up to the largest one."""
    check_radius("largest", largest)
    kind, largest = KINDS[name], float(largest)
    own = named(name, largest=largest)
    back = kind.transposed and named(kind.transposed, largest=largest)
    whole = kind.pair.overlap_correction != "apart" or not largest
    return Interaction(
        own,
        kind.symbol._replace(laplacians=kind.laplacians),
        # Beyond the cut-off spheres do not overlap, for any rounding of it.
        kind.pair._replace(point_radii=1, least=2 * largest * (1 + 1e-9), largest=largest),
        kind.sources,
        OF_FORCES if kind.symbol.order == 2 else None,
        terms=kind.terms,
        adjoints={
            result: Adjoint(back, **how, symmetric=back == own)
            for result, how in kind.back.items()
            if back
        },
        # Errors of the velocities of surfaces count, which gradients make over a radius.
        unit=largest if any(source.ball for source in kind.sources) else 0.0,
        overlap_correction="" if whole else named("couplets_in_contact", largest=largest),
    )


def sphere_couplets(radius: Any) -> Interaction:
    """Return the sum of forces and couplets on spheres of one radius, without marks."""
    check_radius("radius", radius)
    any_radii, own = polydisperse("polydisperse_couplets", radius), {"radius": float(radius)}
    pair = couplets.ALIKE._replace(least=any_radii.pair.least, largest=any_radii.pair.largest)
    back = {
        name: replace(e, kernel=named("sphere_couplets", **own))
        for name, e in any_radii.adjoints.items()
    }
    rest = named("spheres_in_contact", **own) if any_radii.overlap_correction else ""
    return replace(
        any_radii,
        name=named("sphere_couplets", **own),
        pair=pair,
        adjoints=back,
        overlap_correction=rest,
    )


def spheres_in_contact(radius: Any) -> Interaction:
    """Return the part of its near field that pairs in contact add."""
    any_radii = polydisperse("couplets_in_contact", radius)
    name = named("spheres_in_contact", radius=float(radius))
    return replace(any_radii, name=name, pair=any_radii.pair._replace(point_radii=None))


# Parts of `parki.Spheres`, without words.
FAMILIES = {
    name: InteractionFamily(partial(polydisperse, name), {"largest": 1}, {"largest": 0.02})
    for name in KINDS
}
FAMILIES |= {
    make.__name__: InteractionFamily(make, {"radius": 1}, {"radius": 0.02})
    for make in (sphere_couplets, spheres_in_contact)
}
