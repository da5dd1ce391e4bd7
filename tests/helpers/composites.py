"""Composites to test: a mirror plane, two layers, Stokeslets of harmonic functions, a stress."""

from __future__ import annotations

import numpy as np

from parki.ewald.sums.adjoint import velocity
from parki.ewald.sums.composite import Addend, Composite
from parki.ewald.sums.stress import stress

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
