"""Lubrication of rigid spheres: tables of exact pairs, and near pairs."""

import numpy as np
import pytest
from helpers.five_spheres import CUBE, OPEN, POINTS, RADII, off, vectors

import parki
from parki.dynamics import radius_tables, tables
from parki.dynamics.close import close_pairs
from parki.dynamics.lubrication import Lubrication
from parki.dynamics.pair_matrix import PairMatrix
from parki.reference import two_spheres
from parki.reference.rigid_spheres import in_basis, moment_mobility, resistance
from parki.runtime import get_execution_space
from parki.solving import search


def test_exact_pairs_have_published_values():
    """Of Jeffrey and Onishi (1984), for a gap of a tenth of the radius."""
    found = two_spheres(1.0, 1.0, 2.1)
    for name, one, two in (
        ("XA", 4.0321, -3.3812),
        ("YA", 1.3930, -0.6599),
        ("XM", 2.5728, 1.7138),
    ):
        assert np.allclose(found[name], (one, two), atol=1e-4)
    apart = two_spheres(1.0, 0.5, 100.0)
    for name in ("XA", "YA", "XC", "YC", "XM", "YM", "ZM"):
        assert abs(apart[name][0] - 1) < 1e-3
        assert abs(apart[name][1]) < 0.03
    with pytest.raises(ValueError, match="expected a gap"):
        two_spheres(1.0, 1.0, 1.9)
    with pytest.raises(ValueError, match="terms of series"):
        two_spheres(1.0, 1.0, 2 + 1e-7)


def exact_scalars(gap, ratio):
    """The numbers of the tables, of an exact pair."""
    r = (1 + ratio) * (1 + gap / 2)
    own = np.linalg.inv(moment_mobility(np.array([[0, 0], [0, 0], [0, r]]), [1.0, ratio]))
    found = {
        m: exact - in_basis(m).T @ own @ in_basis(m)
        for m, exact in resistance(1.0, ratio, r).items()
    }
    return np.array([found[m][i, j] for m, i, j in tables.SCALARS])


@pytest.mark.parametrize(
    ("ratio", "gap"),
    [(1.0, 0.004), (1.0, 0.07), (1.0, 0.09), (0.63, 0.5), (0.37, 0.03), (0.2, 1.9)],
)
def test_tables_are_those_of_exact_pairs(ratio, gap):
    exact = exact_scalars(gap, ratio)
    assert off(tables.scalars(np.array([gap]), np.array([ratio]))[:, 0], exact) < 1e-7


def test_pairs_resist_every_motion():
    """At all gaps and ratios, in each m."""
    rng = np.random.default_rng(0)
    gap, ratio = 2 * 10 ** rng.uniform(-6, 0, 500), rng.uniform(0.2, 1, 500)
    found = tables.scalars(gap, ratio)
    for m, size in enumerate(tables.SIZES):
        matrices = np.zeros((500, size, size))
        for (own, i, j), place in tables.PLACES.items():
            if own == m:
                matrices[:, i, j] = matrices[:, j, i] = found[place]
        values = np.linalg.eigvalsh(matrices)
        assert (values[:, 0] > -1e-6 * values[:, -1]).all()


@pytest.fixture(scope="module")
def pairs():
    return Lubrication(POINTS, RADII, parki.EwaldOptions(**CUBE), 0.0)


