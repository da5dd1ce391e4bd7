"""Rigid bodies of blobs, against dense solutions with the blobs' mobility, and known drags."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from contract import matrix_of, rms
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


def dense(of):
    """Return M, K and R of bodies as matrices, by the blobs' spheres and by cross products.

    Rows of K are a component after the other, its columns as of the linear operator.
    """
    radii = np.concatenate([of.shapes[k].radii for k in of.which])
    if not any(of.options.periodic) and not of.options.walled:
        mobility = shapes.free_space(of.blobs, radii) / of.viscosity  # which has its own test
    else:
        spheres = parki.Spheres(of.blobs, radii, of.options, viscosity=of.viscosity)
        mobility = matrix_of(spheres.as_linear_operator())
    count, body = (
        of.which.size,
        np.repeat(np.arange(of.which.size), [of.shapes[k].n for k in of.which]),
    )
    carried = np.zeros((3, radii.size, 2, 3, count))
    resisted = np.zeros((2, 3, count, 2, 3, count))
    arms = of.blobs - of.positions[:, body]
    for blob, b in enumerate(body):
        carried[:, blob, 0, :, b] = np.eye(3)
        carried[:, blob, 1, :, b] = np.cross(np.eye(3), arms[:, blob]).T
    for b, k in enumerate(of.which):
        if not of.shapes[k].blobs[:2].any():  # a rod
            axis = Rotation.from_quat(of.quaternions[:, b]).apply([0, 0, 1])
            drag = 8 * np.pi * of.viscosity * np.sum(of.shapes[k].radii ** 3)
            resisted[1, :, b, 1, :, b] = drag * np.outer(axis, axis)
    size = 6 * count
    return mobility, carried.reshape(-1, size), resisted.reshape(size, size)


def mobility_of_bodies(of):
    mobility, carried, resisted = dense(of)
    return np.linalg.inv(carried.T @ np.linalg.solve(mobility, carried) + resisted)


def flat(*arrays):
    return np.stack(arrays).ravel()


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


# ---------------------------------------------------------------------- iterations
def test_products_in_the_manual(monkeypatch):
    """Rows of the page by its script, where another processor may take one product more."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "scripts")
    import rigid
    from benchmarks.run import Run

    text = (Path(__file__).parents[1] / "docs/bodies.md").read_text(encoding="utf-8")
    page = text.partition("<!-- products: ")[2].partition("<!-- end of products -->")[0]
    rows = [row.strip("| ").split(" | ") for row in page.splitlines() if row[:4] == "| 20"]
    assert [(int(row[0]), float(row[1])) for row in rows] == list(rigid.BODIES)
    for row in rows:
        if row[0] == "20":
            found = rigid.products(Run(parki.get_execution_space("CPU")), 20, float(row[1]))
            assert np.abs(np.subtract(found, np.array(row[2:], int))).max() <= 1


def test_the_step_before_saves_products():
    of = bodies(accuracy=1e-6)
    show = parki.Progress("bodies")
    first = of.solve(FORCES, TORQUES, callback=show)
    assert show.count == first.products and show.residuals[-1] == first.error <= 1e-6
    assert of.solve(FORCES, TORQUES, start=first).products <= 2
    of.move(0.003 * first.velocities, 0.003 * first.turns)
    fresh, warm = of.solve(FORCES, TORQUES), of.solve(FORCES, TORQUES, start=first)
    assert warm.products < fresh.products
    assert rms(warm.velocities - fresh.velocities) <= 5e-6 * rms(fresh.velocities)


def test_errors_are_told(monkeypatch):
    of = bodies(accuracy=1e-6)
    monkeypatch.setattr("parki.dynamics.bodies_solver.MOST_PRODUCTS", 3)
    with pytest.raises(parki.ParkiError, match=r"error of \S+ after 3 products .* expected 1e-06"):
        of.velocities(FORCES)
    monkeypatch.undo()
    negative = lambda _, acts, **options: -acts["force"]  # noqa: E731
    monkeypatch.setattr(of._spheres.mobility, "product", negative)
    with pytest.raises(parki.ParkiError, match="not positive"):
        of.velocities(FORCES)
    monkeypatch.undo()
    assert of.solve(FORCES).error <= 1e-6


def test_errors_are_near_the_accuracy():
    of = bodies(tolerance=1e-6, accuracy=1e-9)
    exact = flat(*of.velocities(FORCES, TORQUES))
    for accuracy in (1e-2, 1e-4, 1e-6):
        of.accuracy = accuracy
        found = flat(*of.velocities(FORCES, TORQUES))
        assert rms(found - exact) <= 1.5 * accuracy * rms(exact)


