"""Five rigid spheres in a cube, for tests of their solves and steps."""

import numpy as np

# Five spheres apart in a unit cube, two of which are across a face from each other.
POINTS = np.array(
    [[0.15, 0.5, 0.8, 0.3, 0.55], [0.12, 0.45, 0.7, 0.85, 0.95], [0.3, 0.6, 0.2, 0.75, 0.25]]
)
RADII = np.array([0.1, 0.15, 0.2, 0.1, 0.12])
CUBE = {"periodicity": 3, "box": [1, 1, 1]}
OPEN = {"periodicity": 0, "box": [1, 1, 1], "tolerance": 1e-8}
SHEAR = np.array([[0, 1.0, 0], [0, 0, 0], [0, 0, 0]])


def vectors(seed=0, count=5, rows=3):
    return np.random.default_rng(seed).standard_normal((rows, count))


def off(found, exact):
    return abs(found - exact).max() / abs(exact).max()
