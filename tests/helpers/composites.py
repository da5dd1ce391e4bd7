"""Composites to test, and their direct sums.

A mirror plane, two layers, Stokeslets of harmonic functions, a stress, and two whose maps take
heights or normals.
"""

from __future__ import annotations

import math

import numpy as np

from parki.ewald.sums import SUMS
from parki.ewald.sums.adjoint import velocity
from parki.ewald.sums.composite import Addend, Composite
from parki.ewald.sums.maps import Curved, mapped
from parki.ewald.sums.stress import stress
from parki.reference import direct_sum

BOX = (1.2, 1.0, 2.0)
MIDDLE = BOX[2] / 2
RNG = np.random.default_rng(3)
SRC = RNG.random((3, 40)) * [[1.2], [1.0], [MIDDLE]]
TRG = RNG.random((3, 50)) * [[1.2], [1.0], [MIDDLE]]
FORCES, NORMS = RNG.standard_normal((2, 3, 40))
TOLERANCE = 1e-5


def mirrored(values, at):
    """Return vectors mirrored at a plane of the third axis."""
    rows = values.copy()
    rows[2] *= -1
    return rows


def images(points, at):
    """Return points mirrored at the middle of the box."""
    rows = points.copy()
    rows[2] = BOX[2] - rows[2]
    return rows


def first(dens, at):
    return dens[:3]


def first_two(dens, at):
    return dens[:2]


def last(dens, at):
    return dens[3:]


# A symmetry plane: no flow crosses it, and no force along it acts there.
SLIP = Composite(
    "free slip",
    (3,),
    (3,),
    (
        Addend("stokes_sl", ("u",), velocity),
        Addend("stokes_sl", ("u",), velocity, density=mirrored, sources=images),
    ),
)
LIFTED = Composite(
    "lifted",
    (3,),
    (3,),
    (
        Addend("stokes_sl", ("u",), velocity),
        Addend("stokes_sl", ("u",), lambda found, at: at["points"][1] * found["u"][::-1], mirrored),
    ),
)
COMB = Composite(
    "comb",
    (6,),
    (3,),
    (
        Addend("stokes_sl", ("u",), velocity, density=first),
        Addend("stokes_dl", ("u",), velocity, density=last),
    ),
)


def _harmonic(axis):
    """Return ``phi e_axis - x_axis grad phi`` of charges f_axis."""

    def results(found, at):
        rows = -at["points"][axis] * found["grad_u"]
        rows[axis] += found["u"][0]
        return rows

    return Addend("laplace", ("u", "grad_u"), results, lambda f, at: f[axis : axis + 1])


# The Stokeslet by harmonic functions: [e_j - x_j grad] (f_j / r) + grad (f.y / r).
HARMONIC = Composite(
    "Papkovich and Neuber",
    (3,),
    (3,),
    (
        *map(_harmonic, range(3)),
        Addend(
            "laplace",
            ("grad_u",),
            lambda found, at: found["grad_u"],
            lambda f, at: (f * at["points"]).sum(axis=0, keepdims=True),
        ),
    ),
)
STRESS = Composite("stress", (3,), (3, 3), (Addend("stokes_sl", ("p", "grad_u"), stress),))


def height(at):
    """Return the heights over a plane in the middle of the box."""
    return at["points"][2] - MIDDLE


def below(found, at):
    """Return ``z grad phi - e_z phi``, which solves the equations of Stokes."""
    rows = height(at) * found["grad_u"]
    rows[2] -= found["u"][0]
    return rows


def charges(dens, at):
    return 2 * dens[2:]


def against(dens, at):
    return -mirrored(dens, at)


def doublets_of_forces(dens, at):
    """Return ``h e_z f*``, forces that are apart along f*."""
    rows = np.zeros_like(dens, shape=(9, dens.shape[1]))
    rows[6:] = height(at) * mirrored(dens, at)
    return rows


def squares(dens, at):
    return height(at) ** 2 * mirrored(dens, at)


def of_squares(dens, at, moves):
    """Return how `squares` changes."""
    return 2 * height(at) * moves["points"][2] * mirrored(dens, at)


# Forces over a wall without slip, after Blake, with a potential in the place of what derivatives
# lack, and with weights of both powers of the sources' heights that images of other walls have.
WALL = Composite(
    "wall",
    (3,),
    (3,),
    (
        Addend("stokes_sl", ("u",), velocity),
        Addend("stokes_sl", ("u",), velocity, against, sources=images),
        Addend("laplace", ("u", "grad_u"), below, charges, sources=images),
        Addend("stokes_dipole", ("u",), velocity, doublets_of_forces, sources=images),
        Addend(
            "laplace_dipole",
            ("u",),
            lambda found, at: np.concatenate([found["u"]] * 3) * height(at),
            Curved(squares, of_squares),
            sources=images,
        ),
    ),
)
# A layer of charges' dipoles and stresslets, both a little off the surface.
OFF = Composite(
    "off the surface",
    (4,),
    (3,),
    (
        Addend(
            "laplace_dipole",
            ("u",),
            lambda found, at: np.concatenate([found["u"]] * 3),
            lambda dens, at: dens[3] * at["norms"],
            sources=lambda points, at: points + 0.02 * at["norms"],
        ),
        Addend(
            "stokes_dl",
            ("u",),
            velocity,
            first,
            sources=lambda points, at: points + 0.02 * at["norms"],
            normals=lambda norms, at: 2 * norms,
        ),
    ),
)


def summed(composite, given, periodicity):
    """Return a composite by direct sums of its addends."""
    at = {"points": given["src"], "norms": given.get("norms")}
    found = 0.0
    for each in composite.addends:
        kind = SUMS[each.kernel]
        dens = mapped(each.density, given["dens"].reshape(-1, at["points"].shape[1]), at)
        norms = mapped(each.normals, at["norms"], at) if kind.normals else None
        sources = mapped(each.sources, at["points"], at)
        dens = dens.reshape(kind.density_shape(dens.shape[1]))
        how = {"box": BOX, "periodicity": periodicity, "want": each.want}
        arrays = direct_sum(each.kernel, given["trg"], sources, dens, norms, **how)
        rows = {n: a.reshape(-1, a.shape[-1]) for n, a in zip(each.want, arrays, strict=True)}
        found = found + each.results(rows, {"points": given["trg"]})
    assert len(found) == math.prod(composite.result)
    return found.reshape(*composite.result, -1)
