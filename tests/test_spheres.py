"""Spheres of finite size: the mobility, the flow, and Brownian displacements."""

import contextlib
from functools import partial

import numpy as np
import pytest
from contract import matrix_of, rms
from scipy.linalg import sqrtm

import parki
from parki.ewald.split.hasimoto import Hasimoto
from parki.ewald.split.radial_series import radial_functions
from parki.ewald.sums import term_of
from parki.reference import direct_sum
from parki.suspensions import noise
from parki.suspensions.radii import lengths

BOX = np.array([1.2, 1.0, 0.9])
TILTED = parki.lattice(*BOX, 0.3, 0.2, 0.1)  # whose vectors parki does not turn
COUNT = 12


def suspension(count=COUNT, seed=0):
    """Spheres, some of which overlap, across a face, too; forces and torques."""
    rng = np.random.default_rng(seed)
    points = rng.random((3, count)) * BOX[:, None]
    points[:, 1] = points[:, 0] + [0.03, 0.02, -0.04]
    points[:, 3] = points[:, 2] - [0.0, 0.05, 0.0]
    points[0, 4:6] = 0.02, BOX[0] - 0.02
    points[1:, 5] = points[1:, 4]
    return points % BOX[:, None], *rng.standard_normal((2, 3, count))


def given(radii, periodicity, tolerance=1e-6, **options):
    points, forces, torques = suspension()
    options = {"periodicity": periodicity, "box": BOX, "tolerance": tolerance} | options
    return parki.Spheres(points, radii, **options), points, forces, torques


RADII = {
    "one": 0.07,
    "two": np.where(np.arange(COUNT) % 3, 0.05, 0.1),
    "any": np.linspace(0.03, 0.09, COUNT),
    "tracers": np.where(np.arange(COUNT) % 2, 0.06, 0.0),
}


@pytest.mark.parametrize("radius", [0.05, 0.3])
def test_cubic_array(radius):
    """One sphere in a cube: exact, and no more than this (the array of Hasimoto has more)."""
    how = {"viscosity": 1 / (6 * np.pi * radius), "tolerance": 1e-8}
    spheres = parki.Spheres(np.full((3, 1), 0.3), radius, periodicity=3, box=[1, 1, 1], **how)
    force, torque = np.array([[1.0], [0], [0]]), np.array([[0.0], [0], [4 / 3 * radius**2]])
    velocity, turn = spheres.velocities(force, torque)
    share = 4 / 3 * np.pi * radius**3
    assert abs(velocity[0, 0] - (1 - 2.8372974794806 * radius + share)) < 1e-8
    assert abs(turn[2, 0] - (1 - share)) < 1e-8


def test_sizes_of_the_terms_of_turns():
    """Squares are means over torques of the curl of the rotlet's flow, and of its gradient."""
    split, place, step = Hasimoto(4.0), np.array([0.1, 0.15, -0.2]), 1e-5

    def functions(at):
        distance = np.linalg.norm(at)
        return distance, radial_functions(distance, split.near(distance))

    def flow(at):
        return -2 * functions(at)[1].smooth(1) * np.cross(np.eye(3), at)  # a row for each torque

    def curls(at, step=step):
        slopes = [(flow(at + e) - flow(at - e)) / (2 * step) for e in step * np.eye(3)]
        d = np.array(slopes).transpose(1, 2, 0)  # [torque, component, axis]
        return np.array([d[:, k, j] - d[:, j, k] for j, k in ((1, 2), (2, 0), (0, 1))])

    distance, p = functions(place)
    expected = term_of("sphere_turns").square(distance**2, p)
    assert np.sum(np.square(curls(place))) / 3 == pytest.approx(expected, rel=1e-6)
    step = 1e-3
    slopes = [curls(place + e, step) - curls(place - e, step) for e in step * np.eye(3)]
    expected = term_of("sphere_turns_grad").square(distance**2, p)
    assert np.sum(np.square(slopes)) / (12 * step**2) == pytest.approx(expected, rel=1e-3)


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


