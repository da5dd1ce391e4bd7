"""Spheres of finite size: the mobility, the flow, and Brownian displacements."""

import contextlib

import numpy as np
import pytest
from contract import rms
from some_spheres import BOX, COUNT, RADII, given, suspension

import parki
from parki.ewald.split.hasimoto import Hasimoto
from parki.ewald.split.radial_series import radial_functions
from parki.ewald.sums import term_of
from parki.reference import direct_sum
from parki.suspensions.radii import lengths


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
