"""What is added to the sum over nodes: each body's own matrix, and near pairs of bodies.

A body's own part is a matrix in its frame, which all bodies of a shape have in common. It stays as
bodies move. Events of targets with other bodies, with images of their own one, and of targets that
are no nodes, are found anew for other places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from parki.ewald.options import EwaldOptions
from parki.ewald.plan import Plan
from parki.ewald.sums import SUMS
from parki.interchange import to_host
from parki.memory import require
from parki.runtime import ExecutionSpace
from parki.solving.pairs import near_pairs, sparse
from parki.surfaces.bodies import Bodies
from parki.surfaces.functions import Singular
from parki.surfaces.kernels import LAYERS, SurfacePairs
from parki.surfaces.near import (
    FARTHEST,
    ON_SURFACE,
    Events,
    Nodes,
    Regularisation,
    blocks,
    with_constants,
)
from parki.surfaces.shapes import TOUCHING, Shape

# Bytes of a pair of a target and a node, and of each number in its block, as found.
PAIR, NUMBER = 160.0, 45.0
FREE = EwaldOptions(periodicity=0, tolerance=1e-10)  # of the sums of constants over one body


# -------------------------------------------------------------------- the sums
def strengths(kernel: str, density: Any, normals: Any, areas: Any) -> Any:
    """Return densities (k, columns, N) as the sums take them, areas included."""
    weighted, rows = density * areas, SUMS[kernel].rows
    if rows == 1:
        return weighted[:, 0]
    return weighted if weighted.shape[1] == rows else weighted * normals


def rows_of(want: str, values: Any, e: Any) -> Any:
    """Return results (k, rows, Nt) of the sums' results; tractions are along e."""
    if want == "traction":
        return (values * e).sum(axis=2)
    return values if values.ndim == 3 else values[:, None]


def constants(xp: Any, key: tuple[str, str], points: tuple[Any, ...], e: Any, systems: Any) -> Any:
    """Return sums of constants in free space, (rows, columns, targets), for each system alone.

    ``points`` are targets, nodes, normals and areas.
    """
    (kernel, want), (targets, nodes, normals, areas) = key, points
    layer = LAYERS[key]
    density = xp.eye(layer.columns, dtype=nodes.dtype)[:, :, None] + 0 * areas
    norms = normals if SUMS[kernel].normals else None
    plan: Any = Plan(
        cast(Any, kernel), targets, nodes, norms, FREE, want=layer.want, systems=systems
    )
    values = plan(xp.ascontiguousarray(strengths(kernel, density, normals, areas)))
    return rows_of(want, values, e).transpose(1, 0, 2).astype(np.float64)


# -------------------------------------------------------------------- a body's own part
def own_matrix(key: tuple[str, str], shape: Shape, setting: Regularisation) -> Any:
    """Return the correction of a body's sum at its own nodes, in its frame, (rows n, columns n).

    A sparse matrix, or with finer nodes a dense one.
    """
    if (key, setting) not in shape.kept:
        shape.kept[key, setting] = _own_matrix(key, shape, setting)
    return shape.kept[key, setting]


