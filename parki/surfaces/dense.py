"""Corrections of events by all finer nodes of a body, as dense matrices.

The layer of the interpolated density, by a sum over the finer nodes with close pairs regularised,
takes the place of the sum over the nodes. It suits bodies of up to a thousand nodes. Finer nodes
are the same for all bodies of a shape as seen from the bodies' frames, so these have one matrix.

Products with densities take these matrices body by body on a CPU, in its threads. A device, which
waits for launches, has sparse matrices of all bodies: one launch reads each number once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from parki.runtime import ExecutionSpace
from parki.runtime.forks import run_in_threads
from parki.settings import thread_count
from parki.solving.pairs import sparse, sums_by
from parki.solving.search import MOST
from parki.surfaces.blocks import PARTS, EventPairs, Quadrature, Rows, in_lab
from parki.surfaces.bodies import Bodies
from parki.surfaces.kernels import LAYERS, Key, Layer, parts_of
from parki.surfaces.near import Events, Regularisation
from parki.surfaces.shapes import TOUCHING, Finer, Shape
from parki.typing import AnyArray

AT_ONCE = {False: 1 << 17, True: 1 << 21}  # pairs, by whether they are on a device


@dataclass(frozen=True)
class Rule:
    """Finer nodes of a shape, in the frames of bodies, and how many times finer they are.

    ``fold`` returns products of rows (..., m) with the matrix of interpolation, (..., n).
    """

    quadrature: Quadrature
    times: float
    fold: Callable[[Any], Any]


class NearBodies(NamedTuple):
    """Events with bodies, of whose corrections a matrix is made."""

    space: ExecutionSpace
    surface: Bodies
    key: Key
    events: Events
    points: np.ndarray  # places of the events, next to the bodies' nodes
    setting: Regularisation

    @property
    def layer(self) -> Layer:
        """The layer of its key."""
        return LAYERS[self.key]

    def some(self, index: Any) -> NearBodies:
        """Return some of the events."""
        return self._replace(events=self.events.some(index), points=self.points[:, index])

    def sums(self, layer: Layer) -> Any:
        """Return zeros, for sums of blocks of the events by work items: see `EventPairs.fill`."""
        items = self.events.distance.size * PARTS[self.space.on_device]
        return self.space.array_module.zeros((layer.rows * layer.columns + 1, items))


def rules_of(near: NearBodies, shape: Shape) -> list[Rule]:
    """Return the finer nodes of a shape, the finest ones last."""
    surface, xp, most = near.surface, near.surface.xp, cast(Finer, shape.finer)
    centres, frames = (xp.asarray(array, order="C") for array in (surface.centres, surface.frames))
    rules = []
    for name, finer in (("finer.", most), ("finer.fewer.", most.fewer)):
        if finer is not None:
            parts = "nodes", "normals", "areas", "interpolation.matrix"
            x, n, areas, matrix = (surface.on_device(shape, name + part) for part in parts)
            quadrature = Quadrature(x, n, areas, centres, frames)
            rules.append(Rule(quadrature, finer.times, finer.folding(xp, matrix)))
    return rules[::-1]


def corrections(near: NearBodies, n: int, indexed: bool) -> Rows:
    """Return corrections of events with bodies of n nodes, as rows of all these nodes.

    Parameters
    ----------
    near : NearBodies
    n : int
    indexed : bool
        Whether to tell where densities are.
    """
    surface, events = near.surface, near.events
    rows = Rows.of(near.space, near.layer, np.full(events.body.size, n), indexed=indexed)
    lab = in_lab(near.space, surface.nodes, surface.normals, surface.areas)
    for kind in np.unique(surface.kinds[events.body]):
        mine = np.flatnonzero(surface.kinds[events.body] == kind)
        for rule, entries in _by_rules(near, rules_of(near, surface.shapes[kind]), mine):
            some = near.some(entries)
            regular = rule.fold(_by_finer_nodes(some, rule))
            nodes = {"first": surface.systems[some.events.body], "many": n}
            for part, column in parts_of(near.key):
                pairs = _pairs(some, part, lab, excluded=some.events.excluded, **nodes)
                sums = some.sums(LAYERS[part])
                pairs.fill(rows.some(entries), column, sums, whole=-1.0, added=regular)
    return rows


def _by_rules(
    near: NearBodies, rules: list[Rule], rest: np.ndarray
) -> Iterator[tuple[Rule, np.ndarray]]:
    """Yield rules and events: an event takes the first one whose sum is good enough."""
    apart = np.abs(near.events.distance) / near.events.spacing
    for rule in rules:
        enough = near.setting.farthest / rule.times if rule is not rules[-1] else -1.0
        mine, rest = rest[apart[rest] > enough], rest[apart[rest] <= enough]
        step = max(1, AT_ONCE[near.space.on_device] // rule.quadrature.areas.size)
        for first in range(0, mine.size, step):
            yield rule, mine[first : first + step]


def _by_finer_nodes(near: NearBodies, rule: Rule) -> Any:
    """Return the regularised sums over finer nodes at events, (rows, events, columns, nodes)."""
    events, count = near.events, rule.quadrature.areas.size
    rows = Rows.of(near.space, near.layer, np.full(events.body.size, count))
    # Farther away the sum over finer nodes is good enough.
    close = np.abs(events.distance) <= near.setting.farthest * events.spacing / rule.times
    starts = near.surface.finer_starts[events.body]
    node = np.where(close & (events.finer >= 0), events.finer - starts, -1)
    apart = events.spacing / events.times
    seen = near._replace(events=events._replace(node=node))
    for part, column in parts_of(near.key):
        pairs = _pairs(
            seen,
            part,
            rule.quadrature,
            first=0,
            many=count,
            body=events.body,
            width=np.where(close, near.setting.width * apart, 0.0),
            close=np.where(close, TOUCHING * apart, 0.0),
            node=node,
        )
        pairs.fill(rows, column, near.sums(LAYERS[part]), whole=1.0)
        pairs.share()
    return rows.values.reshape(near.layer.rows, events.body.size, near.layer.columns, count)


def _pairs(near: NearBodies, key: Key, quadrature: Quadrature, **more: AnyArray) -> EventPairs:
    return EventPairs(near.space, key, near.events, near.points, quadrature, near.setting, **more)


def by_rows(near: NearBodies, count: int) -> list[Any]:
    """Return sparse matrices from densities at the nodes to ``count`` targets, to be added.

    A target has the blocks of its events, with all nodes of their bodies, in one row.
    """
    matrices = []
    for n, mine in _sizes(near):
        mine = mine[np.argsort(near.events.target[mine], kind="stable")]
        most = MOST // (near.layer.rows * near.layer.columns * n)
        for first in range(0, mine.size, most):
            some = near.some(mine[first : first + most])
            matrices.append(csr_matrix(some, corrections(some, n, True), count))
    return matrices


def csr_matrix(near: NearBodies, rows: Rows, count: int, nodes: int | None = None) -> Any:
    """Return the sparse matrix of events sorted by their targets, of which there are ``count``."""
    xp, layer = near.space.array_module, near.layer
    ends = np.searchsorted(near.events.target, np.arange(count + 1))
    firsts = np.append(rows.begins, rows.pairs)[ends]
    begins = (rows.pairs * np.arange(layer.rows)[:, None] + firsts[:-1]).ravel()
    begins = layer.columns * np.append(begins, layer.rows * rows.pairs)
    values = rows.values.astype(near.surface.nodes.dtype, copy=False)
    parts = values, rows.indices, xp.asarray(begins.astype(np.int32))
    shape = layer.rows * count, layer.columns * (nodes or near.surface.areas.size)
    matrix = sparse(xp).csr_matrix(parts, shape=shape)
    matrix.has_canonical_format = True  # CuPy would sort, but products need no order
    return matrix


def by_bodies(near: NearBodies, count: int) -> list[Any]:
    """Return `ByBodies` from densities at the nodes to ``count`` targets, to be added."""
    surface, layer = near.surface, near.layer
    matrices = []
    for n, mine in _sizes(near):
        mine = mine[np.argsort(near.events.body[mine], kind="stable")]
        some = near.some(mine)
        values = corrections(some, n, False).values.astype(surface.nodes.dtype, copy=False)
        data = values.reshape(layer.rows, mine.size, layer.columns, n)
        bodies, starts = np.unique(some.events.body, return_index=True)
        indices = surface.systems[bodies], np.append(starts, mine.size), some.events.target
        matrices.append(ByBodies(data, indices, (count, surface.areas.size)))
    return matrices


class ByBodies:
    """A matrix of events with bodies of n nodes, which products take as they do sparse ones.

    Parameters
    ----------
    data : ndarray, shape (rows, E, columns, n)
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
            matrix = self._data[:, events].reshape(len(self._data), -1, columns * n)
            work(slice(first[body], first[body] + n), events, matrix)

        run_in_threads(one, range(first.size), thread_count())

    def __matmul__(self, densities: AnyArray) -> Any:
        """Return results (rows Nt, ...) of densities (columns N, ...)."""
        rows, count, columns, n = self._data.shape
        many = densities.shape[1:]
        q = densities.reshape((columns, -1, *many))
        values = np.empty((rows, count, *many), np.result_type(self._data, q))

        def work(nodes: AnyArray, events: Any, matrix: AnyArray) -> None:
            values[:, events] = matrix @ q[:, nodes].reshape((columns * n, *many))

        self._over_bodies(work)
        results = [self._sums @ row.reshape(count, -1) for row in values]
        return np.concatenate(results).reshape((-1, *many))

    def transpose(self) -> Any:
        """Return the transpose, for products with values at the targets."""
        return _Transposed(self)

    def transposed(self, values: AnyArray) -> Any:
        """Return densities (columns N, ...) of values (rows Nt, ...)."""
        rows, _, columns, n = self._data.shape
        many, (_, _, target) = values.shape[1:], self._indices
        v = values.reshape((rows, -1, *many))[:, target]
        densities = np.zeros((columns, self._counts[1], *many), np.result_type(self._data, v))

        def work(nodes: AnyArray, events: Any, matrix: AnyArray) -> None:
            products = (one.T @ values for one, values in zip(matrix, v[:, events], strict=True))
            densities[:, nodes] = sum(products).reshape((columns, n, *many))

        self._over_bodies(work)
        return densities.reshape((-1, *many))


class _Transposed:
    def __init__(self, matrix: ByBodies) -> None:
        self._matrix = matrix

    def __matmul__(self, values: AnyArray) -> Any:
        return self._matrix.transposed(values)


FORMS = {False: by_bodies, True: by_rows}  # by whether they are on a device


def _sizes(near: NearBodies) -> list[tuple[int, np.ndarray]]:
    """Return numbers of nodes, and the events with bodies that have as many."""
    sizes = np.diff(near.surface.systems)[near.events.body]
    return [(int(n), np.flatnonzero(sizes == n)) for n in np.unique(sizes)]
