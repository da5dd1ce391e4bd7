"""`Plan.check` against the reference sums, which share nothing with the solver."""

import pickle

import numpy as np
import pytest
from contract import rms

import parki
from parki.ewald.sums import SUMS
from parki.reference import direct_sum

POINTS = 400


def make(rng, kernel, periodicity, want="u"):
    """Return a plan, its density, and the points and normals."""
    trg, src = 0.8 * rng.random((2, 3, POINTS))
    norms = rng.standard_normal((3, POINTS)) if SUMS[kernel].normals else None
    options = parki.EwaldOptions(periodicity, (1.2, 1, 0.8), 1e-4)
    plan = parki.Plan(kernel, trg, src, norms, options, want=want)
    return plan, rng.standard_normal(SUMS[kernel].density_shape(POINTS)), (trg, src, norms)


def compare(plan, dens, points):
    """Compare the check of all targets with the error against the reference."""
    names = plan.want if isinstance(plan.want, tuple) else (plan.want,)
    trg, src, norms = points
    how = {"box": plan.box, "periodicity": plan.options.periodicity, "want": names}
    exact = direct_sum(plan.kernel, trg, src, dens, norms, **how)
    found, promises, checks = plan(dens), plan.promise(dens), plan.check(dens, targets=POINTS)
    if isinstance(plan.want, str):
        found, promises, checks = (found,), (promises,), (checks,)
    assert len(checks) == len(names)
    for check, values, truth, promise in zip(checks, found, exact, promises, strict=True):
        assert check.error == pytest.approx(rms(values - truth), rel=0.1)
        assert check.flow == pytest.approx(rms(truth), rel=1e-3)
        assert check.promise == promise
        assert check.relative == check.error / check.flow


@pytest.mark.parametrize(("kernel", "periodicity"), [("laplace", 3), ("stokes_comb", 1)])
def test_error_is_that_against_the_reference(rng, kernel, periodicity):
    compare(*make(rng, kernel, periodicity))


def test_a_tuple_has_a_line_for_each(rng):
    plan, dens, points = make(rng, "stokes_sl", 3, want=("p", "u"))
    compare(plan, dens, points)
    checks = plan.check(dens)
    first, second = str(checks).splitlines()
    assert first == f"p: {checks[0]}" and second == f"u: {checks[1]}"
    assert "error " in first and "Check(" not in first
    again = pickle.loads(pickle.dumps(checks))
    assert again == checks and str(again) == str(checks)


def test_sample(rng):
    plan, dens, _ = make(rng, "stokes_sl", 3)
    check = plan.check(dens)
    assert check == plan.check(dens)
    assert check.error == pytest.approx(plan.check(dens, targets=10**6).error, rel=0.5)
    assert check.reference == 1e-6
    assert "error" in str(check) and "promise" in str(check)


def test_targets_that_are_sources(rng):
    points, dens = rng.random((3, POINTS)), rng.standard_normal((3, POINTS))
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-12)
    check = parki.Plan("stokes_sl", points, points, options).check(dens)
    assert check.error < check.promise
    assert check.reference == 1e-13  # limited by float64


def test_lattice_whose_density_adds_up():
    # One sign on a lattice: far above the promise, which no estimate knows.
    axis = np.arange(12) / 12
    points = np.stack(np.meshgrid(axis, axis, axis)).reshape(3, -1)
    trg = np.random.default_rng(1).random((3, 100))
    dens = np.cos(2 * np.pi * points[0]) * np.ones((3, 1))
    plan = parki.Plan("stokes_sl", trg, points, parki.EwaldOptions(3, [1, 1, 1], 1e-4))
    exact = direct_sum("stokes_sl", trg, points, dens, box=[1, 1, 1], periodicity=3)
    check = plan.check(dens, targets=100)
    assert check.error == pytest.approx(rms(plan(dens) - exact), rel=0.1)


def test_nothing_flows(rng):
    plan, dens, _ = make(rng, "stokes_rotlet", 3, want="p")
    check = plan.check(dens)
    assert (check.error, check.flow, check.relative) == (0, 0, 0)


def test_points_of_an_update_are_checked(rng):
    plan, dens, (trg, src, _) = make(rng, "stokes_sl", 3)
    moved = src * 0.9
    plan.update_points(trg, moved)
    compare(plan, dens, (trg, moved, None))


def test_what_cannot_be_checked_is_refused(rng):
    plan, dens, (trg, src, _) = make(rng, "stokes_sl", 3)
    with pytest.raises(parki.ParkiValueError, match="dens has shape"):
        plan.check(dens[:, 1:])
    with pytest.raises(parki.ParkiTypeError, match="dens has dtype"):
        plan.check(np.float32(dens))
    with pytest.raises(parki.ParkiValueError, match="targets is 0"):
        plan.check(dens, targets=0)
    with pytest.raises(parki.ParkiTypeError, match=r"targets is 1\.5"):
        plan.check(dens, targets=1.5)
    empty = parki.Plan("stokes_sl", trg[:, :0], src, plan.options)
    with pytest.raises(parki.ParkiValueError, match="made with none"):
        empty.check(dens)


def test_ranks_measure_as_one_does(rng):
    points, dens = rng.random((3, 50)), rng.random((3, 50))
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-4)
    plan = parki.distributed.Plan("stokes_sl", points, points, options)
    found, alone = (
        each.check(dens) for each in (plan, parki.Plan("stokes_sl", points, points, options))
    )
    assert found.error == pytest.approx(alone.error, rel=1e-6)
    assert found.flow == pytest.approx(alone.flow, rel=1e-12)
    assert (found.promise, found.reference) == (pytest.approx(alone.promise), alone.reference)
