"""Corrections of events by all finer nodes of a body, as dense matrices.

The layer of the interpolated density, by a sum over the finer nodes with close pairs regularised,
takes the place of the sum over the nodes. It suits bodies of up to a thousand nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from parki.surfaces.functions import Singular
from parki.surfaces.kernels import Layer, SurfacePairs
from parki.surfaces.near import Events, Nodes, Regularisation, blocks, with_constants
from parki.surfaces.shapes import TOUCHING

AT_ONCE = {False: 1 << 17, True: 1 << 22}  # pairs, by whether they are on a device

Places = tuple[Any, Any, Any]  # nodes, normals and areas


def plain_matrix(
    xp: Any, layer: Layer, points: Any, e: Any, nodes: Places, least: Any = None
) -> Any:
    """Return the sum over nodes at points as a matrix (rows, columns, points, nodes).

    Pairs at r = 0 are left out, and those closer than ``least``, shape (points,).
    """
    places, normals, areas = nodes
    shape = points.shape[1], areas.size
    r = (points[:, :, None] - places[:, None]).reshape(3, -1)
    n, e = xp.tile(normals, shape[0]), xp.repeat(e, shape[1], axis=1)
    squared = (r**2).sum(axis=0)
    if least is not None:
        squared = xp.where(squared < xp.repeat(least**2, shape[1]), 0.0, squared)
    functions: Any = Singular(xp, squared)
    found = layer.block(SurfacePairs(xp, r, 0 * r, 0 * r[0], n, e, functions))
    return found.reshape(layer.rows, layer.columns, *shape) * areas


def dense_matrix(
    xp: Any,
    layer: Layer,
    events: Events,
    points: Any,
    nodes: Places,
    finer: tuple[Any, Any, Any, Any],
    setting: Regularisation,
) -> Any:
    """Return the corrections of events with one body, (rows, columns, events, nodes).

    Parameters
    ----------
    points : array, shape (3, n)
        Places of the events, next to the nodes.
    nodes, finer : tuple of arrays
        Nodes, normals and areas of the body, and the interpolation (finer nodes, nodes).
    """
    step = max(1, AT_ONCE[xp is not np] // finer[2].size)
    parts = [slice(first, first + step) for first in range(0, max(1, points.shape[1]), step)]
    some = ((events.some(part), points[:, part]) for part in parts)
    found = [_some(xp, layer, each, at, nodes, finer, setting) for each, at in some]
    return xp.concatenate(found, axis=2)


def _some(
    xp: Any, layer: Layer, events: Events, points: Any, nodes: Places, finer: Any, setting: Any
) -> Any:
    *fine, interpolation = finer
    least = TOUCHING * events.h
    whole = plain_matrix(xp, layer, points, events.e, tuple(fine), least)
    # Farther away the sum over finer nodes is good enough.
    near = xp.flatnonzero(abs(events.b) <= setting.farthest * events.h / events.times)
    if near.size:
        close = events.some(near)
        close = replace(close, node=close.finer)
        pairs = _pairs(xp, close, points[:, near], tuple(fine), setting)
        levels = blocks(xp, layer, close, pairs, None, setting)
        if layer.exact is not None and setting.constants:
            sums = whole[:, :, near].sum(axis=-1)
            levels = with_constants(xp, layer, close, levels, sums, setting.side)
        (level,) = levels
        for row, column in np.ndindex(layer.rows, layer.columns):
            place = near[level.event] * fine[2].size + level.index
            added = xp.bincount(place, level.values[row, column], whole[0, 0].size)
            whole[row, column] += added.reshape(whole.shape[2:])
    return whole @ interpolation - plain_matrix(xp, layer, points, events.e, nodes)


def _pairs(xp: Any, events: Events, points: Any, nodes: Places, setting: Regularisation) -> Nodes:
    """Return the pairs of events and nodes within reach of the regularisation."""
    places, normals, areas = nodes
    squared = ((points[:, :, None] - places[:, None]) ** 2).sum(axis=0)
    reach = setting.reach * setting.width * events.h / events.times
    least = TOUCHING * events.h
    event, index = xp.nonzero((squared < reach[:, None] ** 2) & (squared >= least[:, None] ** 2))
    r = points[:, event] - places[:, index]
    zero = xp.flatnonzero(events.finer >= 0)
    found = (event, zero), (index, events.finer[zero]), (r, xp.zeros((3, zero.size)))
    event, index, r = (xp.concatenate(each, axis=-1) for each in found)
    return Nodes(normals, areas, event, index, r)


def by_bodies(
    surface: Any, layer: Layer, events: Events, points: Any, setting: Any
) -> Iterator[Any]:
    """Yield for each body the numbers of its events, its nodes, and its matrix of corrections."""
    xp, dtype = surface.xp, surface.nodes.dtype
    order = xp.argsort(events.body, kind="stable")
    ends = xp.searchsorted(events.body[order], xp.arange(surface.kinds.size + 1)).tolist()
    more = surface.finer()
    for body, kind in enumerate(surface.kinds.tolist()):
        index = order[ends[body] : ends[body + 1]]
        if not index.size:
            continue
        shape = surface.shapes[kind]
        first, start = int(surface.systems[body]), int(surface.finer_starts[body])
        mine = slice(first, first + shape.areas.size)
        fine = slice(start, start + shape.finer.areas.size)
        arrays = surface.nodes, surface.normals, surface.areas
        nodes = tuple(each[..., mine].astype(np.float64) for each in arrays)
        finer = tuple(each[..., fine].astype(np.float64) for each in more[:3])
        some = events.some(index)
        some = replace(some, finer=xp.where(some.finer < 0, -1, some.finer - start))
        given = (*finer, xp.asarray(shape.finer.matrix))
        matrix = dense_matrix(xp, layer, some, points[:, index], nodes, given, setting)
        flat = matrix.transpose(0, 2, 1, 3).reshape(layer.rows * index.size, -1)
        yield index, mine, xp.ascontiguousarray(flat.astype(dtype))
