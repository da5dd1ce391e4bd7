"""`Plan.update_points`: a plan given other points is the plan that is made of them."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace
from weakref import ref

import numpy as np
import pytest
from clouds import BOXES, cloud

import parki
from parki.ewald.choice.problem import FAR, NEAR
from parki.ewald.choice.reuse import GROWTH, lasting, suit
from parki.ewald.pipeline import setup as setups
from parki.reference import direct_sum

BOX = BOXES["brick"]
N, TOLERANCE = 300, 1e-5


def options_of(periodicity=3, box=BOX, tolerance=TOLERANCE, **more):
    return parki.EwaldOptions(periodicity=periodicity, box=box, tolerance=tolerance, **more)


def plan_of(kernel, c, options, **more):
    return parki.Plan(kernel, c.trg, c.src, c.arguments(kernel)[1], options, **more)


def move(plan, kernel, c):
    plan.update_points(c.trg, c.src, c.arguments(kernel)[1])


def moved(c, far=1e-2, seed=3):
    """Return a cloud whose points have walked; one array where it was one."""
    rng = np.random.default_rng(seed)

    def walk(points):
        points = points + far * rng.standard_normal(points.shape).astype(points.dtype)
        return np.clip(points, 0, np.array(BOX)[:, None] * (1 - 1e-6)).astype(points.dtype)

    src = walk(c.src)
    norms = rng.standard_normal(c.norms.shape).astype(c.norms.dtype)
    return c._replace(src=src, trg=src if c.trg is c.src else walk(c.trg), norms=norms)


def fewer(c, n):
    src = np.ascontiguousarray(c.src[:, :n])
    trg = src if c.trg is c.src else np.ascontiguousarray(c.trg[:, : n - 20])
    return c._replace(src=src, trg=trg, dens=c.dens[:, :n], norms=c.norms[:, :n])


@pytest.fixture
def same_parameters(monkeypatch):
    """Return what makes a fresh plan with the parameters of another."""

    def make(plan, kernel, c, **more):
        with monkeypatch.context() as patch:
            patch.setattr(setups, "select", lambda *_: plan.parameters)
            return plan_of(kernel, c, plan.options, **more)

    return make


@pytest.mark.parametrize(
    ("kernel", "periodicity", "shape", "dtype", "want"),
    [("stokes_comb", 3, "same", "f8", ("u", "grad_u")), ("laplace", 1, "partly", "f4", ("u",))],
)
def test_equals_a_new_plan(kernel, periodicity, shape, dtype, want, same_parameters):
    """Bit for bit, with the parameters kept; more points, and fewer: the laws have promises."""
    c = cloud(shape, N, BOX, dtype)
    more = {"dl_mean": "flux"} if periodicity == 3 else {}
    plan = plan_of(kernel, c, options_of(periodicity, tolerance=1e-4, **more), want=want)
    mesh = plan.setup.mesh
    plan(c.arguments(kernel)[0])  # leaves nothing behind
    for now in (moved(c), fewer(moved(c), 280), moved(c)):
        move(plan, kernel, now)
        dens = now.arguments(kernel)[0]
        assert plan.setup.mesh is mesh
        expected = same_parameters(plan, kernel, now, want=want)(dens)
        for a, b in zip(plan(dens), expected, strict=True):
            np.testing.assert_array_equal(a, b)
    assert plan.seconds["update"] > 0


def test_modes_of_planes_move(same_parameters):
    """Those that 2-periodic double layers of single precision take from the points."""
    box = (0.1, 0.1, 1.0)
    c = cloud("same", N, box, "f4")
    plan = plan_of("stokes_dl", c, options_of(2, box, 1e-4))
    src = (0.9 * c.src[::1, ::-1]).astype("f4")
    now = c._replace(src=src, trg=src)
    move(plan, "stokes_dl", now)
    dens = c.arguments("stokes_dl")[0]
    np.testing.assert_array_equal(plan(dens), same_parameters(plan, "stokes_dl", now)(dens))


def test_other_variants(same_parameters):
    expert = parki.Expert(p2p_method="gm1d", p2g_method="hybrid", g2p_method="base")
    c = cloud("same", N, BOX)
    plan = plan_of("stokes_comb", c, options_of(expert=expert))
    now = moved(c)
    move(plan, "stokes_comb", now)
    expected = same_parameters(plan, "stokes_comb", now)(c.dens)
    np.testing.assert_allclose(plan(c.dens), expected, rtol=1e-10, atol=1e-10)


def test_targets_that_are_sources_are_sorted_once():
    c = cloud("same", N, BOX)
    plan = plan_of("stokes_sl", c, options_of())
    move(plan, "stokes_sl", moved(c))
    assert plan.pipeline.stages.p2p.arguments["trg"] is plan.pipeline.stages.p2p.arguments["src"]
    apart = moved(c)._replace(trg=moved(c).src.copy())
    move(plan, "stokes_sl", apart)
    arguments = plan.pipeline.stages.p2p.arguments
    assert arguments["trg"] is not arguments["src"]


def test_points_that_crowd_choose_anew():
    """Within the promise, where the first parameters were for points far apart."""
    c = cloud("same", 2000, BOX)
    plan = plan_of("stokes_sl", c, options_of())
    first, cutoff = plan.setup.mesh, plan.parameters.cutoff
    crowd = 0.1 * c.src
    dens = c.arguments("stokes_sl")[0]
    plan.update_points(crowd, crowd)
    assert plan.setup.mesh is not first
    exact = direct_sum("stokes_sl", crowd[:, :50], crowd, dens, box=BOX, periodicity=3)
    error = (plan(dens)[:, :50] - exact) ** 2
    assert np.sqrt(error.sum(axis=0).mean()) <= plan.promise(dens)
    plan.update_points(c.src, c.src)
    assert plan.parameters.cutoff == pytest.approx(cutoff)
    np.testing.assert_array_equal(plan(dens), plan_of("stokes_sl", c, plan.options)(dens))


def test_walks_choose_once():
    """Uniform points stay uniform: what a sample of them scatters is no reason."""
    c = cloud("same", 3000, BOX)
    plan = plan_of("stokes_sl", c, options_of())
    meshes = {id(plan.setup.mesh): plan.setup.mesh}
    for step in range(40):
        c = moved(c, 0.02, step)
        move(plan, "stokes_sl", c)
        meshes[id(plan.setup.mesh)] = plan.setup.mesh
    assert len(meshes) <= 2


def test_when_parameters_suit():
    """Not where the near field's work changes by more than 1.5, nor where errors outgrow shares."""
    c = cloud("same", 3000, BOX)
    plan = plan_of("stokes_sl", c, options_of())
    chosen = plan.parameters
    problem = chosen.problem
    old = problem.density

    def suits(n=3000, self_pairs=old.self_pairs, clustered=1.0, tolerance=problem.tolerance):
        density = replace(old, self_pairs=self_pairs, enhancement=clustered * old.enhancement)
        return suit(quick if clustered > 1 else chosen, density, tolerance, n, n)

    quick = replace(chosen, seconds=dict.fromkeys(chosen.seconds, 1e-5))  # whatever its pairs
    assert suits() and suits(n=3500) and suits(n=2600) and suits(self_pairs=0.0)
    assert not suits(n=3800) and not suits(n=2400)
    far = chosen.errors["truncation"] ** 2 + chosen.errors["window"] ** 2
    most = GROWTH * min(NEAR / chosen.errors["near"] ** 2, FAR / far)
    assert 1.3 < most < 2
    assert suits(clustered=0.97 * most) and not suits(clustered=1.03 * most)
    assert suits(tolerance=0.9 * problem.tolerance) and not suits(
        tolerance=0.88 * problem.tolerance
    )
    assert suits(self_pairs=0.97 * most * old.self_pairs)
    assert not suits(self_pairs=1.03 * most * old.self_pairs)


