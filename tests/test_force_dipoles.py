"""Spheres of any radii with forces and force dipoles in one sum: torques and stresslets."""

import functools
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from helpers.contract import assert_promised, costs_of_a_device
from helpers.force_dipole_reference import mobility
from scipy.spatial.transform import Rotation

import parki
from parki.dynamics import moments
from parki.ewald.far import p2g
from parki.ewald.split.faxen import ForceDipoleSplit
from parki.ewald.split.prolate import Prolate

BOX = np.array([1.2, 1.0, 0.9])
LEANING = np.array([[1.1, 0.0, 0.0], [0.3, 1.0, 0.0], [-0.1, 0.2, 0.9]])
# Turned, so that forces and force dipoles turn with the box, and velocities and gradients back.
TILTED = LEANING @ Rotation.from_rotvec([0.4, -0.9, 1.3]).as_matrix()
RADII = 0.12, 0.05, 0.08, 0.08, 0.12
COUNT = 10
WANT = ("u", "grad_u")


def suspension(basis, seed=0):
    """Return centres, radii, forces and force dipoles: all ways in which two spheres meet."""
    rng = np.random.default_rng(seed)
    points = basis.T @ rng.random((3, COUNT))
    radii = np.array(RADII * 2)
    points[:, 1] = points[:, 0] + [0.1, 0.05, -0.04]  # overlap
    points[:, 6] = points[:, 5] + [0.02, 0.0, 0.01]  # one within the other
    points[:, 3] = points[:, 2] + [0.0, 0.16, 0.0]  # touch, up to rounding
    points[:, 8] = points[:, 7]  # one in the place of another
    forces, dipoles = rng.standard_normal((3, COUNT)), rng.standard_normal((3, 3, COUNT))
    return points, radii, forces, 0.05 * dipoles


def density(forces, dipoles):
    return np.concatenate([forces, dipoles.reshape(9, -1)])


def plan_of(points, radii, want=WANT, **options):
    """Return the plan of spheres of any radii, or of one radius if they have the same."""
    options, largest, marks = parki.EwaldOptions(**options), float(radii.max()), radii
    name = parki.kernel("polydisperse_dipoles", largest=largest)
    if largest and (radii == largest).all():
        name, marks = parki.kernel("sphere_dipoles", radius=largest), None
    return parki.Plan(name, points, points, marks, options, want=want)


def errors(found, exact):
    """Return the rms errors, of velocities and of gradients."""
    return [np.sqrt(((a - b) ** 2).sum() / a.shape[-1]) for a, b in zip(found, exact, strict=True)]


def cases(*usual):
    """Return what has a test meet some cases; the long run has all of them."""
    every = ("brick", "tilted", "free", "one radius")
    marked = [pytest.param(c, marks=() if c in usual else pytest.mark.slow) for c in every]
    return pytest.mark.parametrize("case", marked)


def given_of(case):
    """Return points and densities, and the options of a box."""
    box = TILTED if case == "tilted" else BOX
    given = suspension(box if case == "tilted" else np.diag(BOX))
    if case == "one radius":
        given = given[0], np.full(COUNT, 0.1), *given[2:]
    return given, {"periodicity": 0} if case == "free" else {"periodicity": 3, "box": box}


@functools.cache
def exact_of(case):
    """Return the exact sums."""
    given, options = given_of(case)
    box = options.get("box")
    return mobility(*given, np.diag(box) if np.ndim(box) == 1 else box)


@pytest.mark.parametrize(
    ("case", "tolerance", "dtype"),
    [
        *(("tilted", 1e-9, "f8"), ("free", 1e-3, "f8"), ("one radius", 1e-3, "f8")),
        *(
            pytest.param(name, *how, marks=pytest.mark.slow)
            for name in ("brick", "tilted", "one radius")
            for how in ((1e-9, "f8"), (1e-3, "f8"), (1e-3, "f4"))
            if (name, how[0]) != ("tilted", 1e-9)
        ),
    ],
)
def test_mobility(case, tolerance, dtype):
    """Apart, touching, overlapping, nested and in one place; within the promise, and not by far."""
    (points, radii, forces, dipoles), options = given_of(case)
    plan = plan_of(points.astype(dtype), radii, tolerance=tolerance, **options)
    dens = density(forces, dipoles).astype(dtype)
    for error, promise in zip(errors(plan(dens), exact_of(case)), plan.promise(dens), strict=True):
        assert 1e-3 * promise < error <= promise


@cases("tilted", "one radius")
def test_it_is_symmetric(case):
    """The adjoint is the same sum, before and after a move."""
    (points, radii, *given), options = given_of(case)
    check_adjoint(plan_of(points, radii, tolerance=1e-7, **options), points, given)


@cases("tilted")
@pytest.mark.parametrize("want", WANT)
def test_each_result_alone(case, want):
    (points, radii, *given), options = given_of(case)
    both = plan_of(points, radii, tolerance=1e-7, **options)(density(*given))
    plan, other = plan_of(points, radii, want, tolerance=1e-7, **options), both[WANT.index(want)]
    np.testing.assert_allclose(plan(density(*given)), other, atol=1e-6 * abs(other).max())
    check_adjoint(plan, points, given)


