"""Layers on and near surfaces, against exact flows, identities and the singular kernels."""

from __future__ import annotations

import numpy as np
import pytest
from green import (
    AXES,
    BOX,
    FAR,
    FREE,
    ORIGIN,
    SIGNS,
    ellipsoid,
    green,
    in_the_long_run,
    rod,
    surface_points,
)
from scipy.integrate import quad

import parki
from parki.ewald.sums import SUMS
from parki.reference import direct_sum
from parki.runtime import get_execution_space
from parki.surfaces import plain, series, shapes
from parki.surfaces.blocks import EventPairs, Rows, in_lab
from parki.surfaces.kernels import LAYERS, NUMBERS
from parki.surfaces.near import Events, Regularisation


# ---------------------------------------------------------------- functions and kernels
def alone(key, r, n, *, n0, e, distance, width=0.0, order=6, whole=0.0, side=0):
    """Return blocks (rows, columns, pairs) of one event at r = 0 and nodes at -r with normals n."""
    one, layer = np.ones(1), LAYERS[key]
    n0, e = (vector[:, None] for vector in (n0, e))
    unset = {name: np.array([-1]) for name in ("node", "finer", "excluded")}
    events = Events(
        target=np.zeros(1, int),
        n0=n0,
        directions=e,
        distance=distance * one,
        spacing=one,
        times=one,
        thin=np.zeros(1, bool),
        body=np.zeros(1, int),
        **unset,
    )
    space, count = get_execution_space("OpenMP"), r.shape[1]
    setting = Regularisation(order, side=side, digits=60.0)  # of unbounded reach
    quadrature = in_lab(space, -r, n, np.ones(count))
    rows = Rows.of(space, layer, np.array([count]))
    pairs = EventPairs(
        *(space, key, events, np.zeros((3, 1)), quadrature, setting),
        first=0,
        many=count,
        width=width,
    )
    pairs.fill(rows, 0, np.zeros((layer.rows * layer.columns + 1, 1)), whole=whole)
    return rows.values.reshape(layer.rows, layer.columns, count), pairs


