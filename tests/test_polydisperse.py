"""Spheres of any radii, one for each, in one sum: the mobility, the flow, and the estimates."""

from dataclasses import replace

import numpy as np
import pytest
from contract import costs_of_a_device, rms
from helpers.sphere_reference import mobility
from scipy.integrate import quad_vec
from scipy.special import spherical_jn

import parki
from parki.ewald.pipeline.one_shot import sum_once
from parki.ewald.split.faxen import FaxenSplit
from parki.ewald.split.hasimoto import Hasimoto
from parki.ewald.split.prolate import Prolate
from parki.ewald.sums.tables import FLOW, Table

BOX = np.array([1.2, 1.0, 0.9])
LONG = np.array([2.4, 0.6, 0.7])
COUNT = 12


def suspension(box=BOX, seed=0):
    """Return centres, radii, forces and torques: all ways in which two spheres meet."""
    rng = np.random.default_rng(seed)
    points = rng.random((3, COUNT)) * box[:, None]
    radii = 0.02 + 0.1 * rng.random(COUNT)
    radii[:9] = 0.12, 0.05, 0.1, 0.03, 0.07, 0.04, 0.0, 0.08, 0.0
    points[:, 1] = points[:, 0] + [0.1, 0.05, -0.04]  # overlap
    points[:, 3] = points[:, 2] + [0.02, 0.0, 0.01]  # one within the other
    points[:, 5] = points[:, 4] + [0.0, 0.11, 0.0]  # touch, up to rounding
    points[:, 6] = points[:, 4] + [0.01, 0.02, 0.0]  # a tracer within
    points[:, 8] = points[:, 7]  # a tracer at the centre
    points[0, 9:11] = 0.01, box[0] - 0.02  # across a face
    points[1:, 10] = points[1:, 9]
    return points % box[:, None], radii, *rng.standard_normal((2, 3, COUNT))


def bounds(box, forces, torques, tolerance):
    """Return the promises for velocities and turns, times 8 pi."""
    length = np.prod(box) ** (1 / 3)
    both = np.sqrt((forces**2).sum()), np.sqrt((torques**2).sum())
    velocity = both[0] / length + both[1] / length**2
    return tolerance * velocity, tolerance * velocity / length


@pytest.mark.parametrize(
    ("box", "periodicity", "tolerance"), [(BOX, 0, 1e-3), (BOX, 3, 1e-9), (LONG, 1, 1e-6)]
)
def test_mobility(box, periodicity, tolerance):
    points, radii, forces, torques = suspension(box)
    spheres = parki.Spheres(points, radii, periodicity=periodicity, box=box, tolerance=tolerance)
    found = spheres.velocities(forces, torques)
    exact = mobility(points, radii, forces, torques, box, periodicity)
    promises = bounds(box, forces, torques, tolerance)
    for ours, theirs, promise in zip(found, exact, promises, strict=True):
        assert rms(8 * np.pi * ours - theirs) <= promise
    # Those of forces alone, by the plan's own promise.
    exact, _ = mobility(points, radii, forces, 0 * forces, box, periodicity)
    assert rms(spheres.velocities(forces) - exact / (8 * np.pi)) <= spheres.promise(forces)


@pytest.mark.parametrize(
    "periodicity",
    [pytest.param(0, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow), 3],
)
def test_variants_of_a_device(periodicity):
    """All of them know marks and second grids; two densities have four grids there."""
    points, radii, forces, others = suspension()
    with costs_of_a_device():
        spheres = parki.Spheres(points, radii, periodicity=periodicity, box=BOX, tolerance=1e-4)
        setup = spheres._mobility.first.pipeline.setup
        assert (setup.near.method, setup.mesh.spread, setup.mesh.gather) == ("tile",) * 3
        found = spheres.velocities(np.stack([forces, others]))
    for dens, ours in zip((forces, others), found, strict=True):
        exact, _ = mobility(points, radii, dens, 0 * dens, BOX, periodicity)
        assert rms(ours - exact / (8 * np.pi)) <= spheres.promise(dens)


def test_variants():
    points, radii, forces, _ = suspension()
    how = {"periodicity": 3, "box": BOX, "tolerance": 1e-4, "cutoff": 0.5}
    usual, *others = (
        parki.Spheres(
            points, radii, **how, expert=parki.Expert(window_points=8, **asked)
        ).velocities(forces)
        for asked in ({}, {"p2p_method": "gm1d"}, {"p2p_method": "sm2d"}, {"g2p_method": "base"})
    )
    for other in others:
        np.testing.assert_allclose(other, usual, rtol=1e-11, atol=1e-11 * abs(usual).max())


