"""What the sums must obey whatever the points are: no direct sum, no adjustable constants.

Fields of the solver itself enter on both sides, or the laws of Stokes flow and of electrostatics,
or numbers from the literature. A bound is what the tolerance promises to each side, added up, and
rounding. Densities do not add up to zero unless a test says so.
"""

from __future__ import annotations

import numpy as np
import pytest
from contract import PERIODICITIES, ROUNDING, fields_of, rms
from operators import divergence, emitted, of_sum, over_plane

import parki
from examples import EXAMPLES, example

TOLERANCE = 1e-8
# Neither a cube nor of unit size; sides and positions of few digits, so that shifts are exact.
BOX = np.array([3.0, 2.0, 2.5])
VOLUME = float(BOX.prod())
N = 60
# What rounding may add, over the rms of a result.
ROUNDED = ROUNDING["f8"] * np.finfo(float).eps
IDENTITY = np.eye(3)
# Levi-Civita: (a x b)_i = CROSS[i, j, k] a_j b_k.
CROSS = np.array(
    [[[(i - j) * (j - k) * (k - i) / 2 for k in range(3)] for j in range(3)] for i in range(3)]
)

# Sums without a length: screening adds sources, and ends the sum over images.
every_plain_kernel = pytest.mark.parametrize(
    "kernel", [name for name, each in EXAMPLES.items() if not each.sized]
)
every_periodicity = pytest.mark.parametrize("periodicity", PERIODICITIES)


def points(seed, n=N, box=BOX, margin=0.0):
    """Return points in the box, on a fine binary lattice."""
    x = np.random.default_rng(seed).random((3, n))
    x = np.asarray(box)[:, None] * (margin + (1 - 2 * margin) * x)
    return np.floor(x * 2**30) / 2**30


def density(kernel, n=N, seed=7):
    """Return a density and normals, or None."""
    rng = np.random.default_rng(seed)
    dens = rng.standard_normal((6, n)) + 0.3
    return example(kernel).taken(dens, rng.standard_normal((3, n)) + 0.2)


def make(kernel, trg, src, norms, periodicity, box=BOX, want="u", **options):
    settings = {"tolerance": TOLERANCE, "cutoff": 0.4 * float(np.prod(BOX)) ** (1 / 3)} | options
    return parki.Plan(
        kernel,
        trg,
        src,
        norms,
        parki.EwaldOptions(periodicity=periodicity, box=list(box), **settings),
        want=want,
    )


def agree(plans, dens, *results, factor=1.0, share=1.0):
    """Whether two results of plans (one array each) agree within the sum of their promises.

    ``factor`` times the second is compared; ``share`` multiplies the bound.
    """
    one, two = results
    bound = sum(plan.promise(d) for plan, d in zip(plans, dens, strict=True))
    rounding = ROUNDED * (rms(one) + rms(two))
    return rms(one - two) <= share * bound + rounding


# --- reciprocity ----------------------------------------------------------------------------------


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
    for moment, expected in zip(IDENTITY, SITES[periodicity], strict=True):
        off = plan(moment[:, None])[:, 0] - expected / edge**3 * moment
        assert np.linalg.norm(off) <= 6 * plan.promise(moment[:, None])


# --- conservation ---------------------------------------------------------------------------------


def ball(centre, radius, order):
    """Return points, normals and weights of a quadrature on a sphere."""
    x, w = np.polynomial.legendre.leggauss(order)
    phi = np.pi * (np.arange(2 * order) + 0.5) / order
    s = np.sqrt(1 - x**2)[:, None]
    normals = np.stack([s * np.cos(phi), s * np.sin(phi), x[:, None] + 0 * phi]).reshape(3, -1)
    weights = radius**2 * np.repeat(w, 2 * order) * np.pi / order
    return np.asarray(centre)[:, None] + radius * normals, normals, weights


