"""Rigid spheres: mobility, stresslets, viscosity, lubrication and Brownian motion."""

import numpy as np
import pytest

import parki
from parki.dynamics import moments
from parki.dynamics.mobility import MomentMobility
from parki.reference.rigid_spheres import COUPLETS, moment_mobility

# Five spheres apart in a unit cube, two of which are across a face from each other.
POINTS = np.array(
    [[0.15, 0.5, 0.8, 0.3, 0.55], [0.12, 0.45, 0.7, 0.85, 0.95], [0.3, 0.6, 0.2, 0.75, 0.25]]
)
RADII = np.array([0.1, 0.15, 0.2, 0.1, 0.12])
CUBE = {"periodicity": 3, "box": [1, 1, 1]}
SHEAR = np.array([[0, 1.0, 0], [0, 0, 0], [0, 0, 0]])
# Of a lattice with one sphere in each cell: a and b of Zuzovsky, Adler and Brenner (1983).
LATTICES = {
    "simple cubic": (np.eye(3), 0.2857, -0.04655),
    "body centred": (
        np.array([[-0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0.5, 0.5, -0.5]]),
        -0.0897,
        0.01432,
    ),
}


def vectors(seed=0, count=5, rows=3):
    return np.random.default_rng(seed).standard_normal((rows, count))


def product(mobility, numbers):
    """Eleven numbers of each sphere, of eleven numbers."""
    u, gradients = mobility(numbers[:3], moments.couplets(np, numbers[3:]))
    return np.concatenate([u, moments.turning(np, gradients)])


def off(found, exact):
    return abs(found - exact).max() / abs(exact).max()


@pytest.fixture(scope="module")
def dense():
    """The mobility (11, N, 11, N) of the five spheres in free space."""
    return moment_mobility(POINTS, RADII).reshape(5, 11, 5, 11).transpose(1, 0, 3, 2)


@pytest.fixture(scope="module")
def free():
    options = {"periodicity": 0, "box": [1, 1, 1], "tolerance": 1e-8}
    return parki.RigidSpheres(POINTS, RADII, viscosity=0.7, accuracy=1e-9, **options)


@pytest.fixture(scope="module")
def cubic():
    return parki.RigidSpheres(POINTS, RADII, tolerance=1e-6, accuracy=1e-6, **CUBE)


# --- the mobility ---------------------------------------------------------------------------------
def test_mobility_is_that_of_forces_torques_and_stresslets(dense):
    assert off(moments.BASIS, COUPLETS) == 0
    options = parki.EwaldOptions(periodicity=0, box=[1, 1, 1], tolerance=1e-8)
    numbers = vectors(rows=11) * ([[1.0]] * 3 + [[0.1]] * 8)
    found = product(MomentMobility(POINTS, RADII, options), numbers)
    assert off(found, np.einsum("injm,jm->in", dense, numbers)) < 1e-9


@pytest.mark.parametrize("periodicity", [1, 2, 3])
def test_mobility_is_symmetric(periodicity):
    options = parki.EwaldOptions(periodicity, [1, 1, 1], tolerance=1e-6)
    mobility = MomentMobility(POINTS, RADII, options)
    one, two = (vectors(seed, rows=11) * ([[1.0]] * 3 + [[0.1]] * 8) for seed in (1, 2))
    sides = [(one * product(mobility, two)).sum(), (two * product(mobility, one)).sum()]
    assert abs(sides[0] - sides[1]) < 1e-5 * max(map(abs, sides))
    # Stresslets alone are damped, whatever the gauge.
    one[:6] = 0
    assert (one * product(mobility, one)).sum() > 0.4 * (one**2 / RADII**3).sum()


