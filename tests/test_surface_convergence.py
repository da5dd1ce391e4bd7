"""Layers converge with their nodes, at the nodes and near them, by matrices of events."""

from __future__ import annotations

import numpy as np
import pytest
from green import (
    FAR,
    FREE,
    ORIGIN,
    SIGNS,
    at_distance,
    ellipsoid,
    in_the_long_run,
    rod,
    surface_points,
)

import parki
from parki.reference import direct_sum
from parki.surfaces import blocks, corrections, dense

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