def test_flow():
    """Outside of the spheres, the flow of points and of their Laplacian."""
    spheres, points, forces, _ = given(0.05, 0, 1e-8, viscosity=2.0)
    elsewhere = BOX[:, None] * np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    velocity, pressure, stress = spheres.flow(forces, elsewhere, want=("u", "p", "stress"))
    exact = direct_sum("stokes_sl", elsewhere, points, forces, periodicity=0)
    for i in range(3):
        dipoles = np.zeros((3, 3, COUNT))
        dipoles[:, i] = forces * 0.05**2 / 6
        exact[i] -= direct_sum("stokes_dipole", elsewhere, points, dipoles, periodicity=0, want="p")
    np.testing.assert_allclose(velocity * 16 * np.pi, exact, atol=1e-6)
    exact = direct_sum("stokes_sl", elsewhere, points, forces, periodicity=0, want="p")
    np.testing.assert_allclose(pressure * 8 * np.pi, exact, atol=1e-6)
    np.testing.assert_allclose(-np.trace(stress) / 3, pressure, atol=1e-6)


def test_flow_of_torques():
    """Outside of the spheres, the flow of rotlets; tracers move and turn with it."""
    spheres, points, forces, torques = given(RADII["one"], 3, 1e-7, viscosity=2.0)
    places = np.array([[0.1, 0.6, 1.1], [0.7, 0.2, 0.5], [0.4, 0.8, 0.1]])
    velocity, gradient = spheres.flow(None, places, torques, want=("u", "grad_u"))
    exact = direct_sum("stokes_rotlet", places, points, torques, periodicity=3, box=BOX)
    assert np.linalg.norm(places[:, None] - points[:, :, None], axis=0).min() > 0.1
    np.testing.assert_allclose(velocity * 16 * np.pi, exact, atol=3e-6)
    sizes = np.append(np.full(COUNT, RADII["one"]), np.zeros(3))
    how = {"tolerance": 1e-7, "viscosity": 2.0}
    together = parki.Spheres(np.hstack([points, places]), sizes, periodicity=3, box=BOX, **how)
    acts = [np.hstack([each, np.zeros((3, 3))]) for each in (forces, torques)]
    moves, turns = (each[:, COUNT:] for each in together.velocities(*acts))
    velocity, gradient, pressure, stress = spheres.flow(
        forces, places, torques, want=("u", "grad_u", "p", "stress")
    )
    np.testing.assert_allclose(velocity, moves, atol=1e-6)
    curl = [gradient[k, j] - gradient[j, k] for j, k in ((1, 2), (2, 0), (0, 1))]
    np.testing.assert_allclose(np.array(curl) / 2, turns, atol=1e-5)
    exact = direct_sum("stokes_sl", places, points, forces, periodicity=3, box=BOX, want="p")
    np.testing.assert_allclose(pressure * 8 * np.pi, exact, atol=3e-6)
    symmetric = 2.0 * (gradient + gradient.swapaxes(0, 1)) - pressure * np.eye(3)[..., None]
    np.testing.assert_allclose(stress, symmetric, atol=1e-5)
    assert not spheres.flow(None, places, torques, want="p").any()


# --- derivatives, which laws compare with differences ---------------------------------------------


@pytest.mark.parametrize("precision", ["full", pytest.param("mixed", marks=pytest.mark.slow)])
def test_noise_and_derivatives_in_precisions(precision):
    points, forces, values = suspension()
    dtype = np.float64 if precision == "mixed" else np.float32
    how = {"periodicity": 3, "box": BOX, "tolerance": 1e-4}
    spheres = parki.Spheres(points.astype(dtype), 0.07, **how, precision=precision)
    assert spheres.noise(np.random.default_rng(0), accuracy=1e-2).dtype == dtype
    slopes = spheres.vjp(forces.astype(dtype), values=values.astype(dtype))
    finer = parki.Spheres(points, 0.07, **how | {"tolerance": 1e-8})
    for name, exact in finer.vjp(forces, values=values).items():
        assert slopes[name].dtype == dtype
        assert rms(slopes[name] - exact) <= 1e-4 * rms(exact)


def test_derivatives_of_velocities_alone():
    """Forces that are zero are no forces, and weights that are zero are none."""
    spheres, _, values, torques = given(RADII["one"], 3, 1e-4)
    none, both = 0 * values, ("points", "torques")
    mixed = spheres.vjp(None, torques, values=values, wrt=both)
    zeros = spheres.vjp(none, torques, values=values, turns=none, wrt=both)
    for name in both:
        np.testing.assert_allclose(mixed[name], zeros[name], atol=1e-9 * abs(zeros[name]).max())
    moved = spheres.jvp(None, None, tangents={"torques": torques})
    np.testing.assert_array_equal(moved[1], spheres.velocities(None, torques)[1])