@pytest.mark.parametrize("periodicity", [pytest.param(0, marks=pytest.mark.slow), 3])
def test_flow_is_the_sum_of_flows_of_each(periodicity):
    """Outside of the spheres, within, and at their centres."""
    points, radii, forces, _ = suspension()
    how = {"periodicity": periodicity, "box": BOX, "tolerance": 1e-8}
    elsewhere = np.concatenate(
        [np.clip(points[:, :4] + 0.01, 0.02, 0.85), [[0.3], [0.9], [0.5]]], axis=1
    )
    want = ("u", "p", "grad_u", "stress")
    found = parki.Spheres(points, radii, **how).flow(forces, elsewhere, want=want)
    sums = [0, 0, 0, 0]
    for place, radius in enumerate(radii):
        own = slice(place, place + 1)
        each = parki.Spheres(points[:, own], radius, **how)
        more = each.flow(forces[:, own], elsewhere, want=want)
        sums = [before + after for before, after in zip(sums, more, strict=True)]
    for name, ours, theirs in zip(want, found, sums, strict=True):
        scale = abs(theirs).max()
        np.testing.assert_allclose(ours, theirs, atol=1e-6 * scale, err_msg=name)
    alone = parki.Spheres(points, radii, **how).flow(forces, elsewhere)
    np.testing.assert_allclose(alone, found[0], atol=1e-6 * abs(alone).max())


