"""Small sums for tests of derivatives: points, densities, and differences of sums."""

from __future__ import annotations

import math

import numpy as np

from parki.ewald.sums import SUMS
from parki.reference import direct_sum

BOX = (1.2, 1.0, 0.8)
WALLS = np.array(BOX)[:, None]
PERIODICITIES = (0, 1, 2, 3)


def apart(rng, count, others=None, least=0.2):
    """Return points in the box at least this far from each other and from others, with images.

    Differences of sums need this distance, because sums are steep at close pairs.
    """
    found = np.zeros((3, 0)) if others is None else others
    start = found.shape[1]
    while found.shape[1] < start + count:
        point = WALLS * rng.random((3, 1))
        away = found - point
        away -= WALLS * np.rint(away / WALLS)
        if (np.sqrt((away**2).sum(axis=0)) > least).all():
            found = np.concatenate([found, point], axis=1)
    return found[:, start:]


def inputs(kernel, *, same=False, targets=4, sources=5, seed=0, spaced=False):
    """Return trg, src, dens and perhaps norms by name; without src if targets are sources."""
    rng = np.random.default_rng(seed)
    kind = SUMS[kernel]
    if spaced:
        src = apart(rng, sources)
        found = {"trg": src if same else apart(rng, targets, src)}
    else:
        src = WALLS * rng.random((3, sources))
        found = {"trg": src if same else WALLS * rng.random((3, targets))}
    if not same:
        found["src"] = src
    found["dens"] = rng.standard_normal(kind.density_shape(sources))
    if kind.normals:
        found["norms"] = rng.standard_normal((3, sources))
    return found


def exact(kernel, given, periodicity, mean="zero"):
    """Return the sum by `direct_sum`."""
    trg, src = given["trg"], given.get("src", given["trg"])
    norms = given.get("norms")
    found = direct_sum(kernel, trg, src, given["dens"], norms, box=BOX, periodicity=periodicity)
    if mean == "flux":
        strength = (given["dens"][-3:] * norms).sum(axis=0)
        moment = (src * strength).sum(axis=1)[:, None]
        found = found + 8 * math.pi / math.prod(BOX) * (moment - strength.sum() * trg)
    return found


def difference(function, given, changes, step=1e-3):
    """Differentiate a function of inputs along changes, by differences of order 8."""
    weights = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    found = 0.0
    for distance, weight in weights.items():
        for sign in (1, -1):
            moved = {n: a + sign * distance * step * changes.get(n, 0.0) for n, a in given.items()}
            found = found + sign * weight / step * function(moved)
    return found


# Overlapping pairs of these are apart from distances where forms change, and steep.
RADII = np.array([0.12, 0.12, 0.07, 0.07, 0.12])
TEN = np.linspace(0.06, 0.12, 10)


def suspension(count=5, least=0.3):
    """Return positions of spheres, two pairs of which overlap, forces and torques."""
    rng = np.random.default_rng(0)
    points = apart(rng, count, least=least)
    points[:, 1] = points[:, 0] + [0.08, -0.06, 0.07]
    points[:, 3] = points[:, 4] + [0.06, 0.05, 0.07]
    return points, *rng.standard_normal((2, 3, count))
