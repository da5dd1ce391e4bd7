"""Plans of layers: moves, refusals, transposes, estimates of errors, and devices."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
from green import (
    AXES,
    BOX,
    CENTRES,
    FAR,
    FREE,
    ORIGIN,
    ellipsoid,
    green,
    in_the_long_run,
    surface_points,
)
from scipy.spatial.transform import Rotation
from started import NO_GPU

import parki
from parki import memory
from parki.interchange import to_host
from parki.surfaces import corrections
from parki.surfaces.kernels import LAYERS


def test_bodies_turn_and_move():
    first, second = (Rotation.random(2, random_state=seed) for seed in (1, 2))
    centres, axes = CENTRES, np.array([[0.27, 0.2], [0.2, 0.2], [0.2, 0.15]])
    surface = parki.Surface.ellipsoids(centres, axes, first, order=5, finer=3)
    density = np.random.default_rng(0).normal(size=surface.nodes.shape)
    plan = parki.LayerPlan("stokes_sl", surface, **BOX)
    moved = centres + 0.02
    plan.update_positions(moved, second.as_quat().T)
    anew = parki.Surface.ellipsoids(moved, axes, second, order=5, finer=3)
    assert np.allclose(plan(density), parki.LayerPlan("stokes_sl", anew, **BOX)(density))
    # All turned together is the same flow, turned.
    free = parki.LayerPlan("stokes_sl", surface, **FREE)
    turn = Rotation.random(random_state=5)
    value = free(density)
    free.update_positions(turn.apply(centres.T).T, turn * first)
    assert np.abs(turn.apply(value.T).T - free(turn.apply(density.T).T)).max() < 1e-6


def test_more_pairs_than_memory_holds(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda space: 1e6)
    ball = parki.Surface.spheres(np.zeros((3, 1)), 1.0, order=8)
    targets = np.random.default_rng(0).normal(size=(3, 20000))
    targets /= np.linalg.norm(targets, axis=0)
    with pytest.raises(parki.ParkiMemoryError, match="fewer targets at a time"):
        ball.single_layer(np.ones_like(ball.nodes), 1.01 * targets, **FREE)


def test_a_refused_move_leaves_all_as_it_was(monkeypatch):
    """Also where it fails late; and arrays that the caller changes are nobody else's."""
    centres = CENTRES
    surface = parki.Surface.spheres(centres, [0.25, 0.2], order=5, finer=3)
    targets = np.random.default_rng(1).random((3, 20))
    plan = parki.LayerPlan("stokes_sl", surface, targets, **BOX)
    density = np.random.default_rng(0).normal(size=surface.nodes.shape)
    before = plan(density)
    targets[:] = np.nan
    with pytest.raises(parki.ParkiValueError, match="NaN"):
        plan.update_positions(centres * np.nan)
    assert np.array_equal(plan(density), before)

    def fails(*_, **__):
        raise MemoryError("late")

    with monkeypatch.context() as patch:
        patch.setattr(corrections, "near_matrices", fails)
        with pytest.raises(MemoryError):
            plan.update_positions(centres + 0.02)
        with pytest.raises(MemoryError):
            plan.check(density)
    assert np.array_equal(plan(density), before)
    plan.update_positions(centres + 0.02)
    assert np.isfinite(plan(density)).all() and not np.allclose(plan(density), before)


@pytest.mark.parametrize(
    ("kernel", "want"),
    [
        *(("stokes_comb", "u"), ("stokes_sl", "p"), ("laplace_dipole", "u")),
        *in_the_long_run(("stokes_sl", "u"), ("stokes_dl", "u"), ("stokes_dl", "p")),
    ],
)
def test_transpose_and_operator(kernel, want):
    surface = parki.Surface.spheres(CENTRES, [0.25, 0.2], order=5, finer=3)
    plan = parki.LayerPlan(kernel, surface, want=want, **BOX)
    operator = plan.as_linear_operator()
    rng = np.random.default_rng(0)
    q, v = (rng.normal(size=operator.shape[axis]) for axis in (1, 0))
    forward, back = v @ (operator @ q), q @ (operator.rmatvec(v))
    assert abs(forward - back) < 1e-9 * np.linalg.norm(v) * np.linalg.norm(operator @ q)
    two = operator.matmat(np.stack([q, (2 + 1j) * q], axis=1))
    assert np.allclose(two[:, 1], (2 + 1j) * (operator @ q))


