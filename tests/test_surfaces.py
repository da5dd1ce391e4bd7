"""Layers on and near surfaces, against exact flows, identities and the singular kernels."""

from __future__ import annotations

import functools
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.spatial.transform import Rotation
from started import NO_GPU

import parki
from parki import memory
from parki.ewald.sums import SUMS
from parki.interchange import to_host
from parki.reference import direct_sum
from parki.surfaces import corrections, dense, plain, series, shapes
from parki.surfaces.functions import Functions, coefficients
from parki.surfaces.kernels import LAYERS, SurfacePairs

FREE = {"periodicity": 0, "tolerance": 1e-9}
BOX = {"periodicity": 3, "box": [1, 1, 1], "tolerance": 1e-8}
AXES = (1.0, 0.7, 0.5)
ORIGIN = np.zeros((3, 1))
SIGNS = {"outside": 0.0, "mean": 0.5, "inside": 1.0}
CENTRES = np.array([[0.3, 0.75], [0.5, 0.45], [0.45, 0.55]])  # of two bodies in the box


def in_the_long_run(*cases):
    """Return cases of parameters that the default run leaves out."""
    rows = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [pytest.param(*row, marks=pytest.mark.slow) for row in rows]


# ---------------------------------------------------------------- exact flows
def spread(count):
    k = np.arange(count) + 0.5
    z, angle = 1 - 2 * k / count, np.pi * (1 + 5**0.5) * k
    ring = np.sqrt(1 - z**2)
    return np.stack([ring * np.cos(angle), ring * np.sin(angle), z])


class PointForces:
    """The flow of point forces, which is regular away from them, by direct sums."""

    def __init__(self, places):
        self.places = places
        self.forces = np.random.default_rng(3).normal(size=(3, places.shape[1]))

    def _sum(self, x, want):
        given = "stokes_sl", x, self.places, self.forces
        return direct_sum(*given, want=want, periodicity=0) / (8 * np.pi)

    def u(self, x, _=None):
        return self._sum(x, "u")

    def p(self, x, _=None):
        return self._sum(x, "p")

    def traction(self, x, n):
        return (self._sum(x, "stress") * n).sum(axis=1)


FAR = PointForces(3 * spread(6))


@functools.cache
def ellipsoid(order, finer, axes=AXES):
    return parki.Surface.ellipsoids(ORIGIN, axes, order=order, finer=finer)


def surface_points(surface, place, count=20):
    """Points at distances of ``place`` spacings from the surface, between its nodes; normals."""
    shape = surface.shapes[0]
    nodes = np.random.default_rng(7).choice(shape.areas.size, count, replace=False)
    tilt = np.random.default_rng(8).normal(size=(3, count)) * 0.4 * shape.spacing[nodes]
    n, b, h = shape.near(shape.nodes[:, nodes] + tilt)
    on = shape.nodes[:, nodes] + tilt - b * n
    return on + place * h * n, n


def green(surface, flow, want, targets=None, normals=None, inside=1.0, **more):
    """Return the largest error of Green's identity, relative to the flow on the surface.

    ``inside`` is the part of the flow that comes out. Where the flow has its sources inside, the
    identity has the other sign, and the flow comes out outside.
    """
    nodes = surface.nodes
    v, t = flow.u(nodes), flow.traction(nodes, surface.normals)
    e = {"directions": normals} if want == "traction" and targets is not None else {}
    more = {**FREE, "want": want, **e, **more}
    found = surface.single_layer(t, targets, **more) + surface.double_layer(v, targets, **more)
    at, n = (nodes, surface.normals) if targets is None else (targets, normals)
    exact = getattr(flow, want)(at, n)
    scale = np.abs(v if want == "u" else t).max()
    return np.abs(found / (8 * np.pi) - inside * exact).max() / scale


def at_distance(surface, flow, place, **more):
    """Return the error of velocities at a distance from the surface, or on it for 0."""
    if place == 0:
        return green(surface, flow, "u", inside=0.5, **more)
    x, n = surface_points(surface, place)
    return green(surface, flow, "u", x, n, inside=float(place < 0), **more)


