"""Targets near surfaces: other bodies, images of their own one, and targets that are no nodes.

An event is a target and one copy of a body. All nodes of that body within reach are its pairs. On
finer nodes, pairs act on interpolated densities. For small bodies the interpolation is multiplied
into the matrix, which then has fewer numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from parki.core import EwaldOptions
from parki.interchange import to_host
from parki.memory import require
from parki.runtime import ExecutionSpace
from parki.surfaces.bodies import Bodies
from parki.surfaces.dense import FORMS, NearBodies
from parki.surfaces.kernels import LAYERS
from parki.surfaces.near import Events, Nodes, Regularisation, blocks
from parki.surfaces.plain import constants
from parki.surfaces.shapes import TOUCHING
from parki.typing import AnyArray

# Bytes of a pair of a target and a node, and of each number in its block, as found.
PAIR, NUMBER = 160.0, 45.0
MOST_DENSE = 1300  # nodes of a body whose events have a dense matrix
AROUND = 0.75  # node distances from a point of the surface to the nearest node, at most
AT_ONCE = {False: 1 << 20, True: 1 << 24}  # candidates, by whether they are on a device


def events_near(
    surface: Bodies,
    targets: AnyArray,
    home: AnyArray,
    e: AnyArray,
    options: EwaldOptions,
    setting: Regularisation,
) -> tuple[Events, Any]:
    """Return the events of targets with copies of bodies, and their places next to the bodies.

    Parameters
    ----------
    targets : array, shape (3, Nt)
    home : array, shape (Nt,), optional
        Bodies whose nodes the targets are: their own copies are left out.
    e : array, shape (3, Nt)
        Directions of tractions.
    """
    xp, key = surface.xp, (options, setting.farthest)
    directions = e.astype(np.float64)
    if home is not None and key in surface.close:
        events, points = surface.close[key]
        return events._replace(directions=directions[:, events.target]), points
    vectors = options.vectors * np.array(options.periodic)[:, None]
    inverse = np.linalg.inv(options.vectors).T * np.array(options.periodic)[:, None]
    target, body, r = surface.copies(targets, options, setting.farthest + AROUND)
    x = to_host(targets)[:, target].astype(np.float64)
    image = np.rint(inverse @ (x - surface.centres[:, body] - r))
    if home is not None:
        others = (to_host(home)[target] != body) | (image != 0).any(axis=0)
        target, body, x, image = (array[..., others] for array in (target, body, x, image))
    points = x - vectors.T @ image
    sizes = np.abs(x).max(axis=0, initial=0.0) + np.abs(vectors).sum(axis=0).max()
    n0, b, h, (excluded, node, finer) = surface.nearest(points, body, sizes)
    if home is None:
        at = node >= 0
        points[:, at] = to_host(surface.nodes)[:, node[at]]
        excluded = _nearest_only(target, excluded, points, to_host(surface.nodes))
    else:  # the sums leave out the nodes' pairs with themselves alone
        excluded[:] = node[:] = -1
    fine, kinds = surface.has_finer, surface.kinds[body]
    times = np.array([s.finer.times if fine and s.finer else 1.0 for s in surface.shapes])[kinds]
    thin = np.array([s.thin for s in surface.shapes])[kinds]
    close = np.flatnonzero(np.abs(b) <= setting.farthest * h)
    host = target, node, finer, excluded, n0, b, h, times, thin, body, points
    target, node, finer, excluded, n0, b, h, times, thin, body, points = (
        xp.asarray(array[..., close]) for array in host
    )
    events = Events(
        target=target,
        node=node,
        n0=n0,
        directions=directions[:, target],
        distance=b,
        spacing=h,
        times=times,
        thin=thin,
        body=body,
        finer=finer,
        excluded=excluded,
    )
    if home is not None:
        surface.close[key] = events, points
    return events, points


def _nearest_only(
    target: Any, excluded: AnyArray, points: np.ndarray, nodes: AnyArray
) -> np.ndarray:
    """Return nodes that sums leave out: for each target the nearest node of its events."""
    apart = np.linalg.norm(points - nodes[:, excluded], axis=0)
    order = np.lexsort((apart, excluded < 0, target))
    first = order[np.flatnonzero(np.diff(target[order], prepend=-1))]
    nearest = np.full(excluded.shape, -1)
    nearest[first] = excluded[first]
    return nearest


def left_out(events: Events, count: int) -> np.ndarray | None:
    """Return the node whose pair with each target the sum leaves out, or -1; None for no pair."""
    excluded = to_host(events.excluded)
    there = np.flatnonzero(excluded >= 0)
    if not there.size:
        return None
    nodes = np.full(count, -1)
    nodes[to_host(events.target)[there]] = excluded[there]
    return nodes


def pairs_of(
    surface: Bodies,
    events: Events,
    points: AnyArray,
    nodes: tuple[Any, ...],
    starts: AnyArray,
    setting: Regularisation,
    check: Callable[[int], None],
) -> Nodes:
    """Return the pairs of events and nodes of their bodies: nodes, normals and areas are given.

    ``starts`` are the first nodes of bodies, and one more; ``check`` refuses a number of pairs.
    """
    xp, (positions, normals, areas) = surface.xp, (array.astype(np.float64) for array in nodes)
    fine = starts is not surface.systems
    parts: list[Any] = []
    begins, sizes = xp.asarray(starts), np.diff(starts)
    radius, least = (
        setting.radius(surface.has_finer) * events.spacing,
        TOUCHING * events.spacing / events.times,
    )
    count, body = 0, to_host(events.body)
    for size in np.unique(sizes):
        mine = np.flatnonzero(sizes[body] == size)
        step = max(1, AT_ONCE[xp is not np] // int(size))
        for first in range(0, mine.size, step):
            some = xp.asarray(mine[first : first + step])
            index = begins[events.body[some]][:, None] + xp.arange(int(size))
            r = points[:, some, None] - positions[:, index]
            squared = (r**2).sum(axis=0)
            if fine:
                out = squared < least[some, None] ** 2
            else:
                out = (index == events.excluded[some, None]) | (squared == 0)
            event, node = xp.nonzero(squared < radius[some, None] ** 2)
            count += event.size
            check(count)
            parts.append((some[event], index[event, node], r[:, event, node], out[event, node]))
    nothing = xp.zeros(0, int), xp.zeros(0, int), xp.zeros((3, 0)), xp.zeros(0, bool)
    event, node, r, out = (
        xp.concatenate(pieces, axis=-1) for pieces in zip(nothing, *parts, strict=True)
    )
    return Nodes(normals, areas, event=event, index=node, r=r, excluded=out)


@dataclass(frozen=True)
class Near:
    """Matrices of events, whose products are added.

    Attributes
    ----------
    events : Events
    nodes : list of matrices
        From densities at the nodes: sparse, or `ByBodies`.
    finer : sparse matrix, optional
        From densities at the finer nodes.
    """

    events: Events
    nodes: list[Any]
    finer: Any = None

    @property
    def numbers(self) -> int:
        """How many numbers the matrices have."""
        matrices = self.nodes if self.finer is None else [*self.nodes, self.finer]
        return sum(int(matrix.nnz) for matrix in matrices)


def near_matrices(
    key: tuple[str, str],
    surface: Bodies,
    *,
    targets: AnyArray,
    home: AnyArray,
    e: AnyArray,
    options: EwaldOptions,
    setting: Regularisation,
    space: ExecutionSpace,
) -> Near:
    """Return the corrections of targets near bodies; for ``home`` and ``e`` see `events_near`.

    Raises
    ------
    ParkiMemoryError
        If there is no room for their matrices.
    """
    layer, xp = LAYERS[key], surface.xp
    events, points = events_near(surface, targets, home, e, options, setting)
    numbers, what = layer.rows * layer.columns, "near the surface"
    remedy = "give fewer targets at a time, or ask for less accuracy"
    count, total = events.distance.size, targets.shape[1]
    sizes = np.diff(surface.systems)
    if surface.has_finer and sizes.max() <= MOST_DENSE:
        needed = 12.0 * numbers * float(sizes[to_host(events.body)].sum())
        require(space, needed, f"corrections of {count:.3g} targets {what}", remedy)
        form = FORMS[space.on_device]
        return Near(events, form(NearBodies(surface, layer, events, points, setting), total))

    def check(pairs: int) -> None:
        needed = pairs * (PAIR + NUMBER * numbers)
        require(space, needed, f"corrections of {pairs:.3g} pairs {what}", remedy)

    arrays, fine = (surface.nodes, surface.normals, surface.areas), None
    nodes = pairs_of(surface, events, points, arrays, surface.systems, setting, check)
    counts = [surface.areas.size]
    if surface.has_finer:
        finer = surface.finer()
        counts.append(finer[2].size)
        starts = np.append(surface.finer_starts, counts[1])
        fine = pairs_of(surface, events, points, finer[:3], starts, setting, check)
    levels = blocks(
        xp, layer, events, nodes, fine, setting, lambda: _constants(key, surface, events, points)
    )
    sizes_of = zip(levels, counts, strict=True)
    matrices = [level.matrix(xp, events, (total, n)) for level, n in sizes_of]
    return Near(events, matrices[:1], finer=matrices[1] if surface.has_finer else None)


def _constants(key: tuple[str, str], surface: Bodies, events: Events, points: AnyArray) -> Any:
    """Return the sums of constants over the body of each event, (rows, columns, n)."""
    xp, body = surface.xp, to_host(events.body)
    order = np.argsort(body, kind="stable")
    bodies, starts = np.unique(body[order], return_index=True)
    sizes = np.diff(surface.systems)[bodies]
    at = xp.asarray(np.concatenate([np.arange(*surface.systems[k : k + 2]) for k in bodies]))
    systems = [*starts.tolist(), order.size], np.concatenate([[0], np.cumsum(sizes)]).tolist()
    arrays = surface.nodes[:, at], surface.normals[:, at], surface.areas[at]
    there, back = xp.asarray(order), xp.asarray(np.argsort(order))
    positions = xp.ascontiguousarray(points[:, there])
    whole = (positions, *(xp.ascontiguousarray(a.astype(np.float64)) for a in arrays))
    excluded = to_host(events.excluded)[order]
    labels = (excluded, to_host(at)) if (excluded >= 0).any() else None
    return constants(xp, key, whole, events.directions[:, there], systems, labels)[..., back]
