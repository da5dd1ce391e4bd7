"""Noise and Brownian displacements of spheres, whose covariance is their mobility."""

from functools import partial

import numpy as np
import pytest
from contract import matrix_of
from scipy.linalg import sqrtm
from some_spheres import BOX, COUNT, RADII, given, suspension

import parki
from parki.suspensions import noise

TILTED = parki.lattice(*BOX, 0.3, 0.2, 0.1)  # whose vectors parki does not turn


@pytest.mark.parametrize(("radii", "box"), [("one", BOX), ("any", TILTED)])
def test_far_noise_has_the_far_matrix(radii, box):
    """What shapes white noise, twice, is the far field: a square root, without chance."""
    spheres, _, forces, _ = given(RADII[radii], 3, 1e-6, box=box)
    plan = spheres._mobility.first
    far = plan(forces) - plan.pipeline.near(forces)
    stages, found = plan.pipeline.stages, np.zeros_like(far)
    grid, _ = stages.spread(forces[None])
    once = stages.fgc.brownian_noise(grid).copy()
    once[:, :, stages.setup.mesh.stored[1] :] = 0  # Laplacians, which noise does not take
    stages.gather(stages.fgc.brownian_noise(once), forces, {"u": found})
    np.testing.assert_allclose(found, far, atol=1e-6 * abs(far).max())
    np.testing.assert_allclose(plan(forces) - plan.pipeline.near(forces), far, rtol=1e-10)


@pytest.mark.parametrize(("radii", "box"), [("one", BOX), ("any", TILTED)])
def test_noise_of_torques(radii, box):
    """Forces and torques are one density: its far field is a square, its near field positive."""
    spheres, _, *acts = given(RADII[radii], 3, 1e-4, box=box)
    turning, shape = spheres._mobility.torque_fields(), (2, 3, COUNT)
    assert turning.plan.setup.split.positive
    stages, far = turning.pipeline.stages, np.zeros((12, COUNT))
    dens = noise.density(*acts)
    grid, _ = stages.spread(dens[None])
    once = stages.fgc.brownian_noise(grid).copy()
    once[:, :, stages.setup.mesh.stored[1] :] = 0  # Laplacians, which noise does not take
    field, own = stages.fgc.brownian_noise(once), {"u": far[:3], "grad_u": far[3:]}
    stages.gather(field, dens, own)
    near = turning.near(np.array(acts))
    u, slopes = turning.plan(dens)
    whole = u, noise.turns(slopes.reshape(9, COUNT))
    parts = near, (far[:3], noise.turns(far[3:])), whole, spheres.velocities(*acts)
    for one, other, both, moved in zip(*parts, strict=True):
        np.testing.assert_allclose(one + other, both, atol=1e-6 * abs(both).max())
        exact = moved / spheres.factor
        np.testing.assert_allclose(both, exact, atol=1e-4 * abs(exact).max())
    matrix = np.array([turning.near(e.reshape(shape)).ravel() for e in np.eye(6 * COUNT)])
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-10 * matrix.max())
    assert np.linalg.eigvalsh(matrix)[0] > 0
    others = suspension(seed=1)[0]
    new = parki.Spheres(others, RADII[radii], periodicity=3, box=box, tolerance=1e-4)
    spheres.update_points(others)
    drawn = [each.noise(np.random.default_rng(1), torques=True) for each in (spheres, new)]
    np.testing.assert_allclose(*drawn, atol=1e-4 * abs(drawn[0][1]).max())


@pytest.mark.parametrize("make", [parki.Spheres, partial(parki.RigidSpheres, lubrication=False)])
def test_noise_of_torques_in_other_units(make):
    """In a box of 20 times the length it is the same, by powers of this length."""
    points, drawn = 0.1 + 0.8 * suspension()[0], []
    for unit in (1, 20):
        box = {"periodicity": 3, "box": unit * BOX, "tolerance": 1e-4}
        spheres = make(unit * points, unit * RADII["one"], **box)
        drawn.append(spheres.noise(np.random.default_rng(1), torques=True))
    for power, small, large in zip((0.5, 1.5), *drawn, strict=True):
        np.testing.assert_allclose(20**power * large, small, atol=1e-3 * abs(small).max())