def test_what_is_chosen_by_lasts():
    """Sums that take no time are chosen for again for accuracy alone, and for all clouds before."""
    c = cloud("same", 3000, BOX)
    chosen = plan_of("stokes_sl", c, options_of()).parameters
    old, tolerance = chosen.problem.density, chosen.problem.tolerance
    quick = replace(chosen, seconds=dict.fromkeys(chosen.seconds, 1e-5))
    assert suit(quick, old, tolerance, 2000, 2000) and suit(quick, old, tolerance, 3800, 3800)
    crowd = replace(old, enhancement=2 * old.enhancement)
    far_more = replace(old, enhancement=3 * old.enhancement)
    assert not suit(quick, crowd, tolerance, 3000, 3000)
    fewer = replace(old, enhancement=0.9 * old.enhancement, self_pairs=2 * old.self_pairs)
    both = lasting(chosen, fewer)
    np.testing.assert_array_equal(both.enhancement, old.enhancement)
    assert both.self_pairs == fewer.self_pairs
    crowded = replace(chosen, problem=replace(chosen.problem, density=far_more))
    assert lasting(crowded, old) is old  # as it would cost time
    np.testing.assert_array_equal(
        lasting(replace(quick, problem=crowded.problem), old).enhancement, far_more.enhancement
    )


