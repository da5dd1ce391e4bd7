"""A body's own layers by polar coordinates around each node, for maps of the unit sphere.

The singularity of a layer is as 1/t, or 1/t^2 and odd, at the angle t from a node, so that with the
sphere's area sin t the integrand is smooth, or odd parts cancel. No correction is as good at the
nodes. The density there follows from the nodes by its series. All nodes of a ring see the sphere in
the same way: densities and places are rolled around the axis.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.polynomial.legendre import legder, leggauss, legval

from parki.surfaces.functions import Singular
from parki.surfaces.kernels import Layer, SurfacePairs
from parki.surfaces.series import Sphere, directions, tangents

MORE = 4  # orders of the quadrature above the density's
KEPT = 2**22  # numbers in tables that are kept


def polar_matrix(layer: Layer, shape: Any, side: int, exact: bool) -> np.ndarray:
    """Return a layer of a body alone at its own nodes, (rows, n, columns, n).

    Parameters
    ----------
    shape : Shape
        With a ``sphere``.
    side : int
        1 is the limit from outside, -1 from inside, 0 the mean.
    exact : bool
        Whether to make the layer exact for constants.
    """
    sphere: Sphere = shape.sphere
    around, count = 2 * sphere.densities + 2, shape.areas.size
    matrix = np.empty((layer.rows, count, layer.columns, count))
    of_points, of_nodes = (
        _rolled(2 * order + 2, order + 1, around) for order in (sphere.order, sphere.densities)
    )
    x = sphere.points[:, of_points]  # (3, around, nodes): as the places on a ring see them
    for ring, tables in enumerate(_tables(sphere.order, sphere.densities)):
        values, first, second, densities, weights = tables
        nodes = np.arange(ring * around, (ring + 1) * around)
        normal = np.cross(x @ first.T, x @ second.T, axis=0)
        size = np.sqrt((normal**2).sum(axis=0))
        r = shape.nodes[:, nodes, None] - x @ values.T
        functions = Singular(np, (r**2).sum(axis=0), size * weights)
        e = shape.normals[:, nodes, None]
        block = layer.block(SurfacePairs(np, r, None, None, normal / size, e, functions))
        rows = block @ densities
        for place, index in zip(nodes, of_nodes, strict=True):
            matrix[:, place, :, index] = rows[:, :, place % around].transpose(2, 0, 1)
    every = np.arange(count)
    if exact and layer.exact is not None:
        inside = np.full(count, 0.5 * (1 - side))
        missing = layer.missing(np, inside, matrix.sum(axis=3).transpose(0, 2, 1))
    else:
        missing = 0.5 * side * layer.jumps(np, shape.normals, shape.normals)
    matrix[:, every, :, every] += missing.transpose(2, 0, 1)
    return matrix


def _rolled(along: int, rings: int, around: int) -> np.ndarray:
    """Return the nodes of a grid as each place on a ring sees them, (around, nodes)."""
    step = along // around
    place = (np.arange(along) + step * np.arange(around)[:, None]) % along
    return (along * np.arange(rings)[:, None] + place[:, None]).reshape(around, -1)


def _tables(order: int, densities: int) -> Iterator[tuple[np.ndarray, ...]]:
    numbers = 8 * (densities + 1) * (densities + MORE) ** 2 * (order + 1) ** 2
    return iter((_kept if numbers < KEPT else _computed)(order, densities))


def _computed(order: int, densities: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield tables for the first node of each ring.

    They are from the points to places and both derivatives at the nodes of the quadrature, and from
    the densities; and weights.
    """
    t, weight = leggauss(densities + 1 + MORE)
    t, weight = (t + 1) * np.pi / 2, weight * np.pi / 2
    around = 2 * (densities + 1 + MORE)
    angle = 2 * np.pi * np.arange(around) / around
    cap = np.stack(
        np.broadcast_arrays(
            np.outer(np.sin(t), np.cos(angle)),
            np.outer(np.sin(t), np.sin(angle)),
            np.cos(t)[:, None],
        )
    ).reshape(3, -1)
    weights = np.repeat(weight * np.sin(t), around) * 2 * np.pi / around
    (points, shares), (nodes, areas) = directions(order), directions(densities)
    wide, few = ((2 * np.arange(k + 1) + 1) / (4 * np.pi) for k in (order, densities))
    for height in nodes[2, :: 2 * densities + 2]:
        slope = np.sqrt(1 - height**2)
        y = np.array([[height, 0, slope], [0, 1, 0], [-slope, 0, height]]) @ cap
        along = y.T @ points
        bent = legval(along, legder(wide)) * shares
        first, second = (bent * (each.T @ points) for each in tangents(y))
        values = legval(along, wide) * shares
        yield values, first, second, legval(y.T @ nodes, few) * areas, weights


@functools.lru_cache(maxsize=4)
def _kept(order: int, densities: int) -> list[tuple[np.ndarray, ...]]:
    return list(_computed(order, densities))
