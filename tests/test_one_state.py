"""What moves together has one state: neither an interrupt, a thread nor a copy divides it."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import parki
from parki import settings

BOX = {"periodicity": 3, "box": [1, 1, 1], "tolerance": 1e-4}
LAST, OTHERS = 45, 12  # lines at which an update is interrupted
HERE = str(Path(parki.__file__).parent)
CENTRES = np.array([[0.25, 0.7]] * 3)
TURNS = [
    np.array([[0.0, 0], [0, 0], [0, 0], [1, 1]]),
    np.array([[0.5, 0.1], [0.5, 0], [0.1, 0.7], [0.7, 0.7]]),
]


def surface():
    """Return two ellipsoids."""
    return parki.Surface.ellipsoids(CENTRES, [0.12, 0.1, 0.08], order=4)


def cloud(seed):
    """Return eight places that are apart."""
    grid = (np.mgrid[:2, :2, :2].reshape(3, -1) + 0.5) / 2
    return grid + 0.05 * np.random.default_rng(seed).random((3, 8))


FORCES = np.random.default_rng(9).standard_normal((3, 8))
PLACES = [cloud(0), cloud(1)]
LEANING = [parki.lattice(1, 1, 1, tilt) for tilt in (0.1, 0.3)]


def plan():
    """A plan of one sum."""
    made = parki.Plan("stokes_sl", PLACES[0], PLACES[0], **BOX | {"box": LEANING[0]})
    how = [{"box": box} for box in LEANING]
    return lambda n: made.update_points(PLACES[n], PLACES[n], **how[n]), lambda: made(FORCES)


def wall():
    """Three sums."""
    how = {"periodicity": 2, "box": [1, 1, 1.2], "wall": "no-slip", "tolerance": 1e-3}
    made = parki.Plan("stokes_sl", PLACES[0], PLACES[0], **how)
    return lambda n: made.update_points(PLACES[n], PLACES[n]), lambda: made(FORCES)


def spheres():
    """Plans of several motions."""
    made = parki.Spheres(PLACES[0], 0.1, **BOX)
    return made.update_points, lambda: np.stack(made.velocities(FORCES, FORCES)), PLACES


def rigid():
    """Spheres with pairs."""
    made = parki.RigidSpheres(PLACES[0], 0.2, accuracy=1e-3, **BOX)
    return made.update_points, lambda: made.velocities(FORCES), PLACES


def bodies():
    """Bodies, and their blobs."""
    shape = parki.BodyShape.rod(0.2, 0.03)
    made = parki.RigidBodies(shape, PLACES[0], accuracy=1e-4, **BOX)
    return made.update_positions, lambda: np.stack(made.velocities(FORCES)), PLACES


def layer():
    """A layer and its corrections."""
    made = parki.LayerPlan("stokes_dl", surface(), None, **BOX)
    return lambda n: made.update_positions(CENTRES, TURNS[n]), lambda: made(surface().normals + 1)


def equation():
    """Two layers of one surface."""
    made, forces = parki.RigidSurfaces(surface(), **BOX), np.arange(6.0).reshape(3, 2)
    return lambda n: made.update_positions(CENTRES, TURNS[n]), lambda: made.right_side(forces)


ROOMS = [plan, wall, spheres, rigid, bodies, layer, equation]


def made(room):
    """Return how to move a room to one of two places, and its results there."""
    move, result, *places = room()
    if places:
        return lambda n: move(places[0][n]), result
    return move, result


def interrupted(call, line):
    """Call, and raise an interrupt at a line of parki, counted from the first; return the count."""
    count = 0

    def local(frame, event, _):
        nonlocal count
        if event == "line":
            count += 1
            if count == line:
                raise KeyboardInterrupt
        return local

    before = sys.gettrace()
    sys.settrace(lambda frame, *_: local if frame.f_code.co_filename.startswith(HERE) else None)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("room", ROOMS)
def test_interrupts_leave_one_or_the_other(room):
    """Bit for bit, at any line of an update."""
    move, result = made(room)
    results = []
    for n in (1, 0, 1, 0):
        move(n)
        results.append(result())
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_array_equal(results[1], results[3])
    assert abs(results[0] - results[1]).max() > 1e-3 * abs(results[0]).max()
    lines = interrupted(lambda: move(1), -1)
    chosen = {*range(max(1, lines - LAST), lines + 1), *range(1, lines, max(1, lines // OTHERS))}
    for line in sorted(chosen):
        move(0)
        interrupted(lambda: move(1), line)
        assert not settings._once.within.locked(), line
        found = result()
        assert any(np.array_equal(found, each) for each in results[:2]), line


def test_threads_find_bodies_at_one_place():
    """A surface, both of its layers, and their corrections."""
    made, density = parki.RigidSurfaces(surface(), **BOX), surface().normals + 1
    forces, expected = np.arange(6.0).reshape(3, 2), []
    calls = [lambda: made(density), lambda: made.adjoint(density), lambda: made.right_side(forces)]
    for turn in TURNS:
        made.update_positions(CENTRES, turn)
        expected.append([call() for call in calls])
    wrong, done, before = [], threading.Event(), sys.getswitchinterval()

    def read():
        while not done.is_set():
            for k, call in enumerate(calls):
                found = call()
                wrong.append(min(abs(found - each[k]).max() for each in expected) > 1e-9)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for n in range(10):
            made.update_positions(CENTRES, TURNS[n % 2])
    finally:
        done.set()
        sys.setswitchinterval(before)
        for thread in threads:
            thread.join()
    assert wrong and not any(wrong)


def test_several_sets_are_of_bodies_at_one_place(monkeypatch):
    """Another thread that moves them waits until all sets are solved."""
    shape = parki.BodyShape.rod(0.2, 0.03)
    made = parki.RigidBodies(shape, PLACES[0], accuracy=1e-4, **BOX)
    solve, threads = made.solve, []

    def moving(*given):
        found = solve(*given)
        threads.append(threading.Thread(target=made.update_positions, args=(PLACES[1],)))
        threads[-1].start()
        threads[-1].join(0.2)
        return found

    monkeypatch.setattr(made, "solve", moving)
    moves, _ = made.velocities(np.stack([FORCES] * 2))
    for thread in threads:
        thread.join()
    np.testing.assert_allclose(moves[0], moves[1], rtol=0, atol=1e-6 * abs(moves).max())


@pytest.mark.parametrize("attempt", [pickle.dumps, copy.copy, copy.deepcopy])
def test_layers_and_equations_are_neither_pickled_nor_copied(attempt):
    """Copies would share the sum that moves."""
    for made in (
        parki.LayerPlan("stokes_sl", surface(), None, **BOX),
        parki.RigidSurfaces(surface(), **BOX),
    ):
        with pytest.raises(parki.ParkiTypeError, match=r"cannot be pickled or copied: .* surface"):
            attempt(made)


def test_warnings_that_are_errors_refuse_each_time():
    """And leave the bodies where they were."""
    places = np.array([[0.2, 0.7], [0.5, 0.5], [0.5, 0.5]])
    close = np.array([[0.3, 0.51], [0.5, 0.5], [0.5, 0.5]])
    balls = parki.Surface.spheres(places, 0.1, order=4)
    made = parki.LayerPlan("stokes_sl", balls, None, **BOX)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(parki.ParkiWarning, match="node distances apart"):
                made.update_positions(close)
    np.testing.assert_array_equal(made.surface.centres, places)