@pytest.mark.parametrize(
    ("options", "radius"),
    [
        (CUBE, 0.05),
        (CUBE, 0.4),  # which reaches over several images, and its own
        ({"periodicity": 3, "box": parki.lattice(1, 1.1, 0.9, xy=0.45, xz=0.2, yz=-0.4)}, 0.11),
        ({"periodicity": 2, "box": [1, 1, None]}, 0.11),
        ({"periodicity": (False, True, False), "box": [None, 1, 2]}, 0.2),
        ({"periodicity": 0, "box": [None] * 3}, 0.11),
    ],
)
def test_close_pairs_are_near_pairs_each_of_which_is_there_once(options, radius):
    rng, given = np.random.default_rng(2), parki.EwaldOptions(**options)
    points, radii = rng.random((3, 60)) * 0.89, radius * rng.uniform(0.5, 1, 60)
    points[:, :2] -= 3.0 * (np.array(given.periodic) @ given.vectors)[:, None]
    found = close_pairs(get_execution_space("CPU"), points, radii, radii.max(), given, 2.0)
    near = parki.near_pairs(points, points, 4 * radii.max(), given)
    i, j = near.targets, near.indices
    keep = near.distances < 2 * (radii[i] + radii[j])
    expected = np.vstack([i, j, -near.displacements])[:, keep]
    both = np.vstack([found.first, found.second, found.vectors])
    assert (radii[found.first] >= radii[found.second]).all()
    again = both * np.array([[1], [1], [-1], [-1], [-1]])
    both = np.hstack([both, again[[1, 0, 2, 3, 4]]])
    assert both.shape == expected.shape
    order = [np.lexsort(each[[2, 3, 4, 1, 0]].round(9)) for each in (both, expected)]
    np.testing.assert_allclose(both[:, order[0]], expected[:, order[1]], atol=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("options", [CUBE, OPEN])
def test_points_that_are_no_numbers_are_refused(options):
    rigid = parki.RigidSpheres(POINTS, RADII, **options)
    for value in (np.nan, np.inf, -np.inf):
        points = POINTS.copy()
        points[1, 2] = value
        with pytest.raises(parki.ParkiError, match="points contains NaN or infinity"):
            rigid.update_points(points)
        assert (rigid.points == POINTS).all()
    assert np.isfinite(rigid.velocities(vectors())).all()


def test_too_many_pairs_are_refused(monkeypatch):
    monkeypatch.setattr(search, "MOST", 3)
    with pytest.raises(parki.ParkiError, match=r"radii up to 0.2 have 2\*\*31 close pairs or more"):
        parki.RigidSpheres(POINTS, RADII, **CUBE)


def test_pairs_of_many_radii_are_those_of_few(monkeypatch):
    """Scalars by weights that are made once for each two radii are those of each pair."""
    for options in (CUBE, {"periodicity": 1, "box": [1, 1, 1]}):
        given = POINTS, RADII, parki.EwaldOptions(**options), 0.0
        few = Lubrication(*given)
        with monkeypatch.context() as patch:
            patch.setattr(radius_tables, "FEW", 0)
            many = Lubrication(*given)
        assert off(few.rows, many.rows) < 1e-12


def test_products_matrix_and_roots_are_of_one_matrix(pairs):
    own = 1 + np.arange(10.0).reshape(2, 5)
    matrix = PairMatrix(get_execution_space("CPU"), pairs, 1 / own)
    moves = vectors(rows=6)
    exact = pairs.acting(moves)[0]
    assert off(matrix(moves), exact) < 1e-13
    dense = np.array([matrix(each.reshape(6, 5)).ravel() for each in np.eye(30)])
    roots = [
        pairs.brownian_noise(each.reshape(4, 3, -1)).ravel()
        for each in np.eye(12 * pairs.first.size)
    ]
    assert off(np.transpose(roots) @ roots, dense) < 1e-13
    found, product = matrix.solve(exact + np.repeat(own, 3, axis=0) * moves)
    assert off(found, moves) < 0.5
    assert off(product, matrix(found)) < 1e-12
    # Strain and motion meet in a symmetric matrix, too.
    strain = vectors(3, 3)
    strain += strain.T - 2 / 3 * np.trace(strain) * np.eye(3)
    one = (pairs.acting(strain=strain)[0] * moves).sum()
    assert one == pytest.approx((pairs.acting(moves)[1].sum(axis=-1) * strain).sum())
    two = pairs.acting(strain=strain)[1]
    assert (two.sum(axis=-1) * strain).sum() > 0
    assert abs(np.trace(two)).max() < 1e-13 * abs(two).max()


def test_clusters_that_nearly_touch_move_as_solves_that_go_on():
    """Where the inexact preconditioner leaves a negative number, a solve has not ended."""
    gap, cells = 1e-4, np.mgrid[:2, :2, :2].reshape(3, 1, -1)
    corners = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]).T / 2
    points = 0.2 + (corners[:, :, None] + cells).reshape(3, -1) * (2 + gap) * np.sqrt(2) * 0.05
    rigid = parki.RigidSpheres(points, 0.05, **CUBE)
    forces = np.random.default_rng(3).standard_normal((2, *points.shape))
    one, other = (rigid.velocities(each) for each in forces)
    power = np.sqrt((forces[0] * one).sum() * (forces[1] * other).sum())
    assert abs((forces[1] * one).sum() - (forces[0] * other).sum()) < 2e-3 * power
    units = np.eye(6 * points.shape[1]).reshape(-1, 6, points.shape[1])
    matrix = rigid._equations.matrix
    inverse = np.array([matrix.inverse(e, np.empty_like(e)).ravel() for e in units])
    assert np.linalg.eigvalsh(inverse)[0] > 0
    assert off(inverse, inverse.T) < 1e-12


@pytest.mark.parametrize(("a", "b", "gap"), [(0.15, 0.15, 0.003), (0.1, 0.2, 0.4)])
def test_two_spheres_move_as_exactly_as_tables(a, b, gap):
    """Under forces and torques along and across their line, and in strain along it."""
    r, how = (a + b) * (1 + gap / 2), {"accuracy": 1e-9, "viscosity": 1 / (8 * np.pi)}
    points = np.array([[0.3, 0.3], [0.4, 0.4], [0.3, 0.3 + r]])
    two = parki.RigidSpheres(points, [a, b], **how, **OPEN)
    axial, across, _ = resistance(a, b, r).values()
    forces = np.array([[0, 0], [0, 0], [1.0, -0.5]])
    found = two.velocities(forces)[2]
    exact = np.linalg.solve(axial[np.ix_([0, 3], [0, 3])], forces[2])
    assert off(found, exact) < 1e-5
    forces, torques = (
        np.array([[1.0, 0.3], [0, 0], [0, 0]]),
        np.array([[0, 0], [0.1, -0.2], [0, 0]]),
    )
    found, turns = two.velocities(forces, torques)
    motions = [0, 1, 3, 4]
    acts = [forces[0, 0], torques[1, 0], forces[0, 1], torques[1, 1]]
    exact = np.linalg.solve(across[np.ix_(motions, motions)], acts)
    assert off(np.ravel([found[0], turns[1]], "F"), exact) < 1e-5
    stretch = np.diag([-0.5, -0.5, 1.0])
    motion = two.solve(gradient=stretch)
    unit = np.sqrt(1.5)  # of the strain of m = 0
    own = axial[np.ix_([0, 3], [2, 5])].sum(axis=1) * unit
    exact = np.linalg.solve(axial[np.ix_([0, 3], [0, 3])], own)
    assert off(motion.velocities[2], exact) < 1e-5
