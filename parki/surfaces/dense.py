"""Corrections of events by all finer nodes of a body, as dense matrices.

The layer of the interpolated density, by a sum over the finer nodes with close pairs regularised,
takes the place of the sum over the nodes. It suits bodies of up to a thousand nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from parki.surfaces.functions import Singular
from parki.surfaces.kernels import Layer, SurfacePairs
from parki.surfaces.near import Events, Nodes, Regularisation, blocks
from parki.surfaces.shapes import TOUCHING, Finer, Shape

AT_ONCE = {False: 1 << 14, True: 1 << 22}  # pairs, by whether they are on a device

Places = tuple[Any, Any, Any]  # nodes, normals and areas


def plain_matrix(
    xp: Any, layer: Layer, points: Any, e: Any, nodes: Places, least: Any = None
) -> Any:
    """Return the sum over nodes at points as a matrix (rows, columns, points, nodes).

    Pairs at r = 0 are left out, and those closer than ``least``, shape (points,).
    """
    places, normals, areas = nodes
    r = points[:, :, None] - places[:, None]
    squared = r[0] * r[0] + r[1] * r[1] + r[2] * r[2]
    if least is not None:
        squared[squared < least[:, None] ** 2] = 0.0
    functions = Singular(xp, squared, areas)
    return layer.block(SurfacePairs(xp, r, None, None, normals[:, None], e[:, :, None], functions))


@dataclass(frozen=True)
class Rule:
    """Finer nodes (3, m) of a body, normals and areas, and how many times finer they are.

    ``fold`` returns products of rows (..., m) with the matrix of interpolation, (..., n).
    """

    nodes: Any
    normals: Any
    areas: Any
    times: float
    fold: Callable[[Any], Any]


def rules_of(
    xp: Any, shape: Shape, on_device: Callable[[str], Any], centre: Any, frame: Any
) -> list[Rule]:
    """Return the finer nodes of a body; ``on_device`` has the shape's arrays in its memory."""
    rules, most = [], cast(Finer, shape.finer)
    for name, finer in (("finer.", most), ("finer.fewer.", most.fewer)):
        if finer is not None:
            matrix, *places = (
                on_device(name + each) for each in ("matrix", "nodes", "normals", "areas")
            )
            nodes, normals = centre[:, None] + frame @ places[0], frame @ places[1]
            rules.append(Rule(nodes, normals, places[2], finer.times, finer.folding(xp, matrix)))
    return rules[::-1]


def dense_matrix(
    xp: Any,
    layer: Layer,
    events: Events,
    points: Any,
    nodes: tuple[Any, Any, Any],
    rules: list[Rule],
    setting: Regularisation,
) -> Any:
    """Return the corrections of events with one body, (rows, columns, events, nodes).

    Parameters
    ----------
    points : array, shape (3, n)
        Places of the events, next to the nodes.
    nodes : tuple of arrays
        Nodes, normals and areas of the body.
    rules : list of Rule
        Finer nodes, the finest ones last. An event takes the first ones whose sum is good enough.
    """
    matrix = xp.empty((layer.rows, layer.columns, events.b.size, nodes[2].size))
    apart, left = abs(events.b) / events.h, xp.arange(events.b.size)
    for rule in rules:
        enough = setting.farthest / rule.times if rule is not rules[-1] else -1.0
        mine, left = left[apart[left] > enough], left[apart[left] <= enough]
        step = max(1, AT_ONCE[xp is not np] // rule.areas.size)
        for first in range(0, mine.size, step):
            part = mine[first : first + step]
            some, at = events.some(part), points[:, part]
            whole = rule.fold(_with_finer(xp, layer, some, at, rule, setting))
            matrix[:, :, part] = whole - plain_matrix(xp, layer, at, some.e, nodes)
    return matrix


def _with_finer(
    xp: Any, layer: Layer, events: Events, points: Any, rule: Rule, setting: Regularisation
) -> Any:
    """Return the regularised sum over finer nodes at events, (rows, columns, events, nodes)."""
    finer, count = (rule.nodes, rule.normals, rule.areas), rule.areas.size
    # Farther away the sum over finer nodes is good enough.
    near = xp.flatnonzero(abs(events.b) <= setting.farthest * events.h / rule.times)
    if not near.size:
        return plain_matrix(xp, layer, points, events.e, finer)
    whole = plain_matrix(xp, layer, points, events.e, finer, TOUCHING * events.h)
    close = events.some(near)
    close = replace(close, node=close.finer)
    pairs = _pairs(xp, close, points[:, near], finer, setting)
    sums = whole[:, :, near].sum(axis=-1)
    (level,) = blocks(xp, layer, close, pairs, None, setting, lambda: sums)
    size, place = near.size * count, level.event * count + level.index
    if not place.size:
        return whole
    for row, column in np.ndindex(layer.rows, layer.columns):
        added = xp.bincount(place, level.values[row, column], size).reshape(near.size, -1)
        whole[row, column, near] += added
    return whole


def _pairs(xp: Any, events: Events, points: Any, nodes: Any, setting: Regularisation) -> Nodes:
    """Return the pairs of events and nodes within reach of the regularisation."""
    places, normals, areas = nodes
    squared = ((points[:, :, None] - places[:, None]) ** 2).sum(axis=0)
    reach = setting.reach * setting.width * events.h / events.times
    least = TOUCHING * events.h
    event, index = xp.nonzero((squared < reach[:, None] ** 2) & (squared >= least[:, None] ** 2))
    r = points[:, event] - places[:, index]
    zero = xp.flatnonzero(events.finer >= 0)
    pairs = (event, zero), (index, events.finer[zero]), (r, xp.zeros((3, zero.size)))
    event, index, r = (xp.concatenate(each, axis=-1) for each in pairs)
    return Nodes(normals, areas, event, index, r)


def matrix_of_body(
    surface: Any, layer: Layer, body: int, where: Any, events: Events, points: Any, setting: Any
) -> Any:
    """Return the matrix of events with the body they are near to."""
    xp, shape = surface.xp, surface.shapes[surface.kinds[body]]
    first, start = int(surface.systems[body]), int(surface.finer_starts[body])
    arrays = surface.nodes, surface.normals, surface.areas
    mine = slice(first, first + shape.areas.size)
    nodes: Any = tuple(each[..., mine].astype(np.float64) for each in arrays)
    some = replace(events, finer=xp.where(events.finer < 0, -1, events.finer - start))
    rules = rules_of(xp, shape, lambda name: surface.on_device(shape, name), *where)
    return dense_matrix(xp, layer, some, points, nodes, rules, setting)
