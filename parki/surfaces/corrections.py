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
from parki.surfaces.blocks import EventPairs, Rows, in_lab
from parki.surfaces.bodies import Bodies
from parki.surfaces.dense import FORMS, NearBodies, csr_matrix
from parki.surfaces.kernels import LAYERS, Key, parts_of
from parki.surfaces.near import Events, Regularisation
from parki.surfaces.plain import constants
from parki.surfaces.shapes import TOUCHING
from parki.typing import AnyArray

# Bytes of a pair of a target and a node, and of each number in its block, as found.
PAIR, NUMBER = 160.0, 45.0
DENSE = 16.0  # bytes of a number of a dense matrix, with where its density is
MOST_DENSE = 1300  # nodes of a body whose events have a dense matrix
AROUND = 0.75  # node distances from a point of the surface to the nearest node, at most


def events_near(
    surface: Bodies,
    targets: AnyArray,
    home: np.ndarray | None,
    e: AnyArray,
    options: EwaldOptions,
    setting: Regularisation,
) -> tuple[Events, np.ndarray]:
    """Return the events of targets with copies of bodies, and their places next to the bodies.

    Parameters
    ----------
    targets : array, shape (3, Nt)
    home : ndarray, shape (Nt,), optional
        Bodies whose nodes the targets are: their own copies are left out.
    e : array, shape (3, Nt)
        Directions of tractions.
    """
    key, directions = (options, setting.farthest), to_host(e).astype(np.float64)
    if home is not None and key in surface.close:
        events, points = surface.close[key]
        return events._replace(directions=directions[:, events.target]), points
    vectors = options.vectors * np.array(options.periodic)[:, None]
    inverse = np.linalg.inv(options.vectors).T * np.array(options.periodic)[:, None]
    target, body, r = surface.copies(targets, options, setting.farthest + AROUND)
    x = to_host(targets)[:, target].astype(np.float64)
    image = np.rint(inverse @ (x - surface.centres[:, body] - r))
    if home is not None:
        others = (home[target] != body) | (image != 0).any(axis=0)
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
    close = np.flatnonzero(np.abs(b) <= setting.farthest * h)
    events, points = events.some(close), points[:, close]
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
    there = np.flatnonzero(events.excluded >= 0)
    if not there.size:
        return None
    nodes = np.full(count, -1)
    nodes[events.target[there]] = events.excluded[there]
    return nodes


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
    key: Key,
    surface: Bodies,
    *,
    targets: AnyArray,
    home: np.ndarray | None,
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
    events, points = events_near(surface, targets, home, e, options, setting)
    near, total = NearBodies(space, surface, key, events, points, setting), targets.shape[1]
    numbers, what = near.layer.rows * near.layer.columns, "near the surface"
    remedy = "give fewer targets at a time, or ask for less accuracy"
    sizes = np.diff(surface.systems)
    if surface.has_finer and sizes.max() <= MOST_DENSE:
        needed = DENSE * numbers * float(sizes[events.body].sum())
        require(space, needed, f"corrections of {events.body.size:.3g} targets {what}", remedy)
        return Near(events, FORMS[space.on_device](near, total))

    def check(pairs: int) -> None:
        needed = pairs * (PAIR + NUMBER * numbers)
        require(space, needed, f"corrections of {pairs:.3g} pairs {what}", remedy)

    sorted_events = near.some(np.argsort(events.target, kind="stable"))
    matrices = by_pairs(sorted_events, total, check)
    return Near(events, matrices[:1], finer=matrices[1] if surface.has_finer else None)


def by_pairs(near: NearBodies, count: int, check: Callable[[int], None]) -> list[Any]:
    """Return sparse matrices of close pairs, from densities at nodes and at the finer ones.

    Parameters
    ----------
    near : NearBodies
        Its events are sorted by targets.
    count : int
        The number of targets.
    check : callable
        It refuses a number of pairs.
    """
    surface, events, setting = near.surface, near.events, near.setting
    parts, sizes = parts_of(near.key), np.diff(surface.systems)
    apart, radius = events.spacing / events.times, setting.radius(surface.has_finer)
    common = {"radius": radius * events.spacing}
    nodes = {
        "first": surface.systems[events.body],
        "many": sizes[events.body],
        "excluded": events.excluded,
        "node": events.node,
    }
    # The last nodes are those that kernels are regularised on.
    levels: list[Any] = [((surface.nodes, surface.normals, surface.areas), nodes)]
    if surface.has_finer:
        many = surface.finer_sizes[events.body]
        first = surface.finer_starts[events.body]
        levels.append(
            (surface.finer()[:3], {"first": first, "many": many, "close": TOUCHING * apart})
        )
    levels[-1][1]["width"] = setting.width * apart
    launches, levels_rows = [], []
    for arrays, own in levels:
        quadrature, more = in_lab(near.space, *arrays), common | own
        launches.append(
            [
                EventPairs(near.space, part, events, near.points, quadrature, setting, **more)
                for part, _ in parts
            ]
        )
        counts, found_by = launches[-1][0].near()
        check(int(counts.sum()))
        levels_rows.append(Rows.of(near.space, near.layer, counts, indexed=True, found_by=found_by))
    for n, (part, column) in enumerate(parts):
        sums = near.sums(LAYERS[part])
        if events.body.size and setting.constants and LAYERS[part].exact is not None:
            sums[:-1].reshape(len(sums) - 1, events.body.size, -1)[..., 0] = _constants(part, near)
        for pairs, rows in zip(launches, levels_rows, strict=True):
            last = pairs is launches[-1]
            # Nodes change to a smooth kernel, which finer nodes have less than the regularised one.
            smooth = 0.0 if not surface.has_finer else -1.0 if last else 1.0
            pairs[n].fill(rows, column, sums, smooth=smooth)
        for pairs in launches:
            pairs[n].share()
    return [
        csr_matrix(near, rows, count, int(arrays[2].size))
        for rows, (arrays, _) in zip(levels_rows, levels, strict=True)
    ]


def _constants(key: Key, near: NearBodies) -> Any:
    """Return the sums of constants over the body of each event, (rows columns, n)."""
    surface, events, body = near.surface, near.events, near.events.body
    xp = surface.xp
    order = np.argsort(body, kind="stable")
    bodies, starts = np.unique(body[order], return_index=True)
    sizes = np.diff(surface.systems)[bodies]
    at = np.concatenate([np.arange(*surface.systems[k : k + 2]) for k in bodies])
    systems = [*starts.tolist(), order.size], np.concatenate([[0], np.cumsum(sizes)]).tolist()
    arrays = (to_host(array) for array in (surface.nodes, surface.normals, surface.areas))
    whole = *(array[..., at].astype(np.float64) for array in arrays), events.directions[:, order]
    positions, *nodes, e = (
        xp.asarray(array, order="C") for array in (near.points[:, order], *whole)
    )
    excluded = events.excluded[order]
    labels = (excluded, at) if (excluded >= 0).any() else None
    sums = constants(xp, key, (positions, *nodes), e, systems, labels)
    back = np.argsort(order)
    return xp.ascontiguousarray(sums.reshape(-1, order.size)[:, xp.asarray(back)])
