"""What a device records of solves of rigid spheres and bodies, and how often it is waited for."""

from collections import Counter

import numpy as np
import pytest
from helpers.five_spheres import CUBE, POINTS, RADII, SHEAR, off, vectors
from helpers.mixed_bodies import FORCES, PLACES, SPINS, TORQUES, VELOCITIES, bodies
from helpers.recording import let_the_host_record

import parki
from parki.dynamics import pair_matrix
from parki.dynamics.pair_matrix import FEWEST
from parki.ewald.far import slit
from parki.ewald.far.faxen import FaxenCorrections
from parki.ewald.pipeline.replay import Replay
from parki.ewald.pipeline.steps import RecordedSteps
from parki.ewald.task import Task
from parki.runtime import Kernel, get_execution_space
from parki.runtime.spaces import why_unavailable


@pytest.fixture(scope="module")
def cubic():
    return parki.RigidSpheres(POINTS, RADII, tolerance=1e-6, accuracy=1e-6, **CUBE)


@pytest.fixture
def counts(monkeypatch):
    """What is launched outside of what the host has recorded, as a device does, and waits."""
    let_the_host_record(monkeypatch)
    inside, counts = [False], Counter[str]()

    def counted(name, original):
        def call(*given, **named):
            counts[name] += not inside[0]
            return original(*given, **named)

        return call

    def launched(replay, inputs, results, original=Replay.__call__):
        counts["graphs"] += not inside[0]
        before, inside[0] = inside[0], True
        original(replay, inputs, results)
        inside[0] = before

    monkeypatch.setattr(Replay, "__call__", launched)
    monkeypatch.setattr(Kernel, "__call__", counted("kernels", Kernel.__call__))
    monkeypatch.setattr(RecordedSteps, "read", counted("reads", RecordedSteps.read))
    return counts


def test_steps_of_solves_are_recorded(monkeypatch, counts):
    """A device launches a graph for the start, each step and the end, and is waited for once each.

    The host records here: whatever is launched outside of what it has recorded is counted.
    """
    rigid = parki.RigidSpheres(POINTS, RADII, tolerance=1e-6, accuracy=1e-6, **CUBE)
    forces = vectors(1)
    exact, *_ = [rigid.solve(forces, gradient=SHEAR) for _ in range(3)]
    counts.clear()
    found = rigid.solve(forces, gradient=SHEAR)
    assert found.products == exact.products > 4
    assert (found.velocities == exact.velocities).all()
    assert counts["reads"] == found.products
    assert counts["graphs"] == found.products + 1
    assert counts["kernels"] <= 4  # of pairs in the flow
    # Spheres that move keep the graphs, in which other pairs take the place of those before.
    graphs = []
    for k in range(6):
        rigid.update_points(POINTS + 1e-3 * vectors(k))
        moved = rigid.solve(forces)
        graphs.append(rigid._mobility.steps._graphs)
    assert rigid._mobility.first.pipeline.decision == "keep"
    assert graphs[-1] is graphs[-2]
    monkeypatch.undo()
    fresh = parki.RigidSpheres(rigid.points, RADII, tolerance=1e-6, accuracy=1e-6, **CUBE)
    assert off(moved.velocities, fresh.solve(forces).velocities) < 1e-5


def moved_by(found):
    return found if isinstance(found, tuple) else (found.velocities, found.turns)


@pytest.mark.parametrize("periodicity", [3, "wall"])
def test_steps_of_bodies_are_recorded(monkeypatch, counts, periodicity):
    """Products near a wall have a graph of their own, between two others."""
    of, slip = bodies(periodicity), 0.1 * vectors(2, 31)
    calls = {
        "forces": lambda of, size: of.solve(size * FORCES, size * TORQUES),
        "slip": lambda of, size: of.solve(FORCES, slip=size * slip),
        "start": lambda of, size: of.solve(size * FORCES, start=of.solve(FORCES)),
        "resist": lambda of, size: of.forces(size * VELOCITIES, SPINS),
    }
    for step in range(6):
        of.move(1e-3 * vectors(step, 4), 1e-2 * vectors(step, 4))
        found = {name: call(of, 1e9**step) for name, call in calls.items()}
    steps = of._mobility.steps
    assert steps.recorded
    assert all(term.sum.pipeline.decision == "keep" for term in of._mobility.first.terms)
    counts.clear()
    again = of.solve(1e40 * FORCES, 1e40 * TORQUES)
    assert counts["reads"] == again.products > 4
    steps_of = 2 * again.products + 1 if periodicity == "wall" else again.products
    assert counts["graphs"] == steps_of + 1
    assert counts["kernels"] <= 1
    monkeypatch.undo()
    fresh = bodies(periodicity, turns=of.quaternions, positions=of.positions)
    for name, call in calls.items():
        expected = call(fresh, 1e9**5)
        pairs = zip(moved_by(found[name]), moved_by(expected), strict=True)
        assert max(off(one, other) for one, other in pairs) < 1e-5


