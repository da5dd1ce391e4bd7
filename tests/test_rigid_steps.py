"""Brownian steps of rigid spheres: noise, drift, and steps that would overlap."""

import numpy as np
import pytest
from helpers.five_spheres import CUBE, OPEN, POINTS, RADII, SHEAR, off, vectors

import parki
from parki.dynamics import brownian, solver
from parki.dynamics.moments import MomentMobility
from parki.reference.rigid_spheres import FORCE_DIPOLES, moment_mobility

PAIR = np.array([[0.3, 0.32], [0.4, 0.42], [0.3, 0.51]])


@pytest.fixture(scope="module")
def cubic():
    return parki.RigidSpheres(POINTS, RADII, tolerance=1e-6, accuracy=1e-6, **CUBE)


@pytest.fixture
def by_matrices(monkeypatch):
    """Mobilities by dense matrices, and two spheres with them."""
    sizes = np.array([2.0] * 3 + [1.0] * 5)[:, None]  # of force dipoles in their basis

    def product(self, dens):
        count = dens.shape[-1]
        matrix = moment_mobility(self.points, self.radii).reshape(count, 11, count, 11)
        numbers = sizes * np.einsum("mjk,jkn->mn", FORCE_DIPOLES, dens[3:].reshape(3, 3, -1))
        found = np.einsum("injm,mj->ni", matrix, np.concatenate([dens[:3], numbers]))
        return found[:3], np.einsum("mjk,mn->jkn", FORCE_DIPOLES, sizes * found[3:])

    monkeypatch.setattr(MomentMobility, "__call__", product)
    monkeypatch.setattr(brownian, "ROUGHLY", 1.0)

    def make(lubrication):
        how = {"lubrication": lubrication, "accuracy": 1e-9, "viscosity": 1 / (8 * np.pi)}
        return parki.RigidSpheres(PAIR, [0.1, 0.11], **how, **OPEN)

    return make


@pytest.mark.parametrize("lubrication", [False, True])
def test_covariance_of_noise_is_the_mobility(by_matrices, lubrication):
    """As an identity of matrices: all unit vectors in the place of normal numbers."""
    two = by_matrices(lubrication)
    equations = two._equations
    slips = [equations.mobility.noise(e.reshape, two.accuracy) for e in np.eye(22)]
    sides = [(-slip, np.zeros((6, 2))) for slip in slips]
    if lubrication:
        brownian_noise = [equations.pairs.brownian_noise(e.reshape(4, 3, 1)) for e in np.eye(12)]
        sides += [(np.zeros((11, 2)), f) for f in brownian_noise]
    roots = np.array([solver.solve(equations, k, f).moves.ravel() for k, f in sides])
    mobility = two.as_linear_operator(torques=True) @ np.eye(12)
    assert off(roots.T @ roots, mobility) < 1e-7


@pytest.mark.parametrize("lubrication", [False, True])
def test_drift_is_the_divergence_of_the_mobility(by_matrices, lubrication):
    two, units = by_matrices(lubrication), np.eye(6).reshape(6, 3, 2)
    both = [*units, *-units]  # as normal numbers have: what is odd cancels
    equations = two._equations
    sides = [brownian.drift(equations, w)[:2] for w in both]
    drift = -sum(solver.solve(equations, k, f).moves for k, f in sides) / 2
    stresslets = sum(brownian.stresslets(equations, w) for w in both) / 2
    exact, exact_stresslets, step = np.zeros((6, 2)), 0.0, 1e-5
    for w in units:
        for side in (1, -1):
            two.update_points(PAIR + side * step * w)
            motion = two.solve(w)
            exact += side * np.concatenate([motion.velocities, motion.turns]) / (2 * step)
            exact_stresslets += side * motion.stresslets / (2 * step)
    assert off(drift, exact) < 1e-4
    assert off(stresslets, exact_stresslets) < 1e-4


def test_steps_that_would_overlap_are_halved_and_counted(monkeypatch):
    two = parki.RigidSpheres(PAIR, 0.105, tolerance=1e-3, **CUBE)
    rejected = 0
    for seed in (1, 2):
        two.update_points(PAIR)
        rejected += sum(two.advance(1.0, 1e-3, rng) for rng in [np.random.default_rng(seed)] * 4)
        apart = two.points[:, 0] - two.points[:, 1]
        assert np.sqrt((apart**2).sum()) >= 0.21 * (1 - 1e-6)
        assert abs(two.points - PAIR).max() > 1e-3
    assert 0 < rejected < 8
    two.update_points(PAIR)
    monkeypatch.setattr(brownian, "MOST_HALVES", -1)
    with pytest.raises(parki.OverlapError, match="overlap by"):
        two.advance(1.0, 1e-3, 1)
    assert (two.points == PAIR).all()
    stresslets = two.brownian_stresslets(1.0, 0)
    assert stresslets.shape == (3, 3, 2)


def test_steps_have_the_size_of_diffusion():
    rng = np.random.default_rng(0)
    points = (np.mgrid[:5, :5, :5].reshape(3, -1) + 0.5) / 5
    rigid = parki.RigidSpheres(points, 0.01, viscosity=2.0, tolerance=1e-6, **CUBE)
    step, turns = rigid.displacements(0.3, 0.1, rng, torques=np.zeros_like(points))
    for found, mobility in ((step, 6 * np.pi * 0.01), (turns, 8 * np.pi * 0.01**3)):
        assert abs((found**2).mean() * 2.0 * mobility / (2 * 0.3 * 0.1) - 1) < 0.25
    drawn = rigid.noise(rng)
    assert abs((drawn**2).mean() * 2.0 * 6 * np.pi * 0.01 - 1) < 0.25


def test_noise_of_far_and_near_field_is_that_of_the_mobility(cubic):
    """In units of it; `test_rigid_exact.py` has the parts."""
    mobility = cubic._mobility
    assert mobility.first.setup.split.positive
    whole = np.array([mobility.product(e).ravel() for e in np.eye(55).reshape(55, 11, 5)])
    rng, count = np.random.default_rng(3), 40
    noises = [mobility.noise(rng.standard_normal, cubic.accuracy) for _ in range(count)]
    drawn = np.array([noise.ravel() for noise in noises])
    squares = (drawn * np.linalg.solve(whole, drawn.T).T).mean()
    assert abs(squares - 1) < 4 * np.sqrt(2 / (55 * count))


def test_steps_without_noise_are_motion(cubic):
    forces, torques = vectors(1), vectors(2)
    found = cubic.displacements(0, 0.5, None, forces, torques, gradient=SHEAR)
    exact = cubic.solve(forces, torques, gradient=SHEAR)
    assert off(found[0], 0.5 * exact.velocities) < 1e-12
    assert off(found[1], 0.5 * exact.turns) < 1e-12
    again = [cubic.displacements(1.0, 0.1, 7, forces) for _ in range(2)]
    assert (again[0] == again[1]).all()
