"""Rigid bodies of blobs, against dense solutions with the blobs' mobility, and known drags."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from contract import matrix_of, rms
from dense_bodies import dense, flat
from helpers.mixed_bodies import (
    BALL,
    BOX,
    FORCES,
    MIXED,
    PLACES,
    ROD,
    SPINS,
    TORQUES,
    TURNS,
    VELOCITIES,
    bodies,
)
from scipy.spatial.transform import Rotation

import parki
from parki.dynamics import shapes
from parki.reference.rigid_spheres import two_spheres

ALONE = {"periodicity": 0, "tolerance": 1e-3}


# ---------------------------------------------------------------------- shapes
@pytest.mark.parametrize("blobs", [12, 42, 162])
def test_sphere_alone(blobs):
    """Force and torque meet its radius; strain nearly does."""
    ball = parki.BodyShape.sphere(2.0, blobs)
    drag = np.repeat([6 * np.pi * 2.0, 8 * np.pi * 2.0**3], 3)
    assert np.allclose(ball.mobility(3.0) * 3.0 * drag, np.eye(6), atol=1e-6)
    assert ball.extent < 1.25 * 2.0
    strain = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]]) / 2
    forces = ball.own.held @ -(strain @ ball.blobs).ravel()
    stresslet = forces.reshape(3, -1) @ ball.blobs.T / (-20 / 3 * np.pi * 2.0**3)
    assert np.allclose(stresslet, strain, atol=0.5 * {12: 0.08, 42: 0.012, 162: 0.0005}[blobs])


def test_blobs_of_any_radii_in_free_space():
    """Apart, overlapping and nested."""
    points = np.array([[0, 0.3, 0.5, 0.52, 1.4], [0, 0.1, 0, 0.02, 0], [0, 0, 0.2, 0.2, 0]])
    radii = np.array([0.1, 0.15, 0.3, 0.1, 0.2])
    spheres = parki.Spheres(points, radii, periodicity=0, tolerance=1e-10)
    exact = matrix_of(spheres.as_linear_operator())
    assert np.allclose(shapes.free_space(points, radii), exact, rtol=0, atol=1e-8)


@pytest.mark.parametrize("slenderness", [5, 10, 20])
def test_rod_alone(slenderness):
    """Tirado, Martinez and Garcia de la Torre (1984), of cylinders that are 2 long."""
    p, length = slenderness, 2.0
    found = parki.BodyShape.rod(length, length / (2 * p)).mobility()
    log = np.log(p)
    along = (log - 0.207 + 0.980 / p - 0.133 / p**2) / (2 * np.pi * length)
    across = (log + 0.839 + 0.185 / p + 0.233 / p**2) / (4 * np.pi * length)
    turn = 3 * (log - 0.662 + 0.917 / p - 0.05 / p**2) / (np.pi * length**3)
    assert np.allclose(np.diag(found)[:5], [across, across, along, turn, turn], rtol=0.035)
    assert np.allclose(found, np.diag(np.diag(found)), atol=1e-12)


def test_other_shapes():
    """A ring, a plate and a boomerang have the symmetries of their mobility."""
    ring = parki.BodyShape.ring(1.0, 0.1)
    assert 6 < 2 * np.pi / np.linalg.norm(ring.blobs[:, 1] - ring.blobs[:, 0]) * ring.radii[0] < 7
    plate, bent = parki.BodyShape.plate(2.0, 1.0, 50), parki.BodyShape.boomerang(1.0, 0.1, 1.0)
    assert plate.n == 50 and np.allclose(abs(plate.blobs[0]).max() + plate.radii[0], 1)
    for shape in (ring, plate, bent):
        found = shape.mobility()
        assert np.allclose(found, found.T, atol=1e-12) and np.linalg.eigvalsh(found)[0] > 0
    assert np.allclose(ring.mobility()[0, 0], ring.mobility()[1, 1])
    assert np.allclose(plate.mobility(), np.diag(np.diag(plate.mobility())), atol=1e-12)
    # A mirror in its plane, and one that changes its arms, leave few entries.
    kept = np.argwhere(abs(np.triu(bent.mobility(), 1)) > 1e-12)
    assert kept.tolist() == [[1, 5], [2, 4]]


# ---------------------------------------------------------------------- against dense solutions
@pytest.mark.parametrize("periodicity", [0, 1, 3, "wall"])
def test_dense_solution(periodicity):
    """Velocities, slip, resistance: bodies of three shapes, one of which turns freely."""
    of = bodies(periodicity, viscosity=2.0)
    mobility, carried, resisted = dense(of)
    exact = np.linalg.inv(carried.T @ np.linalg.solve(mobility, carried) + resisted)
    found = flat(*of.velocities(FORCES, TORQUES))
    expected = exact @ flat(FORCES, TORQUES)
    assert rms(found - expected) <= 2e-6 * rms(expected)
    slip = np.random.default_rng(1).standard_normal(of.blobs.shape)
    motion = of.solve(FORCES, slip=slip)
    pulled = flat(FORCES, 0 * FORCES) - carried.T @ np.linalg.solve(mobility, slip.ravel())
    expected = exact @ pulled
    assert rms(flat(motion.velocities, motion.turns) - expected) <= 2e-6 * rms(expected)
    held = np.linalg.solve(mobility, carried @ expected + slip.ravel())
    assert rms(motion.blob_forces.ravel() - held) <= 1e-5 * rms(held)
    loads = flat(*of.forces(VELOCITIES, SPINS))
    expected = np.linalg.solve(exact, flat(VELOCITIES, SPINS))
    assert rms(loads - expected) <= 2e-6 * rms(expected)


def test_flow_of_strain_and_vorticity():
    """Relative to the flow, a sphere rests, with its stresslet; a rod turns as Jeffery says."""
    gradient = np.zeros((3, 3))
    gradient[0, 2] = 1.0
    ball = parki.BodyShape.sphere(1.0, 42)
    one = parki.RigidBodies(ball, np.zeros((3, 1)), periodicity=0, tolerance=1e-7, viscosity=2.0)
    motion = one.solve(gradient=gradient)
    assert rms(motion.velocities) < 1e-9 and rms(motion.turns) < 1e-9
    strain = (gradient + gradient.T) / 2
    exact = -20 / 3 * np.pi * 2.0 * strain
    assert rms(motion.stresslets[:, :, 0] - exact) < 0.012 * rms(exact)
    # A long rod along the flow hardly turns: relative to half the vorticity, it turns back.
    rod = parki.BodyShape.rod(4.0, 0.1)
    alone = parki.RigidBodies(
        rod, np.zeros((3, 1)), Rotation.from_rotvec([[0, np.pi / 2, 0]]), periodicity=0
    )
    assert alone.solve(gradient=gradient).turns[1, 0] == pytest.approx(-0.5, abs=0.01)


@pytest.mark.parametrize(("blobs", "stirred"), [(12, 0.04), (42, 0.08), (162, 0.08)])
def test_squirmer(blobs, stirred):
    """It swims at two thirds of its first mode, along its axis, and its second mode stirs only."""
    ball, turn = parki.BodyShape.sphere(0.5, blobs), Rotation.from_rotvec([[0.4, 1.0, -0.3]])
    up = ball.blobs / np.linalg.norm(ball.blobs, axis=0)
    around = (up * up[2] - np.array([[0.0], [0.0], [1.0]])) / ball.slip  # sin(theta) e_theta
    one = parki.RigidBodies(ball, np.zeros((3, 1)), turn, periodicity=0, tolerance=1e-8)
    motion = one.solve(slip=one.in_lab(3.0 * around + 2.0 * around * up[2]))
    assert np.allclose(motion.velocities[:, 0], turn.apply([0, 0, 2.0]), atol=1e-6)
    assert np.allclose(motion.turns, 0, atol=1e-7)
    # A stresslet of -4 pi mu a^2 B2 on the fluid, B2 = 2 (Ishikawa, Simmonds and Pedley, 2006).
    axis = turn.apply([[0, 0, 1]])[0]
    exact = -4 * np.pi * 0.5**2 * 2.0 * (np.outer(axis, axis) - np.eye(3) / 3)
    assert rms(motion.stresslets[:, :, 0] - exact) < stirred * rms(exact)


def test_flow():
    """At its own blobs, which average it, it is nearly what they move with; it has the pressure."""
    of = bodies(viscosity=2.0)
    motion, points = of.solve(FORCES, TORQUES), np.random.default_rng(2).random((3, 20))
    radii = np.concatenate([of.shapes[k].radii for k in of.which])
    spheres = parki.Spheres(of.blobs, radii, of.options, viscosity=2.0)
    exact = spheres.flow(motion.blob_forces, points, want=("u", "p", "stress"))
    for found, expected in zip(
        of.flow(motion, points, want=("u", "p", "stress")), exact, strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    # For one result alone the sum may choose other parameters: both keep the promise.
    apart = of.flow(motion, points) - exact[0]
    assert rms(apart) < 2 * spheres.promise(motion.blob_forces)
    of.move(0 * FORCES)
    with pytest.raises(
        parki.ParkiValueError, match="motion is of other bodies, or of these before"
    ):
        of.flow(motion, points)


@pytest.mark.parametrize("kind", ["spheres", "rigid spheres", "bodies"])
def test_clouds_that_spread(kind):
    """Without a box, what spreads moves as new spheres and bodies at the same places do."""
    make = {
        "spheres": lambda x: parki.Spheres(x, 0.05, **ALONE),
        "rigid spheres": lambda x: parki.RigidSpheres(x, 0.05, lubrication=False, **ALONE),
        "bodies": lambda x: parki.RigidBodies(BALL, x, **ALONE),
    }[kind]
    rng = np.random.default_rng(5)
    points, forces = rng.random((3, 6)) * [[3], [2], [2]], rng.standard_normal((3, 6))
    moving = make(points)
    for _ in range(3):
        points = 1.6 * points + 0.1
        if kind == "bodies":
            moving.update_positions(points)
        else:
            moving.update_points(points)
        new = make(points)
        found, expected = moving.velocities(forces), new.velocities(forces)
        if kind == "bodies":
            found, expected = found[0], expected[0]
        np.testing.assert_allclose(found, expected, atol=1e-3 * abs(expected).max())
    if kind == "rigid spheres":
        assert moving.advance(1e-4, 1e-3, 0) == 0
    elif kind == "bodies":
        moving.move(*moving.displacements(1e-4, 1e-3, 0, torques=0 * forces))
    else:
        moving.update_points(moving.points + moving.displacements(1e-4, 1e-3, 0))


def test_gaps_in_the_manual():
    """Blobs that approach each other's body feel as much too small a force as the page says."""
    page = (Path(__file__).parents[1] / "docs" / "bodies.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([0-9.]+) \| ([0-9.]+) % \| [0-9.]+ % \|$", page, re.MULTILINE))
    assert len(rows) == 5
    ball = parki.BodyShape.sphere(1.0, 42)
    for over in ("1", "4"):
        apart = 2 + float(over) * ball.radii[0]
        own, other = two_spheres(1.0, 1.0, apart)["XA"]
        places, moves = np.zeros((3, 2)), np.zeros((3, 2))
        places[2], moves[2] = [0.0, apart], [1.0, -1.0]
        turned = Rotation.random(2, random_state=0)
        of = parki.RigidBodies(ball, places, turned, periodicity=0, tolerance=1e-4)
        force = of.forces(moves, 0 * moves)[0][2, 0] / (6 * np.pi)
        assert 100 * force / (own - other) == pytest.approx(float(rows[over]), abs=2.0)