@pytest.mark.parametrize("torques", [None, np.ones((3, 5))])
@pytest.mark.parametrize("where", [{"periodicity": 0}, {"periodicity": 2, "wall": "no-slip"}])
def test_noise_of_spheres_is_recorded(monkeypatch, counts, where, torques):
    """Where far and near field have no noises of their own: as it is without graphs."""
    spheres = parki.Spheres(POINTS, RADII / 2, box=[1, 1, 1], tolerance=1e-6, **where)
    for step in range(7):
        spheres.update_points(POINTS + 1e-4 * vectors(step))
        counts.clear()
        found = spheres.displacements(1.0, 0.1, step % 3, torques=torques)
    assert spheres._mobility._lanczos.recorded
    assert counts["graphs"] >= spheres._mobility._noise_products > 1
    monkeypatch.undo()
    fresh = parki.Spheres(spheres.points, RADII / 2, box=[1, 1, 1], tolerance=1e-6, **where)
    expected = fresh.displacements(1.0, 0.1, step % 3, torques=torques)
    assert off(np.array(found), np.array(expected)) < 1e-4


def test_points_are_placed_without_uploads(monkeypatch):
    """A device could not record them: spheres were placed launch by launch at each update."""
    plan = parki.RigidSpheres(POINTS, RADII, tolerance=1e-6, **CUBE)._mobility.first
    alike = parki.RigidSpheres(POINTS, 0.1, tolerance=1e-6, **CUBE)._mobility.first
    monkeypatch.setattr(Task, "xp", None)
    for each in (plan, alike):
        radii, box = each.terms[0].sum.radii, each.setup.solver_box
        factors = FaxenCorrections.of(each.task, box, radii).faxen_factors[1]
        assert factors.shape[0] == 12


@pytest.fixture
def waits(monkeypatch):
    """CuPy, and how often the host waits for an array."""
    if reason := why_unavailable("Cuda"):
        pytest.skip(reason)
    cupy, counts = get_execution_space("Cuda").array_module, Counter[str]()

    def get(array, *given, original=cupy.ndarray.get, **named):
        counts["get"] += 1
        return original(array, *given, **named)

    monkeypatch.setattr(cupy.ndarray, "get", get)
    return cupy, counts


@pytest.mark.gpu
@pytest.mark.parametrize("options", [CUBE, {"periodicity": 2, "box": [1, 1, 1]}])
def test_a_device_solves_as_the_host_and_is_seldom_waited_for(waits, options):
    cupy, counts = waits
    how = {"tolerance": 1e-6, "accuracy": 1e-6, **options}
    exact, rigid = (
        parki.RigidSpheres(each, RADII, **how) for each in (POINTS, cupy.asarray(POINTS))
    )
    forces = cupy.asarray(vectors(1))
    for k in range(6):
        moved = POINTS + 1e-3 * vectors(k)
        exact.update_points(moved)
        rigid.update_points(cupy.asarray(moved))
        for _ in range(2):
            found = rigid.solve(forces)
        expected = exact.solve(vectors(1))
        assert abs(found.products - expected.products) <= 1
        assert off(cupy.asnumpy(found.velocities), expected.velocities) < 1e-5
        assert off(cupy.asnumpy(found.stresslets), expected.stresslets) < 1e-5
    assert rigid._mobility.steps.recorded
    assert rigid._mobility.first.pipeline.decision == "keep"
    counts.clear()
    rigid.solve(forces)
    assert counts["get"] <= 2  # of the check of the forces