@pytest.mark.each
@every_plain_kernel
@every_periodicity
def test_fluxes_through_a_closed_surface(kernel, periodicity):
    """Gauss: volume, force, torque and charge that leave a ball come from the sources in it.

    The surface crosses the borders of the periodic box. With three periodic directions what the
    sources emit is taken up evenly all over the box.
    """
    radius = 0.8
    centre = np.where(np.arange(3) < periodicity, 0.1, BOX / 2)
    surface, normals, weights = ball(centre, radius, 44)
    src = points(2, 400)
    away = src - centre[:, None]
    away -= np.where(np.arange(3) < periodicity, np.rint(away.T / BOX), 0).T * BOX[:, None]
    distance = np.linalg.norm(away, axis=0)
    # The quadrature resolves the fields of sources that are not too close.
    keep = abs(distance - radius) > 0.35
    src, away, inside = src[:, keep], away[:, keep], distance[keep] < radius
    count = src.shape[1]
    assert 4 <= inside.sum() < count
    dens, norms = density(kernel, count)
    plan = make(kernel, surface, src, norms, periodicity, want=fields_of(kernel))
    fields = dict(zip(plan.want, plan(dens), strict=True))
    bounds = dict(zip(plan.want, plan.promise(dens), strict=True))
    area, share = weights.sum(), (4 / 3 * np.pi * radius**3) / VOLUME * (periodicity == 3)
    symbol, scalar = example(kernel).kind.symbol, example(kernel).scalar

    def within(field, *axes):
        """What the sources of a field add up to in the ball, or of its derivatives."""
        each = emitted(field, symbol, *axes) + np.zeros(count)
        return each[inside].sum() - (0 if axes else share * each.sum())

    u, p = of_sum(example(kernel).kind, dens, norms)
    gradient = [u[0].d(axis) for axis in range(3)] if scalar else u
    flux = (fields["grad_u" if scalar else "u"] * normals).sum(axis=0) @ weights
    bound = 2 * area * bounds["grad_u" if scalar else "u"]
    assert abs(flux - within(divergence(gradient))) <= bound
    if scalar:
        return
    traction = np.einsum("ijx,jx->ix", fields["stress"], normals)
    bound = 2 * area * bounds["stress"]
    pushed = [u[i].laplacian + divergence(u).d(i) - p.d(i) for i in range(3)]
    force = [within(each) for each in pushed]
    assert np.linalg.norm(traction @ weights - force) <= bound
    # What the box takes up exerts no torque about the centre.
    forces = np.array([emitted(each, symbol) + np.zeros(count) for each in pushed])
    torque = np.cross(away, forces, axis=0)[:, inside].sum(axis=1)
    couples = [[within(each, axis) for each in pushed] for axis in range(3)]
    torque -= np.einsum("ijk,jk", CROSS, couples)
    moment = np.cross(radius * normals, traction, axis=0) @ weights
    assert np.linalg.norm(moment - torque) <= radius * bound


# --- one periodic direction less ------------------------------------------------------------------


@every_plain_kernel
def test_from_three_periods_to_two(kernel):
    """A long third period differs from none by the mean over the plane alone, which is a parabola.

    Over the plane, 1/r has the mean -2 pi |z| / A, and -2 pi (|z| - z^2/L - L/6) / A with period L
    and mean zero; all other parts decay within the plane's own periods. So for any density.
    """
    long = 20.0
    area = float(BOX[:2].prod())
    trg, src = points(1), points(2)
    dens, norms = density(kernel)
    open_, closed = [
        make(kernel, trg, src, norms, periodicity, [*BOX[:2], long]) for periodicity in (2, 3)
    ]
    s = trg[2][:, None] - src[2]
    more = [s**2 / long + long / 6, 2 * s / long, 2 / long + 0 * s]  # and its derivatives
    kind = example(kernel).kind
    mean = over_plane(kind.symbol, [2 * np.pi / area * each for each in more])
    u, _ = of_sum(kind, dens, norms)
    expected = np.array([row.of(mean).sum(axis=1) for row in u]).reshape(open_(dens).shape)
    assert agree([open_, closed], [dens, dens], closed(dens), open_(dens) + expected)


# --- closed surfaces ------------------------------------------------------------------------------


@every_periodicity
@pytest.mark.parametrize("mean", ["zero", "flux"])
def test_constant_double_layer_on_a_sphere(periodicity, mean):
    """8 pi q inside and 0 outside, as one force at the target is balanced on the surface.

    Triply periodic, that force is balanced by a background, of which the ball has its share of the
    volume: with zero mean, that is subtracted everywhere; with zero flux, nowhere.
    """
    if mean == "flux" and periodicity < 3:
        pytest.skip("three periodic directions alone leave the mean open")
    radius = 0.7
    centre = BOX / 2
    src, normals, weights = ball(centre, radius, 24)
    trg = np.concatenate([points(1, 300), ball(centre, 0.3, 4)[0], centre[:, None]], axis=1)
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