def test_noise_in_a_box_that_is_turned():
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    turn[:, 0] *= np.linalg.det(turn)
    box = parki.lattice(*BOX, 0.2, 0.1, 0.1)
    points, draws, how = suspension()[0], [], {"periodicity": 3, "tolerance": 1e-4}
    for by in (np.eye(3), turn):
        spheres = parki.Spheres(by @ points, RADII["any"], box=box @ by.T, **how)
        draws.append(np.array(spheres.noise(np.random.default_rng(1), torques=True)))
    expected = np.einsum("ij,kjn->kin", turn, draws[0])
    np.testing.assert_allclose(draws[1], expected, atol=1e-9 * abs(expected).max())


@pytest.mark.parametrize(("radii", "cutoff"), [("one", None), ("any", 0.45), ("any", 0.2)])
def test_near_matrix_is_positive(radii, cutoff):
    """If the near field of the largest radius reaches far enough, noise is drawn apart."""
    tolerance = 1e-6 if radii == "one" else 1e-3
    spheres, *_ = given(RADII[radii], 3, tolerance, cutoff=cutoff)
    plan = spheres._mobility.first
    near = plan.pipeline.near
    matrix = np.array([near(e.reshape(3, -1)).ravel() for e in np.eye(3 * COUNT)])
    positive = np.linalg.eigvalsh((matrix + matrix.T) / 2)[0] > 0
    assert positive == plan.setup.split.positive == (cutoff != 0.2)


@pytest.mark.parametrize(("condition", "products"), [(1.5, 3), (4.0, 4), (100.0, 10)])
def test_root_stops_by_the_error_that_is_left(condition, products):
    """Few products are enough, whatever their number before a look."""
    values = np.linspace(1, condition, 3000).reshape(3, 1000)
    standard_normal = np.random.default_rng(0).standard_normal(values.shape)
    found, count = noise.root(lambda v: values * v, standard_normal, 1e-3)
    exact = np.sqrt(values) * standard_normal
    assert np.linalg.norm(found - exact) <= 1e-3 * np.linalg.norm(exact)
    fine = noise.root(lambda v: values * v, standard_normal, 1e-12)[0]
    assert np.linalg.norm(fine - exact) <= 1e-10 * np.linalg.norm(exact)
    with pytest.raises(parki.ParkiError, match="not positive"):
        noise.root(lambda v: -v, standard_normal, 1e-3)
    assert count == products
    for first in (2, 12):
        again = noise.root(lambda v: values * v, standard_normal, 1e-3, first=first)
        np.testing.assert_allclose(again[0], found, rtol=1e-12, atol=1e-14)
        assert again[1] == count


@pytest.mark.parametrize(
    ("radii", "periodicity", "turns"), [("any", 0, False), ("any", 3, False), ("one", 0, True)]
)
def test_noise_is_by_the_root_of_the_mobility(radii, periodicity, turns):
    """Where it is not drawn by both fields apart."""
    a = np.broadcast_to(RADII[radii], COUNT)
    cutoff = 0.2 if periodicity else None
    spheres, *_ = given(RADII[radii], periodicity, 1e-4, cutoff=cutoff)
    matrix, size = matrix_of(spheres.as_linear_operator(torques=turns)), 3 * COUNT * (1 + turns)
    drawn = spheres.noise(np.random.default_rng(5), torques=turns, accuracy=1e-5)
    scales = np.repeat([(3 * a / 4) ** 0.5, a**1.5][: 1 + turns], 3, axis=0).ravel()
    root = sqrtm(scales[:, None] * (matrix + matrix.T) / 2 * scales).real
    expected = root @ np.random.default_rng(5).standard_normal(size) / scales
    np.testing.assert_allclose(np.ravel(drawn), expected, atol=1e-3 * abs(expected).max())


@pytest.mark.parametrize(("radii", "turns"), [("any", False), ("one", True)])
def test_noise_has_the_mobility(radii, turns):
    """By both fields apart: the mean square in units of the mobility, whose scatter is known."""
    spheres, *_ = given(RADII[radii], 3, 1e-3, cutoff=None if turns else 0.45)
    matrix, rng = matrix_of(spheres.as_linear_operator(torques=turns)), np.random.default_rng(2)
    drawn = [np.ravel(spheres.noise(rng, torques=turns, accuracy=1e-2)) for _ in range(20)]
    squares = [each @ np.linalg.solve(matrix, each) for each in drawn]
    assert abs(np.mean(squares) / len(matrix) - 1) < 4 * np.sqrt(2 / (20 * len(matrix)))