def test_estimate():
    """It is an upper one, and not far away, also where nodes alone are few for the curvature."""
    surface = ellipsoid(12, 1)
    with pytest.warns(parki.ParkiWarning, match="the surface turns by"):
        plan = parki.LayerPlan("stokes_dl", surface, **FREE)
    error = green(surface, FAR, "u", inside=0.5)
    assert error > 1e-2 and error / 3 < plan.check(FAR.u(surface.nodes)) < 40 * error


@pytest.mark.parametrize("height", [0.3, 0.2, 0.1, 0.03])
def test_flat_surfaces_are_warned_of(height):
    """Those flatter than 0.2 had errors of 5 % and more, and no word."""
    flat = parki.Surface.ellipsoids(np.zeros((3, 1)), (1, 1, height), order=8)
    with pytest.warns(parki.ParkiWarning, match="the surface turns by"):
        parki.LayerPlan("stokes_sl", flat, **FREE)


def test_layers_follow_bodies_that_spread():
    """Without a box; the sum over nodes stays the one that was placed first."""
    surface = parki.Surface.spheres(np.array([[0.0, 1.0]] * 3), 0.2, order=5, finer=3)
    plan, density = parki.LayerPlan("stokes_dl", surface, **FREE), surface.normals + 1
    first = plan._plan
    for shift in (1.5, 4.0):
        there = surface.moved(surface.centres + shift * np.array([[0, 0], [0, 0], [0, 1]]))
        plan.update(there)
        new = parki.LayerPlan("stokes_dl", there, **FREE)
        np.testing.assert_allclose(plan(density), new(density), atol=1e-5 * abs(density).max())
    assert plan._plan is first


def test_no_densities():
    surface = parki.Surface.spheres(CENTRES, [0.25, 0.2], order=5, finer=3)
    count = surface.areas.size
    plan = parki.LayerPlan("stokes_sl", surface, **BOX)
    assert plan(np.zeros((0, 3, count))).shape == plan.adjoint(np.zeros((0, 3, count))).shape
    assert plan(np.zeros((0, 3, count))).shape == (0, 3, count)


def test_surfaces_without_bodies_and_without_extent_are_refused():
    with pytest.raises(parki.ParkiValueError, match="centres has no column; a surface has a body"):
        parki.Surface.spheres(np.zeros((3, 0)), 1.0)
    with pytest.raises(parki.ParkiValueError, match="points of body 0 are all at one place"):
        parki.Surface.harmonics(0 * parki.Surface.directions(5))


@pytest.mark.parametrize(("finer", "degrees"), [(1, (6, 9)), (3, (4, 6))])
@pytest.mark.parametrize("accuracy", [*in_the_long_run(1e-2), 1e-4])
def test_estimate_of_single_layers(finer, degrees, accuracy):
    """It is an upper one on few nodes, too, where they do not resolve the density."""
    exact = ellipsoid(14, 3)
    x, n = surface_points(exact, 0.0)

    def density(y):
        return np.stack([np.sin(1.5 * y[1] + 0.3), np.cos(1.65 * y[0]), 1.5 * y[2] * y[1]])

    for place in (0.0, 0.3):
        y = x + place * exact.spacing.max() * n
        more = {"side": "outside", **FREE} if place == 0 else FREE
        expected = exact.single_layer(density(exact.nodes), y, **more)
        for degree in degrees:
            surface = ellipsoid(degree, finer)
            plan = parki.LayerPlan("stokes_sl", surface, y, accuracy=accuracy, **more)
            found = plan(density(surface.nodes))
            error = np.abs(found - expected).max() / np.abs(expected).max()
            assert 0.8 * error < plan.check(density(surface.nodes)) < 80 * error


