"""Rigid spheres: mobility, stresslets, viscosity and lubrication."""

import numpy as np
import pytest
from helpers.five_spheres import CUBE, OPEN, POINTS, RADII, SHEAR, off, vectors

import parki
from parki.dynamics import moments, solver
from parki.dynamics.moments import MomentMobility
from parki.reference.rigid_spheres import FORCE_DIPOLES, moment_mobility

# Of a lattice with one sphere in each cell: a and b of Zuzovsky, Adler and Brenner (1983).
LATTICES = {
    "simple cubic": (np.eye(3), 0.2857, -0.04655),
    "body centred": (
        np.array([[-0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0.5, 0.5, -0.5]]),
        -0.0897,
        0.01432,
    ),
    "face centred": (np.array([[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]]), -0.0685, 0.01271),
}


@pytest.fixture(scope="module")
def dense():
    """The mobility (11, N, 11, N) of the five spheres in free space."""
    return moment_mobility(POINTS, RADII).reshape(5, 11, 5, 11).transpose(1, 0, 3, 2)


@pytest.fixture(scope="module")
def free():
    how = {"viscosity": 0.7, "accuracy": 1e-9, "lubrication": False}
    return parki.RigidSpheres(POINTS, RADII, **how, **OPEN)


@pytest.fixture(scope="module")
def cubic():
    return parki.RigidSpheres(POINTS, RADII, tolerance=1e-6, accuracy=1e-6, **CUBE)


# --- the mobility ---------------------------------------------------------------------------------
def test_mobility_is_that_of_forces_torques_and_stresslets(dense):
    assert off(moments.BASIS, FORCE_DIPOLES) == 0
    options = parki.EwaldOptions(**OPEN)
    numbers = vectors(rows=11) * ([[1.0]] * 3 + [[0.1]] * 8)
    found = MomentMobility(POINTS, RADII, options).product(numbers)
    assert off(found, np.einsum("injm,jm->in", dense, numbers)) < 1e-9


@pytest.mark.parametrize("periodicity", [1, 2])  # a law has three
def test_mobility_is_symmetric(periodicity):
    options = parki.EwaldOptions(periodicity, [1, 1, 1], tolerance=1e-6)
    mobility = MomentMobility(POINTS, RADII, options)
    one, two = (vectors(seed, rows=11) * ([[1.0]] * 3 + [[0.1]] * 8) for seed in (1, 2))
    sides = [(one * mobility.product(two)).sum(), (two * mobility.product(one)).sum()]
    assert abs(sides[0] - sides[1]) < 1e-5 * max(map(abs, sides))
    # Stresslets alone are damped, whatever the gauge.
    one[:6] = 0
    assert (one * mobility.product(one)).sum() > 0.4 * (one**2 / RADII**3).sum()


def test_mobility_in_single_precision_in_a_tall_box():
    """Whose lowest modes along the free axis are summed apart, of forces and of force dipoles."""
    points, numbers = POINTS * [[1], [1], [3]], vectors(rows=11) * ([[1.0]] * 3 + [[0.1]] * 8)
    how = {"periodicity": 2, "box": [1, 1, 3], "tolerance": 1e-4}
    exact, single = (
        parki.RigidSpheres(points.astype(dtype), RADII, **how)._mobility.product(numbers)
        for dtype in (np.float64, np.float32)
    )
    assert off(single, exact) < 1e-4


def test_a_random_suspension_is_that_of_dense_matrices():
    """Mean mobilities over those of spheres alone, and viscosity: numbers of another program."""
    rng = np.random.default_rng(5)
    radius = (0.2 * 3 / (4 * np.pi * 8)) ** (1 / 3)  # volume fraction 0.2
    points = (np.mgrid[:2, :2, :2].reshape(3, -1) + 0.5) / 2 + rng.uniform(-0.07, 0.07, (3, 8))
    rigid = parki.RigidSpheres(points, radius, accuracy=1e-4, tolerance=1e-6, **CUBE)
    operator = rigid.as_linear_operator(torques=True)
    diagonal = np.diag(operator @ np.eye(48)).reshape(2, -1).mean(axis=1)
    sizes = 6 * np.pi * radius, 8 * np.pi * radius**3
    eta = 1 + rigid.stress(rigid.solve(gradient=SHEAR[:, [0, 2, 1]]))[0, 2]
    assert np.allclose([*(diagonal * sizes), eta], [0.44673895, 0.86869273, 1.51984084], rtol=1e-5)