@pytest.mark.gpu
@pytest.mark.parametrize("periodicity", [3, "wall"])
def test_a_device_solves_bodies_as_the_host_and_is_seldom_waited_for(waits, periodicity):
    cupy, counts = waits
    exact, of = bodies(periodicity), bodies(periodicity, positions=cupy.asarray(PLACES))
    forces, slip = cupy.asarray(FORCES), 0.1 * vectors(2, exact.blobs.shape[1])
    for k in range(6):
        step = 1e-3 * vectors(k, 4), 1e-2 * vectors(k, 4)
        exact.move(*step)
        of.move(*map(cupy.asarray, step))
        for how in ({}, {"slip": slip}, {"gradient": SHEAR * (periodicity == 3)}):
            expected = exact.solve(FORCES, **how)
            given = {name: cupy.asarray(each) for name, each in how.items()}
            found = of.solve(forces, **given)
            pairs = zip(moved_by(found), moved_by(expected), strict=True)
            assert max(off(cupy.asnumpy(one), other) for one, other in pairs) < 1e-5
        again = of.solve(forces, start=found)
        assert off(cupy.asnumpy(again.velocities), exact.solve(FORCES).velocities) < 1e-5
        pulled = of.forces(cupy.asarray(VELOCITIES), cupy.asarray(SPINS))
        pairs = zip(pulled, exact.forces(VELOCITIES, SPINS), strict=True)
        assert max(off(cupy.asnumpy(one), other) for one, other in pairs) < 1e-5
    assert of._mobility.steps.recorded
    assert all(term.sum.pipeline.decision == "keep" for term in of._mobility.first.terms)
    counts.clear()
    of.solve(forces)
    assert counts["get"] <= 2


def between_two_walls():
    """Return a plan of double layers between two walls, with their normals."""
    how = {"periodicity": 2, "box": [1, 1.2, 0.8], "wall": ("no-slip", "no-slip")}
    points = np.random.default_rng(7).random((3, 20)) * [[1], [1.2], [0.8]]
    norms = vectors(2, 20)
    return parki.Plan("stokes_dl", points, points, norms, tolerance=1e-6, **how), norms


@pytest.mark.parametrize("walls", [1, 2])
def test_a_graph_near_walls_takes_the_arrays_of_present_points(monkeypatch, walls):
    """Each update copies all arrays, radii and normals, too; a device uses the memory of others."""
    let_the_host_record(monkeypatch)
    monkeypatch.setattr(slit, "FEW", 0)
    plan, norms = between_two_walls() if walls == 2 else (bodies("wall")._mobility.first, None)
    points, forces = plan._placement.cloud.src.copy(), vectors(1, plan.n_sources)
    usual, *_ = [plan(forces) for _ in range(6)]
    graphs = []
    for _ in range(6):
        before = plan._placement.cloud.arrays.values()
        moved = points.copy()
        plan.place(moved, moved, None if norms is None else norms.copy(), plan.attached, None)
        for array in before:
            array.fill(np.nan)
        assert max(abs(plan(forces) - usual).max() for _ in range(4)) < 1e-12 * abs(usual).max()
        graphs += [graph for _, graph in plan._combination._graphs.values()]
    assert graphs[-1] is graphs[-2]  # which serves other points, too


def test_a_callback_may_solve(cubic):
    inner = []
    exact, other = cubic.solve(vectors(1)), cubic.solve(vectors(2))
    found = cubic.solve(vectors(1), callback=lambda _: inner.append(cubic.solve(vectors(2))))
    assert (found.velocities == exact.velocities).all()
    assert len(inner) == exact.products
    assert all((each.velocities == other.velocities).all() for each in inner)


def test_steps_with_pairs_are_as_many_as_they_need(monkeypatch):
    """A device makes as many each time, and more where these were not enough."""
    let_the_host_record(monkeypatch)
    gap, cells = 1e-4, np.mgrid[:2, :2, :2].reshape(3, 1, -1)
    corners = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]).T / 2
    points = 0.2 + (corners[:, :, None] + cells).reshape(3, -1) * (2 + gap) * np.sqrt(2) * 0.05
    rigid, forces = parki.RigidSpheres(points, 0.05, **CUBE), vectors(3, 32)
    found = [rigid.velocities(forces) for _ in range(3)]
    assert rigid._mobility.inner > FEWEST
    monkeypatch.undo()
    exact = parki.RigidSpheres(points, 0.05, **CUBE, accuracy=1e-5).velocities(forces)
    assert max(off(each, exact) for each in found) < 3e-3
    monkeypatch.setattr(pair_matrix, "MOST_STEPS", 2)
    with pytest.raises(parki.ParkiError, match="lubrication of pairs still has an error of"):
        parki.RigidSpheres(points, 0.05, **CUBE).velocities(forces)