def test_gradients_keep_their_promises():
    """The sums of spheres that turn have gradients, with values or alone, and their errors."""
    points, _, torques = suspension()
    targets = points + np.random.default_rng(1).uniform(-0.05, 0.05, points.shape)
    for kernel in (
        "sphere_curl(turning=0.1, moving=0.05)",
        "sphere_turns(radius=0.05, source_radius=0.1)",
    ):
        options = parki.EwaldOptions(3, BOX, 1e-4)
        plan = parki.Plan(kernel, targets, points, options, want=("u", "grad_u"))
        found, alone = plan(torques), parki.Plan(kernel, targets, points, options, want="grad_u")
        assert rms((alone(torques) - found[1]).reshape(9, COUNT)) <= 2 * alone.promise(torques)
        finer = parki.EwaldOptions(3, BOX, 1e-7)
        exact = parki.Plan(kernel, targets, points, finer, want=("u", "grad_u"))(torques)
        promises = plan.promise(torques)
        assert rms(found[0] - exact[0]) <= promises[0]
        assert rms((found[1] - exact[1]).reshape(9, COUNT)) <= promises[1]


# --- what is refused ------------------------------------------------------------------------------


class Series:
    """A table's column, such as of pandas, whose method ``get`` is not CuPy's."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)

    def get(self, key):
        raise KeyError(key)


@pytest.mark.filterwarnings("error")
def test_radii_of_other_libraries_and_text():
    radii = np.linspace(0.1, 0.2, 5)
    assert (lengths(Series(radii), 5) == radii).all()
    for text in ("small", [".5"] * 5, ["x"] * 1000):  # NumPy would read the second one
        with pytest.raises(
            parki.ParkiTypeError, match=r"radii is .*expected an array of numbers"
        ) as caught:
            lengths(text, 5)
        assert len(str(caught.value)) < 300
    torch = pytest.importorskip("torch")
    assert (lengths(torch.from_numpy(radii), 5) == radii).all()


X, FORCES, VALUES = suspension()
TWICE = np.stack([VALUES, VALUES])
HOW = {"periodicity": 2, "box": BOX, "tolerance": 1e-3}
REFUSED_RADII = {
    "negative": (-0.1, {}),
    "radii has shape": ([0.1, 0.2], {}),
    "radii is": ("small", {}),
    "radii has lengths below 1e-100 or above": (5e-324, {}),
    "radii has lengths below 1e-100 or above .*": (np.where(np.arange(COUNT), 0.05, 1e300), {}),
    "radii has .* in this box": (2e9, {}),
    "but the spheres of": (0.1, {"cutoff": 0.31}),
    "viscosity is 0": (0.1, {"viscosity": 0}),
    "viscosity is '1'; expected a positive number": (0.1, {"viscosity": "1"}),
    "radial is 'erfc', but sphere_sl": (
        0.1,
        {"expert": parki.Expert(split="hasimoto", radial="erfc")},
    ),
}
REFUSED = {
    "^centres has dtype float64, but points": lambda s: s.flow(FORCES, X.astype("f4")),
    "forces and torques are None": lambda s: s.velocities(None),
    "forces and torques have the shapes": lambda s: s.velocities(FORCES, TWICE),
    r"torques has shape \(3, 5\); expected": lambda s: s.velocities(FORCES, VALUES[:, :5]),
    "not defined": lambda s: s.noise(np.random.default_rng(0)),
    "kT is -1": lambda s: s.displacements(-1, 0.1, np.random.default_rng(0)),
    "dt is 5e-324, in which noise of kT=1 has velocities that no": lambda s: s.displacements(
        1, 5e-324, np.random.default_rng(0)
    ),
    "dt is None; expected a number, 0 or more": lambda s: s.displacements(1, None, 0),
    r"points has shape \(3, 5\)": lambda s: s.update_points(X[:, :5]),
    "points has dtype float32, but they were .* new spheres": lambda s: s.update_points(
        X.astype("f4")
    ),
    "^forces or torques contains NaN": lambda s: s.promise(np.nan * FORCES),
    "wrt is .*; expected names of what": lambda s: s.vjp(FORCES, values=VALUES, wrt=()),
    "wrt is .points.; expected": lambda s: s.vjp(FORCES, values=VALUES, wrt="points"),
    "wrt is .*radii.*; expected": lambda s: s.vjp(FORCES, values=VALUES, wrt=("points", "radii")),
    "tangents is .'radii'": lambda s: s.jvp(FORCES, tangents={"radii": FORCES}),
    "values and turns are None": lambda s: s.vjp(FORCES, values=None),
    "^forces and torques are None": lambda s: s.vjp(None, values=VALUES),
    "forces and values have the shapes": lambda s: s.vjp(FORCES, values=TWICE),
    "points and their tangents have": lambda s: s.jvp(FORCES, tangents={"points": TWICE}),
}


def refused(words):
    """Refuse types where something is no number, or is missing, and values elsewhere."""
    kinds = ("dtype", "are None", "is None", "radii is", "viscosity is '1'")
    kind = any(each in words for each in kinds)
    return pytest.raises(parki.ParkiTypeError if kind else parki.ParkiValueError, match=words)


def test_refusals():
    for words, (radii, more) in REFUSED_RADII.items():
        with refused(words):
            parki.Spheres(X.astype("f4"), radii, **HOW, **more)
    spheres = parki.Spheres(X, 0.05, **HOW)
    for words, call in REFUSED.items():
        with refused(words):
            call(spheres)
    with pytest.raises(parki.ParkiValueError, match="tracers"):
        parki.Spheres(X, 0.0, box=BOX).noise(0)


NOTHING = np.zeros((3, 0))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("how", [{"periodicity": 3, "wall": None}, {"wall": "no-slip"}])
@pytest.mark.parametrize("radii", [0.05, NOTHING[0]])
def test_no_spheres_do_not_move(radii, how):
    none = parki.Spheres(NOTHING, radii, **HOW | how)
    for torques in (None, NOTHING):
        steps = none.displacements(1.0, 0.1, 0, NOTHING, torques)
        drawn = none.noise(0, torques=torques is not None)
        for found in (steps, drawn):
            assert np.shape(found) == ((3, 0) if torques is None else (2, 3, 0))
    assert none.displacements(1.0, 0.1, 0).shape == (3, 0)
    assert none.check(NOTHING).error == none.check(NOTHING).flow == 0


# --- other libraries ------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_one_library_in_and_out(library):
    """Results of forces are in their library; points, steps and noise in that of the points."""
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    make = module.from_numpy if library == "torch" else module.numpy.asarray
    kind = module.Tensor if library == "torch" else module.Array
    double = module.enable_x64(True) if library == "jax" else contextlib.nullcontext()
    points, *given = suspension()
    how = {"periodicity": 3, "box": BOX, "tolerance": 1e-4}

    def results(spheres, make):
        f, t, x = (make(each) for each in (*given, points[:, :4]))
        step = lambda *more, kT=1.0: spheres.displacements(kT, 0.1, 7, *more)  # noqa: E731
        yield from (
            spheres.velocities(f),
            *spheres.velocities(f, t),
            spheres.velocities(None, t)[1],
        )
        yield from (spheres.flow(f, x), *spheres.flow(f, x, t, want=("u", "p", "stress")))
        yield from (step(), step(f), *step(f, t), step(kT=0), step(f, kT=0))
        yield from (spheres.noise(7), *spheres.noise(7, torques=True), spheres.points)
        yield from spheres.vjp(f, t, values=f, wrt=("forces", "torques", "points")).values()
        yield spheres.jvp(f, tangents={"points": f})
        spheres.update_points(make(0.9 * points))
        yield from (spheres.points, step(f))

    with double:
        spheres = [parki.Spheres(each, RADII["one"], **how) for each in (points, make(points))]
        ours, theirs = results(spheres[0], lambda array: array), results(spheres[1], make)
        for expected, found in zip(ours, theirs, strict=True):
            assert type(expected) is np.ndarray and isinstance(found, kind)
            np.testing.assert_array_equal(np.asarray(found), expected)
        assert type(spheres[1].velocities(given[0])) is np.ndarray
        assert isinstance(spheres[1].displacements(1.0, 0.1, 7, given[0]), kind)