def test_displacements():
    spheres, _, forces, torques = given(0.07, 3, 1e-4)
    alone = spheres.displacements(0.0, 0.5, np.random.default_rng(0), forces)
    before = spheres.velocities(forces)
    np.testing.assert_allclose(alone, 0.5 * before, rtol=1e-12)
    first, again = (
        spheres.displacements(2.0, 0.1, np.random.default_rng(5), accuracy=1e-2) for _ in range(2)
    )
    np.testing.assert_allclose(first, again, rtol=1e-10)
    noisy = spheres.noise(np.random.default_rng(5), accuracy=1e-2)
    np.testing.assert_allclose(first, np.sqrt(2 * 2.0 * 0.1) * noisy, rtol=1e-10)
    np.testing.assert_array_equal(spheres.velocities(forces), before)  # noise leaves nothing
    moves, turns = spheres.displacements(0.0, 0.5, np.random.default_rng(0), forces, torques)
    assert moves.shape == turns.shape == (3, COUNT)


def test_steps_without_noise():
    """Are those of the forces, where noise is not defined, too."""
    spheres, _, forces, torques = given(RADII["tracers"], 3, 1e-3)
    step = spheres.displacements(0.0, 0.5, None, forces)
    assert np.array_equal(step, 0.5 * spheres.velocities(forces))
    steps = spheres.displacements(0.5, 0.0, None, torques=torques)
    assert np.array_equal(steps, np.zeros((2, 3, COUNT)))
    assert np.array_equal(spheres.displacements(0.0, 0.5, None), np.zeros((3, COUNT)))
    with pytest.raises(parki.ParkiValueError, match=r"noise .* is not defined"):
        spheres.displacements(1e-9, 0.5, None)


def test_generators_of_noise():
    """What NumPy makes a generator of is taken; all else is refused by name."""
    spheres, _, forces, _ = given(0.07, 3, 1e-3)
    expected = spheres.noise(np.random.default_rng(7), accuracy=1e-2)
    for rng in (7, np.int64(7), np.random.SeedSequence(7), np.random.PCG64(7)):
        assert np.array_equal(spheres.noise(rng, accuracy=1e-2), expected)
    step = spheres.displacements(2.0, 0.25, 7, accuracy=1e-2)
    np.testing.assert_allclose(step, expected, rtol=1e-12)
    first, second = (spheres.displacements(1.0, 1.0, None, forces) for _ in range(2))
    assert np.isfinite(first).all() and not np.array_equal(first, second)
    for rng in (np.random, "seed", -1, 1.5, object()):
        for draw in (spheres.noise, lambda rng: spheres.displacements(1.0, 1.0, rng)):
            with pytest.raises(parki.ParkiTypeError, match=r"rng is .*random\.default_rng takes"):
                draw(rng)
    for accuracy in (2, 1, 0, -1, np.nan, 1e-17):
        for draw in (spheres.noise, lambda *a, **k: spheres.displacements(1.0, 1.0, *a, **k)):
            with pytest.raises(parki.ParkiValueError, match=r"accuracy is .* below 1"):
                draw(0, accuracy=accuracy)
    with pytest.raises(parki.ParkiTypeError, match="accuracy is 'much'"):
        spheres.noise(0, accuracy="much")


@pytest.mark.parametrize("torques", [False, True])
def test_noise_again_and_again(torques, space, to_space, to_host):
    """A device launches the first noise, and records what makes the next ones."""
    options = parki.EwaldOptions(3, BOX, 1e-4, cutoff=0.4, execution_space=space)
    clouds = [to_space(suspension(seed=seed)[0]) for seed in range(2)]
    spheres, draws = parki.Spheres(clouds[0], 0.07, options), []
    how = {"torques": torques, "accuracy": 1e-6}
    for step in range(10):
        spheres.update_points(clouds[step % 2])
        for _ in range(2):
            found = spheres.noise(space.array_module.random.default_rng(5), **how)
            draws.append(np.array([to_host(each) for each in found]))
    for step in range(10):
        for again in draws[2 * step : 2 * step + 2]:
            first = draws[2 * (step % 2)]
            np.testing.assert_allclose(again, first, rtol=0, atol=1e-5 * abs(first).max())