# ---------------------------------------------------------------------- places
def test_moves_are_exact():
    """A turn of any angle, about any axis, whatever the step."""
    of = bodies(0, box=[9, 9, 9])
    turn = Rotation.from_rotvec([[0, 0, np.pi], [3.0, 0, 0], [0, 0, 0], [0.1, -4.0, 2.0]])
    moves = PLACES + 1.0
    of.move(moves, turn.as_rotvec().T * 1.0)
    quaternions = (turn * TURNS).as_quat().T
    signs = np.sign((quaternions * of.quaternions).sum(axis=0))
    assert np.allclose(signs * of.quaternions, quaternions, atol=1e-14)
    assert np.allclose(of.positions, PLACES + moves)
    again = parki.RigidBodies(
        **MIXED, positions=PLACES + moves, quaternions=quaternions, periodicity=0
    )
    assert np.allclose(of.blobs, again.blobs, atol=1e-14)
    before = of.blobs
    of.update_positions(PLACES + moves)
    assert np.allclose(of.blobs, before, rtol=0, atol=1e-14)
    of.move(0 * FORCES)
    assert np.allclose(of.blobs, before)


def test_memory_that_nothing_has_set(monkeypatch):
    """It may hold any bits, NaN as well: zeros are not made of it."""
    right = bodies().forces(VELOCITIES, SPINS)

    def unset(shape, dtype=float, **how):
        return np.full(shape, np.nan if np.dtype(dtype).kind == "f" else 0, dtype, **how)

    monkeypatch.setattr(np, "empty", unset)
    for found, each in zip(bodies().forces(VELOCITIES, SPINS), right, strict=True):
        np.testing.assert_allclose(found, each, rtol=0, atol=1e-9 * abs(each).max())