def _own_matrix(key: tuple[str, str], shape: Shape, setting: Regularisation) -> Any:
    layer, count, finer = LAYERS[key], shape.areas.size, shape.finer
    every, h = np.arange(count), shape.spacing
    times = np.full(count, 1.0 if finer is None else finer.times)
    thin = np.full(count, shape.thin)
    normals = shape.normals
    events = Events(every, every, normals, normals, np.zeros(count), h, times, thin, 0 * every)
    radius = setting.radius(finer is not None) * h.max()
    node, fine = shape.at(shape.nodes, h)
    nodes = _own_pairs(shape.nodes, shape.nodes, node, radius, h)
    of_finer = None
    if finer is not None:
        pairs = _own_pairs(shape.nodes, finer.nodes, fine, radius, h)
        of_finer = Nodes(finer.normals, finer.areas, *pairs)
    coarse = Nodes(normals, shape.areas, *nodes)
    levels = blocks(np, layer, events, coarse, of_finer, setting)
    if layer.exact is not None and setting.constants:
        given = shape.nodes, shape.nodes, normals, shape.areas
        plain = constants(np, key, given, normals, None)
        levels = with_constants(np, layer, events, levels, plain, setting.side)
    if finer is None:
        return levels[0].matrix(np, events, (count, count))
    # Most finer nodes of a small body are in reach: products of dense matrices are faster.
    matrix = np.zeros((layer.rows, count, layer.columns, count))
    places = ((row, column) for row in range(layer.rows) for column in range(layer.columns))
    for row, column in places:
        near, far = (np.zeros((count, size)) for size in (count, finer.areas.size))
        for dense, level in zip((near, far), levels, strict=True):
            np.add.at(dense, (level.event, level.index), level.values[row, column])
        matrix[row, :, column] = near + far @ finer.matrix
    return matrix.reshape(layer.rows * count, -1)


def whole_matrix(key: tuple[str, str], shape: Shape, setting: Regularisation) -> np.ndarray:
    """Return a body's layer at its own nodes, in its frame, sum and correction, as one matrix."""
    layer, count = LAYERS[key], shape.areas.size
    corrected = own_matrix(key, shape, setting)
    dense = corrected if isinstance(corrected, np.ndarray) else corrected.toarray()
    found = dense.reshape(layer.rows, count, layer.columns, count).copy()
    for node in range(count):
        r = shape.nodes[:, node, None] - shape.nodes
        e = np.tile(shape.normals[:, node, None], count)
        functions: Any = Singular(np, (r**2).sum(axis=0))
        pairs = SurfacePairs(np, r, 0 * r, 0 * r[0], shape.normals, e, functions)
        found[:, node] += layer.block(pairs) * shape.areas
    return found.reshape(dense.shape)


def _own_pairs(
    targets: np.ndarray, nodes: np.ndarray, at: np.ndarray, radius: float, h: np.ndarray
) -> tuple[Any, Any, Any]:
    """Return target, node and displacement of pairs of one body, those at r = 0 included."""
    pairs = near_pairs(targets, nodes, radius, FREE)
    i, j, r = pairs.targets, pairs.indices, pairs.displacements
    apart = np.flatnonzero(pairs.distances >= TOUCHING * h[i])
    there = np.flatnonzero(at >= 0)
    return (
        np.concatenate([i[apart], there]),
        np.concatenate([j[apart], at[there]]),
        np.concatenate([r[:, apart], np.zeros((3, there.size))], axis=1),
    )


