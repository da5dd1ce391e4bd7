"""Corrections of events by all finer nodes of a body, as dense matrices.

The layer of the interpolated density, by a sum over the finer nodes with close pairs regularised,
takes the place of the sum over the nodes. It suits bodies of up to a thousand nodes. Finer nodes
are the same for all bodies of a shape as seen from the bodies' frames, so these have one matrix.
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

AT_ONCE = {False: 1 << 14, True: 1 << 20}  # pairs, by whether they are on a device

Places = tuple[Any, Any, Any]  # nodes, normals and areas


def plain_matrix(
    xp: Any, layer: Layer, points: Any, e: Any, nodes: Places, least: Any = None
) -> Any:
    """Return the sum over nodes at points as a matrix (rows, columns, points, nodes).

    The nodes may be others for each point: places and normals (3, points, nodes). Pairs at r = 0
    are left out, and those closer than ``least``, shape (points,).
    """
    places, normals = (each if each.ndim == 3 else each[:, None] for each in nodes[:2])
    areas = nodes[2]
    r = points[:, :, None] - places
    squared = r[0] * r[0] + r[1] * r[1] + r[2] * r[2]
    if least is not None:
        squared[squared < least[:, None] ** 2] = 0.0
    functions = Singular(xp, squared, areas)
    return layer.block(SurfacePairs(xp, r, None, None, normals, e[:, :, None], functions))


@dataclass(frozen=True)
class Rule:
    """Finer nodes (3, m) of a shape, normals and areas, and how many times finer they are.

    ``fold`` returns products of rows (..., m) with the matrix of interpolation, (..., n).
    """

    nodes: Any
    normals: Any
    areas: Any
    times: float
    fold: Callable[[Any], Any]


def rules_of(xp: Any, shape: Shape, in_memory: Callable[[str], Any]) -> list[Rule]:
    """Return the finer nodes of a shape, whose arrays ``in_memory`` returns by their names."""
    rules, most = [], cast(Finer, shape.finer)
    for name, finer in (("finer.", most), ("finer.fewer.", most.fewer)):
        if finer is not None:
            parts = "nodes", "normals", "areas", "matrix"
            nodes, normals, areas, matrix = (in_memory(name + part) for part in parts)
            rules.append(Rule(nodes, normals, areas, finer.times, finer.folding(xp, matrix)))
    return rules[::-1]


def finer_matrix(
    xp: Any, layer: Layer, events: Events, points: Any, rules: list[Rule], setting: Regularisation
) -> Any:
    """Return the regularised layers of interpolated densities, (rows, columns, events, nodes).

    Parameters
    ----------
    events : Events
        Vectors and finer nodes of the events as the body's frame has them.
    points : array, shape (3, n)
        Places of the events, next to the body's nodes.
    rules : list of Rule
        Finer nodes, the finest ones last. An event takes the first ones whose sum is good enough.
    """
    parts, places = [], []
    apart, left = abs(events.b) / events.h, xp.arange(events.b.size)
    for rule in rules:
        enough = setting.farthest / rule.times if rule is not rules[-1] else -1.0
        mine, left = left[apart[left] > enough], left[apart[left] <= enough]
        step = max(1, AT_ONCE[xp is not np] // rule.areas.size)
        for first in range(0, mine.size, step):
            some = mine[first : first + step]
            given = events.some(some), points[:, some]
            parts.append(rule.fold(_with_finer(xp, layer, *given, rule, setting)))
            places.append(some)
    return xp.concatenate(parts, axis=2)[:, :, xp.argsort(xp.concatenate(places))]


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


def matrix_near(
    surface: Any, layer: Layer, kind: int, events: Events, points: Any, setting: Regularisation
) -> Any:
    """Return corrections of events with bodies of one shape, (events, rows, columns, nodes)."""
    xp, shape, body = surface.xp, surface.shapes[kind], events.body
    centres, frames, first, start = (
        xp.asarray(each)
        for each in (surface.centres, surface.frames, surface.systems, surface.finer_starts)
    )
    index = first[body][:, None] + xp.arange(shape.areas.size)
    arrays = surface.nodes, surface.normals, surface.areas
    nodes: Any = tuple(each[..., index].astype(np.float64) for each in arrays)
    plain = plain_matrix(xp, layer, points, events.e, nodes)

    frame = frames[body]
    arms, n0, e = (
        (frame * each.T[:, :, None]).sum(axis=1).T
        for each in (points - centres[:, body], events.n0, events.e)
    )
    finer = xp.where(events.finer < 0, -1, events.finer - start[body])
    seen = replace(events, n0=n0, e=e, finer=finer)
    rules = rules_of(xp, shape, lambda name: surface.on_device(shape, name))
    block = finer_matrix(xp, layer, seen, arms, rules, setting).transpose(2, 0, 1, 3)
    if layer.rows == 3:
        block = (frame @ block.reshape(body.size, 3, -1)).reshape(block.shape)
    if layer.columns % 3 == 0:
        vectors = block.reshape(body.size, -1, 3, index.shape[1])
        block = (frame[:, None] @ vectors).reshape(block.shape)
    return block - plain.transpose(2, 0, 1, 3)