def test_coefficients():
    def integrand(w, n, d):
        return np.exp(-(d**2) * (1 / w**2 - 1)) * (1 - w**2) ** n if w else 0.0

    vector = np.array([0.0, 0.0, 1.0])
    for d in (0.0, 0.02, 0.9, 1.1, 3.0, 5.8):
        given = {"n0": vector, "e": vector, "distance": d, "width": 1.0, "order": 7}
        _, pairs = alone(("laplace", "u"), vector[:, None], vector[:, None], **given)
        exact = [quad(integrand, 0, 1, (n, d), epsabs=1e-14)[0] for n in range(7)]
        found = pairs._arguments["p"][:, 0] * np.sqrt(np.pi) / 2
        assert np.allclose(found, exact, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("k", [1, 3, 5, 7])
def test_moments_vanish(order, k):
    b, first = 0.7, (k - 1) // 2
    t, weights = np.polynomial.legendre.leggauss(400)
    t, weights = 50 * (t + 1), 50 * weights
    x = np.sqrt(t + b**2)
    r = np.stack([x, 0 * x, 0 * x])
    along = np.outer([1.0, 0.0, 0.0], np.ones(x.size))

    def changes(kernel, want):
        """Return the first number of blocks along x; without a normal n0 there are no jumps."""
        given = {"n0": np.zeros(3), "e": along[:, 0], "distance": b, "width": 1.0, "order": order}
        return alone((kernel, want), r, along, **given)[0][0, 0]

    change = {1: changes("laplace", "u"), 3: changes("stokes_sl", "p") / (2 * x)}
    change[5] = -changes("stokes_dl", "u") / (6 * x**3)
    traction = changes("stokes_dl", "traction")
    change[7] = (traction + 4 * change[3] + 24 * x**2 * change[5]) / (60 * x**4)

    def moment(m):
        return (change[k] * t**m) @ weights

    moments = [moment(m) for m in range(first, first + order)]
    # The next moment is that of a term, and does not vanish.
    next_moment = moment(first + order)
    assert np.abs(moments).max() < 1e-9 * abs(next_moment)


@pytest.mark.parametrize("key", NUMBERS)
def test_kernels_are_those_of_sums(key):
    """Densities are unit vectors, which direct sums take."""
    (kernel, want), layer, rng = key, LAYERS[key], np.random.default_rng(0)
    r, n = rng.normal(size=(2, 3, 5))
    n /= np.linalg.norm(n, axis=0)
    n0, e = (v / np.linalg.norm(v) for v in rng.normal(size=(2, 3)))
    one = np.ones(1)
    found, _ = alone(key, r, n, n0=n0, e=e, distance=0.3, whole=1.0)
    for pair in range(5):
        at, normal = (array[:, pair : pair + 1] for array in (r, n))
        norms = normal if SUMS[kernel].normals else None
        for column, unit in enumerate(np.eye(layer.columns)[:, None, :, None]):
            dens = plain.strengths(kernel, unit, normal, one)[0]
            exact = direct_sum(kernel, at, 0 * at, dens, norms, want=layer.want, periodicity=0)
            exact = plain.rows_of(want, exact[None], e[:, None])[0, ..., 0]
            assert np.allclose(found[:, column, pair], exact, rtol=1e-7, atol=1e-8)


# ---------------------------------------------------------------- layers in free space
@pytest.mark.parametrize("side", ["outside", *in_the_long_run("mean", "inside")])
@pytest.mark.parametrize(("want", "bound"), [("u", 1e-3), ("p", 3e-3), ("traction", 3e-2)])
def test_limits_on_an_ellipsoid(want, bound, side):
    """On one side; the next test has the jumps to the others."""
    error = green(ellipsoid(8, 3), FAR, want, side=side, inside=SIGNS[side])
    assert error < bound


@pytest.mark.parametrize("finer", [1, 2])
def test_jumps_at_nodes_are_exact(finer):
    """Also those of tractions along any direction; the smooth delta function has 4e-3 or more."""
    surface = parki.Surface.tori(ORIGIN, 1.0, 0.5, steps=(18, 6), finer=finer)
    x, n = surface.nodes, surface.normals
    f, e = np.random.default_rng(5).normal(size=(2, *x.shape))
    both = surface.single_layer, surface.double_layer
    along, facing = (f * n).sum(axis=0), (e * n).sum(axis=0)
    across = e - facing * n
    tractions = facing * f + along * across + (f * across).sum(axis=0) * n
    rows = (
        (both[0], {"want": "p"}, along),
        (both[0], {"want": "traction"}, -f),
        (both[0], {"want": "traction", "targets": x, "directions": e}, -tractions),
        (both[1], {}, -f),
        (both[1], {"constants": False, "targets": x}, -f),
    )
    for layer, more, jump in rows:
        out, inner = (layer(f, side=side, **more, **FREE) for side in ("outside", "inside"))
        assert np.abs((out - inner) / (8 * np.pi) - jump).max() < 1e-10 * np.abs(out).max()


@pytest.mark.parametrize("place", [0.02, 2.0, -0.5, *in_the_long_run(0.5, 4.5, -0.02, -1.5)])
@pytest.mark.parametrize(("want", "bound"), [("u", 4e-4), ("p", 3e-3), ("traction", 2e-2)])
def test_near_an_ellipsoid(want, bound, place):
    surface = ellipsoid(8, 3)
    x, n = surface_points(surface, place)
    assert green(surface, FAR, want, x, n, inside=float(place < 0)) < bound


@pytest.mark.parametrize(
    ("finer", "place", "side"),
    [(3, 0.3, "mean"), (1, None, "outside"), *in_the_long_run((3, None, "mean"))],
)
@pytest.mark.parametrize("want", ["p", "traction"])  # equations have both velocities
def test_both_layers_at_once(want, finer, place, side):
    """Their constants are exact for the double layer alone, and both have jumps."""
    surface = ellipsoid(5, finer)
    x, n = (None, None) if place is None else surface_points(surface, place)
    f, q = np.random.default_rng(0).normal(size=(2, 3, surface.areas.size))
    more = {**FREE, "want": want, "side": side}
    more |= {"directions": n} if want == "traction" and x is not None else {}
    one = surface.single_layer(f, x, **more)
    other = surface.double_layer(q, x, **more)
    both = surface.combined(np.concatenate([f, q]), x, **more)
    assert np.abs(both - one - other).max() < 1e-6 * np.abs(both).max()


def test_nodes_wrapped_into_the_box_are_nodes():
    """And those that are rounded to 12 decimals have the same single layer."""
    surface = parki.Surface.spheres(np.array([[0.05], [0.5], [0.5]]), 0.3, order=8)
    force = surface.normals + surface.nodes
    right = surface.single_layer(force, **BOX)
    for x in (surface.nodes % 1, surface.nodes + 1, surface.nodes.round(12)):
        assert np.abs(surface.single_layer(force, x, **BOX) - right).max() < 1e-5


def test_a_whole_number_may_be_one_of_numpy():
    sphere = parki.Surface.spheres(np.zeros((3, 1)), 1.0, order=6)
    given = {"targets": np.array([[1.05], [0.0], [0.0]]), "periodicity": 0, "tolerance": 1e-2}
    both = [
        sphere.charge_layer(np.ones(sphere.nodes.shape[1]), **given, order=each)
        for each in (3, np.int8(3))
    ]
    np.testing.assert_array_equal(*both)


def test_nodes_alone_find_the_surface():
    """Local fits in place of the exact shape change little."""
    exact = ellipsoid(14, 1, axes=(1.0, 0.9, 0.8))
    given = parki.Surface(exact.nodes, exact.normals, exact.areas)
    ratio = given.spacing / exact.spacing
    assert ratio.min() > 0.6 and ratio.max() < 1.5
    x, n = surface_points(exact, 0.4)
    first, size = np.zeros(20, int), np.ones(20)
    normals, b, *_ = given.nearest(x, first, size)
    assert np.abs(b / exact.nearest(x, first, size)[1] - 1).max() < 2e-2
    assert np.abs(normals - n).max() < 2e-2
    assert green(given, FAR, "u", x, n, inside=0.0) < 5e-3
    assert green(given, FAR, "u", inside=0.5) < 2e-2


def test_nodes_of_the_user_with_a_finer_rule():
    ready = ellipsoid(8, 3)
    finer = ready.shapes[0].finer
    project = ready.shapes[0].project
    matrix = finer.interpolation.matrix
    more = {"finer": (finer.nodes, finer.normals, finer.areas, matrix), "project": project}
    given = parki.Surface(ready.nodes, ready.normals, ready.areas, spacing=ready.spacing, **more)
    assert abs(given.shapes[0].finer.times - 3) < 0.3
    x, n = surface_points(ready, 0.3)
    assert green(given, FAR, "u", x, n, inside=0.0) < 3e-4


def test_constants_are_exact():
    surface = ellipsoid(8, 1)
    ones = np.ones_like(surface.nodes)
    for side, inside in SIGNS.items():
        found = surface.double_layer(ones, side=side, **FREE) / (8 * np.pi)
        assert np.abs(found - inside).max() < 1e-8
    rough = surface.double_layer(ones, constants=False, **FREE) / (8 * np.pi)
    assert np.abs(rough - 0.5).max() > 1e-3
    for place in (0.3, -0.3):
        x, n = surface_points(surface, place)
        found = surface.double_layer(ones, x, want="traction", directions=n, **FREE)
        assert np.abs(found).max() < 1e-6


# ---------------------------------------------------------------- boxes
@pytest.mark.parametrize("tilted", [*in_the_long_run(False), True])
def test_images_are_near_pairs(tilted):
    """A body that crosses the faces of its box, and its close images: exact for constants."""
    box = [[1, 0, 0], [0.3, 1, 0], [0, 0.1, 1]] if tilted else [1, 1, 1]
    options = {"periodicity": 3, "box": box, "tolerance": 1e-8}
    surface = parki.Surface.spheres(np.array([[0.05], [0.5], [0.95]]), 0.45, order=10, finer=2)
    n = surface.normals[:, ::17]
    ones, volume = np.ones_like(surface.nodes), 4 / 3 * np.pi * 0.45**3
    h = np.pi / 11 * 0.45
    for place in (0.1, -0.1):
        x = np.array([[0.05], [0.5], [0.95]]) + (0.45 + place * h) * n
        found = surface.double_layer(ones, x, **options) / (8 * np.pi)
        assert np.abs(found - float(place < 0)).max() < 3e-5
        plain = parki.stokes_dl(
            x, surface.nodes, ones * surface.areas, surface.normals, dl_mean="flux", **options
        )
        assert np.abs(plain / (8 * np.pi) - float(place < 0)).max() > 0.1
        flow = surface.single_layer(surface.normals, x, want=("p"), **options) / (8 * np.pi)
        cell = abs(np.linalg.det(np.array(box))) if tilted else 1.0
        assert np.abs(flow - (volume / cell - (place < 0))).max() < 1e-4


def test_points_with_several_nearest_points():
    """One of them is taken, and is a nearest one."""
    points = np.array([[0, 0, 0], [0.05, 0, 0], [0, 0.05, 0], [0, 0, 0.05], [0.1, 0.1, 0]]).T
    for half in ((1, 1, 1), (1, 0.7, 0.5), (2, 2, 1), (1, 2, 2)):
        a = np.array(half, float)[:, None]
        normals, distances = shapes.Ellipsoid(a)(points.astype(float))
        on = points - distances * normals
        assert np.abs(((on / a) ** 2).sum(axis=0) - 1).max() < 1e-6
        dense = a * shapes.directions(60)[0]
        least = np.linalg.norm(points[:, :, None] - dense[:, None], axis=0).min(axis=1)
        assert (-distances < least + 1e-6).all() and (-distances > 0).all()
    ring = shapes.torus(1.0, 0.3, (24, 12), 1)
    there = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.4], [1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]).T
    normals, distances = ring.project(there)
    assert np.allclose(distances, [0.7, np.hypot(1, 0.4) - 0.3, -0.3, -0.3], atol=1e-6)
    assert np.allclose(np.linalg.norm(normals, axis=0), 1)


