"""Rigid spheres against exact pairs, clusters and lattices, and what solves take."""

import numpy as np
import pytest

import parki
from parki.dynamics import brownian, moments, solver, tables
from parki.dynamics.moments import MomentFields, MomentMobility
from parki.reference.rigid_spheres import pressures, resistance
from parki.suspensions import noise

UNITS = {"viscosity": 1 / (8 * np.pi), "accuracy": 1e-9}
OPEN = {"periodicity": 0, "box": [1, 1, 1], "tolerance": 1e-8}
SHEAR = np.array([[0, 1.0, 0], [0, 0, 0], [0, 0, 0]])
Z, ACROSS = np.diag([-0.5, -0.5, 1.0]), np.array([[0, 0, 0.5], [0, 0, 0], [0.5, 0, 0]])


def pair(distance, radius=0.1):
    """Return two spheres along z, whose distance is in radii."""
    found = np.full((3, 2), 0.5)
    found[2] += np.array([-0.5, 0.5]) * distance * radius
    return found


def alone(count, index, axis):
    found = np.zeros((3, count))
    found[axis, index] = 1.0
    return found


# --- pairs ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("distance", "axial", "mutual", "turning"),
    [
        (2.05, 0.1023, -0.0950, 0.1186),
        (3.0, 0.0068, -0.0035, 0.0019),
    ],
)
def test_what_pairs_without_lubrication_lack(distance, axial, mutual, turning):
    """Mobilities over those of a sphere alone, minus exact ones: they fall as the sixth power."""
    two = parki.RigidSpheres(pair(distance), 0.1, lubrication=False, **UNITS, **OPEN)
    along, across, _ = (np.linalg.inv(each) for each in _exact(distance))
    found = two.velocities(alone(2, 0, 2))[2] * 0.75 * 0.1
    exact = along[0, 0] * 0.75, along[0, 2] * 0.75
    np.testing.assert_allclose(found - exact, [axial, mutual], atol=1e-4)
    turns = two.velocities(None, alone(2, 0, 1))[1][1, 0] * 0.1**3
    assert turns - across[1, 1] == pytest.approx(turning, abs=1e-4)


def _exact(distance):
    """Return the resistances by m of motions without strain, of radii 1."""
    found = resistance(1.0, 1.0, distance)
    return [found[m][np.ix_([0, 1, 3, 4], [0, 1, 3, 4])] for m in (0, 1)] + [found[2]]


@pytest.mark.parametrize(
    ("gap", "axial", "across"),
    [
        (1.0, 0.186663, 0.02228),
        (1e-2, 0.961946, 0.24608),
        (1e-5, 0.999959, 0.33191),
    ],
)
def test_pairs_in_strain_move_as_batchelor_and_green_have_it(gap, axial, across):
    """A and B of the relative velocity ``E r - (A e e + B (1 - e e)) E r``."""
    two = parki.RigidSpheres(pair(2 + gap), 0.1, **UNITS, **OPEN)
    r = (2 + gap) * 0.1
    apart = [two.solve(gradient=each).velocities @ [-1, 1] / r for each in (Z, ACROSS)]
    assert -apart[0][2] == pytest.approx(axial, abs=2e-6 if gap < 1 else 2e-3)
    assert -apart[1][0] / 0.5 == pytest.approx(across, abs=2e-5 if gap < 1 else 5e-4)


def test_pressures_of_exact_pairs():
    """Near contact numbers of another program, far away those of a force and a stresslet."""
    for gap, squeezed, strained in ((0.1, 0.3248, 2.6271), (0.03, 0.3527, 9.5822)):
        found = pressures(1.0, 1.0, 2 + gap)[0]
        assert (found[0] - found[3]) * gap == pytest.approx(squeezed, abs=1e-4)  # 3/8 at contact
        assert found[2] + found[5] == pytest.approx(strained, abs=1e-4)
    force, stresslet = resistance(1.0, 0.5, 12.0)[0][[3, 5], 0]
    far = (-force / 12**2 + stresslet * 6**0.5 / 12**3) * 1.0**3
    found = pressures(1.0, 0.5, 12.0)
    assert found[0, 0] == pytest.approx(far, rel=1e-3)
    turned = pressures(0.5, 1.0, 12.0)[1] * [-1, 1, 1, -1, 1, 1]
    np.testing.assert_allclose(found[0], np.roll(turned, 3), atol=1e-12)
    assert not found[:, [1, 4]].any()


