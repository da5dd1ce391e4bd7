"""`parki.equilibrate` against dense solves, with and without totals; and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import parki

N = 24
RNG = np.random.default_rng(0)
POINTS = RNG.random((3, N))
LINEAR, HARDNESS = RNG.standard_normal(N), RNG.uniform(0.5, 2.0, N)
GROUPS = np.arange(N) % 3
SHEARED = {"periodicity": 3, "box": parki.lattice(1.0, 1.1, 0.9, xy=0.3, yz=-0.2)}
FLAT = {"periodicity": 2, "box": [1.0, 1.1, None]}


def plan_of(kernel="laplace", points=POINTS, want="u", **more):
    how = {"tolerance": 1e-8, "epsilon": (0.07, 0.07), **SHEARED, **more}
    return parki.Plan(kernel, points, points, want=want, **how)


def dense(plan, linear, hardness, totals=(), groups=None):
    """Return the solution and the levels of the equations with a multiplier for each total."""
    n = linear.size
    matrix = np.stack([plan(row.reshape(linear.shape)).ravel() for row in np.eye(n)], axis=1)
    matrix += np.diag(np.broadcast_to(hardness, linear.shape).ravel())
    count = len(totals)
    sums = np.zeros((count, n))
    if count:
        sums[groups, np.arange(n)] = 1
    whole = np.block([[matrix, sums.T], [sums, np.zeros((count, count))]])
    found = np.linalg.solve(whole, np.concatenate([-linear.ravel(), totals]))
    return found[:n].reshape(linear.shape), -found[n:]


@pytest.mark.parametrize("how", [SHEARED, FLAT], ids=["crystal", "slab"])
def test_charges_of_groups(how):
    """Each keeps its total, and has an electronegativity in common; forces are those of charges."""
    totals = np.array([0.0, 0.5, -0.5])

    def solve(points, **more):
        plan = plan_of(points=points, **how)
        given = {"hardness": HARDNESS, "total": totals, "groups": GROUPS, **more}
        return plan, parki.equilibrate(plan, LINEAR, accuracy=1e-10, **given)

    plan, found = solve(POINTS)
    exact, levels = dense(plan, LINEAR, HARDNESS, totals, GROUPS)
    np.testing.assert_allclose(found.values, exact, atol=1e-8)
    np.testing.assert_allclose(found.levels, levels, atol=1e-7)
    np.testing.assert_allclose(np.bincount(GROUPS, found.values), totals, atol=1e-12)
    slope = plan(exact) + HARDNESS * exact + LINEAR
    np.testing.assert_allclose(slope, levels[GROUPS], atol=1e-7)
    assert found.energy == pytest.approx(exact @ (slope + LINEAR) / 2, abs=1e-8)
    assert found.error <= 1e-10
    _, again = solve(POINTS, start=found.values)
    assert again.products <= 2 < found.products
    step = 1e-4 * np.random.default_rng(1).standard_normal(POINTS.shape)
    forces = parki.energy(POINTS, found.values, epsilon=0.07, tolerance=1e-8, **how).forces
    change = solve(POINTS + step)[1].energy - solve(POINTS - step)[1].energy
    assert change / 2 == pytest.approx(-(forces * step).sum(), rel=1e-4)


def test_electrodes_and_one_total():
    """Without a total all have the potential that is wanted; with one, the potential is shifted."""
    plan = plan_of()
    found = parki.equilibrate(plan, LINEAR, hardness=HARDNESS)
    exact, _ = dense(plan, LINEAR, HARDNESS)
    np.testing.assert_allclose(found.values, exact, atol=1e-6)
    assert found.levels.shape == (0,)
    kept = parki.equilibrate(plan, LINEAR, hardness=1.0, total=0.0)
    exact, levels = dense(plan, LINEAR, 1.0, [0.0], np.zeros(N, int))
    np.testing.assert_allclose(kept.values, exact, atol=1e-6)
    np.testing.assert_allclose(kept.levels, levels, atol=1e-6)


def test_dipoles_of_each_polarisability():
    plan = plan_of("laplace_dipole", want="grad_u")
    field, inverse = (
        np.random.default_rng(1).standard_normal((3, N)),
        1 / RNG.uniform(1e-3, 2e-3, N),
    )
    found = parki.equilibrate(plan, -field, hardness=inverse, accuracy=1e-9)
    exact, _ = dense(plan, -field, inverse)
    np.testing.assert_allclose(found.values, exact, atol=1e-8 * np.abs(exact).max())
    assert found.energy == pytest.approx(-(exact * field).sum() / 2, rel=1e-6)


def test_single_precision_and_nothing_to_do():
    plan = plan_of(points=POINTS.astype("f4"), tolerance=1e-4)
    found = parki.equilibrate(plan, LINEAR.astype("f4"), hardness=2.0, total=1.0, accuracy=1e-5)
    exact, _ = dense(plan_of(), LINEAR, 2.0, [1.0], np.zeros(N, int))
    assert found.values.dtype == np.float32
    np.testing.assert_allclose(found.values, exact, atol=1e-3)
    nothing = parki.equilibrate(plan_of(), 0.0, hardness=1.0)
    assert not nothing.values.any()
    assert nothing.energy == nothing.error == 0


OTHER = parki.Plan("laplace", POINTS[:, :5], POINTS, periodicity=0)
LAYER = parki.Plan("stokes_dl", POINTS, POINTS, POINTS, periodicity=0)
FLOW = parki.Plan("stokes_dl", POINTS, POINTS, POINTS, periodicity=0, want="p")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"plan": "laplace"}, TypeError, "plan is a str; expected parki.Plan"),
        ({"plan": OTHER}, ValueError, r"results of shape \(5,\) of densities of shape \(24,\)"),
        ({"plan": FLOW}, ValueError, "expected a symmetric one, of charges or of dipoles"),
        ({"plan": LAYER}, ValueError, "the plan of stokes_dl makes"),
        ({"linear": np.ones(3)}, ValueError, r"linear has shape \(3,\); expected a number, or"),
        ({"hardness": np.nan}, ValueError, "hardness has values that are not finite"),
        ({"groups": GROUPS}, ValueError, "groups was given without total"),
        ({"total": [0.0, 1.0]}, ValueError, "expected a whole number from 0 to 1 for each of 24"),
        ({"total": np.zeros(2), "groups": GROUPS}, ValueError, "number from 0 to 1 for each of 24"),
        ({"start": np.ones(3)}, ValueError, r"start has shape \(3,\); expected a number, or an"),
        ({"start": np.array(["1"] * 24)}, TypeError, "start has dtype <U1; expected real numbers"),
        ({"accuracy": 2}, ValueError, "accuracy is 2; expected a number between 0 and 1"),
        ({"most": 0}, ValueError, "most is 0; expected the most products"),
        ({"most": 2}, parki.ParkiError, "have an error of .* after 2 products with the plan"),
        ({"hardness": -9.0}, ValueError, "the energy has no least value"),
    ],
)
def test_refusals(change, error, words):
    given = {"plan": plan_of(), "linear": LINEAR, **change}
    with pytest.raises(error, match=words) as caught:
        parki.equilibrate(given.pop("plan"), given.pop("linear"), **given)
    assert isinstance(caught.value, parki.ParkiError)


def test_dipoles_have_no_total():
    plan = plan_of("laplace_dipole", want="grad_u")
    with pytest.raises(parki.ParkiValueError, match="total was given, which dipoles do not have"):
        parki.equilibrate(plan, 0.0, total=0.0)


@pytest.mark.gpu
def test_on_a_device():
    """Widths of each charge, groups and labels in the memory of a GPU."""
    cupy = pytest.importorskip("cupy")
    widths, totals = np.where(GROUPS > 0, 0.07, 0.1), np.array([0.0, 0.5, -0.5])
    here = plan_of(epsilon=(widths, widths))
    exact = parki.equilibrate(here, LINEAR, hardness=HARDNESS, total=totals, groups=GROUPS)
    points, linear, hardness, groups, narrow = map(
        cupy.asarray, (POINTS, LINEAR, HARDNESS, GROUPS, widths)
    )
    plan = plan_of(points=points, epsilon=(narrow, narrow))
    found = parki.equilibrate(plan, linear, hardness=hardness, total=totals, groups=groups)
    assert isinstance(found.values, cupy.ndarray)
    np.testing.assert_allclose(found.values.get(), exact.values, atol=1e-6)
    np.testing.assert_allclose(found.levels, exact.levels, atol=1e-6)
    assert found.energy == pytest.approx(exact.energy, abs=1e-6)
