"""A body's own part: what is added to the sum at its own nodes, a matrix in the body's frame.

All bodies of a shape have it in common, and it stays as they move. For maps of the unit sphere it
is made in polar coordinates around each node. The singularity of a layer is as 1/t, or 1/t^2 and
odd, at the angle t from a node, so that with the sphere's area sin t the integrand is smooth, or
odd parts cancel. No correction is as good at the nodes. The density there follows from the nodes by
its series. All nodes of a ring see the sphere in the same way: densities and places are rolled
around the axis.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.legendre import legder, leggauss, legval
from numpy.typing import DTypeLike

from parki.interchange import real_name, to_host
from parki.runtime import ExecutionSpace, Kernel, load_all
from parki.solving.pairs import sparse
from parki.solving.search import threads
from parki.surfaces.blocks import EventPairs, Quadrature, Rows, in_lab
from parki.surfaces.bodies import MARGIN, Bodies
from parki.surfaces.corrections import by_pairs
from parki.surfaces.dense import NearBodies, corrections
from parki.surfaces.kernels import LAYERS, Key, parts_of
from parki.surfaces.near import Events, Regularisation
from parki.surfaces.series import directions, tangents
from parki.surfaces.shapes import Shape
from parki.typing import AnyArray, ArrayModule

MORE = 4  # orders of the quadrature above the density's
KEPT = 2**22  # numbers in tables that are kept
UNIT = float(np.finfo(float).eps)


def polar_matrix(near: NearBodies, shape: Any) -> np.ndarray:
    """Return a layer of a body alone at its own nodes, (rows, n, columns, n).

    Parameters
    ----------
    near : NearBodies
        Its nodes.
    shape : Shape
        With a ``sphere``.
    """
    layer, setting, sphere = near.layer, near.setting, shape.sphere
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
        arrays = x @ values.T, normal / size, size * weights
        quadrature = in_lab(near.space, *(array.reshape(*array.shape[:-2], -1) for array in arrays))
        many = weights.size
        block = _plain(near.some(nodes), quadrature, many, many * np.arange(around))
        rows = block @ densities
        for node, index in zip(nodes, of_nodes, strict=True):
            matrix[:, node, :, index] = rows[:, node % around].transpose(2, 0, 1)
    every = np.arange(count)
    if setting.constants and layer.exact is not None:
        inside = np.full(count, 0.5 * (1 - setting.side))
        missing = layer.missing(inside, matrix.sum(axis=3).transpose(0, 2, 1))
    else:
        missing = 0.5 * setting.side * layer.jumps(shape.normals, shape.normals)
    matrix[:, every, :, every] += missing.transpose(2, 0, 1)
    return matrix


def _rolled(along: int, rings: int, around: int) -> np.ndarray:
    """Return the nodes of a grid as each place on a ring sees them, (around, nodes)."""
    step = along // around
    column = (np.arange(along) + step * np.arange(around)[:, None]) % along
    return (along * np.arange(rings)[:, None] + column[:, None]).reshape(around, -1)


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
        first, second = (bent * (tangent.T @ points) for tangent in tangents(y))
        values = legval(along, wide) * shares
        yield values, first, second, legval(y.T @ nodes, few) * areas, weights


@functools.lru_cache(maxsize=4)
def _kept(order: int, densities: int) -> list[tuple[np.ndarray, ...]]:
    return list(_computed(order, densities))


def self_matrix(key: Key, shape: Shape, setting: Regularisation, space: ExecutionSpace) -> Any:
    """Return the correction of a body's sum at its own nodes, in its frame, (rows n, columns n).

    A sparse matrix of SciPy, or with finer nodes a dense one of NumPy; kernels of the space
    compute it.
    """
    if (key, setting) not in shape.matrices:
        shape.matrices[key, setting] = _self_matrix(key, shape, setting, space)
    return shape.matrices[key, setting]


def _self_matrix(key: Key, shape: Shape, setting: Regularisation, space: ExecutionSpace) -> Any:
    layer, count = LAYERS[key], shape.areas.size
    if shape.finer is not None and layer.parts:
        parts = [_self_matrix(part, shape, setting, space) for part in layer.parts]
        return np.concatenate(parts, axis=1)
    near = _own_nodes(key, shape, setting, space)
    if shape.sphere is not None and layer.jump is not None:
        matrix = polar_matrix(near, shape) - _plain_of(near)
    elif shape.finer is not None:
        matrix = np.asarray(to_host(corrections(near, count, False).values))
    else:
        (sparse_matrix,) = by_pairs(near, count, lambda pairs: None)
        return to_host(sparse_matrix)
    return matrix.reshape(layer.rows * count, -1)


def _own_nodes(
    key: Key, shape: Shape, setting: Regularisation, space: ExecutionSpace
) -> NearBodies:
    """Return the nodes of a body alone, as events near itself."""
    count, normals = shape.areas.size, shape.normals
    every, zeros = np.arange(count), np.zeros(count)
    margin = np.full(count, MARGIN * UNIT * shape.radius)
    node, _, fine = shape.at(shape.nodes, margin)[1]
    events = Events(
        target=every,
        node=node,
        n0=normals,
        directions=normals,
        distance=zeros,
        spacing=shape.spacing,
        times=np.full(count, 1.0 if shape.finer is None else shape.finer.times),
        thin=np.full(count, shape.thin),
        body=0 * every,
        finer=fine,
        excluded=node,
    )
    body = Bodies.alone(shape, space.array_module)
    return NearBodies(space, body, key, events, shape.nodes, setting)


def whole_matrix(
    key: Key, shape: Shape, setting: Regularisation, space: ExecutionSpace
) -> np.ndarray:
    """Return a body's layer at its own nodes, in its frame, sum and correction, as one matrix."""
    corrected = self_matrix(key, shape, setting, space)
    dense = corrected if isinstance(corrected, np.ndarray) else corrected.toarray()
    plain = _plain_of(_own_nodes(key, shape, setting, space))
    return np.asarray(dense + plain.reshape(dense.shape))


