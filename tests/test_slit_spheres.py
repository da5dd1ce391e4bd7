"""Spheres between two walls, against closed forms, flows of points, and dense mobilities."""

from __future__ import annotations

import numpy as np
import pytest
from contract import matrix_of, rms
from scipy.linalg import sqrtm

import parki
from parki.suspensions import wall

WALLS = ("no-slip", "no-slip")
BOX = (1.0, 1.2, 0.8)
RNG = np.random.default_rng(3)
FORCES, VALUES, MOVES = RNG.standard_normal((3, 3, 12))
RADII = np.where(np.arange(12) % 3, 0.1, 0.16)


def options(box=BOX, tolerance=1e-7, **more):
    return parki.EwaldOptions(2, box, tolerance, **{"wall": WALLS, **more})


def inside(radii, box=BOX, seed=0):
    """Return centres between the walls, which spheres of these radii may touch."""
    points = np.random.default_rng(seed).random((3, len(radii))) * np.array(box)[:, None]
    points[2] = radii + points[2] / box[2] * (box[2] - 2 * radii)
    return points


def crowd():
    """Return spheres of two radii: one touches each wall, and two overlap."""
    points = inside(RADII)
    points[2, :2] = RADII[0], BOX[2] - RADII[1]
    points[:, 4] = points[:, 5] + [0.03, -0.02, 0.05]
    points[2, 4] = np.clip(points[2, 4], 0.1, 0.7)
    return points


def dense(spheres):
    """Return the mobility of forces and torques, of all units at once."""
    size = 2 * spheres.points.size
    forces, torques = np.eye(size).reshape(size, 2, 3, -1).swapaxes(0, 1)
    motions = spheres.velocities(forces.copy(), torques.copy())
    return np.stack(motions, axis=1).reshape(size, size).T


def of_pairs(mobility, moving, acting):
    """Return what one of two spheres has of the other's forces and torques, (6, 6)."""
    return mobility.reshape(2, 3, 2, 2, 3, 2)[:, :, moving, :, :, acting].reshape(6, 6)


def surface(count=12):
    """Return points and weights of means over a sphere of the radius 1."""
    heights, weights = np.polynomial.legendre.leggauss(count)
    turns = np.pi * np.arange(2 * count) / count
    across = np.sqrt(1 - heights**2)
    rows = [np.outer(across, turn) for turn in (np.cos(turns), np.sin(turns))]
    points = np.stack([*rows, heights[:, None] + 0 * turns])
    return points.reshape(3, -1), np.repeat(weights, 2 * count) / (4 * count)


# --- mobilities -----------------------------------------------------------------------------------
ALONE = {
    "no-gradient": (0.87166648, 0.83808436, 0.60819426, 0.98769420, 0.98764625, 0.99342253),
    "no-flux": (0.67368070, 0.64009858, 0.60819426, 0.98646702, 0.98641907, 0.99342253),
}


@pytest.mark.parametrize("mean_flow", ALONE)
def test_one_sphere(mean_flow):
    """Velocities and turns over those without walls; a tracer beside it changes nothing."""
    point, radius = np.array([[0.1], [0.2], [0.3]]), 0.1
    given = options(tolerance=1e-8, mean_flow=mean_flow)
    of_force, of_torque = 6 * np.pi * radius, 8 * np.pi * radius**3
    units = np.repeat([of_force, of_torque], 3)
    found = dense(parki.Spheres(point, radius, given))
    assert np.diag(found) * units == pytest.approx(ALONE[mean_flow], abs=1e-8)
    pair = np.concatenate([point, [[0.6], [0.8], [0.5]]], axis=1)
    both = of_pairs(dense(parki.Spheres(pair, [radius, 0], given)), 0, 0)
    assert np.diag(both) * units == pytest.approx(ALONE[mean_flow], abs=1e-8)