# --- rigid spheres --------------------------------------------------------------------------------
def test_solve_is_that_of_the_dense_matrix(free, dense):
    forces, torques = vectors(1), 0.1 * vectors(2)
    gradient = vectors(3, 3)
    gradient -= np.trace(gradient) / 3 * np.eye(3)
    motion = free.solve(forces, torques, gradient=gradient)
    matrix = dense.reshape(55, 55) * free.factor
    acts = np.concatenate([forces, torques]).ravel()
    strain = np.einsum("mij,ij->m", COUPLETS[3:], gradient)
    wanted = -np.repeat(strain, 5) - matrix[30:, :30] @ acts
    five = np.linalg.solve(matrix[30:, 30:], wanted)
    moves = (matrix[:30, :30] @ acts + matrix[:30, 30:] @ five).reshape(6, 5)
    assert off(motion.velocities, moves[:3]) < 1e-7
    assert off(motion.turns, moves[3:]) < 1e-7
    exact = np.einsum("mij,mn->ijn", COUPLETS[3:], five.reshape(5, 5))
    assert off(motion.stresslets, exact) < 1e-7


def test_one_sphere_alone():
    options = {"periodicity": 0, "box": [1, 1, 1], "tolerance": 1e-8}
    one = parki.RigidSpheres(np.zeros((3, 1)), 0.5, viscosity=2.0, accuracy=1e-9, **options)
    force, torque = np.array([[1.0], [2.0], [3.0]]), np.array([[0.3], [0.2], [0.1]])
    motion = one.solve(force, torque, gradient=SHEAR)
    assert off(motion.velocities, force / (6 * np.pi * 2.0 * 0.5)) < 1e-8
    assert off(motion.turns, torque / (8 * np.pi * 2.0 * 0.5**3)) < 1e-8
    strain = (SHEAR + SHEAR.T) / 2
    assert off(motion.stresslets[..., 0], -20 / 3 * np.pi * 2.0 * 0.5**3 * strain) < 1e-8


@pytest.mark.parametrize("lattice", LATTICES)
def test_viscosity_of_cubic_arrays(lattice):
    """Two flows have the same a and b: ``5/2 phi / (eta - 1)`` is linear in phi and phi^(5/3)."""
    cell, *published = LATTICES[lattice]
    slopes = []
    for phi in (0.05, 0.2):
        edge = (4 * np.pi / 3 / (phi * abs(np.linalg.det(cell)))) ** (1 / 3)
        box = parki.lattice(edge, edge, edge) if lattice == "simple cubic" else edge * cell
        options = {"periodicity": 3, "box": box, "tolerance": 1e-6}
        array = parki.RigidSpheres(np.zeros((3, 1)), 1.0, viscosity=3.0, accuracy=1e-9, **options)
        stretch, shear = (
            array.stress(array.solve(gradient=flow))[place] / 3.0
            for flow, place in ((np.diag([0.5, -0.5, 0]), (0, 0)), (SHEAR, (0, 1)))
        )
        slopes.append([2.5 * phi / stretch - 1, 2.5 * phi / shear - 1])
    powers = np.array([[phi, phi ** (5 / 3)] for phi in (0.05, 0.2)])
    (first, last), (own, other) = np.linalg.solve(powers, np.array(slopes))
    assert abs((first + 1) / 60 + (last + 1) / 40) < 1e-7  # b
    assert abs(own / 12 + other / 8) < 1e-6  # a
    assert abs(own / 12 - published[0]) < 3e-4
    assert abs((first + 1) / 60 - published[1]) < 2e-4


def test_whole_periods_of_shear_change_nothing(cubic):
    moved = []
    for tilt in (0.25, 1.25):
        cubic.update_points(POINTS, box=parki.lattice(1.0, 1.0, 1.0, xy=tilt))
        moved.append(cubic.solve(gradient=SHEAR))
    cubic.update_points(POINTS, box=parki.lattice(1.0, 1.0, 1.0))
    assert off(moved[0].velocities, moved[1].velocities) < 1e-5
    assert off(moved[0].stresslets, moved[1].stresslets) < 1e-5


def test_a_start_saves_products_and_changes_little(cubic):
    forces, seen = vectors(1), list[float]()
    first = cubic.solve(forces, gradient=SHEAR, callback=seen.append)
    assert len(seen) == first.products
    assert seen[-1] == first.error < 1e-6 < seen[-2]
    again = cubic.solve(forces, gradient=SHEAR, start=first)
    assert again.products <= 2 < first.products
    assert off(again.velocities, first.velocities) < 1e-5