def _plain_of(near: NearBodies) -> np.ndarray:
    """Return the sum over a body's other nodes as a matrix (rows, n, columns, n)."""
    body = near.surface
    return _plain(near, in_lab(near.space, body.nodes, body.normals, body.areas), body.areas.size)


def _plain(near: NearBodies, quadrature: Quadrature, many: int, first: AnyArray = 0) -> np.ndarray:
    """Return sums over ``many`` nodes from the ``first`` one, (rows, events, columns, nodes)."""
    layer, count = near.layer, near.events.distance.size
    rows = Rows.of(near.space, layer, np.full(count, many))
    for part, column in parts_of(near.key):
        EventPairs(
            near.space,
            part,
            near.events,
            near.points,
            quadrature,
            near.setting,
            first=first,
            many=many,
        ).fill(rows, column, near.sums(LAYERS[part]), whole=1.0)
    values = np.asarray(to_host(rows.values))
    return values.reshape(layer.rows, count, layer.columns, many)


class OwnPart(NamedTuple):
    """Matrices of bodies, which act on values at their own nodes, in their frames.

    Attributes
    ----------
    bodies, begins : array, shape (B,), int32
        Numbers of the bodies, and their first nodes.
    blobs : int
        Nodes of each body.
    frames : array
        Frames of all bodies.
    matrix : matrix, shape (rows n, columns n)
        The matrix of all these bodies; or (B, rows n, columns n) with one of each.
    """

    bodies: Any
    begins: Any
    blobs: int
    frames: Any
    matrix: Any


def self_parts(
    surface: Bodies, matrix_of: Callable[[Shape], Any], dtype: DTypeLike
) -> list[OwnPart]:
    """Return the bodies' own parts: of a shape's bodies together, or of bodies of one size.

    Dense matrices of shapes with one body each, which have as many nodes, are stacked.
    """
    xp, parts = surface.xp, []
    single: dict[int, list[Any]] = {}
    for shape, _, bodies in surface.groups:
        matrix, many = matrix_of(shape), shape.areas.size
        if bodies.size == 1 and isinstance(matrix, np.ndarray):
            single.setdefault(many, []).append((bodies, matrix))
        else:
            parts.append((bodies, many, matrix))
    for many, several in single.items():
        numbers, matrices = zip(*several, strict=True)
        together = matrices[0] if len(matrices) == 1 else np.stack(matrices)
        parts.append((np.concatenate(numbers), many, together))
    frames = xp.asarray(surface.frames, dtype, order="C")
    begins = surface.systems.astype(np.int32)
    return [
        OwnPart(
            xp.asarray(bodies.astype(np.int32)),
            xp.asarray(begins[bodies]),
            many,
            frames,
            _moved_to(xp, matrix),
        )
        for bodies, many, matrix in parts
    ]


def turning(space: ExecutionSpace, real: str) -> tuple[Kernel, ...]:
    """Return the kernels that turn values into frames of bodies, and back."""
    return load_all("bodies", ("to_frames", "to_lab"), space, REAL=real)


def self_products(
    space: ExecutionSpace,
    parts: list[OwnPart],
    q: AnyArray,
    results: AnyArray,
    transposed: bool = False,
) -> None:
    """Write the products of bodies' own matrices with q (k, columns, N) to results (k, rows, N).

    Both have the type of the parts' frames.
    """
    xp, (several, columns, _) = space.array_module, q.shape
    to_frames, to_lab = turning(space, real_name(q.dtype))
    for part in parts:
        own = part._asdict() | {"count": part.bodies.size}
        items = several * part.bodies.size * part.blobs
        local = xp.empty((part.bodies.size, several, columns * part.blobs), q.dtype)
        to_frames(items, threads(items), arguments=own, rows=columns, values=q, rotated=local)
        matrix = part.matrix
        if matrix.ndim == 3:
            rotated = local @ (matrix if transposed else matrix.transpose(0, 2, 1))
        else:
            rows = local.reshape(-1, local.shape[2])
            if isinstance(matrix, xp.ndarray):
                rotated = rows @ (matrix if transposed else matrix.T)
            else:
                rotated = xp.ascontiguousarray(product(matrix, rows, transposed))
            rotated = rotated.reshape((*local.shape[:2], -1))
        to_lab(
            items,
            threads(items),
            arguments=own,
            rows=results.shape[1],
            rotated=rotated,
            values=results,
        )


def product(matrix: AnyArray, vectors: AnyArray, transposed: bool) -> Any:
    """Return products with rows (k, n) of vectors: matrices of events stand left."""
    operator = matrix.transpose() if transposed else matrix
    return (operator @ vectors[0])[None] if len(vectors) == 1 else (operator @ vectors.T).T


def _moved_to(xp: ArrayModule, matrix: AnyArray) -> Any:
    """Return a matrix of NumPy or SciPy in the memory of ``xp``."""
    if xp is np or isinstance(matrix, np.ndarray):
        return xp.asarray(matrix) if isinstance(matrix, np.ndarray) else matrix
    moved = sparse(xp).csr_matrix(matrix)
    moved.has_canonical_format = True  # which CuPy would look for, though products need no order
    return moved