def test_a_pair():
    """Different radii, against means over surfaces of the flow of forces on surfaces."""
    points, (a, b) = np.array([[0.2, 0.6], [0.3, 0.5], [0.3, 0.6]]), (0.16, 0.1)
    given, (places, weights) = options(tolerance=1e-9), surface()
    found = dense(parki.Spheres(points, [a, b], given, viscosity=1 / (8 * np.pi)))
    found = of_pairs(found, 0, 1)
    force, torque = FORCES[:, 0], FORCES[:, 1]
    acting = force[:, None] + 3 / (2 * b) * np.cross(torque, places.T).T
    flow = parki.stokes_sl(
        points[:, :1] + a * places, points[:, 1:] + b * places, acting * weights, given
    )
    turn = 3 / (2 * a) * np.cross(places.T, flow.T).T @ weights
    exact = np.concatenate([flow @ weights, turn])
    assert found @ np.concatenate([force, torque]) == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("mean_flow", ALONE)
def test_a_crowd(mean_flow):
    """It has a symmetric mobility, which is positive where spheres overlap and touch walls."""
    mobility = dense(parki.Spheres(crowd(), RADII, options(mean_flow=mean_flow)))
    assert abs(mobility - mobility.T).max() <= 1e-7 * abs(mobility).max()
    scales = np.repeat([RADII**0.5, RADII**1.5], 3, axis=0).ravel()
    scaled = scales[:, None] * mobility * scales
    assert np.linalg.eigvalsh(scaled + scaled.T)[0] > 1e-3 * abs(scaled).max()


def test_one_wall_as_the_other_moves_away():
    """What the upper wall holds is all that is left, -8 pi / (A H) z sum h f."""
    points, scale = inside(RADII), 1 / (8 * np.pi)
    one = parki.Spheres(points, RADII, options(wall="no-slip"), viscosity=scale)
    two = parki.Spheres(points, RADII, options((1, 1.2, 3.0)), viscosity=scale)
    found = two.velocities(FORCES)
    found[:2] += 8 * np.pi / (1.2 * 3) * points[2] * (FORCES[:2] @ points[2])[:, None]
    assert rms(found - one.velocities(FORCES)) <= 1e-6


def test_spheres_that_touch_both_walls():
    points = inside(np.full(3, 0.4))
    mobility = dense(parki.Spheres(points, 0.4, options()))
    assert np.linalg.eigvalsh(mobility + mobility.T)[0] > 0


# --- flows ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("radii", [0.1, RADII], ids=["alike", "two"])
def test_no_slip(radii):
    spheres = parki.Spheres(crowd(), RADII if np.ndim(radii) else radii, options())
    at = inside(np.zeros(30), seed=1)
    inner = [rms(spheres.flow(acts, at, turns)) for acts, turns in ((FORCES, None), (None, FORCES))]
    at[2, ::2], at[2, 1::2] = 0, BOX[2]
    for size, acts in zip(inner, ((FORCES, None), (None, FORCES)), strict=True):
        assert rms(spheres.flow(acts[0], at, acts[1])) <= 1e-7 * size


def test_flow():
    """Outside of spheres it is the flow of forces on their surfaces, with all other results."""
    points, radii, at = crowd()[:, :3], RADII[:3], inside(np.zeros(60), seed=1)
    apart = at[:, :, None] - points[:, None]
    edges = np.array(BOX)[:2, None, None]
    apart[:2] -= edges * np.round(apart[:2] / edges)
    at = at[:, np.linalg.norm(apart, axis=0).min(axis=1) > 0.3]
    names, given, acts = ("u", "p", "grad_u", "stress"), options(tolerance=1e-9), FORCES[:, :3]
    spheres = parki.Spheres(points, radii, given, viscosity=0.5)
    places, weights = surface()
    shells = points[:, :, None] + radii[:, None] * places[:, None]
    torques = 3 / (2 * radii)[:, None] * np.cross(acts.T[:, None], places.T).transpose(2, 0, 1)
    for both, acting in (((acts, None), acts[:, :, None] + 0 * shells), ((None, acts), torques)):
        dens = (acting * weights).reshape(3, -1)
        exact = parki.stokes_sl(at, shells.reshape(3, -1), dens, given, want=names)
        found = spheres.flow(both[0], at, both[1], want=names)
        for name, one, other in zip(names, found, exact, strict=True):
            other = other / (4 * np.pi if name in ("u", "grad_u") else 8 * np.pi)
            assert rms(one - other) <= 1e-6 * rms(other), name


