"""Noise with one or two periodic axes and no wall, without the mean motion of all spheres."""

import numpy as np
import pytest

import parki

COUNT = 12
AXES = {2: (0, 1), 1: (0, 1, 2)}
REFUSED = {
    "noise with periodicity=2 .* or pass mean='zero'": (2, {}),
    "mean is 'none'; expected 'zero', or leave it out": (2, {"mean": "none"}),
    "mean is 'zero', but with periodicity=3": (3, {"mean": "zero"}),
}


def spheres(periodicity, radii=0.07):
    points = np.random.default_rng(0).random((3, COUNT)) * [[1.2], [1.0], [2.9]]
    box = [1.2 if periodicity else None, 1.0 if periodicity > 1 else None, None]
    box[2] = 3.0 if periodicity == 3 else None
    return parki.Spheres(points, radii, periodicity=periodicity, box=box, tolerance=1e-6)


def without_mean(periodicity):
    """Return the matrix that takes the mean out along the axes of the gauge."""
    matrix = np.eye(3 * COUNT).reshape(3, COUNT, 3, COUNT)
    for axis in AXES[periodicity]:
        matrix[axis, :, axis] -= 1 / COUNT
    return matrix.reshape(3 * COUNT, 3 * COUNT)


@pytest.mark.parametrize("periodicity", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_the_root_of_the_relative_mobility(periodicity):
    """It is positive, where the mobility is not; forces act without their net part."""
    made, mean = spheres(periodicity), without_mean(periodicity)
    units = np.eye(3 * COUNT).reshape(-1, 3, COUNT)
    mobility = made.velocities(units).reshape(3 * COUNT, -1).T
    assert np.linalg.eigvalsh(mobility + mobility.T).min() < -1
    relative = mean @ mobility @ mean
    values, vectors = np.linalg.eigh((relative + relative.T) / 2)
    assert values.min() > -1e-9
    root = vectors @ (np.sqrt(np.maximum(values, 0))[:, None] * vectors.T)
    drawn = np.random.default_rng(5).standard_normal((3, COUNT))
    noise = made.noise(np.random.default_rng(5), accuracy=1e-5, mean="zero")
    exact = (root @ drawn.ravel()).reshape(3, COUNT)
    assert np.abs(noise - exact).max() <= 1e-4 * np.abs(exact).max()
    step = made.displacements(0.5, 0.1, 5, forces=drawn, accuracy=1e-5, mean="zero")
    forced = 0.1 * (relative @ drawn.ravel()).reshape(3, COUNT)
    assert np.abs(step - np.sqrt(0.1) * exact - forced).max() <= 1e-4 * np.abs(step).max()
    for rows in (noise, step):
        assert np.abs(rows.mean(axis=1)[[*AXES[periodicity]]]).max() <= 1e-12
    alone = made.displacements(0.0, 0.1, None, forces=drawn, mean="zero")
    assert np.abs(alone - forced).max() <= 1e-12 * np.abs(forced).max()


def test_turns_keep_their_mean():
    moved, turned = spheres(2).displacements(1.0, 1.0, 5, torques=np.ones((3, COUNT)), mean="zero")
    assert np.abs(moved.mean(axis=1)[:2]).max() <= 1e-12
    assert np.abs(turned.mean(axis=1)).min() > 1e-3


@pytest.mark.parametrize("words", REFUSED)
def test_refused(words):
    periodicity, how = REFUSED[words]
    with pytest.raises(parki.ParkiValueError, match=words):
        spheres(periodicity).noise(0, **how)