def check_adjoint(plan, points, given):
    """Compare products with the adjoint's."""
    dens, alone = density(*given), plan.want in WANT
    values = suspension(np.diag(BOX), seed=3)[2:]
    for moved in (points, 0.9 * points[:, ::-1]):
        plan.update_points(moved, moved)
        found = (plan(dens),) if alone else plan(dens)
        own = (values[WANT.index(plan.want)],) if alone else values
        back = plan.adjoint(own[0] if alone else own)
        ours = sum((a * b).sum() for a, b in zip(found, own, strict=True))
        scale = np.linalg.norm(back) * np.linalg.norm(dens)
        assert abs(ours - (back * dens).sum()) < 1e-11 * scale


@cases("tilted", "one radius")
def test_it_is_positive_however_spheres_overlap(case):
    """By forces, torques and stresslets, in units of spheres alone."""
    (points, radii, *_), options = given_of(case)
    plan = plan_of(points, radii, tolerance=1e-7, **options)
    scales = np.sqrt(moments.self_mobility(radii)).ravel()
    columns = []
    for unit in np.eye(11 * COUNT) / scales[:, None]:
        u, gradients = plan(moments.make_density(plan.space, unit.reshape(11, COUNT)))
        flow = np.concatenate([u, gradients.reshape(9, COUNT)])
        columns.append(moments.make_moves(plan.space, flow).ravel() / scales)
    matrix = np.array(columns)
    assert np.linalg.eigvalsh(matrix + matrix.T)[0] > (-1e-6 if radii[7] == radii[8] else 1e-2)


@pytest.mark.parametrize("distance", [0.17, 0.07])
def test_pairs_that_begin_to_overlap_do_not_jump(distance):
    """Where they touch, and where one is within the other."""
    points, radii, *given = suspension(np.diag(BOX))
    how, found = {"periodicity": 3, "box": BOX, "tolerance": 1e-7}, []
    for size in (1 - 1e-8, 1 + 1e-8):
        points[:, 1] = points[:, 0] + size * distance * np.array([0.6, -0.48, 0.64])
        found.append(plan_of(points, radii, **how)(density(*given)))
    for inner, outer in zip(*found, strict=True):
        assert abs(inner - outer).max() < 1e-6 * abs(outer).max()


def test_exchanged_axes():
    """The periodic axes come first in the solver, which exchanges the rows of dipoles, too."""
    points, radii, forces, dipoles = suspension(np.diag(BOX))
    how = {"tolerance": 1e-7, "box": [1.2, None, 0.9]}
    dens = density(forces, dipoles)
    u, g = plan_of(points, radii, periodicity=(True, False, True), **how)(dens)
    order, back = [0, 2, 1], [0, 2, 1]
    how["box"] = [1.2, 0.9, None]
    dens = density(forces[order], dipoles[order][:, order])
    v, h = plan_of(points[order], radii, periodicity=2, **how)(dens)
    for ours, theirs in ((u, v[back]), (g, h[back][:, back])):
        assert abs(ours - theirs).max() < 1e-6 * abs(theirs).max()


@pytest.mark.parametrize("of", [pytest.param("one radius", marks=pytest.mark.slow), "two radii"])
@pytest.mark.parametrize(
    ("periodicity", "box"), [(1, BOX), pytest.param(2, LEANING, marks=pytest.mark.slow)]
)
def test_free_axes(periodicity, box, of):
    """Spheres apart are points with Laplacians, which four other sums make."""
    rng = np.random.default_rng(2)
    points = (np.mgrid[:2, :2, :2].reshape(3, -1) + 0.6 + 0.2 * rng.random((3, 8))) * 0.4
    radii = rng.choice([0.03, 0.09], 8) if of == "two radii" else np.full(8, 0.07)
    if periodicity == 2:
        box = np.array([*LEANING[:2], [0.0, 0.0, 1.0]])
    forces, dipoles = rng.standard_normal((3, 8)), 0.05 * rng.standard_normal((3, 3, 8))
    how = {"periodicity": periodicity, "box": box}
    u = 4 / (3 * radii) * forces
    g = 0.4 / radii**3 * (4 * dipoles - dipoles.swapaxes(0, 1))
    g -= 0.4 / radii**3 * np.einsum("jjn->n", dipoles) * np.eye(3)[..., None]

    def add(kernel, dens, weights=None):
        sums = parki.Plan(kernel, points, points, tolerance=1e-9, want=WANT, **how)
        v, h = sums(dens)
        if weights is None:
            return v, h
        w, k = sums(weights * dens)
        return -(radii**2 / 3 * v + w), -(radii**2 / 5 * h + k)

    for each in (
        add("stokes_sl", forces),
        add("stokes_dipole", dipoles),
        add("doublet", forces, radii**2 / 3),
        add("doublet_dipole", dipoles, radii**2 / 5),
    ):
        u, g = u + each[0], g + each[1]
    plan = plan_of(points, radii, tolerance=1e-6, **how)
    dens = density(forces, dipoles)
    assert_promised(plan, dens, (u, g))