def test_nearest_points_of_shapes():
    for shape in (shapes.ellipsoid(AXES, 8, 1), shapes.torus(1.0, 0.4, (24, 8), 1)):
        b = 0.2 * shape.spacing
        normals, distances = shape.project(shape.nodes + b * shape.normals)
        assert np.allclose(distances, b) and np.allclose(normals, shape.normals)
        fit = series.Fit(shape.nodes, shape.normals, shape.spacing)
        assert np.abs(fit(shape.nodes + b * shape.normals)[1] - b).max() < 1e-9


# ---------------------------------------------------------------- shapes by harmonics
def test_harmonics_have_the_geometry_of_shapes():
    """An ellipsoid is a series of degree one; and nodes alone have curvatures by fits."""
    given = np.array(AXES)[:, None] * parki.Surface.directions(8)
    exact = ellipsoid(8, 3)
    several = np.stack([given + 1.0, 2 * given], axis=1)
    found = parki.Surface.harmonics(several)
    for name, power in (("normals", 0), ("areas", 2), ("spacing", 1), ("curvature", -1)):
        value = getattr(exact, name)
        both = np.concatenate([value, 2.0**power * value], axis=-1)
        assert np.allclose(getattr(found, name), both, atol=1e-9), name
    assert np.allclose(found.nodes, several.reshape(3, -1))
    alone = ellipsoid(14, 1, (1.0, 0.9, 0.8))
    bent = series.Fit(alone.nodes, alone.normals, alone.spacing).curvatures()
    assert np.abs(bent / alone.curvature - 1).max() < 2e-2
    ring = parki.Surface.tori(ORIGIN, 1.0, 0.4, steps=(90, 36), finer=1)
    bent = series.Fit(ring.nodes, ring.normals, ring.spacing).curvatures()
    assert np.abs(bent - ring.curvature).max() < 4e-2 * ring.curvature.max()
    rods = rod(7).nodes
    assert abs(np.abs(rods[2]).max() / rods[2].max() - 1) < 1e-9