def test_every_space(space, to_space, to_host):
    """Motions, a step, and moves."""
    found = []
    for there, of in ((to_space, {"execution_space": space}), (np.asarray, {})):
        these = parki.RigidBodies(
            **MIXED,
            positions=there(PLACES),
            quaternions=there(TURNS.as_quat().T),
            options=parki.EwaldOptions(3, BOX, 1e-6, **of),
        )
        motion = these.solve(there(FORCES), there(TORQUES))
        these.move(motion.velocities * 1e-3, motion.turns * 1e-3)
        again = these.solve(there(FORCES), start=motion, gradient=np.eye(3)[[2, 0, 1]])
        forces = these.forces(motion.velocities)
        found.append([motion.velocities, motion.turns, again.velocities, again.stresslets, *forces])
    for here, exact in zip(*found, strict=True):
        assert rms(to_host(here) - exact) <= 1e-5 * rms(exact)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("power", [-83, 66, -1010, 1000])
def test_forces_may_have_any_size(power):
    """Their energies are below the least number, or above the largest: of single precision first.

    A power of two changes no digit.
    """
    dtype = "f4" if abs(power) < 100 else "f8"
    places, forces = PLACES.astype(dtype), FORCES.astype(dtype)
    balls = parki.RigidBodies(BALL, places, periodicity=3, box=BOX, tolerance=1e-4)
    for call in (balls.velocities, balls.forces):
        found = np.ldexp(np.stack(call(np.ldexp(forces, power))), -power)
        exact = np.stack(call(forces))
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5 * abs(exact).max())
    first = balls.solve(np.ldexp(forces, power))
    again = balls.solve(np.ldexp(forces, power), start=first)
    assert again.products <= 1


