"""What nodes and normals alone say of a surface: node distances and nearest points.

Around a node, in its tangent plane, a polynomial of degree 4 is fitted to the heights and slopes of
the nodes within a few node distances. That is better than the layers need: 4e-4 node distances on
an ellipsoid with 1250 nodes, 2e-5 with 4802.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

NEIGHBOURS, SECTORS, AROUND = 40, 4, 9
REACH, DEGREE = 2.5, 4  # of fits, in node distances
FACING = 0.3  # cosine of normals, below which a node is of another part of the surface
STEPS = 12  # of Newton's method
AT_ONCE = 2048

tree = cKDTree


def _frames(normals: np.ndarray) -> np.ndarray:
    """Return two tangents and the normal as rows, shape (n, 3, 3)."""
    axes = np.eye(3)[np.abs(normals).argmin(axis=0)]
    first = np.cross(normals.T, axes)
    first /= np.linalg.norm(first, axis=1)[:, None]
    return np.stack([first, np.cross(normals.T, first), normals.T], axis=1)


def spacings(nodes: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Return local node distances, shape (n,).

    Each quadrant of the tangent plane has a nearest node. The largest of the four distances, taken
    over some nodes around, is typically 0.97 to 1.1 of the largest step of a grid. The root of the
    area is a third of it at the poles of a sphere.
    """
    count = nodes.shape[1]
    distances, near = tree(nodes.T).query(nodes.T, min(NEIGHBOURS + 1, count))
    r = nodes.T[near[:, 1:]] - nodes.T[:, None]
    local = np.einsum("nij,nkj->ink", _frames(normals), r)
    sector = (np.arctan2(local[1], local[0]) + np.pi) / (2 * np.pi) * SECTORS
    sector = sector.astype(int) % SECTORS
    nearest = np.stack(
        [np.where(sector == k, distances[:, 1:], np.inf).min(axis=1) for k in range(SECTORS)]
    )
    widest = np.where(np.isfinite(nearest), nearest, 0).max(axis=0)
    return np.asarray(widest[near[:, :AROUND]].max(axis=1))


class Fit:
    """Nearest points of a surface by local fits; see `parki.surfaces.shapes.Shape.project`."""

    def __init__(self, nodes: np.ndarray, normals: np.ndarray, spacing: np.ndarray) -> None:
        self.nodes, self.normals, self.spacing = nodes, normals, spacing
        self._tree, self._frames = tree(nodes.T), _frames(normals)

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return normals and signed distances at the nearest points."""
        parts = [slice(a, a + AT_ONCE) for a in range(0, points.shape[1], AT_ONCE)]
        nearest = [self._some(points[:, part]) for part in parts]
        if not nearest:
            return np.empty((3, 0)), np.empty(0)
        normals, distances = zip(*nearest, strict=True)
        return np.concatenate(normals, axis=1), np.concatenate(distances)

    def curvatures(self) -> np.ndarray:
        """Return the sums of both curvatures at the nodes, shape (n,)."""
        places = np.arange(self.spacing.size)
        sums = [self._coefficients(places[k : k + AT_ONCE]) for k in range(0, len(places), AT_ONCE)]
        squares = (POWERS.sum(axis=0) == 2) & (POWERS.max(axis=0) == 2)  # of u^2 and of v^2
        return np.asarray(-2 * np.concatenate(sums)[:, squares].sum(axis=1) / self.spacing)

    def _some(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        centres, place = np.unique(self._tree.query(points.T)[1], return_inverse=True)
        c = self._coefficients(centres)[place]
        node = centres[place]
        frames, h = self._frames[node], self.spacing[node]
        y = np.einsum("nij,jn->in", frames, points - self.nodes[:, node]) / h
        x = y[:2].copy()
        for _ in range(STEPS):  # (u - y_u) + (z - y_z) z_u = 0
            f, fu, fv, fuu, fvv, fuv = (np.einsum("nk,nk->n", c, t) for t in _terms(*x))
            gap = f - y[2]
            a, b = x[0] - y[0] + gap * fu, x[1] - y[1] + gap * fv
            uu, vv, uv = 1 + fu**2 + gap * fuu, 1 + fv**2 + gap * fvv, fu * fv + gap * fuv
            det = uu * vv - uv**2
            step = np.stack([(vv * a - uv * b) / det, (uu * b - uv * a) / det])
            x = x - np.clip(step, -REACH, REACH)
        f, fu, fv, *_ = (np.einsum("nk,nk->n", c, t) for t in _terms(*x))
        normal = np.stack([-fu, -fv, np.ones_like(f)]) / np.sqrt(1 + fu**2 + fv**2)
        apart = y - np.stack([*x, f])
        return np.einsum("nji,jn->in", frames, normal), h * (normal * apart).sum(axis=0)

    def _coefficients(self, centres: np.ndarray) -> np.ndarray:
        """Return the polynomials around nodes, (n, terms), in node distances."""
        count = min(NEIGHBOURS + 1, self.nodes.shape[1])
        near = self._tree.query(self.nodes[:, centres].T, count)[1][:, 1:]
        frames, h = self._frames[centres], self.spacing[centres]
        r = self.nodes.T[near] - self.nodes.T[centres][:, None]
        u, v, z = np.einsum("nij,nkj->ink", frames, r) / h[:, None]
        nu, nv, nn = np.einsum("nij,nkj->ink", frames, self.normals.T[near])
        here = (nn > FACING) & (u**2 + v**2 + z**2 < REACH**2)
        weight = np.where(here, np.exp(-(u**2 + v**2) / (0.7 * REACH) ** 2), 0)
        nn = np.where(here, nn, 1)
        f, fu, fv, *_ = _terms(u, v)
        left = np.concatenate([weight[..., None] * each for each in (f, fu, fv)], axis=1)
        right = np.concatenate([weight * z, -weight * nu / nn, -weight * nv / nn], axis=1)
        return np.asarray((np.linalg.pinv(left, rcond=1e-10) @ right[..., None])[..., 0])


POWERS = np.array(
    [(a, b) for a, b in itertools.product(range(DEGREE + 1), repeat=2) if 2 <= a + b <= DEGREE]
).T


def _terms(u: np.ndarray, v: np.ndarray) -> tuple[Any, ...]:
    """Return the powers u^a v^b, their first and their second derivatives, shape (..., terms)."""

    def powers(x: np.ndarray, exponents: np.ndarray) -> tuple[Any, Any, Any]:
        a = exponents
        each = [np.ones_like(x)]
        for _ in range(DEGREE):
            each.append(each[-1] * x)
        table = np.stack(each, axis=-1)
        return tuple(
            factor * table[..., np.maximum(a - k, 0)]
            for k, factor in enumerate((1.0 + 0 * a, 1.0 * a, 1.0 * a * (a - 1)))
        )

    (f, fu, fuu), (g, gv, gvv) = powers(u, POWERS[0]), powers(v, POWERS[1])
    return f * g, fu * g, f * gv, fuu * g, f * gvv, fu * gv