@pytest.mark.parametrize("box", [BOX, (BOX[0], None, None)])
def test_sources_may_vanish_and_come_back(box):
    """Also where the box is the extent of the points: none is left of them, or targets alone."""
    c = cloud("partly", N, BOX)
    dens, nobody = c.arguments("stokes_sl")[0], np.empty((3, 0))
    options = parki.EwaldOptions(1, box, 1e-4)
    plan = parki.Plan("stokes_sl", c.trg, c.src, options)
    expected = plan(dens)
    for trg in (c.trg, nobody, np.add(c.trg, [[0], [5], [0]]) if box[1] is None else c.trg):
        plan.update_points(trg, nobody)
        np.testing.assert_array_equal(plan(nobody), np.zeros(trg.shape))
    plan.update_points(c.trg, c.src)
    np.testing.assert_array_equal(plan(dens), expected)
    fresh = parki.Plan("stokes_sl", nobody, nobody, options)
    assert fresh(nobody).shape == (3, 0)
    fresh.update_points(c.trg, c.src)
    np.testing.assert_array_equal(fresh(dens), expected)


@pytest.mark.parametrize("box", [(None, None, None), (1.0, None, None)])
def test_edges_that_are_an_extent_follow_the_points(box, rng):
    """They grow by a quarter at least, and stay while they hold the points; the promise is kept."""
    periodicity = 3 - box.count(None)
    points, dens = rng.random((3, 40)), rng.standard_normal((3, 40))
    dens -= dens.mean(axis=1, keepdims=True)
    plan = parki.Plan("stokes_sl", points, points, periodicity=periodicity, box=box, tolerance=1e-4)
    boxes = [plan.box]
    for factor in (1.01, 1.01, 3.0):
        points[periodicity:] = (points[periodicity:] - 0.5) * factor + 0.5
        plan.update_points(points, points)
        boxes.append(plan.box)
        exact = direct_sum("stokes_sl", points, points, dens, box=plan.box, periodicity=periodicity)
        found = plan(dens) - exact
        assert np.sqrt(((found - found.mean(axis=1, keepdims=True)) ** 2).sum(axis=0).mean()) < (
            plan.promise(dens)
        )
    free = slice(periodicity, None)
    assert (boxes[1][free] > 1.2 * boxes[0][free]).all()
    np.testing.assert_array_equal(boxes[2], boxes[1])
    assert (boxes[3][free] > 1.5 * boxes[1][free]).all()
    for _ in range(4):  # of points that drift it does not grow
        points[2] += boxes[3][2]
        plan.update_points(points, points)
    assert plan.box[2] < 1.1 * boxes[3][2]


def test_the_extent_of_the_first_points_is_kept(same_parameters):
    c = cloud("outside", N, BOX)
    plan = plan_of("stokes_sl", c, options_of(1, (BOX[0], None, None)))
    dens, box = c.arguments("stokes_sl")[0], plan.box
    middle = c.trg[1:].mean(axis=1, keepdims=True)

    def scaled(part):
        trg, src = c.trg.copy(), c.src.copy()
        for points in (trg, src):
            points[1:] = middle + part * (points[1:] - middle)
        return trg, src

    trg, src = scaled(0.99)
    plan.update_points(trg, src)
    np.testing.assert_array_equal(plan.box, box)
    exact = direct_sum("stokes_sl", trg[:, :50], src, dens, box=plan.box, periodicity=1)
    found = plan(dens)[:, :50]
    gauge = (found - exact).mean(axis=1, keepdims=True)  # the box of the reference is another
    assert np.abs(found - exact - gauge).max() < 10 * plan.promise(dens)


def test_pipelines_are_freed_at_once():
    """Without the garbage collector, which does not know how much memory of a device they hold."""
    c = cloud("same", N, BOX)
    plan = plan_of("stokes_sl", c, options_of())
    gc.disable()
    try:
        before = ref(plan.pipeline), ref(plan.pipeline.stages)
        plan(c.arguments("stokes_sl")[0])
        move(plan, "stokes_sl", moved(c))
        assert [each() for each in before] == [None, None]
    finally:
        gc.enable()


def test_memory_stays():
    c = cloud("same", 500, BOX)
    plan = plan_of("stokes_comb", c, options_of())
    steps = [moved(c, seed=seed) for seed in range(2)]

    def walk(count):
        for step in range(count):
            move(plan, "stokes_comb", steps[step % 2])
        gc.collect()

    tracemalloc.start()
    try:
        walk(6)
        before = tracemalloc.get_traced_memory()[0]
        walk(14)
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert after - before < 100_000  # an array of points for each would be 168 kB