def test_errors_are_those_that_are_told(cubic):
    exact = cubic.solve(vectors(1))
    for accuracy in (1e-1, 1e-2, 1e-3):
        rough = parki.RigidSpheres(POINTS, RADII, tolerance=1e-6, accuracy=accuracy, **CUBE)
        found = rough.solve(vectors(1))
        assert found.error <= accuracy
        assert off(found.velocities, exact.velocities) < accuracy
        assert found.products < exact.products


def test_operator(cubic):
    forces, torques = vectors(1), vectors(2)
    found = cubic.as_linear_operator(torques=True) @ np.stack([forces, torques]).ravel()
    exact = np.stack(cubic.velocities(forces, torques))
    assert (found == exact.ravel()).all()
    several = cubic.as_linear_operator() @ np.stack([forces.ravel(), torques.ravel()]).T
    assert (several[:, 0] == cubic.velocities(forces).ravel()).all()


def test_float32():
    points, forces = (each.astype(np.float32) for each in (POINTS, vectors(1)))
    rigid = parki.RigidSpheres(points, RADII, tolerance=1e-4, **CUBE)
    exact = parki.RigidSpheres(points.astype(float), RADII, tolerance=1e-6, accuracy=1e-6, **CUBE)
    motion = rigid.solve(forces, gradient=SHEAR)
    assert motion.velocities.dtype == motion.stresslets.dtype == np.float32
    assert (
        off(motion.velocities, exact.solve(forces.astype(float), gradient=SHEAR).velocities) < 1e-3
    )


def test_nothing_moves_without_forces(cubic):
    motion = cubic.solve()
    assert motion.products == 0
    assert not motion.velocities.any()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda r: r.velocities(None), "forces and torques are None"),
        (lambda r: r.solve(vectors(1, 4)), r"forces has shape \(3, 4\); expected \(3, 5\)"),
        (lambda r: r.solve(np.nan * vectors()), "forces contains NaN"),
        (lambda r: r.solve(gradient=np.eye(3)), "gradient has a trace of 3"),
        (lambda r: r.solve(gradient=np.ones(3)), r"gradient has shape \(3,\)"),
        (lambda r: r.solve(start=vectors()), "start is a ndarray"),
        (lambda r: r.update_points(POINTS[:, :4]), r"points has shape \(3, 4\)"),
        (
            lambda r: r.update_points(0.2 * POINTS),
            "spheres . and . overlap by 0.*take a smaller step",
        ),
    ],
)
def test_refusals(cubic, call, words):
    with pytest.raises(parki.ParkiError, match=words):
        call(cubic)
    assert (cubic.points == POINTS).all()


@pytest.mark.parametrize(
    ("radii", "options", "words"),
    [
        (0.0, CUBE, "radii has 0.*parki.Spheres"),
        (0.5, CUBE, "overlap by"),
        (RADII, CUBE | {"accuracy": 0.0}, "accuracy is 0.0"),
        (RADII, CUBE | {"viscosity": -1.0}, "viscosity is -1.0"),
        (RADII, {"periodicity": 2, "box": [1, 1, 1], "wall": "no-slip"}, "wall is .no-slip"),
    ],
)
def test_spheres_that_are_refused(radii, options, words):
    with pytest.raises(parki.ParkiError, match=words):
        parki.RigidSpheres(POINTS, radii, **options)


def test_flows_that_a_box_cannot_follow_are_refused():
    film = parki.RigidSpheres(POINTS, RADII, periodicity=2, box=[1, 1, 1], tolerance=1e-6)
    with pytest.raises(parki.ParkiValueError, match="moves the periodic vector 1"):
        film.solve(gradient=SHEAR[[2, 1, 0]])
    with pytest.raises(parki.ParkiValueError, match="three periodic axes"):
        film.stress(film.solve(gradient=SHEAR[:, [0, 2, 1]]))