def test_nothing_and_rigid_slips():
    of = bodies(tolerance=1e-3)
    assert not np.any(of.velocities(0 * FORCES)[0])
    motion = of.solve(slip=np.ones(of.blobs.shape))  # of rigid bodies that move
    assert np.allclose(motion.velocities, -1, atol=1e-9) and np.allclose(motion.turns, 0, atol=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("periodicity", [0, 3, "wall"])
def test_no_bodies_do_not_move(periodicity):
    how = (
        {"periodicity": 2, "wall": "no-slip"}
        if periodicity == "wall"
        else {"periodicity": periodicity}
    )
    none = np.zeros((3, 0))
    of = parki.RigidBodies(BALL, none, box=BOX, tolerance=1e-3, **how)
    for each in (of.displacements(1.0, 0.1, 0, none), of.noise(0), of.velocities(none)):
        assert np.shape(each) == (2, 3, 0)
    of.move(none, none)
    assert of.positions.shape == (3, 0)


# ---------------------------------------------------------------------- arguments
FREE = {"periodicity": 0}
REFUSED = {
    "blobs is 50; expected 12, 42": lambda: parki.BodyShape.sphere(1.0, 50),
    "radius is -1.0; expected a positive": lambda: parki.BodyShape.sphere(-1.0),
    "longer than it is wide": lambda: parki.BodyShape.rod(1.0, 1.0),
    "blobs is 1; expected a number of blobs": lambda: parki.BodyShape.rod(1.0, 0.1, 1),
    "angle is 4.0; expected one between": lambda: parki.BodyShape.boomerang(1.0, 0.1, 4.0),
    "outside of it; move the blobs": lambda: parki.BodyShape(np.ones((3, 1)), 1.0),
    "misses the origin": lambda: parki.BodyShape([[0, 0], [1, 1.0], [0, 1]], 1.0),
    "radii has zeros": lambda: parki.BodyShape(np.eye(3), [1.0, 0, 1]),
    "blobs 0 and 2 are at one place": lambda: parki.BodyShape(np.eye(3)[:, [0, 1, 0]], 1.0),
    "blobs 0 and 1 are at one place": lambda: parki.BodyShape([[0, 1e-9], [0, 0], [0, 0]], 1.0),
    "blobs has no column": lambda: parki.BodyShape(np.zeros((3, 0)), 1.0),
    "shapes is 'ball'; expected a": lambda: parki.RigidBodies("ball", PLACES, **FREE),
    "expected a parki.BodyShape": lambda: parki.RigidBodies([], PLACES, **FREE),
    "which is missing": lambda: parki.RigidBodies([BALL, ROD], PLACES, **FREE),
    "for 1 shapes": lambda: parki.RigidBodies(BALL, PLACES, which=[0, 1, 0, 0], **FREE),
    "4 whole numbers": lambda: parki.RigidBodies(BALL, PLACES, which=[0.0], **FREE),
    r"\(4, 4\)": lambda: parki.RigidBodies(BALL, PLACES, np.eye(4)[:, :3], **FREE),
    "has zeros": lambda: parki.RigidBodies(BALL, PLACES, np.zeros((4, 4)), **FREE),
    "error of solves": lambda: parki.RigidBodies(BALL, PLACES, accuracy=2, **FREE),
    "mean viscosity": lambda: parki.RigidBodies(BALL, PLACES, mu=2, **FREE),
    "blob 12 .* the wall, which cuts it": lambda: bodies("wall", turns=None).move(-PLACES),
    "one for each of the bodies": lambda: bodies().update_positions(PLACES[:, :2]),
    r"forces has shape \(3, 2\); expected": lambda: bodies().velocities(FORCES[:, :2]),
    "forces has NaN or infinite numbers": lambda: bodies().velocities(np.nan * FORCES),
    "nothing moves bodies": lambda: bodies().solve(),
    "one for each of the blobs": lambda: bodies().solve(slip=FORCES),
    "trace of 3; expected the": lambda: bodies().solve(gradient=np.eye(3)),
    "gradient has shape": lambda: bodies().solve(gradient=[1, 2]),
    "moves the wall": lambda: bodies("wall").solve(
        gradient=np.eye(3)[[1, 0, 2]] - np.diag([0, 0, 1])
    ),
    "start is 1; expected what solve": lambda: bodies().solve(FORCES, start=1),
    "start is of other bodies": lambda: bodies().solve(FORCES, start=bodies().solve(FORCES)),
    "callback is 1; expected a function": lambda: bodies().solve(FORCES, callback=1),
    "vectors has 1 arrays; expected 3": lambda: bodies().in_lab([FORCES]),
}


def test_impossible_arguments():
    with pytest.raises(parki.ParkiTypeError, match="motion is 3; expected what solve has returned"):
        bodies().flow(3, PLACES)  # type: ignore[arg-type]
    for words, make in REFUSED.items():
        with pytest.raises(parki.ParkiError, match=words):
            make()


def test_help():
    of = bodies()
    assert "1 of 12 blobs, 2 of 6 blobs, 1 of 7 blobs" in of.describe()
    assert repr(of) == "<parki.RigidBodies: 4, 3-periodic>"
