"""Composites: sums of sums, whose maps carry sources, densities and results."""

from __future__ import annotations

import numpy as np
import pytest
from contract import rms

import parki
from parki.ewald.composed.plan import ComposedPlan
from parki.ewald.derivatives import vjp
from parki.ewald.sums.adjoint import velocity
from parki.ewald.sums.composite import Addend, Composite
from parki.ewald.sums.maps import factors, transposed, weights
from parki.ewald.sums.stress import WEIGHTS, stress
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


def options(periodicity=3, **more):
    return parki.EwaldOptions(periodicity, BOX, TOLERANCE, **more)


def make(composite, periodicity=3, dtype="f8", **more):
    norms = NORMS if composite is COMB else None
    arrays = [None if a is None else a.astype(dtype) for a in (TRG, SRC, norms)]
    return ComposedPlan(composite, *arrays, options(periodicity, **more))


def density(composite, *many):
    return np.random.default_rng(8).standard_normal((*many, *composite.density, SRC.shape[1]))


def mismatch(plan, dens):
    """Return how far adjoint and composite are apart, over the product of the norms."""
    found = plan(dens)
    values = np.random.default_rng(9).standard_normal(found.shape).astype(found.dtype)
    there, back = np.vdot(values, found), np.vdot(plan.adjoint(values), dens)
    return abs(there - back) / (np.linalg.norm(values) * np.linalg.norm(found))


# --- against other sums ---------------------------------------------------------------------------


@pytest.mark.parametrize("periodicity", [2, 3])
def test_a_symmetry_plane_is_a_sum_of_twice_the_sources(periodicity):
    plan = make(SLIP, periodicity)
    assert [each.n_sources for each in plan.plans] == [2 * SRC.shape[1]]
    both = np.concatenate([SRC, images(SRC, {})], axis=1)
    forces = np.concatenate([FORCES, mirrored(FORCES, {})], axis=1)
    exact = direct_sum("stokes_sl", TRG, both, forces, box=BOX, periodicity=periodicity)
    promise = plan.promise(FORCES)
    assert promise == pytest.approx(plan.plans[0].promise(forces)[0])
    assert 0 < rms(plan(FORCES) - exact) <= promise
    assert mismatch(plan, FORCES) <= 1e-14
    wall = TRG.copy()
    wall[2] = MIDDLE
    plan.update_points(wall, SRC)
    found = plan(FORCES)
    assert rms(found[2:]) <= promise < 1e-3 * rms(found)


@pytest.mark.parametrize("periodicity", [0, 1, 2, 3])
def test_the_combined_sum_is_one_of_two(periodicity):
    plan, dens = make(COMB, periodicity), density(COMB)
    whole = parki.Plan("stokes_comb", TRG, SRC, NORMS, options(periodicity))
    exact = direct_sum("stokes_comb", TRG, SRC, dens, NORMS, box=BOX, periodicity=periodicity)
    assert plan.promise(dens) == pytest.approx(whole.promise(dens))
    assert rms(plan(dens) - exact) <= plan.promise(dens)
    values = np.random.default_rng(2).standard_normal((3, TRG.shape[1]))
    back, other = plan.adjoint(values), whole.adjoint(values)
    length, q = np.prod(BOX) ** (1 / 3), np.linalg.norm(values)
    assert rms(back[:3] - other[:3]) <= 2 * TOLERANCE * q / length
    assert rms(back[3:] - other[3:]) <= 8 * TOLERANCE * q / length**2 * rms(NORMS)
    assert mismatch(plan, dens) <= 1e-13


def test_stokeslets_of_harmonic_functions():
    """Maps that take the points, at the sources and at the targets; four densities of one sum."""
    plan = make(HARMONIC, 0)
    assert [each.kernel for each in plan.plans] == ["laplace"]
    assert len(plan.sums[0].densities(FORCES[None], plan.sources)) == 4
    exact = direct_sum("stokes_sl", TRG, SRC, FORCES, box=BOX, periodicity=0)
    assert 0 < rms(plan(FORCES) - exact) <= plan.promise(FORCES)
    assert mismatch(plan, FORCES) <= 1e-13
    other = parki.Plan(
        "stokes_sl",
        TRG,
        SRC,
        options(
            0,
        ),
    )
    values = np.random.default_rng(2).standard_normal((3, TRG.shape[1]))
    error = rms(plan.adjoint(values) - other.adjoint(values))
    assert error <= plan.promise(FORCES) / rms(FORCES) * rms(values)


def test_a_stress_is_a_composite():
    plan, dens = make(STRESS), FORCES
    other = parki.Plan("stokes_sl", TRG, SRC, options(), want="stress")
    assert np.array_equal(plan(dens), other(dens))
    assert plan.promise(dens) == pytest.approx(other.promise(dens), rel=1e-12)
    values = np.random.default_rng(2).standard_normal((3, 3, TRG.shape[1]))
    assert np.allclose(plan.adjoint(values), other.adjoint(values), rtol=1e-12, atol=1e-12)