@cases("tilted")
def test_variants_of_a_device(case):
    (points, radii, *given), options = given_of(case)
    with costs_of_a_device():
        plan = plan_of(points, radii, tolerance=1e-4, **options)
        assert plan.pipeline.setup.near.method == "tile"
        found = plan(np.stack([density(*given)] * 2))
        alone = plan_of(points, radii, "u", tolerance=1e-4, **options)(density(*given))
    promises = plan.promise(density(*given))
    for each in ([of[0] for of in found], [of[1] for of in found], [alone, found[1][0]]):
        for error, promise in zip(errors(each, exact_of(case)), promises, strict=True):
            assert error <= promise


@pytest.mark.parametrize("same", [False, True], ids=["random", "the same"])
def test_measured_error(same):
    """In a suspension, of random densities, and of the same stresslet on all spheres."""
    rng = np.random.default_rng(5)
    points, radii = rng.random((3, 400)), rng.lognormal(0, 0.3, 400)
    radii *= (0.6 / (4 * np.pi * (radii**3).sum())) ** (1 / 3)
    forces, dipoles = rng.standard_normal((3, 400)), 0.05 * rng.standard_normal((3, 3, 400))
    if same:
        forces[:], dipoles[:] = 0.0, dipoles[..., :1]
    plan = plan_of(points, radii, periodicity=3, box=[1, 1, 1], tolerance=1e-4)
    fine = plan_of(points, radii, periodicity=3, box=[1, 1, 1], tolerance=1e-8)
    dens = density(forces, dipoles)
    for error, promise in zip(errors(plan(dens), fine(dens)), plan.promise(dens), strict=True):
        assert 0 < error <= promise


def test_the_near_field_is_positive_of_small_spheres():
    """As its largest spheres are against the shortest waves of the grid."""
    for c, rc, largest, expected in ((12.0, 0.3, 0.08, True), (12.0, 0.3, 0.2, False)):
        assert ForceDipoleSplit(Prolate(c, rc), largest, 2, 2).positive is expected


def test_tables_have_exact_integrals():
    """Without constants, the same stresslet of all spheres would add up errors."""
    split = ForceDipoleSplit(Prolate(9.0, 1.0), 0.2, 2, 2)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    t = (nodes + 1) / 2
    found = split.tables(1.0, 14)
    for level, (flow, slope) in enumerate(((2 / 3, 1.0), (-4 / 3, 0.0), (0.0, 0.0))):
        tables = (found.smooth(n, level) for n in range(4))
        t0, t1, t2, t3 = (np.polyval(f, 2 * t**2 - 1) for f in tables)
        own = weights / 2 * t**2
        assert own @ (4 * t0 - 4 / 3 * t**2 * t1) == pytest.approx(flow, abs=1e-9)
        assert own @ (15 * t1 - 10 * t**2 * t2 + t**4 * t3) == pytest.approx(slope, abs=1e-9)


def test_points_alone():
    """Radii of 0: the sums of points, without a sphere's own part."""
    points, radii, forces, dipoles = suspension(np.diag(BOX))
    points = np.delete(points, 8, axis=1)
    forces, dipoles, radii = forces[:, 1:], dipoles[..., 1:], 0 * radii[1:]
    options = parki.EwaldOptions(periodicity=3, box=BOX, tolerance=1e-6)
    found = plan_of(
        points, radii, **{n: getattr(options, n) for n in ("periodicity", "box", "tolerance")}
    )(density(forces, dipoles))
    for name, ours in zip(WANT, found, strict=True):
        theirs = sum(
            parki.Plan(kernel, points, points, replace(options, tolerance=1e-8), want=name)(dens)
            for kernel, dens in (("stokes_sl", forces), ("stokes_dipole", dipoles))
        )
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * abs(theirs).max())


@pytest.mark.parametrize(
    "sizes", [(0.01, 0.005), pytest.param((0.01, 0.01), marks=pytest.mark.slow)]
)
def test_memory_that_is_predicted(sizes, monkeypatch):
    """Laplacians are gathered as well, radii are kept, and pairs in contact have lists as well."""
    monkeypatch.setattr(p2g, "LEAST", 1 << 60)  # which is not traced
    rng, options = np.random.default_rng(4), {"periodicity": 3, "box": [1, 1, 1]}
    points, radii = rng.random((3, 20_000)), np.array(sizes * 10_000)
    dens = rng.standard_normal((12, 20_000))
    plan_of(points, radii, tolerance=1e-3, **options)(dens)  # what is made once in a process
    parki.clear_cache()
    tracemalloc.start()
    try:
        plan = plan_of(points, radii, tolerance=1e-3, **options)
        plan(dens)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    by_chance = plan.memory.parts["transforms"]  # of threads at the same time
    assert 0.95 * peak <= plan.memory.peak
    assert plan.memory.peak - by_chance <= 1.1 * peak