def test_singular_parts_are_those_of_exact_pairs():
    """What is left over is smooth: four functions of the gap fit it, for all scalars."""
    gaps, ratio = np.array([0.006, 0.009, 0.013, 0.018, 0.024, 0.03]), 0.5
    exact = np.array([_scalars(gap, ratio) for gap in gaps])
    g1, g2, g3 = (each[:, 0] for each in tables.singular(np.array([ratio])))
    log = -np.log(gaps)[:, None]
    left = exact - g1 / gaps[:, None] - g2 * log - g3 * gaps[:, None] * log
    smooth = np.stack([gaps**0, gaps, gaps**2 * log[:, 0], gaps**2], axis=1)
    fit = np.linalg.lstsq(smooth, left, rcond=None)[0]
    assert abs(smooth @ fit - left).max() < 1e-7
    # A wrong third coefficient would show: 728 for 748 in that of Y12M, which some print.
    place = tables.PLACES[1, 2, 5]
    wrong = left[:, place] - 5 / 48 * 1.5**3 * 60 * 0.5**3 / 2500 / 1.5**3 * gaps * log[:, 0]
    misfit = smooth @ np.linalg.lstsq(smooth, wrong, rcond=None)[0] - wrong
    assert abs(misfit).max() > 3 * abs(smooth @ fit - left)[:, place].max()


def _scalars(gap, ratio):
    found = resistance(1.0, ratio, (1 + ratio) * (1 + gap / 2))
    return [found[m][i, j] for m, i, j in tables.SCALARS]


# --- clusters, lattices ---------------------------------------------------------------------------
# Points, radii, velocities, a pair pushed together, stresslets in shear, and the most errors of
# these three numbers, over which those without lubrication have more by a factor.
CLUSTERS = {
    "one radius": (
        [[0, 2.3, 1.15], [0, 0, 1.15 * 3**0.5], [0, 0, 0]],
        [1.0, 1.0, 1.0],
        [
            [1.42784, 1.50396, 0.66834],
            [-0.93864, 0.75164, 0.09344],
            [0.19758, 1.03228, 0.80310],
        ],
        0.70311,
        [-0.47884, -0.47884, -0.60246],
        [0.01, 0.025, 0.01],
        3,
    ),
    "two radii": (
        [[0, 1.75, 0.9], [0, 0, 2.15], [0, 0, 0]],
        [1.0, 0.5, 1.0],
        [
            [1.61995, 2.33205, 0.69865],
            [-0.90226, 1.70323, 0.18155],
            [0.52335, 1.98784, 0.71759],
        ],
        1.28561,
        [-0.45943, -0.04605, -0.47217],
        [0.01, 0.025, 0.01],
        3,
    ),
    "eight": (
        [
            [1.19, -0.05, 2.57, 0.62, -0.4, 2.72, -0.87, -1.12],
            [2.57, 1.02, 0.07, -0.72, 1.68, 2.49, -1.6, 1.78],
            [0.96, -0.14, 2.76, 1.75, 2.81, -1.87, 0.13, -2.28],
        ],
        [1.0] * 8,
        [
            [1.22689, 1.46497, 0.74266, -0.37406, 1.42258, 1.16564, -0.46446, 1.21078],
            [0.62304, 0.27084, 0.0382, 0.45344, -0.12187, 0.04843, -0.25936, 0.71517],
            [0.00931, -0.07494, -0.93606, 0.10035, 0.06351, -0.32477, 1.31756, 1.03168],
        ],
        0.66419,
        [-0.47465, -0.47512, -0.47929, -0.44585, -0.43712, -0.40605, -0.44377, -0.39065],
        [0.015, 0.01, 0.01],
        2,
    ),
}


@pytest.mark.parametrize("of", CLUSTERS)
def test_clusters_are_nearly_exact(of):
    """Next to Lamb's solutions about their centres, by least squares with 10 or 11 orders.

    Pairs alone leave errors of 1 % of velocities, and 2 % of a pair pushed together.
    """
    points, radii, velocities, pushed, stresses, most, more = CLUSTERS[of]
    points = 0.1 * np.array(points) + 0.4
    how = UNITS | OPEN | {"tolerance": 1e-5, "accuracy": 1e-5}
    forces, torques = (np.random.default_rng(n).standard_normal(points.shape) for n in (1, 2))
    errors = []
    for lubrication in (False, True):
        radius = 0.1 * np.array(radii)
        rigid = parki.RigidSpheres(points, radius, lubrication=lubrication, **how)
        found = 0.1 * rigid.velocities(forces, 0.1 * torques)[0]
        line = points[:, 1] - points[:, 0]
        line /= np.linalg.norm(line)
        forces_ = np.stack([line, -line] + [0 * line] * (len(radii) - 2), axis=1)
        together = 0.1 * (rigid.velocities(forces_) * forces_).sum()
        motion = rigid.solve(gradient=(SHEAR + SHEAR.T) / 2)
        parts = motion.stresslets[0, 1] / 0.1**3
        errors.append(
            [
                np.linalg.norm(found - velocities) / np.linalg.norm(velocities),
                abs(together / pushed - 1),
                np.linalg.norm(parts - stresses) / np.linalg.norm(stresses),
            ]
        )
    assert (np.array(errors[1]) < most).all()
    assert (np.array(errors[0]) > more * np.array(errors[1])).all()