def test_gauges_shift_all_spheres_alone():
    """A net force moves all spheres by a gauge as well, against which pairs must not resist."""
    options = {"periodicity": 2, "box": [1, 1, 1], "tolerance": 1e-6, "accuracy": 1e-6}
    rigid = parki.RigidSpheres(POINTS, RADII, **options)
    found, product = rigid.velocities(vectors()), rigid._mobility.product

    for gauge in (5, -500):
        shift = np.array([[gauge], [gauge], [0]])

        def shifted(acts, shift=shift):
            moves = product(acts)
            moves[:3] += shift * acts[:3].sum(axis=1, keepdims=True)
            return moves

        rigid._mobility.product = shifted
        shifts = rigid.factor * shift * vectors().sum(axis=1, keepdims=True)
        assert off(rigid.velocities(vectors()) - shifts, found) < 1e-5


@pytest.mark.parametrize("periodicity", [1, 2, (True, False, True)])
def test_net_forces_with_free_axes_are_of_the_dense_matrices(periodicity):
    """Where a net force moves all spheres backwards, as gauges may: M is not positive then."""
    unit = 50.0  # in which lines of forces move fluid backwards, too
    options = {"periodicity": periodicity, "box": [unit] * 3, "tolerance": 1e-6}
    forces = vectors() + np.array([[9.0], [3.0], [6.0]])
    flow, torques = 20 / unit**2 * SHEAR, 0.1 * unit * vectors(1)
    rigid = parki.RigidSpheres(unit * POINTS, unit * RADII, accuracy=1e-7, **options)
    motion = rigid.solve(forces, torques, gradient=flow)

    units = np.eye(55).reshape(55, 11, 5)
    mobility = np.array([rigid._mobility.product(each).ravel() for each in units])
    equations = rigid._equations
    resistance = np.array([equations.matrix(each).ravel() for each in np.eye(30).reshape(30, 6, 5)])
    carried = np.eye(55)[:, :30]
    matrix = np.block([[(mobility + mobility.T) / 2, -carried], [carried.T, resistance]])
    slip, loads, strain = solver.sides(equations, forces, torques, flow, rigid.factor)
    exact = np.linalg.solve(matrix, np.concatenate([slip.ravel(), loads.ravel()]))
    acts, moves = exact[:55].reshape(11, 5), exact[55:].reshape(6, 5)
    assert (forces * moves[:3]).sum() < 0
    assert off(motion.velocities, rigid.factor * moves[:3]) < 2e-7
    assert off(motion.turns, rigid.factor * moves[3:]) < 2e-6
    stresslets = moments.symmetric(equations.mobility.space, acts[6:])
    stresslets += equations.pairs.acting(moves, -strain)[1]
    assert off(motion.stresslets, stresslets) < 2e-6

    again = rigid.solve(forces, torques, gradient=flow, start=motion)
    assert again.products == 1 and off(again.velocities, motion.velocities) < 1e-7
    loads = np.concatenate([forces, torques]).ravel()
    pulled = np.linalg.solve(matrix, np.append(np.zeros(55), loads))[55:]
    assert off(rigid.as_linear_operator(torques=True) @ loads, rigid.factor * pulled) < 2e-7
    with pytest.raises(parki.ParkiValueError, match="noise with periodicity"):
        rigid.noise(0)
    rigid.accuracy = 1e-3
    rough = rigid.solve(forces, torques, gradient=flow)
    alone = rigid.factor * 4 / 3 * forces / rigid.radii
    assert abs(rough.velocities - motion.velocities).max() < 1e-3 * abs(alone).max()