# --- derivatives, noise, drift --------------------------------------------------------------------
def test_derivatives_with_torques():
    """By differences of sums of a finer tolerance."""
    points, acts = crowd(), (FORCES, 0.1 * VALUES)
    points[2] = np.clip(points[2], RADII + 1e-3, BOX[2] - RADII - 1e-3)

    def moved(step):
        spheres = parki.Spheres(points + step * MOVES, RADII, options(tolerance=1e-10))
        return np.array(spheres.velocities(*acts))

    once, twice = (moved(step) - moved(-step) for step in (1e-4, 2e-4))
    exact = (8 * once - twice) / (12 * 1e-4)
    spheres = parki.Spheres(points, RADII, options())
    change = spheres.jvp(*acts, tangents={"points": MOVES})
    for found, own in zip(change, exact, strict=True):
        assert 0 < abs(found - own).max() <= 1e-6 * abs(own).max()
    slope = spheres.vjp(*acts, values=VALUES, turns=0.1 * FORCES, wrt=("points",))["points"]
    total = (change[0] * VALUES).sum() + (change[1] * 0.1 * FORCES).sum()
    assert (slope * MOVES).sum() == pytest.approx(total, rel=1e-5)


def test_noise():
    """Its covariance is the mobility: normal numbers are multiplied by the root of it."""
    points, drawn = crowd()[:, :6], np.random.default_rng(5).standard_normal(36)
    spheres = parki.Spheres(points, RADII[:6], options())
    mobility = dense(spheres)
    scales = np.repeat([(3 * RADII[:6] / 4) ** 0.5, RADII[:6] ** 1.5], 3, axis=0).ravel()
    root = sqrtm(scales[:, None] * mobility * scales).real
    noise = np.stack(spheres.noise(np.random.default_rng(5), torques=True, accuracy=1e-7))
    assert rms(noise.reshape(1, -1) - root @ drawn / scales) <= 1e-5 * rms(noise.reshape(1, -1))
    alone = spheres.noise(np.random.default_rng(5), accuracy=1e-7)
    exact = (sqrtm(mobility[:18, :18]).real @ drawn[:18]).reshape(3, 6)
    assert rms(alone - exact) <= 1e-5 * rms(exact)


def test_drift():
    """It is the divergence of the mobility, by differences of the dense one."""
    points, radii = np.array([[0.2, 0.5], [0.3, 0.5], [0.13, 0.65]]), np.array([0.1, 0.12])
    spheres, size, step = parki.Spheres(points, radii, options()), 6, 1e-4
    units = np.sqrt(size) * np.eye(size).reshape(size, 3, 2)  # whose mean square is 1
    drawn = [
        wall.divergence(spheres._mobility, lambda _, w=w: w, factor=spheres.factor)[0]
        for w in units
    ]

    def moved(unit, sign):
        other = parki.Spheres(points + sign * step * unit, radii, options(tolerance=1e-9))
        return other.velocities(unit)

    exact = sum(
        (moved(unit, 1) - moved(unit, -1)) / (2 * step) for unit in np.eye(size).reshape(size, 3, 2)
    )
    assert np.mean(drawn, axis=0) == pytest.approx(exact, abs=1e-3 * abs(exact).max())
    assert exact[2, 0] > 0 > exact[2, 1]  # away from the nearer wall