# -------------------------------------------------------------------- targets near other bodies
def others(
    surface: Bodies,
    targets: Any,
    home: Any,
    e: Any,
    options: EwaldOptions,
    setting: Regularisation,
    check: Callable[[int], None],
) -> tuple[Events, Nodes, Nodes | None, tuple[Any, Any]]:
    """Return events of targets with copies of bodies, and the pairs of nodes and of finer nodes.

    Parameters
    ----------
    targets : array, shape (3, Nt)
    home : array, shape (Nt,), optional
        Bodies whose nodes the targets are: their own copies are left out.
    e : array, shape (3, Nt)
        Directions of tractions.
    check : callable
        Refuses a number of pairs.

    Returns
    -------
    tuple of 4
        The last are the events' points, next to their bodies, and these bodies.
    """
    xp = surface.xp
    periodic = np.array(options.periodic)
    vectors = options.vectors * periodic[:, None]
    inverse = xp.asarray(np.linalg.inv(options.vectors).T * periodic[:, None])
    fine, h_most = surface.has_finer, float(surface.spacing.max())

    def pairs(nodes: Any, body: Any) -> tuple[Any, ...]:
        """Return target, body and image of pairs as rows (5, n), and nodes and displacements."""
        found = near_pairs(targets, nodes, setting.radius(fine) * h_most, options)
        check(found.indices.size)
        i, j, r = found.targets, found.indices, found.displacements.astype(np.float64)
        image = inverse @ (xp.take(targets, i, axis=1) - xp.take(nodes, j, axis=1) - r)
        rows = xp.concatenate([xp.stack([i, body[j]]), xp.rint(image)]).astype(np.int64)
        if home is not None:
            away = xp.flatnonzero((rows[1] != home[i]) | (rows[2:] != 0).any(axis=0))
            rows, j, r = rows[:, away], j[away], r[:, away]
        return rows, j, r

    rows, j, r = pairs(surface.nodes, surface.body)
    low = rows.min(axis=1) if j.size else xp.zeros(5, np.int64)
    sizes = (rows.max(axis=1) - low + 1).tolist() if j.size else [1] * 5
    keys = _numbered(rows - low[:, None], sizes)
    unique, first = xp.unique(keys, return_index=True)
    target, body, *image = to_host(rows[:, first])
    points = to_host(targets)[:, target] - vectors.T @ np.array(image)
    n0, b, h, node = surface.nearest(points.astype(np.float64), body)
    b[np.abs(b) < ON_SURFACE * h] = 0.0
    kept = np.flatnonzero(np.abs(b) <= FARTHEST * h)
    target, body, n0, b, h, node = (
        target[kept],
        body[kept],
        n0[:, kept],
        b[kept],
        h[kept],
        node[:, kept],
    )
    kinds = surface.kinds[body]
    times = np.array([s.finer.times if fine and s.finer else 1.0 for s in surface.shapes])[kinds]
    thin = np.array([s.thin for s in surface.shapes])[kinds]
    host = target, node[0], n0, b, h, times, thin
    target, at, n0, b, h, times, thin = (xp.asarray(each) for each in host)
    directions = xp.take(e, target, axis=1).astype(np.float64)
    events = Events(target, at, n0, directions, b, h, times, thin, xp.asarray(body))
    unique = unique[xp.asarray(kept)]

    def chosen(found: tuple[Any, ...], there: Any, *arrays: Any) -> Nodes:
        """Return the pairs of events, with those at r = 0."""
        rows, j, r = found
        rows = rows - low[:, None]
        inside = ((rows >= 0) & (rows < xp.asarray(sizes)[:, None])).all(axis=0)
        key = xp.where(inside, _numbered(rows, sizes), -1)
        if not unique.size:
            key, j, r = key[:0], j[:0], r[:, :0]
        event = xp.minimum(xp.searchsorted(unique, key), max(unique.size - 1, 0))
        apart = (r**2).sum(axis=0) >= (TOUCHING * h[event]) ** 2
        k, zero = xp.flatnonzero((unique[event] == key) & apart), xp.flatnonzero(there >= 0)
        wide = [each.astype(np.float64) for each in arrays]
        return Nodes(
            wide[0],
            wide[1],
            xp.concatenate([event[k], zero]),
            xp.concatenate([j[k], there[zero]]),
            xp.concatenate([r[:, k], xp.zeros((3, zero.size))], axis=1),
        )

    nodes = chosen((rows, j, r), at, surface.normals, surface.areas)
    finer = None
    if fine:
        places, normals, areas, owner = surface.finer()
        finer = chosen(pairs(places, owner), xp.asarray(node[1]), normals, areas)
    return events, nodes, finer, (points[:, kept], body)


def _numbered(rows: Any, sizes: list[int]) -> Any:
    """Return one number for each column of rows from 0 to sizes."""
    number = 0 * rows[0]
    for row, size in zip(rows, sizes, strict=True):
        number = number * size + row
    return number


@dataclass(frozen=True)
class Near:
    """Sparse matrices of events: of densities at the nodes, and at the finer ones."""

    coarse: Any
    fine: Any
    events: Events


