"""Reference of `parki.mesh`: spreading and interpolation in NumPy, point by point."""

from __future__ import annotations

import itertools

import numpy as np


def weights(points: np.ndarray, grid, window) -> tuple[np.ndarray, np.ndarray]:
    """Return the grid points of each window, (N, P^D) flat, and their weights.

    Points beyond a free end have a weight of zero.
    """
    w, _ = window.piecewise(window.degree)
    n, p = points.shape[1], window.points
    flat, product = np.zeros((n, 1), dtype=int), np.ones((n, 1))
    for axis, size in enumerate(grid.shape):
        t = (points[axis].astype(float) - grid.origin[axis]) / grid.spacing[axis]
        t -= p / 2 - 1
        first = np.floor(t).astype(int)
        s = 2 * (t - first) - 1
        value = np.stack([np.polyval(column, s) for column in w.T], axis=1)
        index = first[:, None] + np.arange(p)
        if grid.periodic[axis]:
            index %= size
        value = np.where((index >= 0) & (index < size), value, 0.0)
        index = np.clip(index, 0, size - 1)
        flat = (flat[:, :, None] * size + index[:, None, :]).reshape(n, -1)
        product = (product[:, :, None] * value[:, None, :]).reshape(n, -1)
    return flat, product


def spread(points: np.ndarray, values: np.ndarray, grid, window) -> np.ndarray:
    """Spread values (C, N) onto the grid, shape (C, *grid.shape), in double precision."""
    flat, product = weights(points, grid, window)
    found = np.zeros((len(values), int(np.prod(grid.shape))))
    for row, value in zip(found, values, strict=True):
        np.add.at(row, flat, product * value.astype(float)[:, None])
    return found.reshape(len(values), *grid.shape)


def interpolate(points: np.ndarray, values: np.ndarray, grid, window) -> np.ndarray:
    """Interpolate a grid's values (C, *grid.shape) at points: shape (C, N)."""
    flat, product = weights(points, grid, window)
    rows = values.reshape(len(values), -1).astype(float)
    return np.stack([(row[flat] * product).sum(axis=1) for row in rows])


def corners(grid) -> np.ndarray:
    """Return points at the corners of the grid's box, shape (D, 2^D)."""
    ends = [(low, low + edge) for low, edge in zip(grid.origin, grid.box, strict=True)]
    return np.array(list(itertools.product(*ends))).T