def test_a_step():
    """It moves by forces, noise and drift, with spheres at both walls."""
    spheres = parki.Spheres(crowd(), RADII, options())
    step = spheres.displacements(0.5, 0.1, np.random.default_rng(5), FORCES, accuracy=1e-6)
    rng = np.random.default_rng(5)
    moved = 0.1 * spheres.velocities(FORCES) + np.sqrt(0.1) * spheres.noise(rng, accuracy=1e-6)
    drift = wall.divergence(spheres._mobility, rng.standard_normal, factor=spheres.factor)[0]
    assert rms(step - moved - 0.05 * drift) <= 1e-6 * rms(step)
    assert rms(drift) > 0
    assert spheres._mobility._shifted.options.gap == BOX[2]


# --- bodies ---------------------------------------------------------------------------------------
def test_bodies():
    """Bodies of three blobs, against the dense mobility of the blobs."""
    shape = parki.BodyShape(0.12 * np.array([[1, -0.5, -0.5], [0, 0.8, -0.8], [0, 0, 0]]), 0.05)
    places, given = np.array([[0.3, 0.7], [0.3, 0.8], [0.25, 0.6]]), options()
    bodies = parki.RigidBodies(shape, places, given, accuracy=1e-8)
    found = np.stack(bodies.velocities(FORCES[:, :2], 0.1 * VALUES[:, :2]))
    blobs = places[:, :, None] + shape.blobs[:, None]
    mobility = matrix_of(parki.Spheres(blobs.reshape(3, 6), 0.05, given).as_linear_operator())
    carried = np.zeros((3, 2, 3, 2, 3, 2))
    for body in range(2):
        for axis in range(3):
            carried[axis, body, :, 0, axis, body] = 1
            unit = np.eye(3)[axis]
            carried[:, body, :, 1, axis, body] = np.cross(unit, shape.blobs.T).T
    matrix = carried.reshape(18, 12)
    resistance = matrix.T @ np.linalg.solve(mobility, matrix)
    loads = np.stack([FORCES[:, :2], 0.1 * VALUES[:, :2]]).ravel()
    assert found.ravel() == pytest.approx(np.linalg.solve(resistance, loads), rel=1e-5)
    step = bodies.displacements(0.5, 1e-4, 7)
    assert all(np.isfinite(each).all() for each in step)


# --- refusals -------------------------------------------------------------------------------------
REFUSED = {
    "sphere 0 of radius 0.1 is 0.05 over the wall, which cuts it": (0.1, 0.05),
    "sphere 0 of radius 0.1 is 0.05 below the upper wall, which cuts it": (0.1, 0.75),
    "sphere 0 of radius 0.5 is wider than the gap of 0.8 between the walls": (0.5, 0.4),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refused(words):
    radius, height = REFUSED[words]
    middle, where = (np.array([[0.5], [0.5], [z]]) for z in (0.4, height))
    with pytest.raises(parki.ParkiValueError, match=words):
        parki.Spheres(where, radius, options())
    if height != 0.4:
        spheres = parki.Spheres(middle, radius, options())
        with pytest.raises(parki.ParkiValueError, match=words):
            spheres.update_points(where)


def test_what_is_told():
    spheres = parki.Spheres(crowd(), RADII, options(mean_flow="no-flux"))
    text = spheres.describe()
    assert "between the walls: no lubrication" in text and "no flux along axis 1" in text
    assert spheres.check(FORCES).error <= spheres.promise(FORCES)
    how = {"box": (5, 5, 1), "periodicity": 2, "machine": "avx512", "radii": 0.05}
    slit, walled = (parki.estimate("spheres", 1e5, wall=each, **how) for each in (WALLS, "no-slip"))
    assert 1.3 * walled.total < slit.total < 3 * walled.total
    turning = parki.estimate("spheres", 1e5, wall=WALLS, torques=True, **how)
    assert turning.memory.parts["correction"] > 3 * slit.memory.parts["correction"]
