"""Spheres of any radii, by Rotne, Prager and Yamakawa, whatever their distance.

Each point has a radius, which is no larger than ``largest``. What moves by what:

``polydisperse_sl``    velocities of forces
``polydisperse_flow``  the same of points, with their pressure and gradient
``polydisperse_curl``  velocities of torques
``polydisperse_turn``  turns of forces
``polydisperse_turns`` twice the turns of torques
``polydisperse_dipoles``  velocities, and gradients of velocity, of forces and their dipoles
``dipoles_in_contact``  the part of its near field that pairs of spheres in contact add
``sphere_dipoles``, ``spheres_in_contact``  the same of spheres of one radius

The force dipole of a sphere is the first moment ``D_jk = int f_j r_k`` of its force: the
antisymmetric part is half of its torque, and the symmetric traceless part its stresslet. The
gradient is averaged over the sphere: the antisymmetric part is its turn, and the symmetric one its
strain. So forces, torques and stresslets share one sum, whose matrix is symmetric and positive.

`parki.ewald.sums.spheres` has the same sums of two radii. There shells multiply the far field. Here
``1 - (k a)^2 / 6`` does, for each sphere that moves, or that a force acts on. Both make the same
field outside of spheres.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from parki.ewald.sums import force_dipoles, stokes_dipole, stokes_rotlet, stokes_sl, symbols
from parki.ewald.sums.adjoint import Adjoint, of_itself, velocity
from parki.ewald.sums.gauges import OF_FORCES
from parki.ewald.sums.maps import Arrays
from parki.ewald.sums.names import InteractionFamily, named
from parki.ewald.sums.pairs import PairFunction
from parki.ewald.sums.record import Interaction
from parki.ewald.sums.sources import FORCE, TORQUE
from parki.ewald.sums.spheres import FIRST, PSI, ROTATION, SLOPES_OF_TURNS, TURNS, check_radius
from parki.ewald.sums.tables import FLOW, Table, Tables
from parki.typing import AnyArray


def velocity_and_gradient(results: Arrays, cloud: Arrays) -> AnyArray:
    """Return the rows of velocities and of their gradients, for forces and their dipoles."""
    return np.concatenate([results["u"], results["grad_u"]])


def forces_alone(values: AnyArray, cloud: Arrays) -> AnyArray:
    """Return the density of forces without dipoles."""
    return np.concatenate([values, np.zeros_like(values, shape=(9, values.shape[1]))])


def dipoles_alone(values: AnyArray, cloud: Arrays) -> AnyArray:
    """Return the density of dipoles without forces."""
    return np.concatenate([np.zeros_like(values, shape=(3, values.shape[1])), values])


def _levels(*tables: Table, laplacians: int = 1) -> Tables:
    """Return tables of points, then of the Laplacian of their field, and so on."""
    return tuple(table._replace(laplacians=n) for n in range(laplacians + 1) for table in tables)


_BOTH = "u", "grad_u"
_FLOW = {name: stokes_sl.TERMS[name] for name in ("u", "p", "grad_u")}
_SL = Interaction(
    name="polydisperse_sl",
    symbol=symbols.FLOW._replace(laplacians=(True, True)),
    pair=PairFunction(
        file="spheres",
        operations=(6, 60),
        values=_levels(FLOW, FIRST, laplacians=2),
        derivatives=_levels(FIRST, PSI, laplacians=2),
        with_values=_levels(FLOW, laplacians=2),
        point_radii=1,
    ),
    sources=(FORCE,),
    gauge=OF_FORCES,
    terms={name: _FLOW[name] for name in _BOTH},
    adjoints={"u": of_itself("polydisperse_sl")},
)
_CURL = Interaction(
    name="polydisperse_curl",
    symbol=symbols.CURL._replace(laplacians=(True, False)),
    pair=PairFunction(
        file="sphere_curl",
        operations=(2, 45),
        values=_levels(FIRST),
        derivatives=_levels(FIRST, PSI),
        power=2,
        point_radii=1,
    ),
    sources=(TORQUE,),
    gauge=None,
    terms=stokes_rotlet.TERMS,
    adjoints={"u": Adjoint(kernel="polydisperse_turn", want=("u",), results=velocity)},
)
_DIPOLES = replace(
    _SL,
    name="polydisperse_dipoles",
    pair=force_dipoles.PAIR._replace(point_radii=1),
    sources=force_dipoles.SOURCES,
    terms={name: stokes_sl.TERMS[name] + stokes_dipole.TERMS[name] for name in _BOTH},
    adjoints={
        result: Adjoint(
            kernel="polydisperse_dipoles",
            want=_BOTH,
            results=velocity_and_gradient,
            density=density,
            symmetric=True,
        )
        for result, density in (("u", forces_alone), ("grad_u", dipoles_alone))
    },
    overlap_correction="dipoles_in_contact",
)
# Records of spheres without a size, which `polydisperse` gives them.
_POINTS = (
    _SL,
    replace(
        _SL,
        name="polydisperse_flow",
        symbol=symbols.FLOW._replace(laplacians=(False, True)),
        pair=_SL.pair._replace(
            operations=(4, 60),
            values=_levels(FLOW, FIRST),
            derivatives=_levels(FIRST, PSI),
            with_values=_levels(FLOW),
        ),
        terms=_FLOW,
        adjoints={},
    ),
    _CURL,
    replace(
        _CURL,
        name="polydisperse_turn",
        symbol=symbols.CURL._replace(laplacians=(False, True)),
        pair=_CURL.pair._replace(constants=(("TURNING_TARGETS", True),)),
        adjoints={"u": replace(_CURL.adjoints["u"], kernel="polydisperse_curl")},
    ),
    Interaction(
        name="polydisperse_turns",
        symbol=symbols.CURL_OF_CURL,
        pair=PairFunction(
            file="sphere_turns",
            operations=(2, 60),
            values=TURNS,
            derivatives=SLOPES_OF_TURNS,
            power=3,
            with_values=(FIRST,),
            point_radii=1,
        ),
        sources=(TORQUE._replace(decay=3),),
        gauge=None,
        terms=ROTATION,
        adjoints={"u": of_itself("polydisperse_turns")},
    ),
    _DIPOLES,
    replace(
        _DIPOLES,
        name="dipoles_in_contact",
        pair=force_dipoles.REST._replace(point_radii=1),
        adjoints={},
        overlap_correction="",
    ),
)


def polydisperse(points: Interaction, largest: Any) -> Interaction:
    """Return a sum of `_POINTS` for radii up to the largest one."""
    check_radius("largest", largest)
    largest = float(largest)
    rest = points.overlap_correction if largest else ""
    return replace(
        points,
        name=named(points.name, largest=largest),
        # Beyond the cut-off spheres do not overlap, for any rounding of it.
        pair=points.pair._replace(least=2 * largest * (1 + 1e-9), largest=largest),
        adjoints={
            result: replace(adjoint, kernel=named(adjoint.kernel, largest=largest))
            for result, adjoint in points.adjoints.items()
        },
        # Errors of the velocities of surfaces count, which gradients make over a radius.
        unit=largest if any(source.ball for source in points.sources) else 0.0,
        overlap_correction=rest and named(rest, largest=largest),
    )


def sphere_dipoles(radius: Any) -> Interaction:
    """Return the sum of forces and their dipoles on spheres of one radius, without others."""
    check_radius("radius", radius)
    radius = float(radius)
    any_radii, name = polydisperse(_DIPOLES, radius), named("sphere_dipoles", radius=radius)
    return replace(
        any_radii,
        name=name,
        pair=force_dipoles.ALIKE._replace(least=any_radii.pair.least, largest=radius),
        adjoints={n: replace(a, kernel=name) for n, a in any_radii.adjoints.items()},
        overlap_correction=named("spheres_in_contact", radius=radius) if radius else "",
    )


def spheres_in_contact(radius: Any) -> Interaction:
    """Return the part of its near field that pairs in contact add."""
    any_radii = polydisperse(_POINTS[-1], radius)
    name = named("spheres_in_contact", radius=float(radius))
    return replace(any_radii, name=name, pair=any_radii.pair._replace(point_radii=None))


# Parts of `parki.Spheres`, without words.
FAMILIES = {
    points.name: InteractionFamily(
        partial(polydisperse, points), lengths={"largest": 1}, example={"largest": 0.02}
    )
    for points in _POINTS
}
FAMILIES |= {
    make.__name__: InteractionFamily(make, lengths={"radius": 1}, example={"radius": 0.02})
    for make in (sphere_dipoles, spheres_in_contact)
}