def test_a_warning_of_bodies_that_overlap():
    """Once, and not of bodies that are close, or one inside of the other."""
    for apart, radii, told in ((0.9, 0.5, True), (1.4, 0.5, False), (0.0, [0.5, 0.9], False)):
        surface = parki.Surface.spheres(np.array([[0, apart], [0, 0], [0, 0]]), radii, order=4)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            plan = parki.LayerPlan("stokes_sl", surface, **FREE)
            plan.update_positions(surface.centres + 0.1)
        overlaps = [each for each in found if "bodies 0 and 1 overlap" in str(each.message)]
        assert len(overlaps) == told


# ---------------------------------------------------------------- refusals
Y, LOST = parki.Surface.directions(6), np.full((3, 1), np.nan)
UNIT, BALL = (parki.Surface.spheres(ORIGIN, 1.0, order=n, finer=3) for n in (6, 4))
NODES, NORMALS, AREAS = BALL.nodes, BALL.normals, BALL.areas
WALL = {"periodicity": 2, "box": [9, 9, None], "wall": "no-slip", "tolerance": 1e-4}
REFUSED = {
    "normals point inwards": lambda: parki.Surface(NODES, -NORMALS, AREAS),
    "no closed surface": lambda: parki.Surface(NODES[:, :30], NORMALS[:, :30], AREAS[:30]),
    "areas has shape": lambda: parki.Surface(NODES, NORMALS, AREAS[:-1]),
    "systems is": lambda: parki.Surface(NODES, NORMALS, AREAS, systems=[0, 30]),
    "join": lambda: parki.Surface(NODES, NORMALS, AREAS, systems=[0, 25, 50], project=lambda x: x),
    "quaternion": lambda: parki.Surface.ellipsoids(ORIGIN, AXES, np.eye(3)),
    "less than ring": lambda: parki.Surface.tori(ORIGIN, 0.5, 1.0),
    "at least the diameter": lambda: parki.Surface.rods(ORIGIN, 1.0, 0.6),
    "density has shape": lambda: BALL.single_layer(np.ones((3, 3)), **FREE),
    "expected one of outside": lambda: BALL.single_layer(NODES, side="above", **FREE),
    "directions is missing": lambda: BALL.single_layer(NODES, NODES + 1, want="traction", **FREE),
    "images in a wall": lambda: BALL.single_layer(NODES, **WALL),
    "centres contains NaN": lambda: parki.Surface.spheres(LOST, 1.0),
    "points contains NaN": lambda: parki.Surface.harmonics(Y + LOST),
    "inside out; mirror": lambda: parki.Surface.harmonics(-Y),
    r"expected \(3, n\)": lambda: parki.Surface.harmonics(Y[:, :-1]),
    "right unit": lambda: parki.Surface(Y, Y, 0.1 * UNIT.areas),
    "the right unit": lambda: parki.Surface(Y, Y, 5.0 * UNIT.areas),
    "expected a parki.Surface": lambda: parki.LayerPlan("stokes_sl", Y, **FREE),
    r"reshape\(3, -1\)": lambda: BALL.single_layer(NODES.ravel(), **FREE),
    "accuracy is": lambda: parki.LayerPlan("stokes_dl", BALL, accuracy=0.5, **FREE),
}


@pytest.mark.parametrize("width", [5e-324, 0.01])
def test_widths_without_nodes_are_refused(width):
    """They gave NumPy's warnings."""
    ball = parki.Surface.spheres(ORIGIN, 1.0, order=4)
    with pytest.raises(parki.ParkiValueError, match=r"expected at least 0\.1 node distances"):
        parki.LayerPlan("stokes_sl", ball, None, width=width, **FREE)


@pytest.mark.parametrize("accuracy", [Fraction(1, 3), np.array(1 / 3)])
def test_numbers_of_any_type_are_told_apart(accuracy):
    """Python below 3.12 writes no fraction by a format, and arrays have no hash."""
    ball = parki.Surface.spheres(ORIGIN, 1.0, order=4)
    words = r"accuracy is 0\.333333; expected 1e-9 to 1e-2"
    with pytest.raises(parki.ParkiValueError, match=words):
        parki.LayerPlan("stokes_sl", ball, None, accuracy=accuracy, **FREE)