@pytest.mark.parametrize("periodicity", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_spheres_and_their_images_move_alike(periodicity):
    """So that nothing between them resists: lubrication, cells of a lattice and units count not."""

    def motion(force, n=1, unit=1.0, **more):
        how = {"periodicity": periodicity, "box": unit * np.array([n, 1, 1]), "tolerance": 1e-6}
        points = unit * (np.array([[0.0], [0.5], [0.5]]) + np.arange(n) * [[1], [0], [0]])
        rigid = parki.RigidSpheres(points, 0.45 * unit, **how, **more)
        return unit * rigid.velocities(np.tile(np.c_[force], n))

    together = motion([1.0, 0, 0.5])
    assert off(together, motion([1.0, 0, 0.5], lubrication=False)) < 1e-12
    assert off(motion([1.0, 0, 0]) + motion([0, 0, 0.5]), together) < 1e-12
    assert off(motion([1.0, 0, 0.5], n=3), together) < 1e-5
    # A line of forces moves fluid by a logarithm of the distance, whose unit is a gauge.
    gauge = np.array([[4.0], [0], [1]]) * (periodicity == 1) * np.log(100) / (8 * np.pi)
    assert off(motion([1.0, 0, 0.5], unit=100.0) + gauge, together) < 1e-5


# --- rigid spheres --------------------------------------------------------------------------------
def test_solve_is_that_of_the_dense_matrix(free, dense):
    forces, torques = vectors(1), 0.1 * vectors(2)
    gradient = vectors(3, 3)
    gradient -= np.trace(gradient) / 3 * np.eye(3)
    motion = free.solve(forces, torques, gradient=gradient)
    matrix = dense.reshape(55, 55) * free.factor
    acts = np.concatenate([forces, torques]).ravel()
    strain = np.einsum("mij,ij->m", FORCE_DIPOLES[3:], gradient)
    wanted = -np.repeat(strain, 5) - matrix[30:, :30] @ acts
    five = np.linalg.solve(matrix[30:, 30:], wanted)
    moves = (matrix[:30, :30] @ acts + matrix[:30, 30:] @ five).reshape(6, 5)
    assert off(motion.velocities, moves[:3]) < 1e-7
    assert off(motion.turns, moves[3:]) < 1e-7
    exact = np.einsum("mij,mn->ijn", FORCE_DIPOLES[3:], five.reshape(5, 5))
    assert off(motion.stresslets, exact) < 1e-7


def test_one_sphere_alone():
    one = parki.RigidSpheres(np.zeros((3, 1)), 0.5, viscosity=2.0, accuracy=1e-9, **OPEN)
    force, torque = np.array([[1.0], [2.0], [3.0]]), np.array([[0.3], [0.2], [0.1]])
    motion = one.solve(force, torque, gradient=SHEAR)
    assert off(motion.velocities, force / (6 * np.pi * 2.0 * 0.5)) < 1e-8
    assert off(motion.turns, torque / (8 * np.pi * 2.0 * 0.5**3)) < 1e-8
    strain = (SHEAR + SHEAR.T) / 2
    assert off(motion.stresslets[..., 0], -20 / 3 * np.pi * 2.0 * 0.5**3 * strain) < 1e-8


@pytest.mark.parametrize(
    "lattice",
    ["simple cubic", "body centred", pytest.param("face centred", marks=pytest.mark.slow)],
)
def test_viscosity_of_cubic_arrays(lattice):
    """Two flows have the same a and b: ``5/2 phi / (eta - 1)`` is linear in phi and phi^(5/3)."""
    cell, *published = LATTICES[lattice]
    slopes = []
    for phi in (0.05, 0.2):
        edge = (4 * np.pi / 3 / (phi * abs(np.linalg.det(cell)))) ** (1 / 3)
        box = parki.lattice(edge, edge, edge) if lattice == "simple cubic" else edge * cell
        options = {"periodicity": 3, "box": box, "tolerance": 1e-6}
        how = {"viscosity": 3.0, "accuracy": 1e-9, "lubrication": False}
        array = parki.RigidSpheres(np.zeros((3, 1)), 1.0, **how, **options)
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


def test_a_start_saves_products_and_changes_little(cubic):
    forces, seen = vectors(1), list[float]()
    first = cubic.solve(forces, gradient=SHEAR, callback=seen.append)
    assert len(seen) == first.products
    assert seen[-1] == first.error < 1e-6 < seen[-2]
    again = cubic.solve(forces, gradient=SHEAR, start=first)
    assert again.products <= 2 < first.products
    assert off(again.velocities, first.velocities) < 1e-5


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("power", [-1010, 990])
def test_forces_may_have_any_size(cubic, power):
    """Their energies are below the least number, or above the largest."""
    spheres, forces = cubic, vectors(count=cubic.radii.size)
    exact, found = spheres.velocities(forces), spheres.velocities(np.ldexp(forces, power))
    apart = np.ldexp(found, -power) - exact
    assert abs(apart).max() <= 1e-12 * abs(exact).max()
    first = spheres.solve(np.ldexp(forces, power))
    assert spheres.solve(np.ldexp(forces, power), start=first).products <= 1


def test_errors_are_those_that_are_told(cubic):
    nothing, exact = cubic.solve(), cubic.solve(vectors(1))
    assert nothing.products == 0 and not nothing.velocities.any()
    for accuracy in (1e-1, 1e-2, 1e-3):
        rough = parki.RigidSpheres(POINTS, RADII, tolerance=1e-6, accuracy=accuracy, **CUBE)
        found = rough.solve(vectors(1))
        assert found.error <= accuracy
        assert off(found.velocities, exact.velocities) < accuracy
        assert found.products < exact.products


CALLS = {
    "forces and torques are None": lambda r: r.velocities(None),
    r"forces has shape \(3, 4\); expected \(3, 5\)": lambda r: r.solve(vectors(1, 4)),
    "forces contains NaN": lambda r: r.solve(np.nan * vectors()),
    "gradient has a trace of 3": lambda r: r.solve(gradient=np.eye(3)),
    r"gradient has shape \(3,\)": lambda r: r.solve(gradient=np.ones(3)),
    "start is a ndarray": lambda r: r.solve(start=vectors()),
    "spheres . and . overlap by 0.*smaller step": lambda r: r.update_points(0.2 * POINTS),
    "moves the periodic vector 1": lambda r: r.solve(gradient=SHEAR[[2, 1, 0]]),
    "three periodic axes": lambda r: r.stress(r.solve(gradient=SHEAR[:, [0, 2, 1]])),
    "kT is -1; expected a number, 0 or more": lambda r: r.displacements(-1, 0.1, 0),
    "dt is 5e-324, in which noise of kT=1 has": lambda r: r.displacements(1, 5e-324, 0),
    "rng is 'seed'": lambda r: r.displacements(1, 0.1, "seed"),
    "noise with periodicity=2 is not defined": lambda r: r.brownian_stresslets(1, 0),
    "noise with periodicity=2 is not": lambda r: r.noise(0),
}


def test_refusals():
    film = parki.RigidSpheres(POINTS, RADII, periodicity=2, box=[1, 1, 1], tolerance=1e-6)
    for words, call in CALLS.items():
        with pytest.raises(parki.ParkiError, match=words):
            call(film)
    assert (film.points == POINTS).all()
    for words, radii, more in (
        ("radii has 0.*parki.Spheres", 0.0, {}),
        ("overlap by", 0.5, {}),
        ("accuracy is 0.0", RADII, {"accuracy": 0.0}),
        ("roughness is -0.1", RADII, {"roughness": -0.1}),
        ("radii 0.01 and 0.1 differ by more than 5", [0.1, 0.1, 0.1, 0.1, 0.01], {}),
        ("viscosity is -1.0", RADII, {"viscosity": -1.0}),
        ("wall is .no-slip", RADII, {"periodicity": 2, "wall": "no-slip"}),
    ):
        with pytest.raises(parki.ParkiError, match=words):
            parki.RigidSpheres(POINTS, radii, **CUBE | more)


@pytest.mark.parametrize("name", ["viscosity", "accuracy"])
def test_numbers_that_are_assigned_are_those_of_a_new_one(cubic, name):
    shape = parki.BodyShape.sphere(0.05, 12)
    before = getattr(cubic, name)
    for one in (cubic, parki.RigidBodies(shape, POINTS, **CUBE)):
        for value in (-1.0, 0, np.inf, np.nan, "two", None):
            with pytest.raises(parki.ParkiError, match=f"{name} is {value!r}; expected"):
                setattr(one, name, value)
    assert getattr(cubic, name) == before


def test_smooth_spheres_may_not_overlap_and_rough_ones_may():
    points, forces = np.array([[0.3, 0.3], [0.4, 0.4], [0.3, 0.47]]), np.zeros((3, 2))
    with pytest.raises(parki.OverlapError, match="spheres 0 and 1 overlap by 0"):
        parki.RigidSpheres(points, 0.1, **OPEN)
    forces[2] = 1.0, -1.0
    for how in ({"roughness": 1e-3}, {"lubrication": False}):
        apart = parki.RigidSpheres(points, 0.1, **how, **OPEN).velocities(forces)
        assert apart[2, 0] > 0 > apart[2, 1]
    for shift in (0.0, 1.0, -3.0):  # at one place, which periodic images are, too
        same = points + np.array([0, 1]) * (points[:, :1] - points[:, 1:] + shift)
        with pytest.raises(parki.OverlapError, match="spheres 0 and 1 overlap by 1 of"):
            parki.RigidSpheres(same, 0.1, **CUBE)
        with pytest.raises(parki.OverlapError, match="spheres 0 and 1 are at one place"):
            parki.RigidSpheres(same, 0.1, roughness=1e-3, **CUBE)
    points[2, 1] = 0.5 + 1e-5
    smooth, rough = (
        parki.RigidSpheres(points, 0.1, roughness=each, **OPEN).velocities(forces)
        for each in (0.0, 0.01)
    )
    assert 0 < smooth[2, 0] < 0.02 * rough[2, 0]
    kept = parki.RigidSpheres(points, 0.1, **OPEN)
    with pytest.raises(parki.OverlapError, match="spheres 0 and 1 overlap by 1 of"):
        kept.update_points(points[:, [0, 0]])
    assert (kept.points == points).all()