def near_matrices(
    key: tuple[str, str],
    surface: Bodies,
    given: tuple[Any, Any, Any],
    options: EwaldOptions,
    setting: Regularisation,
    space: ExecutionSpace,
) -> Near:
    """Return the corrections of targets near bodies; ``given`` are targets, their homes and e.

    Raises
    ------
    ParkiMemoryError
        If there is no room for their matrices.
    """
    layer, xp = LAYERS[key], surface.xp

    def check(pairs: int) -> None:
        needed = pairs * (PAIR + NUMBER * layer.rows * layer.columns)
        remedy = "give fewer targets at a time, or a smaller order and width"
        require(space, needed, f"corrections of {pairs:.3g} pairs near the surface", remedy)

    events, nodes, finer, (points, body) = others(surface, *given, options, setting, check)
    levels = blocks(xp, layer, events, nodes, finer, setting)
    if layer.exact is not None and setting.constants and events.b.size:
        order = np.argsort(body, kind="stable")
        bodies, starts = np.unique(body[order], return_index=True)
        sizes = np.diff(surface.systems)[bodies]
        index = np.concatenate([np.arange(*surface.systems[k : k + 2]) for k in bodies])
        at, back = xp.asarray(index), xp.asarray(np.argsort(order))
        systems = [*starts.tolist(), order.size], np.concatenate([[0], np.cumsum(sizes)]).tolist()
        arrays = surface.nodes[:, at], surface.normals[:, at], surface.areas[at]
        places = xp.asarray(points[:, order], dtype=np.float64)
        whole = (places, *(xp.ascontiguousarray(a.astype(np.float64)) for a in arrays))
        sums = constants(xp, key, whole, events.e[:, xp.asarray(order)], systems)[..., back]
        levels = with_constants(xp, layer, events, levels, sums, setting.side)
    counts = [surface.areas.size] + ([finer.areas.size] if finer is not None else [])
    both = [
        each.matrix(xp, events, (given[0].shape[1], count))
        for each, count in zip(levels, counts, strict=True)
    ]
    return Near(both[0], both[1] if finer is not None else None, events)


def own_products(own: Any, q: Any, rows: int, transposed: bool = False) -> Any:
    """Yield the nodes of each shape's bodies, and the products with the bodies' own matrices.

    ``own`` has nodes (B, n), frames (B, 3, 3) and the matrix of each shape; q is (k, columns, N).
    """
    for index, frames, matrix in own:
        local = _rotated(frames.transpose(0, 2, 1), q[:, :, index]).transpose(0, 2, 1, 3)
        flat = product(matrix, local.reshape(-1, matrix.shape[transposed ^ 1]), transposed)
        found = flat.reshape(len(q), -1, rows, index.shape[1]).transpose(0, 2, 1, 3)
        yield index, _rotated(frames, found)


def product(matrix: Any, vectors: Any, transposed: bool) -> Any:
    """Return products with rows (k, n) of vectors: sparse matrices stand left of them."""
    return ((matrix.T if transposed else matrix) @ vectors.T).T


def _rotated(frames: Any, values: Any) -> Any:
    """Return vectors (k, 3 m, B, n) in other frames (B, 3, 3); numbers (k, 1, B, n) unchanged."""
    if values.shape[1] == 1:
        return values
    vectors = values.reshape(-1, 3, *values.shape[2:]).transpose(0, 2, 1, 3)
    return (frames @ vectors).transpose(0, 2, 1, 3).reshape(values.shape)


def moved_to(xp: Any, matrix: Any) -> Any:
    """Return a matrix of NumPy or SciPy in the memory of ``xp``."""
    if xp is np or isinstance(matrix, np.ndarray):
        return xp.asarray(matrix) if isinstance(matrix, np.ndarray) else matrix
    return sparse(xp).csr_matrix(matrix)