@pytest.mark.parametrize(
    ("fraction", "stretched", "sheared"),
    [(0.1, 1.365, 1.243), (0.5, 42.982, 3.907)],
)
def test_viscosity_of_a_simple_cubic_array(fraction, stretched, sheared):
    """Spheres meet their own images; near contact the array hardly stretches along its axes."""
    edge = (4 * np.pi / 3 / fraction) ** (1 / 3)
    how = {"periodicity": 3, "box": [edge] * 3, "tolerance": 1e-6, "accuracy": 1e-6}
    array = parki.RigidSpheres(np.zeros((3, 1)), 1.0, **how)
    for flow, place, exact in (
        (np.diag([0.5, -0.5, 0]), (0, 0), stretched),
        (SHEAR, (0, 1), sheared),
    ):
        found = 1 + array.stress(array.solve(gradient=flow))[place]
        assert found == pytest.approx(exact, rel=1e-3)


def test_drag_of_a_simple_cubic_array():
    """As the manual has it: by symmetry there are no stresslets, and pairs hardly resist."""
    drags = {0.064: (2.7781, 2.7781), 0.125: (4.0826, 4.0873), 0.216: (6.2528, 6.2640)}
    for fraction, (unpaired, paired) in drags.items():
        edge = (4 * np.pi / 3 / fraction) ** (1 / 3)
        for lubrication, drag in ((False, unpaired), (True, paired)):
            how = {"periodicity": 3, "box": [edge] * 3, "tolerance": 1e-6, "accuracy": 1e-6}
            array = parki.RigidSpheres(np.zeros((3, 1)), 1.0, lubrication=lubrication, **how)
            found = array.velocities(alone(1, 0, 0))[0, 0] * 6 * np.pi
            assert 1 / found == pytest.approx(drag, rel=3e-4)


# --- parts of the mobility ------------------------------------------------------------------------
def test_the_near_field_is_positive_if_its_split_says_so():
    """With radii of 1 and 4, overlaps and nested spheres, as split noise needs it."""
    rng = np.random.default_rng(6)
    points, radii = rng.random((3, 8)), np.array([0.12, 0.03] * 4)
    points[:, 1] = points[:, 0] + 0.03
    points[:, 2] = points[:, 0] + [0.1, 0.05, 0.0]
    options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-4)
    plan = MomentMobility(points, radii, options).first
    assert plan.setup.split.positive
    scales = np.sqrt(moments.self_mobility(radii))
    units = np.eye(88).reshape(88, 11, 8) / scales
    near = np.array([(MomentFields(plan).near(each) / scales).ravel() for each in units])
    assert np.linalg.eigvalsh((near + near.T) / 2)[0] > 0.02


def test_far_noise_has_the_far_matrix():
    """What shapes white noise, twice, is the far field: a square root, without chance."""
    rng = np.random.default_rng(6)
    options = parki.EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-4)
    plan = MomentMobility(rng.random((3, 8)), np.array([0.12, 0.03] * 4), options).first
    fields, acts = MomentFields(plan), rng.standard_normal((11, 8))
    dens = moments.make_density(plan.space, acts)
    u, slopes = plan(dens)
    whole = fields._moved(np.concatenate([u, slopes.reshape(9, 8)]))
    stages, far = plan.pipeline.stages, np.zeros((12, 8))
    grid, _ = stages.spread(dens[None])
    once = stages.fgc.brownian_noise(grid).copy()
    once[:, :, stages.setup.mesh.stored[1] :] = 0  # Laplacians, which noise does not take
    field, own = stages.fgc.brownian_noise(once), {"u": far[:3], "grad_u": far[3:]}
    stages.gather(field, dens, own)
    found = fields._moved(far) + fields.near(acts)
    np.testing.assert_allclose(found, whole, atol=1e-6 * abs(whole).max())


