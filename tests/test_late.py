"""Points and densities that are looked at while a device goes on; a host may take its place."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.recording import let_the_host_record

import parki
from parki.ewald.pipeline import arrival
from parki.ewald.pipeline.replay import Replay
from parki.runtime import get_execution_space
from parki.runtime.spaces import why_unavailable

BOX = np.array([1.0, 1.2, 0.9])
OPTIONS = parki.EwaldOptions(3, BOX, 1e-4)
N = 300
LATTICE = parki.lattice(1, 1.2, 0.9, 0.3, -0.2, 0.5)
TURN = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
TURN *= np.linalg.det(TURN)
TILTED = LATTICE @ TURN
LEANING = parki.lattice(1, 1.2, 0.9, 0.3)


@pytest.fixture(autouse=True, params=["host", pytest.param("Cuda", marks=pytest.mark.gpu)])
def xp(request, monkeypatch):
    """Return an array module, of a device or of a host that does as if it recorded."""
    if request.param == "Cuda":
        if reason := why_unavailable("Cuda"):
            pytest.skip(reason)
        return get_execution_space("Cuda").array_module
    let_the_host_record(monkeypatch)
    return np


def cloud(xp, seed, dtype="f8", n=N):
    """Return points in the box."""
    points = np.random.default_rng(seed).random((3, n)) * BOX[:, None]
    return xp.asarray(points.astype(dtype))


def following(xp, options=OPTIONS, dtype="f8", sizes=(N, N), more=None, **others):
    """Return a plan whose points follow each other, as its graph places them; and a density."""
    points = [cloud(xp, seed, dtype, n) for seed, n in enumerate(sizes)]
    dens = xp.asarray(np.random.default_rng(9).standard_normal((3, max(sizes))).astype(dtype))
    plan = parki.Plan("stokes_sl", points[0], points[0], options, **others)
    for k in range(6):
        plan.update_points(points[k % 2], points[k % 2], **(more or {}))
        plan(dens[:, : sizes[k % 2]])
    assert plan.pipeline.decision in ("keep", "record")
    return plan, dens


def error(plan, dens, points):
    """Return the error over the promise, against a plan of these points."""
    fresh = parki.Plan("stokes_sl", points, points, plan.options)
    return float(((plan(dens) - fresh(dens)) ** 2).sum(0).mean()) ** 0.5 / fresh.promise(dens)


@pytest.mark.parametrize(
    ("sizes", "periodicity", "box", "dtype", "precision"),
    [
        ((N, N), 0, BOX, "f8", "mixed"),
        ((N, N - 20), (False, True, True), BOX, "f4", "full"),
        ((N, N - 20), 2, LEANING, "f8", "mixed"),
        ((N, N), 3, TILTED, "f4", "full"),
        ((N, N - 20), 3, TILTED, "f8", "mixed"),
    ],
)
def test_points_follow(xp, sizes, periodicity, box, dtype, precision):
    """With as many points each time, and with others, for which there is slack."""
    options = parki.EwaldOptions(periodicity, box, 1e-3, precision=precision)
    plan, dens = following(xp, options, dtype, sizes)
    points = cloud(xp, 5, dtype)
    plan.update_points(points, points)
    moved = points.copy()
    points[:] = 0.5  # which the plan does not take
    assert error(plan, dens, moved) < 1
    fresh = parki.Plan("stokes_sl", moved, moved, options)
    np.testing.assert_array_equal(plan.points.extents, fresh.points.extents)
    assert plan.promise(dens) == pytest.approx(fresh.promise(dens))


@pytest.mark.parametrize(
    ("periodicity", "turn", "precision"),
    [(2, np.eye(3), "full"), (3, np.eye(3), "mixed"), (3, TURN, "full")],
)
def test_boxes_that_deform(xp, periodicity, turn, precision):
    """One graph places the points in every box; impossible points bring the old box back, too."""
    leans, tilts = (0.1, 0.0)[: 2 * (periodicity == 3)], np.linspace(-0.5, 0.5, 8)
    # A rotation rounds what does not change in this box, each time in another way.
    sheared = [parki.lattice(1, 1.25, 0.9, xy, *leans) @ turn for xy in tilts]
    options = parki.EwaldOptions(periodicity, sheared[0], 1e-4, precision=precision)
    plan, dens = following(xp, options, more={"box": sheared[1]})
    graph = plan.pipeline.graph
    for seed, box in enumerate(sheared):
        points = cloud(xp, 10 + seed)
        plan.update_points(points, points, box=box)
        assert error(plan, dens, points) < 1
    if xp is np:  # devices choose other parameters, which clouds of a few points may not suit
        assert plan.pipeline.graph is graph
    expected = plan(dens)
    size = float(abs(expected).max())
    near = {"rtol": 0, "atol": (1e-6 if precision == "mixed" else 1e-12) * size}
    several = plan(xp.stack([dens, 2 * dens]))
    xp.testing.assert_allclose(several[0], expected, **near)
    xp.testing.assert_allclose(several[1] / 2, expected, **near)
    bad = points.copy()
    bad[2, 7] = np.nan

    def sum_of_bad() -> None:  # refused by the first line or by the second one
        plan.update_points(bad, bad, box=sheared[2])
        plan(dens)

    with pytest.raises(parki.ParkiValueError, match="trg contains NaN"):
        sum_of_bad()
    np.testing.assert_array_equal(plan.box, sheared[-1])
    xp.testing.assert_allclose(plan(dens), expected, **near)
    plan.update_points(points, points)
    xp.testing.assert_allclose(plan(dens), expected, **near)
    if xp is np:  # devices choose other parameters, which clouds of a few points may not suit
        assert plan.pipeline.graph is graph


def test_sums_that_move_together(xp, monkeypatch):
    """One graph places them; where points are impossible, all have those before."""
    first, others = cloud(xp, 0), [cloud(xp, seed) for seed in (1, 2, 3)]
    dens, graphs, launch = cloud(xp, 9), [], Replay.__call__
    plan = parki.Plan("stokes_sl", first, first, OPTIONS)
    slope = plan.beside("stokes_sl", "grad_u")

    def counted(self, inputs, results):
        graphs.append(self)
        launch(self, inputs, results)

    monkeypatch.setattr(Replay, "__call__", counted)
    for points in (*others, *others):
        given = points.copy()
        plan.update_points(given, given)
        given[:] = 0.5  # which the plans do not take
        assert error(plan, dens, points) < 1
        fresh = parki.Plan("stokes_sl", points, points, OPTIONS, want="grad_u")
        apart = float(((slope(dens) - fresh(dens)) ** 2).sum((0, 1)).mean()) ** 0.5
        assert apart < fresh.promise(dens)
    graphs.clear()
    plan.update_points(points, points)
    assert len(graphs) == 1
    expected = plan(dens), slope(dens)
    bad = points.copy()
    bad[1, 3] = np.nan

    def sum_of_bad() -> None:
        plan.update_points(bad, bad)
        slope(dens)

    with pytest.raises(parki.ParkiValueError, match="trg contains NaN"):
        sum_of_bad()
    for each, before in zip((plan(dens), slope(dens)), expected, strict=True):
        xp.testing.assert_allclose(each, before, rtol=0, atol=1e-12 * float(abs(before).max()))
    fewer = points[:, 5:].copy()
    for _ in range(3):
        plan.update_points(fewer, fewer)
        assert error(plan, dens[:, 5:], fewer) < 1


@pytest.mark.parametrize(
    ("box", "value"),
    [(BOX, np.nan), (LEANING, np.inf), (BOX, -1.0), (LEANING, 3.0), (BOX, 1e300)],
)
def test_impossible_points(xp, box, value):
    """The next call says what is wrong; the plan has the points before, and goes on."""
    plan, dens = following(xp, parki.EwaldOptions(2, box, 1e-4))
    before, bad = cloud(xp, 5), cloud(xp, 6)
    plan.update_points(before, before)
    expected = plan(dens)
    bad[2, 7] = value
    for call in (plan, plan.promise):
        plan.update_points(bad, bad)
        with pytest.raises(parki.ParkiValueError, match=r"trg (contains|reaches)"):
            call(dens)
        xp.testing.assert_allclose(plan(dens), expected, rtol=1e-9, atol=1e-9)
    plan.update_points(bad, bad)
    with pytest.raises(parki.ParkiValueError, match=r"trg (contains|reaches)"):
        plan.update_points(before, before)
    plan.update_points(bad, bad)
    bad[2, 7] = 0.0
    with pytest.raises(parki.ParkiValueError, match="their arrays have changed"):
        plan(dens)


def test_impossible_densities(xp):
    plan, dens = following(xp)
    expected, bad = plan(dens), dens.copy()
    for value in (np.nan, -np.inf):
        bad[1, 3] = value
        with pytest.raises(parki.ParkiValueError, match=r"dens contains NaN .* \(1, 3\)"):
            plan(bad)
        xp.testing.assert_allclose(plan(dens), expected, rtol=1e-9, atol=1e-9)
    mixed, dens = following(xp, parki.EwaldOptions(3, BOX, 1e-4, precision="mixed"))
    for scale in (1e12, 1e-12):
        with pytest.raises(parki.ParkiValueError, match="dens has values of up to"):
            mixed(scale * dens)
    assert not mixed(0 * dens).any()
    dens[0, :100] = 1e-20  # some small ones are no reason
    mixed(dens)


def test_points_that_crowd_by_turns(xp, monkeypatch):
    """Parameters that were found to suit both are not looked at again, nor for points between."""
    plan, dens = following(xp)
    looked, look = [], arrival.pair_density
    monkeypatch.setattr(arrival, "pair_density", lambda *a, **k: looked.append(1) or look(*a, **k))
    for scale in (1, 0.87, 1, 0.93, 0.87, 1):
        points = scale * cloud(xp, 5)
        plan.update_points(points, points)
        plan(dens)
    assert plan.pipeline.decision == "keep" and sum(looked) <= 2
    assert error(plan, dens, points) < 1


def test_points_that_crowd(xp):
    """By the set-up of the points before they would miss the promise; so another one is chosen."""
    plan, dens = following(xp, parki.EwaldOptions(3, BOX, 1e-4))
    before, crowd = plan.setup, 0.1 * cloud(xp, 5)
    plan.update_points(crowd, crowd)
    first = plan(dens)
    near = {"rtol": 1e-9, "atol": 1e-9 * float(abs(first).max())}
    xp.testing.assert_allclose(plan(dens), first, **near)  # by the new set-up, both of them
    assert error(plan, dens, crowd) < 1
    assert plan.setup is not before
