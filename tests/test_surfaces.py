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
    at_distance,
    ellipsoid,
    green,
    in_the_long_run,
    surface_points,
)
from scipy.integrate import quad

import parki
from parki.ewald.sums import SUMS
from parki.reference import direct_sum
from parki.runtime import get_execution_space
from parki.surfaces import blocks, corrections, dense, plain, series, shapes
from parki.surfaces.blocks import EventPairs, Rows, in_lab
from parki.surfaces.kernels import LAYERS, NUMBERS
from parki.surfaces.near import Events, Regularisation

SIGNS = {"outside": 0.0, "mean": 0.5, "inside": 1.0}


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


@pytest.mark.parametrize("finer", [1, 2])
def test_matrices_are_the_same_by_several_work_items_of_an_event(finer, monkeypatch):
    """As a device shares an event's pairs out; on nodes alone, and with finer ones."""
    y = np.array([[1.2, 0.0], [0.1, 1.05], [0.0, 0.2]])
    found = []
    for parts in (1, 3):
        monkeypatch.setitem(blocks.PARTS, False, parts)
        surface = ellipsoid(4, finer)
        q = FAR.u(surface.nodes)
        plans = [parki.LayerPlan("stokes_dl", surface, x, **FREE) for x in (None, y)]
        found.append(np.concatenate([plan(q) for plan in plans], axis=1))
    assert np.abs(found[0] - found[1]).max() < 1e-13 * np.abs(found[0]).max()


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
