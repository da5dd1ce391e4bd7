"""Corrections of events by all finer nodes of a body, as dense matrices.

The layer of the interpolated density, by a sum over the finer nodes with close pairs regularised,
takes the place of the sum over the nodes. It suits bodies of up to a thousand nodes. Finer nodes
are the same for all bodies of a shape as seen from the bodies' frames, so these have one matrix.

Products with densities take these matrices body by body on a CPU, in its threads. A device, which
waits for launches, has sparse matrices of all bodies: one launch reads each number once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from parki.interchange import bincount, to_host
from parki.runtime.forks import run_in_threads
from parki.settings import thread_count
from parki.solving.pairs import sparse, sums_by
from parki.solving.search import MOST
from parki.surfaces.bodies import Bodies
from parki.surfaces.functions import Singular
from parki.surfaces.kernels import Layer, SurfacePairs
from parki.surfaces.near import Events, Nodes, Regularisation, blocks
from parki.surfaces.shapes import TOUCHING, Finer, Shape
from parki.typing import AnyArray, ArrayModule

AT_ONCE = {False: 1 << 14, True: 1 << 20}  # pairs, by whether they are on a device

Places = tuple[Any, Any, Any]  # nodes, normals and areas


def plain_matrix(
    xp: ArrayModule, layer: Layer, points: AnyArray, e: AnyArray, nodes: Places, least: Any = None
) -> Any:
    """Return the sum over nodes at points as a matrix (rows, columns, points, nodes).

    The nodes may be others for each point: places and normals (3, points, nodes). Pairs at r = 0
    are left out, and those closer than ``least``, shape (points, 1), or (points, nodes).
    """
    positions, normals = (
        vectors if vectors.ndim == 3 else vectors[:, None] for vectors in nodes[:2]
    )
    areas = nodes[2]
    r = points[:, :, None] - positions
    squared = r[0] * r[0] + r[1] * r[1] + r[2] * r[2]
    if least is not None:
        squared[squared < least**2] = 0.0
    functions = Singular(xp, squared, areas)
    return layer.block(
        SurfacePairs(xp, offset=r, normal=normals, direction=e[:, :, None], functions=functions)
    )


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


def rules_of(xp: ArrayModule, shape: Shape, in_memory: Callable[[str], Any]) -> list[Rule]:
    """Return the finer nodes of a shape, whose arrays ``in_memory`` returns by their names."""
    rules, most = [], cast(Finer, shape.finer)
    for name, finer in (("finer.", most), ("finer.fewer.", most.fewer)):
        if finer is not None:
            parts = "nodes", "normals", "areas", "interpolation.matrix"
            nodes, normals, areas, matrix = (in_memory(name + part) for part in parts)
            rules.append(Rule(nodes, normals, areas, finer.times, finer.folding(xp, matrix)))
    return rules[::-1]


def finer_matrix(
    xp: ArrayModule,
    layer: Layer,
    events: Events,
    points: AnyArray,
    rules: list[Rule],
    setting: Regularisation,
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
    parts, order = [], []
    apart, rest = abs(events.distance) / events.spacing, xp.arange(events.distance.size)
    for rule in rules:
        enough = setting.farthest / rule.times if rule is not rules[-1] else -1.0
        mine, rest = rest[apart[rest] > enough], rest[apart[rest] <= enough]
        step = max(1, AT_ONCE[xp is not np] // rule.areas.size)
        for first in range(0, mine.size, step):
            some = mine[first : first + step]
            block = _with_finer(xp, layer, events.some(some), points[:, some], rule, setting)
            parts.append(rule.fold(block))
            order.append(some)
    return xp.concatenate(parts, axis=2)[:, :, xp.argsort(xp.concatenate(order))]


def _with_finer(
    xp: ArrayModule,
    layer: Layer,
    events: Events,
    points: AnyArray,
    rule: Rule,
    setting: Regularisation,
) -> Any:
    """Return the regularised sum over finer nodes at events, (rows, columns, events, nodes)."""
    finer, count = (rule.nodes, rule.normals, rule.areas), rule.areas.size
    # Farther away the sum over finer nodes is good enough.
    near = xp.flatnonzero(abs(events.distance) <= setting.farthest * events.spacing / rule.times)
    if not near.size:
        return plain_matrix(xp, layer, points, events.directions, finer)
    least = (TOUCHING * events.spacing / events.times)[:, None]
    whole = plain_matrix(xp, layer, points, events.directions, finer, least)
    close = events.some(near)
    close = close._replace(node=close.finer)
    pairs = _pairs(xp, close, points[:, near], finer, setting)
    sums = whole[:, :, near].sum(axis=-1)
    (level,) = blocks(xp, layer, close, pairs, None, setting, lambda: sums)
    size, entry = near.size * count, level.event * count + level.index
    for row, column in np.ndindex(layer.rows, layer.columns):
        added = bincount(xp, entry, size, level.values[row, column]).reshape(near.size, -1)
        whole[row, column, near] += added
    return whole


def _pairs(
    xp: ArrayModule, events: Events, points: AnyArray, nodes: Places, setting: Regularisation
) -> Nodes:
    """Return the pairs of events and nodes within reach of the regularisation."""
    positions, normals, areas = nodes
    squared = ((points[:, :, None] - positions[:, None]) ** 2).sum(axis=0)
    reach = setting.reach * setting.width * events.spacing / events.times
    event, index = xp.nonzero(squared < reach[:, None] ** 2)
    excluded = squared[event, index] < (TOUCHING * events.spacing / events.times)[event] ** 2
    r = points[:, event] - positions[:, index]
    return Nodes(normals, areas, event, index, r, excluded)


def matrix_near(
    surface: Bodies,
    layer: Layer,
    kind: int,
    events: Events,
    points: AnyArray,
    setting: Regularisation,
) -> Any:
    """Return corrections of events with bodies of one shape, (events, rows, columns, nodes)."""
    xp, shape, body = surface.xp, surface.shapes[kind], events.body
    centres, frames, first, start = (
        xp.asarray(array)
        for array in (surface.centres, surface.frames, surface.systems, surface.finer_starts)
    )
    index = first[body][:, None] + xp.arange(shape.areas.size)
    arrays = surface.nodes, surface.normals, surface.areas
    nodes: Any = tuple(array[..., index].astype(np.float64) for array in arrays)
    out = xp.where(index == events.excluded[:, None], xp.inf, 0.0)
    plain = plain_matrix(xp, layer, points, events.directions, nodes, out)

    frame = frames[body]
    arms, n0, e = (
        (frame * array.T[:, :, None]).sum(axis=1).T
        for array in (points - centres[:, body], events.n0, events.directions)
    )
    finer = xp.where(events.finer < 0, -1, events.finer - start[body])
    seen = events._replace(n0=n0, directions=e, finer=finer)
    rules = rules_of(xp, shape, lambda name: surface.on_device(shape, name))
    block = finer_matrix(xp, layer, seen, arms, rules, setting).transpose(2, 0, 1, 3)
    if layer.rows == 3:
        block = (frame @ block.reshape(body.size, 3, -1)).reshape(block.shape)
    if layer.columns % 3 == 0:
        vectors = block.reshape(body.size, -1, 3, index.shape[1])
        block = (frame[:, None] @ vectors).reshape(block.shape)
    return block - plain.transpose(2, 0, 1, 3)


class NearBodies(NamedTuple):
    """Events with bodies, of whose corrections a matrix is made."""

    surface: Bodies
    layer: Layer
    events: Events
    points: Any  # places of the events, next to the bodies' nodes
    setting: Regularisation


def by_rows(near: NearBodies, count: int) -> list[Any]:
    """Return sparse matrices from densities at the nodes to ``count`` targets, to be added.

    A target has the blocks of its events, with all nodes of their bodies, in one row.
    """
    surface, layer, events = near.surface, near.layer, near.events
    xp, body, target = surface.xp, to_host(events.body), to_host(events.target)
    matrices, nodes = [], surface.areas.size
    for n, mine in _sizes(surface, body):
        mine = mine[np.argsort(target[mine], kind="stable")]
        most = MOST // (layer.rows * layer.columns * n)
        for first in range(0, mine.size, most):
            some = mine[first : first + most]
            data = xp.empty((layer.rows, some.size, layer.columns, n), surface.nodes.dtype)
            _fill(near, some, data.transpose(1, 0, 2, 3))
            columns = xp.arange(layer.columns)[:, None] * nodes + xp.arange(n)
            columns = xp.asarray(surface.systems[body[some]])[:, None, None] + columns
            columns = xp.broadcast_to(columns.astype(np.int32), data.shape).ravel()
            ends = np.searchsorted(target[some], np.arange(count + 1))
            begins = (some.size * np.arange(layer.rows)[:, None] + ends[:-1]).ravel()
            begins = layer.columns * n * np.append(begins, layer.rows * some.size)
            parts = data.ravel(), columns, xp.asarray(begins.astype(np.int32))
            shape = layer.rows * count, layer.columns * nodes
            matrices.append(sparse(xp).csr_matrix(parts, shape=shape))
            matrices[-1].has_canonical_format = True  # CuPy would sort, but products need no order
    return matrices


def by_bodies(near: NearBodies, count: int) -> list[Any]:
    """Return `ByBodies` from densities at the nodes to ``count`` targets, to be added."""
    surface, layer, events = near.surface, near.layer, near.events
    matrices = []
    for n, mine in _sizes(surface, events.body):
        mine = mine[np.argsort(events.body[mine], kind="stable")]
        data = np.empty((mine.size, layer.rows, layer.columns, n), surface.nodes.dtype)
        _fill(near, mine, data)
        bodies, starts = np.unique(events.body[mine], return_index=True)
        indices = surface.systems[bodies], np.append(starts, mine.size), events.target[mine]
        matrices.append(ByBodies(data, indices, (count, surface.areas.size)))
    return matrices


class ByBodies:
    """A matrix of events with bodies of n nodes, which products take as they do sparse ones.

    Parameters
    ----------
    data : ndarray, shape (E, rows, columns, n)
        Sorted by bodies.
    indices : tuple of ndarrays, shape (B,), (B + 1,) and (E,)
        First nodes of the bodies, their first events, and targets of the events.
    counts : tuple of 2 ints
        Targets and nodes.
    """

    def __init__(
        self, data: AnyArray, indices: tuple[Any, Any, Any], counts: tuple[int, int]
    ) -> None:
        self._data, self._indices, self._counts = data, indices, counts
        self._sums = sums_by(np, indices[2], counts[0]).astype(data.dtype)
        self.nnz = data.size

    def _over_bodies(self, work: Any) -> None:
        """Call ``work(nodes, events, matrix)`` for each body, with slices and its matrix."""
        first, starts, _ = self._indices
        _, _, columns, n = self._data.shape

        def one(body: int) -> None:
            events = slice(starts[body], starts[body + 1])
            matrix = self._data[events].reshape(-1, columns * n)
            work(slice(first[body], first[body] + n), events, matrix)

        run_in_threads(one, range(first.size), thread_count())

    def __matmul__(self, densities: AnyArray) -> Any:
        """Return results (rows Nt, ...) of densities (columns N, ...)."""
        count, rows, columns, n = self._data.shape
        many = densities.shape[1:]
        q = densities.reshape((columns, -1, *many))
        values = np.empty((count, rows, *many), np.result_type(self._data, q))

        def work(nodes: AnyArray, events: Any, matrix: AnyArray) -> None:
            product = matrix @ q[:, nodes].reshape((columns * n, *many))
            values[events] = product.reshape((-1, rows, *many))

        self._over_bodies(work)
        results = (self._sums @ values.reshape(count, -1)).reshape((-1, rows, *many))
        return np.moveaxis(results, 1, 0).reshape((-1, *many))

    def transpose(self) -> Any:
        """Return the transpose, for products with values at the targets."""
        return _Transposed(self)

    def transposed(self, values: AnyArray) -> Any:
        """Return densities (columns N, ...) of values (rows Nt, ...)."""
        _, rows, columns, n = self._data.shape
        many, (_, _, target) = values.shape[1:], self._indices
        v = np.moveaxis(values.reshape((rows, -1, *many)), 1, 0)[target]
        densities = np.zeros((columns, self._counts[1], *many), np.result_type(self._data, v))

        def work(nodes: AnyArray, events: Any, matrix: AnyArray) -> None:
            product = matrix.T @ v[events].reshape((-1, *many))
            densities[:, nodes] = product.reshape((columns, n, *many))

        self._over_bodies(work)
        return densities.reshape((-1, *many))


class _Transposed:
    def __init__(self, matrix: ByBodies) -> None:
        self._matrix = matrix

    def __matmul__(self, values: AnyArray) -> Any:
        return self._matrix.transposed(values)


FORMS = {False: by_bodies, True: by_rows}  # by whether they are on a device


def _sizes(surface: Bodies, body: Any) -> list[tuple[int, Any]]:
    """Return numbers of nodes, and the events with bodies that have as many."""
    sizes = np.diff(surface.systems)[body]
    return [(int(n), np.flatnonzero(sizes == n)) for n in np.unique(sizes)]


def _fill(near: NearBodies, some: Any, data: AnyArray) -> None:
    """Set the blocks (events, rows, columns, n) of some events, with bodies of n nodes."""
    surface, xp = near.surface, near.surface.xp
    kinds, shapes = surface.kinds[to_host(near.events.body)[some]], surface.shapes
    most = {kind: max(1, AT_ONCE[xp is not np] // shapes[kind].areas.size) for kind in set(kinds)}
    tasks = [
        (kind, entries[first : first + step])
        for kind, step in most.items()
        for entries in [np.flatnonzero(kinds == kind)]
        for first in range(0, entries.size, step)
    ]

    def fill(task: tuple[int, Any]) -> None:
        kind, entries = task
        index = xp.asarray(some[entries])
        data[xp.asarray(entries)] = matrix_near(
            surface, near.layer, kind, near.events.some(index), near.points[:, index], near.setting
        )

    run_in_threads(fill, tasks, thread_count() if xp is np else 1)
