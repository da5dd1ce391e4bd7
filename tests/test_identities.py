"""Lattices of dipoles by numbers from the literature, and a closed layer: without a direct sum.

A bound is what the tolerance promises, and rounding.
"""

from __future__ import annotations

import numpy as np
import pytest
from contract import PERIODICITIES, rms

import parki

TOLERANCE = 1e-8
# Neither a cube nor of unit size.
BOX = np.array([3.0, 2.0, 2.5])
VOLUME = float(BOX.prod())

every_periodicity = pytest.mark.parametrize("periodicity", PERIODICITIES)


def make(kernel, trg, src, norms, periodicity, box=BOX, want="u", **options):
    settings = {"tolerance": TOLERANCE, "cutoff": 0.4 * float(np.prod(BOX)) ** (1 / 3)} | options
    options = parki.EwaldOptions(periodicity, list(box), **settings)
    return parki.Plan(kernel, trg, src, norms, options, want=want)


# Gradients of the potential at a site of a cubic lattice of unit dipoles along x, y and z, times
# the cube of its edge. A chain has -4 zeta(3) and 2 zeta(3). A square has -1/2 and 1 of the sum of
# 1/r^3, which is 4 zeta(3/2) beta(3/2). Cubes have the field in Lorentz's cavity.
ZETA, SQUARE, LORENTZ = 1.2020569031595943, 9.0336216831009503, 4 * np.pi / 3
SITES = {
    0: (0, 0, 0),
    1: (-4 * ZETA, 2 * ZETA, 2 * ZETA),
    2: (-SQUARE / 2, -SQUARE / 2, SQUARE),
    3: (-LORENTZ, -LORENTZ, -LORENTZ),
}


@every_periodicity
def test_lattices_of_parallel_dipoles(periodicity):
    edge = 1.25
    site = np.full((3, 1), 0.5)
    plan = make("laplace_dipole", site, site, None, periodicity, 3 * [edge], want="grad_u")
    for moment, expected in zip(np.eye(3), SITES[periodicity], strict=True):
        off = plan(moment[:, None])[:, 0] - expected / edge**3 * moment
        assert np.linalg.norm(off) <= 6 * plan.promise(moment[:, None])


def ball(centre, radius, order):
    """Return points, normals and weights of a quadrature on a sphere."""
    x, w = np.polynomial.legendre.leggauss(order)
    phi = np.pi * (np.arange(2 * order) + 0.5) / order
    s = np.sqrt(1 - x**2)[:, None]
    normals = np.stack([s * np.cos(phi), s * np.sin(phi), x[:, None] + 0 * phi]).reshape(3, -1)
    weights = radius**2 * np.repeat(w, 2 * order) * np.pi / order
    return np.asarray(centre)[:, None] + radius * normals, normals, weights


@pytest.mark.parametrize(
    ("periodicity", "mean"), [*((n, "zero") for n in PERIODICITIES), (3, "flux")]
)
def test_constant_double_layer_on_a_sphere(periodicity, mean):
    """8 pi q inside and 0 outside, as one force at the target is balanced on the surface.

    Triply periodic, that force is balanced by a background, of which the ball has its share of the
    volume: with zero mean, that is subtracted everywhere; with zero flux, nowhere.
    """
    radius = 0.7
    centre = BOX / 2
    src, normals, weights = ball(centre, radius, 24)
    uniform = BOX[:, None] * np.random.default_rng(1).random((3, 300))
    trg = np.concatenate([uniform, ball(centre, 0.3, 4)[0], centre[:, None]], axis=1)
    distance = np.linalg.norm(trg - centre[:, None], axis=0)
    trg, distance = trg[:, abs(distance - radius) > 0.35], distance[abs(distance - radius) > 0.35]
    q = np.array([[0.3], [-1.0], [0.5]])
    dens = np.repeat(q, src.shape[1], axis=1)
    options = {"dl_mean": mean} if periodicity == 3 else {}
    shift = np.where(np.arange(3) < periodicity, BOX / 2, 0)[:, None]  # across the borders
    plan = make("stokes_dl", trg + shift, src + shift, weights * normals, periodicity, **options)
    u = plan(dens)
    share = (distance < radius) - (4 / 3 * np.pi * radius**3 / VOLUME) * (
        periodicity == 3 and mean == "zero"
    )
    expected = 8 * np.pi * q * share
    bound = plan.promise(dens) + TOLERANCE * rms(expected)
    assert rms(u - expected) <= bound
