"""Derivatives by parameters that are lengths against differences of sums with other parameters."""

from __future__ import annotations

import numpy as np
import pytest

import parki

N, BOX, STEP = 60, np.array([1.0, 1.1, 0.9]), 3e-4
TWO = (False, True, True)
BOXES = {"systems": [0, 30, 60], "boxes": [BOX.tolist()] * 2}
# A sum, its parameter, a value, and which axes repeat; blobs that overlap, and forces along one
# axis, whose velocities hang on the logarithm of the unit.
CASES = [
    ("yukawa", "kappa", 2.0, 3),  # which leans
    ("yukawa", "kappa", 2.0, 0),
    ("brinkman_sl", "alpha", 2.0, TWO),
    pytest.param("brinkman_sl", "alpha", 2.0, 3, marks=pytest.mark.slow),
    pytest.param("brinkman_dl", "alpha", 2.0, TWO, marks=pytest.mark.slow),
    ("stokes_sl", "epsilon", 0.1, 1),
    ("laplace", "epsilon", 0.1, 3),
    pytest.param("laplace", "epsilon", 0.1, 1, marks=pytest.mark.slow),
    pytest.param("laplace_dipole", "epsilon", 0.1, TWO, marks=pytest.mark.slow),
    ("stokes_sl", "epsilon", 0.1, (False, True, False)),
    pytest.param("stokes_dl", "epsilon", 0.1, 3, marks=pytest.mark.slow),
    pytest.param("stokes_comb", "epsilon", 0.1, 1, marks=pytest.mark.slow),
]


def given(kernel, periodicity, count):
    """Return the arrays of a sum, off the origin, its weights, and options."""
    rng = np.random.default_rng(0)
    kind = parki.ewald.sums.SUMS[kernel]
    points = rng.random((3, N)) * BOX[:, None] + [[2.0], [0.0], [-1.0]]
    dens = rng.standard_normal((count, *kind.density_shape(N)))
    values = rng.standard_normal((count, *([3] if kind.results == 3 else []), N))
    norms = rng.standard_normal((3, N)) if kind.normals else None
    axes = (True,) * periodicity if isinstance(periodicity, int) else periodicity
    axes = (*axes, False, False, False)[:3]
    box = [length if periodic else None for length, periodic in zip(BOX, axes, strict=True)]
    if all(axes):
        box = parki.lattice(*BOX, xy=0.3, yz=-0.2)
    mean = {"dl_mean": "zero"} if kind.normals and all(axes) else {}
    return points, dens, norms, values, parki.EwaldOptions(periodicity, box, 1e-8, **mean)


@pytest.mark.parametrize(("name", "parameter", "value", "periodicity"), CASES)
def test_difference(name, parameter, value, periodicity):
    """Several densities add up."""

    def kernel(times):
        return parki.kernel(name, **{parameter: times * value})

    points, dens, norms, values, options = given(kernel(1), periodicity, 2)

    def weighted(times):
        plan = parki.Plan(kernel(times), points, points, norms, options)
        return np.vdot(values, plan(dens))

    difference = (weighted(1 + STEP) - weighted(1 - STEP)) / (2 * STEP * value)
    plan = parki.Plan(kernel(1), points, points, norms, options)
    found = plan.vjp(dens, values, ("dens", parameter))
    assert found[parameter].shape == ()
    assert abs(found[parameter] - difference) < 1e-5 * abs(difference)
    alone = plan.vjp(dens, values)["dens"]  # perhaps by another sum, within the promise
    np.testing.assert_allclose(found["dens"], alone, rtol=0, atol=1e-6 * np.abs(alone).max())


def test_systems():
    """They add up, also by the logarithm of the unit, which each has of its own density."""
    kernel = parki.kernel("stokes_sl", epsilon=0.1)
    points, (dens,), _, (values,), options = given(kernel, 1, 1)

    def derivative(part, **how):
        of = kernel, points[:, part], points[:, part], dens[:, part], options
        return parki.vjp(*of, values=values[:, part], wrt=("epsilon",), **how)["epsilon"]

    parts = slice(20), slice(20, N)
    expected = sum(map(derivative, parts))
    assert derivative(slice(N), systems=[0, 20, N]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("kernel", "wrt", "how", "words"),
    [
        ("laplace", "kappa", {}, "wrt is .*expected names of inputs of laplace: trg, src, dens"),
        ("yukawa(kappa=2.0)", "alpha", {}, "dens, box, lattice, kappa"),
        ("yukawa(kappa=2.0)", "kappa", BOXES, "by kappa was .*for systems in boxes of"),
    ],
)
def test_refusals(kernel, wrt, how, words):
    points, dens, norms, values, options = given(kernel, 3, 1)
    arrays = kernel, points, points, dens[0], norms, options
    with pytest.raises(parki.ParkiValueError, match=words):
        parki.vjp(*arrays, values=values[0], wrt=(wrt,), **how)