@pytest.mark.parametrize("periodicity", [pytest.param(0, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("method", [pytest.param("auto", marks=pytest.mark.slow), "tile"])
def test_gradient_is_that_of_pairs_of_radii(periodicity, method):
    """The slopes of the velocity of each sphere, if it alone moved, by sums of two radii."""
    points, radii, forces, _ = suspension()
    options = parki.EwaldOptions(periodicity=periodicity, box=BOX, tolerance=1e-8)
    name = parki.kernel("polydisperse_sl", largest=0.12)
    asked = replace(options, expert=parki.Expert(p2p_method=method))
    found, gradient = sum_once(name, points, points, forces, radii, asked, want=("u", "grad_u"))
    slopes = np.zeros((3, 3, COUNT))
    pairs = np.array([[i, j] for i in range(0, COUNT, 4) for j in range(COUNT)])
    for i, j in pairs:
        name = parki.kernel("sphere_sl", radius=float(radii[i]), source_radius=float(radii[j]))
        trg, src, force = points[:, i : i + 1], points[:, j : j + 1], forces[:, j : j + 1]
        slope = sum_once(name, trg, src, force, None, options, want="grad_u")
        slopes[..., i] += slope[..., 0]
    some = slice(0, COUNT, 4)
    scale = abs(slopes).max()
    np.testing.assert_allclose(gradient[..., some], slopes[..., some], atol=2e-7 * scale)
    plan = parki.Spheres(points, radii, options)._mobility.plan("velocity", "force")
    np.testing.assert_allclose(found, plan(forces), atol=1e-6)


@pytest.mark.chosen_degrees
@pytest.mark.parametrize("spread", [pytest.param(0.05, marks=pytest.mark.slow), 0.8])
@pytest.mark.parametrize("fraction", [pytest.param(0.02, marks=pytest.mark.slow), 0.4])
def test_measured_error(fraction, spread):
    """In suspensions, of forces on all spheres, and on the largest ones alone."""
    rng = np.random.default_rng(5)
    points, forces = rng.random((3, 400)), rng.standard_normal((3, 400))
    radii = rng.lognormal(0, spread, 400)
    radii *= (3 * fraction / (4 * np.pi * (radii**3).sum())) ** (1 / 3)
    spheres = parki.Spheres(points, radii, periodicity=3, box=[1, 1, 1], tolerance=1e-4)
    for each in (forces, np.where(radii > np.quantile(radii, 0.95), forces, 0)):
        found = spheres.check(each)
        assert 0 < found.error <= found.promise


def beyond(split, order, radius, sides):
    """Return the error beyond a cut-off of 1 as (distances, coefficients), by quadrature."""
    factor = split.factor(order)
    end = min(factor.end, 40.0)
    largest = np.sqrt(end / factor.scale)
    r = 1 + np.linspace(0, 0.6, 400) ** 2

    def integrand(k):
        z = k * r
        shape = factor.at(k**2) * (1 - (k * radius) ** 2 / 6) ** sides
        if order == 1:
            return 2 / np.pi * shape * k**2 * spherical_jn(1, z) / z
        iso = spherical_jn(0, z) - spherical_jn(1, z) / z
        return 4 / np.pi * shape * np.array([iso, spherical_jn(2, z)])

    smooth, _ = quad_vec(integrand, 0, largest, epsabs=1e-13, epsrel=1e-13, limit=2000)
    if order == 1:
        return r, smooth - 1 / r**3
    more = sides * radius**2 / 3
    return r, smooth - np.array([(1 + more / r**2) / r, (1 - 3 * more / r**2) / r])


@pytest.mark.parametrize(
    ("split", "term", "sides"),
    [
        (Prolate(12.0, 1.0), "stokes_sl", 2),
        (Prolate(18.0, 1.0), "stokes_sl", 1),
        (Prolate(15.0, 1.0), "stokes_rotlet", 1),
        (Hasimoto(4.0), "stokes_sl", 2),
        (Hasimoto(3.5), "stokes_rotlet", 1),
    ],
)
@pytest.mark.parametrize("radius", [pytest.param(0.1, marks=pytest.mark.slow), 0.4])
def test_errors_grow_with_the_radius(split, term, sides, radius):
    """The largest error beyond the cut-off, over that of points, from formulas of its own."""
    order = 2 if term == "stokes_sl" else 1
    largest = []
    for a in (0.0, radius):
        r, found = beyond(split, order, a, sides)
        if order == 1:
            largest.append(abs(r * found).max())
        else:  # the mean over directions of the force
            iso, axial = found
            largest.append(np.sqrt((2 * iso**2 + (iso + axial) ** 2) / 3).max())
    _, peak = FaxenSplit(split, radius, sides, order).enlarged(term, 1.0)
    assert peak == pytest.approx(max(1.0, largest[1] / largest[0]), rel=0.05)


def test_degrees_are_those_of_the_largest_spheres():
    """Cutting the polynomials costs no more than is allowed, of large spheres as well."""
    split, delta = FaxenSplit(Prolate(14.0, 1.0), 0.45, 2, 2), 1e-4

    def worst(degree, radius):
        r = np.linspace(0.01, 1, 200)
        kept, exact = (split.radial_polynomials(1.0, n) for n in (degree, 60))
        lost = kept.map(
            lambda a, b: np.polyval(a, 2 * r**2 - 1) - np.polyval(b, 2 * r**2 - 1), exact
        )
        levels = [lost.level(n) for n in range(3)]
        e, x = (
            f[0] + radius**2 / 3 * f[1] + radius**4 / 36 * f[2]
            for f in ([level[table] for level in levels] for table in (FLOW, Table("smooth", 1)))
        )
        return 2 * np.sqrt((2 * e**2 + (e + r**2 * x) ** 2) / 3).max()

    degree = split.polynomial_degree("stokes_sl", 1.0, delta)
    of_points = Prolate(14.0, 1.0).polynomial_degree("stokes_sl", 1.0, delta)
    assert worst(degree, 0.0) <= worst(degree, 0.45) <= delta < worst(of_points, 0.45)


def test_descriptions_and_refusals():
    points, radii, forces, _ = suspension()
    how = {"periodicity": 3, "box": BOX, "tolerance": 1e-3}
    for words, more in (
        (r"cutoff is 0\.098, but the spheres of", {"cutoff": 0.1005}),
        ("'grid', which does not spread", {"expert": parki.Expert(p2g_method="grid")}),
    ):
        with pytest.raises(parki.ParkiValueError, match=words):
            parki.Spheres(points, radii, **how, **more)
    name = parki.kernel("polydisperse_sl", largest=0.1)
    with pytest.raises(parki.ParkiValueError, match="takes the radius of each point"):
        parki.Plan(name, points, points, **how)
    for wrong in (-0.1, "small", True):
        with pytest.raises(parki.ParkiValueError, match=r"largest is .*; expected a length"):
            parki.kernel("polydisperse_sl", largest=wrong)
    spheres = parki.Spheres(points, radii, **how)
    plan, text = spheres._mobility.first, spheres.describe()
    with pytest.raises(parki.ParkiValueError, match="takes the radius of each point"):
        plan.update_points(points[:, :5], points[:, :5])
    assert plan(forces).shape == forces.shape
    assert f"{COUNT} of radii 0 to 0.12" in text and "6 components" in text
    np.testing.assert_array_equal(spheres.radii, radii)
    one = parki.Spheres(points, 0.1, **how)
    assert one.describe().startswith(f"spheres: {COUNT} of radius 0.1")