# --- what solves take -----------------------------------------------------------------------------
def suspension(fraction, pushed=None):
    """Return 32 hard spheres in a unit cube and their radius; push the closest two to a gap."""
    rng, radius = np.random.default_rng(3), (3 * fraction / (4 * np.pi * 32)) ** (1 / 3)
    corners = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]).T / 4
    points = (np.mgrid[:2, :2, :2].reshape(3, -1, 1) / 2 + corners[:, None]).reshape(3, -1)

    def apart(one):
        found = points - one[:, None]
        return np.linalg.norm(found - np.round(found), axis=0)

    for index in rng.integers(32, size=2000):
        one = points[:, index] + rng.uniform(-0.3, 0.3, 3) * radius
        if (np.delete(apart(one), index) > 2 * radius).all():
            points[:, index] = one
    if pushed is not None:
        distances = np.array([apart(one) for one in points.T]) + 9 * np.eye(32)
        i, j = np.unravel_index(distances.argmin(), distances.shape)
        line = points[:, i] - points[:, j]
        line -= np.round(line)
        size = np.linalg.norm(line)
        points[:, i] += line * ((2 + pushed) * radius / size - 1)
    return points, radius


@pytest.mark.parametrize(("fraction", "most"), [(0.1, 8), (0.5, 14)])
def test_products_of_solves(fraction, most):
    """To 1e-3, of random forces and of shear, however small the gaps; velocities are as told."""
    for pushed in (None, 1e-4):
        points, radius = suspension(fraction, pushed)
        how = {"periodicity": 3, "box": [1, 1, 1], "tolerance": 1e-4}
        rigid = parki.RigidSpheres(points, radius, **how)
        forces = np.random.default_rng(4).standard_normal(points.shape)
        found = rigid.solve(forces)
        exact = parki.RigidSpheres(points, radius, accuracy=1e-6, **how).solve(forces)
        assert found.products <= most
        assert rigid.solve(gradient=SHEAR).products <= most
        error = np.linalg.norm(found.velocities - exact.velocities)
        assert error < 1e-3 * np.linalg.norm(exact.velocities)


@pytest.mark.parametrize(
    ("fraction", "near", "whole"),
    [(0.1, (3, 5, 7), (4, 7, 11)), (0.5, (5, 8, 12), (5, 10, 15))],
)
def test_products_of_noise(fraction, near, whole):
    """Of the near field, and of the whole mobility, to 1e-2, 1e-3 and 1e-4."""
    points, radius = suspension(fraction)
    rigid = parki.RigidSpheres(points, radius, periodicity=3, box=[1, 1, 1], tolerance=1e-4)
    mobility, standard_normal = rigid._mobility, np.random.default_rng(7).standard_normal((11, 32))
    scales, fields = mobility.alone**-0.5, MomentFields(mobility.first)
    for matrix, most in ((fields.near, near), (mobility.product, whole)):
        exact, _ = noise.root(matrix, standard_normal, 1e-8, scales=scales)
        for accuracy, products in zip((1e-2, 1e-3, 1e-4), most, strict=True):
            found, taken = noise.root(matrix, standard_normal, accuracy, scales=scales)
            error = np.linalg.norm((found - exact) * scales) / np.linalg.norm(exact * scales)
            assert error < accuracy
            assert taken <= products + 1


def test_the_drift_is_solved_as_roughly_as_it_may(monkeypatch):
    """To the root of the accuracy by fewer products, of which the mean has little."""
    points, radius = suspension(0.3)
    how = {"periodicity": 3, "box": [1, 1, 1], "tolerance": 1e-4}
    rough, exact = (
        parki.RigidSpheres(points, radius, accuracy=accuracy, **how)._equations
        for accuracy in (1e-2, 1e-6)
    )
    solutions, solve = {rough: [], exact: []}, solver.solve

    def recorded(equations, *sides, **options):
        solutions[equations].append(solve(equations, *sides, **options))
        return solutions[equations][-1]

    monkeypatch.setattr(solver, "solve", recorded)
    drawn, drifts = np.random.default_rng(9).standard_normal((6, *points.shape)), []
    for w in drawn:
        sides = [brownian.drift(each, w)[:2] for each in (rough, exact)]
        drifts.append([solve(exact, *each).moves[:3] for each in sides])
    assert len(solutions[rough]) == len(drawn)
    assert max(each.products for each in solutions[rough]) <= 4
    found, tight = np.moveaxis(drifts, 1, 0)
    assert np.linalg.norm(found - tight) < 0.1 * np.linalg.norm(tight)
    along = ((found - tight).mean(axis=0) * tight.mean(axis=0)).sum()
    assert abs(along) < 0.05 * (tight.mean(axis=0) ** 2).sum()
