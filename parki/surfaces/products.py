"""Matrices of events with their bodies, in the form that products with densities take.

The CPU multiplies body by body, by dense matrices in its threads. A device, which waits for
launches, has sparse matrices of all bodies: one launch reads each number once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.interchange import to_host
from parki.runtime.pool import run_in_threads
from parki.settings import thread_count
from parki.solving.pairs import MOST, sparse, sums_by
from parki.surfaces.dense import AT_ONCE, matrix_near
from parki.surfaces.kernels import Layer
from parki.surfaces.near import Events, Regularisation

Given = tuple[Any, Layer, Events, Any, Regularisation]  # surface, and places of the events


def by_rows(given: Given, count: int) -> list[Any]:
    """Return sparse matrices from densities at the nodes to ``count`` targets, to be added.

    A target has the blocks of its events, with all nodes of their bodies, in one row.
    """
    surface, layer, events, *_ = given
    xp, body, target = surface.xp, to_host(events.body), to_host(events.target)
    matrices, nodes = [], surface.areas.size
    for n, mine in _sizes(surface, body):
        mine = mine[np.argsort(target[mine], kind="stable")]
        most = MOST // (layer.rows * layer.columns * n)
        for first in range(0, mine.size, most):
            some = mine[first : first + most]
            data = xp.empty((layer.rows, some.size, layer.columns, n), surface.nodes.dtype)
            _fill(given, some, data.transpose(1, 0, 2, 3))
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


def by_bodies(given: Given, count: int) -> list[Any]:
    """Return `ByBodies` from densities at the nodes to ``count`` targets, to be added."""
    surface, layer, events, *_ = given
    matrices = []
    for n, mine in _sizes(surface, events.body):
        mine = mine[np.argsort(events.body[mine], kind="stable")]
        data = np.empty((mine.size, layer.rows, layer.columns, n), surface.nodes.dtype)
        _fill(given, mine, data)
        bodies, starts = np.unique(events.body[mine], return_index=True)
        places = surface.systems[bodies], np.append(starts, mine.size), events.target[mine]
        matrices.append(ByBodies(data, places, (count, surface.areas.size)))
    return matrices


class ByBodies:
    """A matrix of events with bodies of n nodes, which products take as they do sparse ones.

    Parameters
    ----------
    data : ndarray, shape (E, rows, columns, n)
        Sorted by bodies.
    places : tuple of ndarrays, shape (B,), (B + 1,) and (E,)
        First nodes of the bodies, their first events, and targets of the events.
    counts : tuple of 2 ints
        Targets and nodes.
    """

    def __init__(self, data: Any, places: tuple[Any, Any, Any], counts: tuple[int, int]) -> None:
        self._data, self._places, self._counts = data, places, counts
        self._sums = sums_by(np, places[2], counts[0]).astype(data.dtype)
        self.nnz = data.size

    def _each(self, work: Any) -> None:
        """Call ``work(nodes, events, matrix)`` for each body, with slices and its matrix."""
        first, starts, _ = self._places
        _, _, columns, n = self._data.shape

        def one(body: int) -> None:
            events = slice(*starts[body : body + 2])
            matrix = self._data[events].reshape(-1, columns * n)
            work(slice(first[body], first[body] + n), events, matrix)

        run_in_threads(one, range(first.size), thread_count())

    def __matmul__(self, densities: Any) -> Any:
        """Return results (rows Nt, ...) of densities (columns N, ...)."""
        count, rows, columns, n = self._data.shape
        many = densities.shape[1:]
        q = densities.reshape(columns, -1, *many)
        values = np.empty((count, rows, *many), np.result_type(self._data, q))

        def work(nodes: Any, events: Any, matrix: Any) -> None:
            product = matrix @ q[:, nodes].reshape(columns * n, *many)
            values[events] = product.reshape(-1, rows, *many)

        self._each(work)
        results = (self._sums @ values.reshape(count, -1)).reshape(-1, rows, *many)
        return np.moveaxis(results, 1, 0).reshape(-1, *many)

    def transpose(self) -> Any:
        """Return the transpose, for products with values at the targets."""
        return _Transposed(self)

    def transposed(self, values: Any) -> Any:
        """Return densities (columns N, ...) of values (rows Nt, ...)."""
        _, rows, columns, n = self._data.shape
        many, (_, _, target) = values.shape[1:], self._places
        v = np.moveaxis(values.reshape(rows, -1, *many), 1, 0)[target]
        densities = np.zeros((columns, self._counts[1], *many), np.result_type(self._data, v))

        def work(nodes: Any, events: Any, matrix: Any) -> None:
            product = matrix.T @ v[events].reshape(-1, *many)
            densities[:, nodes] = product.reshape(columns, n, *many)

        self._each(work)
        return densities.reshape(-1, *many)


class _Transposed:
    def __init__(self, matrix: ByBodies) -> None:
        self._matrix = matrix

    def __matmul__(self, values: Any) -> Any:
        return self._matrix.transposed(values)


FORMS = {False: by_bodies, True: by_rows}  # by whether they are on a device


def _sizes(surface: Any, body: Any) -> list[tuple[int, Any]]:
    """Return numbers of nodes, and the events with bodies that have as many."""
    sizes = np.diff(surface.systems)[body]
    return [(int(n), np.flatnonzero(sizes == n)) for n in np.unique(sizes)]


def _fill(given: Given, some: Any, data: Any) -> None:
    """Set the blocks (events, rows, columns, n) of some events, with bodies of n nodes."""
    surface, layer, events, points, setting = given
    xp = surface.xp
    kinds, shapes = surface.kinds[to_host(events.body)[some]], surface.shapes
    most = {kind: max(1, AT_ONCE[xp is not np] // shapes[kind].areas.size) for kind in set(kinds)}
    tasks = [
        (kind, places[first : first + step])
        for kind, step in most.items()
        for places in [np.flatnonzero(kinds == kind)]
        for first in range(0, places.size, step)
    ]

    def fill(task: tuple[int, Any]) -> None:
        kind, places = task
        own = xp.asarray(some[places])
        near = surface, layer, kind, events.some(own), points[:, own], setting
        data[xp.asarray(places)] = matrix_near(*near)

    run_in_threads(fill, tasks, thread_count() if xp is np else 1)
