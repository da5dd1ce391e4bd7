"""A suspension of a few spheres, of one radius or of several."""

import numpy as np

import parki

BOX = np.array([1.2, 1.0, 0.9])
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