# ---------------------------------------------------------------- functions and kernels
def test_coefficients():
    def integrand(w, n, d):
        return np.exp(-(d**2) * (1 / w**2 - 1)) * (1 - w**2) ** n if w else 0.0

    distances = np.array([0.0, 0.02, 0.9, 1.1, 3.0, 5.8])
    for d, found in zip(distances, coefficients(np, distances, 7).T, strict=True):
        exact = [quad(integrand, 0, 1, (n, d), epsabs=1e-14)[0] for n in range(7)]
        assert np.allclose(found * np.sqrt(np.pi) / 2, exact, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("k", [1, 3, 5, 7])
def test_moments_vanish(order, k):
    b, first = np.full(400, 0.7), (k - 1) // 2
    t, weights = np.polynomial.legendre.leggauss(b.size)
    t, weights = 50 * (t + 1), 50 * weights
    p = coefficients(np, b, order)
    left = np.zeros(b.size, bool)
    change = Functions(np, t + b**2, b, np.ones_like(b), np.sign(b), p, left)[k]

    def moment(m):
        return (change * t**m) @ weights

    moments = [moment(m) for m in range(first, first + order)]
    # The next moment is that of a term, and does not vanish.
    next_moment = moment(first + order)
    assert np.abs(moments).max() < 1e-9 * abs(next_moment)


class Singular:
    """1/r^k itself, without a jump."""

    def __init__(self, r, b):
        self.squared = (r**2).sum(axis=0)
        self.across = self.squared - b**2

    def __getitem__(self, k):
        return self.squared ** (-k / 2)

    def jump(self, k):
        return 0.0


@pytest.mark.parametrize("key", LAYERS)
def test_kernels_are_those_of_sums(key):
    """Densities are unit vectors, which direct sums take."""
    (kernel, want), layer, rng = key, LAYERS[key], np.random.default_rng(0)
    r, n0, n, e = rng.normal(size=(4, 3, 5))
    n0, n, e = (v / np.linalg.norm(v, axis=0) for v in (n0, n, e))
    b, one = rng.normal(size=5), np.ones(1)
    pairs = SurfacePairs(
        np, offset=r, normal=n, direction=e, functions=Singular(r, b), n0=n0, distance=b
    )
    found, without = layer.block(pairs), replace(pairs, n0=None, distance=None)
    assert np.allclose(layer.block(without), found)
    for pair in range(5):
        at, normal, along = (array[:, pair : pair + 1] for array in (r, n, e))
        norms = normal if SUMS[kernel].normals else None
        for column, unit in enumerate(np.eye(layer.columns)[:, None, :, None]):
            dens = plain.strengths(kernel, unit, normal, one)[0]
            exact = direct_sum(kernel, at, 0 * at, dens, norms, want=layer.want, periodicity=0)
            exact = plain.rows_of(want, exact[None], along)[0, ..., 0]
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


@pytest.mark.parametrize("place", [*in_the_long_run(None), 0.3])
@pytest.mark.parametrize("want", ["p", "traction"])  # equations have both velocities
def test_both_layers_at_once(want, place):
    """Their constants are exact for the double layer alone."""
    surface = ellipsoid(5, 3)
    x, n = (None, None) if place is None else surface_points(surface, place)
    f, q = np.random.default_rng(0).normal(size=(2, 3, surface.areas.size))
    more = {**FREE, "want": want}
    more |= {"directions": n} if want == "traction" and x is not None else {}
    one = surface.single_layer(f, x, **more)
    other = surface.double_layer(q, x, **more)
    both = surface.combined(np.concatenate([f, q]), x, **more)
    assert np.abs(both - one - other).max() < 1e-6 * np.abs(both).max()


ORDERS = [(2, 1.45, 4.0, 1e-2), (4, 1.6, 8.0, 8e-4), (6, 1.8, 25.0, 3e-4)]


@pytest.mark.parametrize("place", [0.3, *in_the_long_run(0.0, -0.3)])
@pytest.mark.parametrize(("order", "width", "ratio", "bound"), ORDERS)
def test_convergence_of_nodes_alone(order, width, ratio, bound, place):
    """On a sphere with 1.5 times smaller h: by h^3, h^5 and h^8 at least."""
    errors = []
    for degree in (9, 14):
        surface = ellipsoid(degree, 1, axes=(1.0, 1.0, 1.0))
        errors.append(at_distance(surface, FAR, place, order=order, width=width))
    assert errors[0] > ratio * errors[1]
    assert errors[1] < bound


def star(order):
    y = parki.Surface.directions(order)
    return parki.Surface.harmonics((1 + 0.2 * y[0] ** 3 - 0.1 * y[1] * y[2]) * y)


def rod(order):
    return parki.Surface.rods(ORIGIN, 2.0, 0.5, order=order)


def torus(around, finer):
    steps = around, around // 3
    return parki.Surface.tori(ORIGIN, 1.0, 0.5, steps=steps, finer=finer)


ALONE = {"order": 4, "width": 1.6}
# Two surfaces, options, how much the error falls at least, and the most that is left. On nodes
# alone with 1.5 times smaller h it falls by h^4, of order 9. On finer nodes what is left is the
# error of the density's series, which falls exponentially.
CONVERGENCE = {
    "ellipsoid alone": (lambda k: ellipsoid(6 * k + 1, 1, (1.0, 0.8, 0.7)), (2, 3), ALONE, 5, 5e-3),
    "torus alone": (lambda k: torus(24 * k, 1), (2, 3), ALONE, 5, 5e-3),
    "ellipsoid": (lambda degree: ellipsoid(degree, 3), (5, 9), {}, 8, 5e-3),
    "torus": (lambda around: torus(around, 3), (18, 24), {}, 4, 5e-3),
    "star": (star, (7, 11), {}, 5, 5e-3),
    "rod": (rod, (7, 11), {}, 5, 5e-3),
}


# Parts of bodies of many nodes take long, and those of others are tested in default runs.
ON_NODES = [(shape, 0.0) for shape in CONVERGENCE]
NEAR = [(shape, 0.3) for shape in CONVERGENCE]
INSIDE = [(shape, -0.3) for shape in CONVERGENCE]


@pytest.mark.parametrize(
    ("shape", "place"),
    [*NEAR[:5], *ON_NODES[2:5], *in_the_long_run(*ON_NODES[:2], ON_NODES[5], NEAR[5], *INSIDE)],
)
def test_convergence(shape, place):
    make, sizes, more, ratio, bound = CONVERGENCE[shape]
    errors = [at_distance(make(size), FAR, place, **more) for size in sizes]
    assert errors[0] > ratio * errors[1]
    assert errors[1] < bound


@pytest.mark.parametrize("finer", [1, *in_the_long_run(2)])
def test_laplace(finer):
    surface, charges = ellipsoid(14, finer, axes=(1.0, 0.9, 0.8)), np.linspace(-1, 2, 6)

    def flow(x, want="u"):
        return direct_sum("laplace", x, FAR.places, charges, want=want, periodicity=0)

    value = flow(surface.nodes)
    slope = (flow(surface.nodes, "grad_u") * surface.normals).sum(axis=0)
    for place in (0.0, 0.3, -0.3):
        x = None if place == 0 else surface_points(surface, place)[0]
        found = surface.charge_layer(slope, x, **FREE) - surface.dipole_layer(value, x, **FREE)
        exact = flow(surface.nodes if x is None else x)
        inside = 0.5 if place == 0 else float(place < 0)
        bound = {1: 2e-3, 2: 3e-5}[finer]
        assert np.abs(found / (4 * np.pi) - inside * exact).max() < bound * np.abs(value).max()


@pytest.mark.parametrize("accuracy", [1e-3, *in_the_long_run(1e-5)])
def test_a_wanted_accuracy(accuracy):
    """Less of it takes fewer targets and pairs, and keeps what it says."""
    surface = ellipsoid(12, 3, (1.0, 1.0, 1.0))
    v = FAR.u(surface.nodes)
    for place in (0.02, 0.7, 1.6, 2.6, -0.3):
        x, _ = surface_points(surface, place)
        found = surface.double_layer(v, x, accuracy=accuracy, **FREE)
        other = surface.double_layer(v, x, accuracy=1e-7, **FREE)
        assert np.abs(found - other).max() < accuracy * np.abs(8 * np.pi * v).max()
    x, _ = surface_points(surface, 2.3)
    coarse, fine = (
        parki.LayerPlan("stokes_dl", surface, x, accuracy=each, **FREE).describe()
        for each in (1e-3, 1e-7)
    )
    assert "20 targets near bodies" in fine and "targets near" not in coarse


def test_matrices_of_events_are_the_same_by_both_ways(monkeypatch):
    """Dense for small bodies, and sparse ones of pairs for large ones."""
    surface = ellipsoid(8, 3)
    x, _ = surface_points(surface, 0.3)
    q = FAR.u(surface.nodes)
    plans = [parki.LayerPlan("stokes_dl", surface, x, **FREE)]
    monkeypatch.setattr(corrections, "MOST_DENSE", 0)
    plans.append(parki.LayerPlan("stokes_dl", surface, x, **FREE))
    assert plans[0]._placed.near.finer is None and plans[1]._placed.near.finer is not None
    one, other = (plan(q) for plan in plans)
    assert np.abs(one - other).max() < 2e-4 * np.abs(one).max()
    back, same = (plan.adjoint(one) for plan in plans)
    assert np.abs(back - same).max() < 1e-3 * np.abs(back).max()


@pytest.mark.parametrize("kernel", ["stokes_comb", *in_the_long_run("laplace_dipole")])
def test_matrices_of_events_are_the_same_by_rows_and_by_bodies(kernel, monkeypatch):
    """As a device has them, and as the CPU has them, for bodies of two sizes."""
    surfaces = [ellipsoid(5, 2), ellipsoid(4, 2).moved(np.array([[2.1], [0.0], [0.1]]))]
    surface = parki.Surface.join(*surfaces)
    rng, columns = np.random.default_rng(3), 6 if kernel == "stokes_comb" else 1
    q = np.squeeze(rng.normal(size=(2, columns, surface.areas.size)))
    first = parki.LayerPlan(kernel, surface, **FREE)
    monkeypatch.setitem(dense.FORMS, False, dense.by_rows)
    monkeypatch.setattr(dense, "MOST", 1000 * columns)  # so that rows are several matrices
    second = parki.LayerPlan(kernel, surface, **FREE)
    assert [type(each) for each in first._placed.near.nodes] == 2 * [dense.ByBodies]
    assert len(second._placed.near.nodes) > 2 and first.describe() == second.describe()
    one, other = first(q), second(q)
    assert np.abs(one - other).max() < 1e-12 * np.abs(one).max()
    assert np.abs(first(q[1]) - other[1]).max() < 1e-12 * np.abs(one).max()
    one, other = first.adjoint(one), second.adjoint(one)
    assert np.abs(one - other).max() < 1e-12 * np.abs(one).max()


NEAR_SHAPES = {
    "sphere": lambda dtype: parki.Surface.spheres(ORIGIN.astype(dtype) + dtype(0.1), 1.0, order=8),
    "rod": lambda dtype: parki.Surface.rods(ORIGIN.astype(dtype), 3.0, 0.6, order=12),
    "star": lambda dtype: parki.Surface.harmonics(star_points(10).astype(dtype)),
    "torus": lambda dtype: parki.Surface.tori(ORIGIN.astype(dtype), 1.0, 0.4),
}


def star_points(order):
    y = parki.Surface.directions(order)
    return (1 + 0.1 * y[0] * y[1]) * y


@pytest.mark.parametrize("shape", NEAR_SHAPES)
def test_layers_keep_their_digits_at_every_distance_from_a_node(shape):
    surface = NEAR_SHAPES[shape](np.float64)
    some = np.random.default_rng(4).choice(surface.areas.size, 8, replace=False)
    distances = np.array([0.1, 1e-4, 1e-8, 1e-10, 1e-12])
    away = np.concatenate([distances, -distances])[:, None]
    x = surface.nodes[:, None, some] + away * surface.normals[:, None, some]
    x, inside, n = x.reshape(3, -1), np.repeat(away[:, 0] < 0, some.size), surface.normals
    free = {"targets": x, "periodicity": 0, "tolerance": 1e-6}
    double = parki.LayerPlan("stokes_dl", surface, **free)
    constant = np.ones_like(surface.nodes)
    assert np.abs(double(constant) / (8 * np.pi) - inside).max() < 1e-6
    assert double.check(constant) < 1e-4
    assert np.abs(surface.single_layer(n, **free)).max() / (8 * np.pi) < 1e-4
    pressures = surface.single_layer(n, want="p", **free) / (8 * np.pi)
    assert np.abs(pressures + inside).max() < 2e-3


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", ["star", "torus"])
def test_a_target_at_a_node_but_for_rounding_is_the_node(shape, dtype):
    surface = NEAR_SHAPES[shape](dtype)
    constant = np.ones_like(surface.nodes)
    near = surface.nodes * (1 + 2 * np.finfo(dtype).eps)
    free = {"periodicity": 0, "tolerance": 1e-5}
    for side, inside in SIGNS.items():
        at = [surface.double_layer(constant, x, side=side, **free) for x in (None, near)]
        assert np.abs(np.array(at) / (8 * np.pi) - inside).max() < 3e-5
    force = surface.nodes + surface.normals
    at_nodes, close = (surface.single_layer(force, x, **free) for x in (None, near))
    assert np.abs(at_nodes - close).max() < 2e-4 * np.abs(at_nodes).max()


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


# ---------------------------------------------------------------- boxes and moving bodies
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


def test_bodies_turn_and_move():
    first, second = (Rotation.random(2, random_state=seed) for seed in (1, 2))
    centres, axes = CENTRES, np.array([[0.27, 0.2], [0.2, 0.2], [0.2, 0.15]])
    surface = parki.Surface.ellipsoids(centres, axes, first, order=5, finer=3)
    density = np.random.default_rng(0).normal(size=surface.nodes.shape)
    plan = parki.LayerPlan("stokes_sl", surface, **BOX)
    moved = centres + 0.02
    plan.update_positions(moved, second.as_quat().T)
    anew = parki.Surface.ellipsoids(moved, axes, second, order=5, finer=3)
    assert np.allclose(plan(density), parki.LayerPlan("stokes_sl", anew, **BOX)(density))
    # All turned together is the same flow, turned.
    free = parki.LayerPlan("stokes_sl", surface, **FREE)
    turn = Rotation.random(random_state=5)
    value = free(density)
    free.update_positions(turn.apply(centres.T).T, turn * first)
    assert np.abs(turn.apply(value.T).T - free(turn.apply(density.T).T)).max() < 1e-6


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


def test_more_pairs_than_memory_holds(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda space: 1e6)
    ball = parki.Surface.spheres(np.zeros((3, 1)), 1.0, order=8)
    targets = np.random.default_rng(0).normal(size=(3, 20000))
    targets /= np.linalg.norm(targets, axis=0)
    with pytest.raises(parki.ParkiMemoryError, match="fewer targets at a time"):
        ball.single_layer(np.ones_like(ball.nodes), 1.01 * targets, **FREE)


def test_a_refused_move_leaves_all_as_it_was(monkeypatch):
    """Also where it fails late; and arrays that the caller changes are nobody else's."""
    centres = CENTRES
    surface = parki.Surface.spheres(centres, [0.25, 0.2], order=5, finer=3)
    targets = np.random.default_rng(1).random((3, 20))
    plan = parki.LayerPlan("stokes_sl", surface, targets, **BOX)
    density = np.random.default_rng(0).normal(size=surface.nodes.shape)
    before = plan(density)
    targets[:] = np.nan
    with pytest.raises(parki.ParkiValueError, match="NaN"):
        plan.update_positions(centres * np.nan)
    assert np.array_equal(plan(density), before)

    def fails(*_, **__):
        raise MemoryError("late")

    with monkeypatch.context() as patch:
        patch.setattr(corrections, "near_matrices", fails)
        with pytest.raises(MemoryError):
            plan.update_positions(centres + 0.02)
        with pytest.raises(MemoryError):
            plan.check(density)
    assert np.array_equal(plan(density), before)
    plan.update_positions(centres + 0.02)
    assert np.isfinite(plan(density)).all() and not np.allclose(plan(density), before)


@pytest.mark.parametrize(
    ("kernel", "want"),
    [
        *(("stokes_comb", "u"), ("stokes_sl", "p"), ("laplace_dipole", "u")),
        *in_the_long_run(("stokes_sl", "u"), ("stokes_dl", "u"), ("stokes_dl", "p")),
    ],
)
def test_transpose_and_operator(kernel, want):
    surface = parki.Surface.spheres(CENTRES, [0.25, 0.2], order=5, finer=3)
    plan = parki.LayerPlan(kernel, surface, want=want, **BOX)
    operator = plan.as_linear_operator()
    rng = np.random.default_rng(0)
    q, v = (rng.normal(size=operator.shape[axis]) for axis in (1, 0))
    forward, back = v @ (operator @ q), q @ (operator.rmatvec(v))
    assert abs(forward - back) < 1e-9 * np.linalg.norm(v) * np.linalg.norm(operator @ q)
    two = operator.matmat(np.stack([q, (2 + 1j) * q], axis=1))
    assert np.allclose(two[:, 1], (2 + 1j) * (operator @ q))


def test_estimate():
    """It is an upper one, and not far away, also where nodes alone are few for the curvature."""
    surface = ellipsoid(12, 1)
    with pytest.warns(parki.ParkiWarning, match="the surface turns by"):
        plan = parki.LayerPlan("stokes_dl", surface, **FREE)
    error = green(surface, FAR, "u", inside=0.5)
    assert error > 1e-2 and error / 3 < plan.check(FAR.u(surface.nodes)) < 40 * error


@pytest.mark.parametrize("height", [0.3, 0.2, 0.1, 0.03])
def test_flat_surfaces_are_warned_of(height):
    """Those flatter than 0.2 had errors of 5 % and more, and no word."""
    flat = parki.Surface.ellipsoids(np.zeros((3, 1)), (1, 1, height), order=8)
    with pytest.warns(parki.ParkiWarning, match="the surface turns by"):
        parki.LayerPlan("stokes_sl", flat, **FREE)


def test_layers_follow_bodies_that_spread():
    """Without a box; the sum over nodes stays the one that was placed first."""
    surface = parki.Surface.spheres(np.array([[0.0, 1.0]] * 3), 0.2, order=5, finer=3)
    plan, density = parki.LayerPlan("stokes_dl", surface, **FREE), surface.normals + 1
    first = plan._plan
    for shift in (1.5, 4.0):
        there = surface.moved(surface.centres + shift * np.array([[0, 0], [0, 0], [0, 1]]))
        plan.update(there)
        new = parki.LayerPlan("stokes_dl", there, **FREE)
        np.testing.assert_allclose(plan(density), new(density), atol=1e-5 * abs(density).max())
    assert plan._plan is first


def test_no_densities():
    surface = parki.Surface.spheres(CENTRES, [0.25, 0.2], order=5, finer=3)
    count = surface.areas.size
    plan = parki.LayerPlan("stokes_sl", surface, **BOX)
    assert plan(np.zeros((0, 3, count))).shape == plan.adjoint(np.zeros((0, 3, count))).shape
    assert plan(np.zeros((0, 3, count))).shape == (0, 3, count)


def test_surfaces_without_bodies_and_without_extent_are_refused():
    with pytest.raises(parki.ParkiValueError, match="centres has no column; a surface has a body"):
        parki.Surface.spheres(np.zeros((3, 0)), 1.0)
    with pytest.raises(parki.ParkiValueError, match="points of body 0 are all at one place"):
        parki.Surface.harmonics(0 * parki.Surface.directions(5))


@pytest.mark.parametrize(("finer", "degrees"), [(1, (6, 9)), (3, (4, 6))])
@pytest.mark.parametrize("accuracy", [*in_the_long_run(1e-2), 1e-4])
def test_estimate_of_single_layers(finer, degrees, accuracy):
    """It is an upper one on few nodes, too, where they do not resolve the density."""
    exact = ellipsoid(14, 3)
    x, n = surface_points(exact, 0.0)

    def density(y):
        return np.stack([np.sin(1.5 * y[1] + 0.3), np.cos(1.65 * y[0]), 1.5 * y[2] * y[1]])

    for place in (0.0, 0.3):
        y = x + place * exact.spacing.max() * n
        more = {"side": "outside", **FREE} if place == 0 else FREE
        expected = exact.single_layer(density(exact.nodes), y, **more)
        for degree in degrees:
            surface = ellipsoid(degree, finer)
            plan = parki.LayerPlan("stokes_sl", surface, y, accuracy=accuracy, **more)
            found = plan(density(surface.nodes))
            error = np.abs(found - expected).max() / np.abs(expected).max()
            assert 0.8 * error < plan.check(density(surface.nodes)) < 80 * error


def test_a_warning_of_bodies_that_overlap():
    """Once, and not of bodies that are close, or one inside of the other."""
    for apart, radii, told in ((0.9, 0.5, True), (1.4, 0.5, False), (0.0, [0.5, 0.9], False)):
        surface = parki.Surface.spheres(np.array([[0, apart], [0, 0], [0, 0]]), radii, order=4)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            plan = parki.LayerPlan("stokes_sl", surface, **FREE)
            plan.update_positions(surface.centres + 0.1)
        overlaps = [each for each in found if "bodies 0 and 1 overlap" in str(each.message)]
        assert len(overlaps) == told


# ---------------------------------------------------------------- refusals
Y, LOST = parki.Surface.directions(6), np.full((3, 1), np.nan)
UNIT, BALL = (parki.Surface.spheres(ORIGIN, 1.0, order=n, finer=3) for n in (6, 4))
NODES, NORMALS, AREAS = BALL.nodes, BALL.normals, BALL.areas
WALL = {"periodicity": 2, "box": [9, 9, None], "wall": "no-slip", "tolerance": 1e-4}
REFUSED = {
    "normals point inwards": lambda: parki.Surface(NODES, -NORMALS, AREAS),
    "no closed surface": lambda: parki.Surface(NODES[:, :30], NORMALS[:, :30], AREAS[:30]),
    "areas has shape": lambda: parki.Surface(NODES, NORMALS, AREAS[:-1]),
    "systems is": lambda: parki.Surface(NODES, NORMALS, AREAS, systems=[0, 30]),
    "join": lambda: parki.Surface(NODES, NORMALS, AREAS, systems=[0, 25, 50], project=lambda x: x),
    "quaternion": lambda: parki.Surface.ellipsoids(ORIGIN, AXES, np.eye(3)),
    "less than ring": lambda: parki.Surface.tori(ORIGIN, 0.5, 1.0),
    "at least the diameter": lambda: parki.Surface.rods(ORIGIN, 1.0, 0.6),
    "density has shape": lambda: BALL.single_layer(np.ones((3, 3)), **FREE),
    "expected one of outside": lambda: BALL.single_layer(NODES, side="above", **FREE),
    "directions is missing": lambda: BALL.single_layer(NODES, NODES + 1, want="traction", **FREE),
    "images in a wall": lambda: BALL.single_layer(NODES, **WALL),
    "centres contains NaN": lambda: parki.Surface.spheres(LOST, 1.0),
    "points contains NaN": lambda: parki.Surface.harmonics(Y + LOST),
    "inside out; mirror": lambda: parki.Surface.harmonics(-Y),
    r"expected \(3, n\)": lambda: parki.Surface.harmonics(Y[:, :-1]),
    "right unit": lambda: parki.Surface(Y, Y, 0.1 * UNIT.areas),
    "the right unit": lambda: parki.Surface(Y, Y, 5.0 * UNIT.areas),
    "expected a parki.Surface": lambda: parki.LayerPlan("stokes_sl", Y, **FREE),
    r"reshape\(3, -1\)": lambda: BALL.single_layer(NODES.ravel(), **FREE),
    "accuracy is": lambda: parki.LayerPlan("stokes_dl", BALL, accuracy=0.5, **FREE),
}


@pytest.mark.parametrize("width", [5e-324, 0.01])
def test_widths_without_nodes_are_refused(width):
    """They gave NumPy's warnings."""
    ball = parki.Surface.spheres(ORIGIN, 1.0, order=4)
    with pytest.raises(parki.ParkiValueError, match=r"expected at least 0\.1 node distances"):
        parki.LayerPlan("stokes_sl", ball, None, width=width, **FREE)


@pytest.mark.parametrize("accuracy", [Fraction(1, 3), np.array(1 / 3)])
def test_numbers_of_any_type_are_told_apart(accuracy):
    """Python below 3.12 writes no fraction by a format, and arrays have no hash."""
    ball = parki.Surface.spheres(ORIGIN, 1.0, order=4)
    words = r"accuracy is 0\.333333; expected 1e-9 to 1e-2"
    with pytest.raises(parki.ParkiValueError, match=words):
        parki.LayerPlan("stokes_sl", ball, None, accuracy=accuracy, **FREE)


def test_refusals():
    for words, call in REFUSED.items():
        error = parki.ParkiTypeError if "a parki.Surface" in words else parki.ParkiValueError
        with pytest.raises(error, match=words):
            call()
    sphere, nowhere = parki.Surface.spheres(ORIGIN, 1.0, order=4), np.full((3, 2), np.nan)
    for words, given in (
        ("^targets contains NaN", (sphere.nodes, nowhere)),
        ("^density contains NaN", (np.nan * sphere.nodes, np.full((3, 2), 10.0))),
    ):
        with pytest.raises(parki.ParkiValueError, match=words):
            sphere.single_layer(*given, **FREE)
    with pytest.warns(parki.ParkiWarning, match=r"directions\(4\), in this order"):
        parki.Surface.harmonics(Y[:, :50])


def test_no_targets_and_far_targets():
    sphere = parki.Surface.spheres(ORIGIN, 1.0, order=4)
    assert sphere.double_layer(sphere.nodes, np.empty((3, 0)), **FREE).shape == (3, 0)
    nowhere = parki.LayerPlan("stokes_dl", sphere, np.empty((3, 0)), **FREE)
    assert not nowhere.adjoint(np.empty((3, 0))).any()
    assert nowhere.adjoint(np.empty((2, 3, 0))).shape == (2, *sphere.nodes.shape)
    far = np.full((3, 2), 10.0)
    plain = parki.stokes_sl(far, sphere.nodes, sphere.nodes * sphere.areas, **FREE)
    assert np.allclose(sphere.single_layer(sphere.nodes, far, **FREE), plain)


@pytest.mark.gpu
@pytest.mark.skipif(bool(NO_GPU), reason=NO_GPU)
@pytest.mark.parametrize("accuracy", [1e-2, 1e-6])
@pytest.mark.parametrize("finer", [1, 3])
def test_no_pairs_on_a_gpu(finer, accuracy):
    """CuPy's reductions and counts refuse arrays without elements."""
    import cupy

    sphere = parki.Surface.spheres(cupy.zeros((3, 1)), 1.0, order=4, finer=finer)
    for place, count in ((1.0, 0), (10.0, 2), (0.99, 1)):
        x = cupy.full((3, count), place)
        plan = parki.LayerPlan("stokes_dl", sphere, x, accuracy=accuracy, **FREE)
        assert plan(sphere.nodes).shape == (3, count)
        assert plan.adjoint(x).shape == sphere.nodes.shape


def test_nearest_points_of_shapes():
    for shape in (shapes.ellipsoid(AXES, 8, 1), shapes.torus(1.0, 0.4, (24, 8), 1)):
        b = 0.2 * shape.spacing
        normals, distances = shape.project(shape.nodes + b * shape.normals)
        assert np.allclose(distances, b) and np.allclose(normals, shape.normals)
        fit = series.Fit(shape.nodes, shape.normals, shape.spacing)
        assert np.abs(fit(shape.nodes + b * shape.normals)[1] - b).max() < 1e-9


@pytest.mark.gpu
@pytest.mark.skipif(bool(NO_GPU), reason=NO_GPU)
@pytest.mark.parametrize("finer", [1, 3])
@pytest.mark.parametrize("key", LAYERS)
def test_gpu(key, finer):
    """The same values and transposes as on the CPU, at the nodes, near them and after a move."""
    import cupy

    for host, device in zip(
        of_two_bodies(key, finer, np), of_two_bodies(key, finer, cupy), strict=True
    ):
        assert np.abs(host - to_host(device)).max() < 1e-6 * np.abs(host).max()


def of_two_bodies(key, finer, xp):
    """Return layers of two bodies, by arrays of ``xp``."""
    axes = np.array([[0.27, 0.2], [0.2, 0.2], [0.22, 0.18]])
    kernel, want = key
    x = xp.asarray(np.random.default_rng(1).random((3, 40)))
    density = np.random.default_rng(0).normal(size=(LAYERS[key].columns, 2 * 2 * 9**2))
    q = xp.asarray(density if len(density) > 1 else density[0])
    surface = parki.Surface.ellipsoids(xp.asarray(CENTRES), axes, order=8, finer=finer)
    nodes = parki.LayerPlan(kernel, surface, want=want, **BOX)
    e = {"directions": x} if want == "traction" else {}
    values = [nodes(q), parki.LayerPlan(kernel, surface, x, want=want, **e, **BOX)(q)]
    if want == "u":
        values.append(nodes.adjoint(values[0]))
    nodes.update_positions(xp.asarray(CENTRES + 0.03))
    return [*values, nodes(q)]


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