def test_refusals():
    for words, call in REFUSED.items():
        error = parki.ParkiTypeError if "a parki.Surface" in words else parki.ParkiValueError
        with pytest.raises(error, match=words):
            call()
    sphere, nowhere = parki.Surface.spheres(ORIGIN, 1.0, order=4), np.full((3, 2), np.nan)
    for words, given in (
        ("^targets contains NaN", (sphere.nodes, nowhere)),
        ("^density contains NaN", (np.nan * sphere.nodes, np.full((3, 2), 10.0))),
    ):
        with pytest.raises(parki.ParkiValueError, match=words):
            sphere.single_layer(*given, **FREE)
    with pytest.warns(parki.ParkiWarning, match=r"directions\(4\), in this order"):
        parki.Surface.harmonics(Y[:, :50])


def test_no_targets_and_far_targets():
    sphere = parki.Surface.spheres(ORIGIN, 1.0, order=4)
    assert sphere.double_layer(sphere.nodes, np.empty((3, 0)), **FREE).shape == (3, 0)
    nowhere = parki.LayerPlan("stokes_dl", sphere, np.empty((3, 0)), **FREE)
    assert not nowhere.adjoint(np.empty((3, 0))).any()
    assert nowhere.adjoint(np.empty((2, 3, 0))).shape == (2, *sphere.nodes.shape)
    far = np.full((3, 2), 10.0)
    plain = parki.stokes_sl(far, sphere.nodes, sphere.nodes * sphere.areas, **FREE)
    assert np.allclose(sphere.single_layer(sphere.nodes, far, **FREE), plain)


@pytest.mark.gpu
@pytest.mark.skipif(bool(NO_GPU), reason=NO_GPU)
@pytest.mark.parametrize("accuracy", [1e-2, 1e-6])
@pytest.mark.parametrize("finer", [1, 3])
def test_no_pairs_on_a_gpu(finer, accuracy):
    """CuPy's reductions and counts refuse arrays without elements."""
    import cupy

    sphere = parki.Surface.spheres(cupy.zeros((3, 1)), 1.0, order=4, finer=finer)
    for place, count in ((1.0, 0), (10.0, 2), (0.99, 1)):
        x = cupy.full((3, count), place)
        plan = parki.LayerPlan("stokes_dl", sphere, x, accuracy=accuracy, **FREE)
        assert plan(sphere.nodes).shape == (3, count)
        assert plan.adjoint(x).shape == sphere.nodes.shape


@pytest.mark.gpu
@pytest.mark.skipif(bool(NO_GPU), reason=NO_GPU)
@pytest.mark.parametrize("finer", [1, 3])
@pytest.mark.parametrize("key", LAYERS)
def test_gpu(key, finer):
    """The same values and transposes as on the CPU, at the nodes, near them and after a move."""
    import cupy

    for host, device in zip(
        of_two_bodies(key, finer, np), of_two_bodies(key, finer, cupy), strict=True
    ):
        assert np.abs(host - to_host(device)).max() < 1e-6 * np.abs(host).max()


def of_two_bodies(key, finer, xp):
    """Return layers of two bodies, by arrays of ``xp``."""
    axes = np.array([[0.27, 0.2], [0.2, 0.2], [0.22, 0.18]])
    kernel, want = key
    x = xp.asarray(np.random.default_rng(1).random((3, 40)))
    density = np.random.default_rng(0).normal(size=(LAYERS[key].columns, 2 * 2 * 9**2))
    q = xp.asarray(density if len(density) > 1 else density[0])
    surface = parki.Surface.ellipsoids(xp.asarray(CENTRES), axes, order=8, finer=finer)
    nodes = parki.LayerPlan(kernel, surface, want=want, **BOX)
    e = {"directions": x} if want == "traction" else {}
    values = [nodes(q), parki.LayerPlan(kernel, surface, x, want=want, **e, **BOX)(q)]
    if want == "u":
        values.append(nodes.adjoint(values[0]))
    nodes.update_positions(xp.asarray(CENTRES + 0.03))
    return [*values, nodes(q)]
