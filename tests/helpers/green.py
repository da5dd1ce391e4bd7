"""Exact flows around surfaces, and the errors of layers in Green's identity."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import parki
from parki.reference import direct_sum

FREE = {"periodicity": 0, "tolerance": 1e-9}
BOX = {"periodicity": 3, "box": [1, 1, 1], "tolerance": 1e-8}
AXES = (1.0, 0.7, 0.5)
ORIGIN = np.zeros((3, 1))
CENTRES = np.array([[0.3, 0.75], [0.5, 0.45], [0.45, 0.55]])  # of two bodies in the box
SIGNS = {"outside": 0.0, "mean": 0.5, "inside": 1.0}


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


def rod(order):
    return parki.Surface.rods(ORIGIN, 2.0, 0.5, order=order)