# ---------------------------------------------------------------------- Brownian motion
@pytest.mark.parametrize("periodicity", [0, "wall"])
def test_noise(periodicity):
    """It is N K^T M^-1 times noise of the blobs, and noise of turns that move no blob."""
    of = bodies(periodicity, tolerance=1e-6, viscosity=3.0)
    mobility, carried, resisted = dense(of)
    exact = np.linalg.inv(carried.T @ np.linalg.solve(mobility, carried) + resisted)
    rng, again = (np.random.default_rng(5) for _ in range(2))
    found = flat(*of.noise(rng))
    radii = np.concatenate([of.shapes[k].radii for k in of.which])
    spheres = parki.Spheres(of.blobs, radii, of.options, viscosity=3.0)
    brownian_noise = spheres.noise(again, accuracy=1e-6).ravel()
    standard_normal = again.standard_normal((2, 3, 4)).ravel()
    values, vectors = np.linalg.eigh(resisted)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    expected = exact @ (
        root @ standard_normal - carried.T @ np.linalg.solve(mobility, brownian_noise)
    )
    assert rms(found - expected) <= 1e-4 * rms(expected)
    # So the covariance is N, as noise of the blobs has M.
    covariance = exact @ (resisted + carried.T @ np.linalg.solve(mobility, carried)) @ exact
    assert np.allclose(covariance, exact)


@pytest.mark.parametrize("periodicity", [0, "wall"])
def test_drift(periodicity):
    """The mean over w of a step's drift is kT times the divergence of N, turns included."""
    count = 1 if periodicity == "wall" else 2
    made = [parki.BodyShape.boomerang(0.2, 0.04, blobs=3), parki.BodyShape.rod(0.2, 0.03, 4)]
    places, turns = np.array([[0.4, 0.6], [0.5, 0.6], [0.3, 0.28]])[:, :count], TURNS[:count]
    how = {"periodicity": 2, "wall": "no-slip"} if periodicity == "wall" else {"periodicity": 0}
    how |= {"which": range(count), "box": BOX, "tolerance": 1e-6}
    of = parki.RigidBodies(made[:count], places, turns, **how)
    found = 0.0
    for unit in np.eye(6 * count):
        numbers = lambda _, unit=unit: unit.reshape(2, 3, -1).copy()  # noqa: E731
        flow, loads = of._equations.drift(numbers, 0.7, of.extent)
        found = found + of._equations.solve(loads, flow).moves
    exact, step = np.zeros(6 * count), 1e-4
    for unit in np.eye(6 * count):
        sides = []
        for side in (1, -1):
            of.update_positions(places, turns)
            of.move(*(side * step * unit).reshape(2, 3, -1))
            sides.append(mobility_of_bodies(of) @ unit)
        exact += 0.7 * (sides[0] - sides[1]) / (2 * step)
    assert rms(np.ravel(found) - exact) <= 1e-3 * rms(exact)


def test_displacements():
    """Drift is of the order of kT, noise of its root, and the deterministic part of neither."""
    of = bodies(tolerance=1e-6)
    steps = [flat(*of.displacements(kT, 0.01, 7, FORCES, TORQUES)) for kT in (0, 1e-8, 4e-8)]
    assert np.allclose(steps[0], 0.01 * flat(*of.velocities(FORCES, TORQUES)))
    once, twice = (step - steps[0] for step in steps[1:])
    assert rms(twice - 2 * once) <= 1e-3 * rms(once)
    expected = np.sqrt(2 * 1e-8 * 0.01) * flat(*of.noise(7))
    assert rms(once - expected) <= 1e-3 * rms(expected)
    # What is left of a step is the drift, whose numbers come after those of the noise.
    rng, kT = np.random.default_rng(7), 1e-3
    noise = flat(*of.noise(rng))
    of.accuracy /= 10  # whose first solve is looser
    flow, loads = of._equations.drift(lambda shape: rng.standard_normal(shape), kT, of.extent)
    drift = np.ravel(of._equations.solve(loads, flow).moves)
    of.accuracy *= 10
    left = flat(*of.displacements(kT, 0.01, 7, FORCES, TORQUES)) - steps[0]
    left -= np.sqrt(2 * kT * 0.01) * noise
    assert rms(left - 0.01 * drift) <= 0.02 * rms(0.01 * drift)
    with pytest.raises(parki.ParkiValueError, match="kT is -1"):
        of.displacements(-1, 1, 0)
    with pytest.raises(parki.ParkiValueError, match="periodicity=1 is not defined"):
        bodies(1).displacements(1, 1, 0)


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
