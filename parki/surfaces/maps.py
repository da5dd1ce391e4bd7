"""Points of a map of the unit sphere that are nearest to given ones, to rounding.

A map is a series of spherical harmonics of degrees up to L. Away from the sphere each harmonic goes
on as a polynomial Q(z) (x + i y)^m, so that derivatives along the sphere follow from those in
space, at the poles, too.
"""

from __future__ import annotations

import math

import numpy as np

from parki.surfaces.series import directions, tangents, tree

AT_ONCE = 4096  # points
STEPS = 30  # of Newton's method; 4 take a point from its nearest node to rounding
LAST = 1e-9  # length of a step of Newton's, after which the error is rounding
UNIT = float(np.finfo(float).eps)


def bases(order: int, m: int, z: np.ndarray) -> np.ndarray:
    """Return Q_l(z) for l = m to ``order``, and two derivatives, shape (3, order - m + 1, n).

    They are normalised: the integral of (Q_l (1 - z^2)^(m/2))^2 over z is one.
    """
    first = math.sqrt(0.5 * math.prod((2 * k + 1) / (2 * k) for k in range(1, m + 1)))
    rows = np.zeros((3, order - m + 1, z.size))
    rows[0, 0] = first
    for degree in range(m, order):
        here, to = degree - m, math.sqrt((degree + 1) ** 2 - m**2)
        up = math.sqrt((2 * degree + 1) * (2 * degree + 3)) / to
        rows[:, here + 1] = up * z * rows[:, here]
        rows[1, here + 1] += up * rows[0, here]
        rows[2, here + 1] += 2 * up * rows[1, here]
        if degree > m:
            back = math.sqrt((2 * degree + 3) * (degree**2 - m**2) / (2 * degree - 1)) / to
            rows[:, here + 1] -= back * rows[:, here - 1]
    return rows


class Mapped:
    """Nearest points of the map of the unit sphere with these points (3, n) at `directions`."""

    def __init__(self, points: np.ndarray, order: int, near: np.ndarray, at: np.ndarray) -> None:
        """``near`` (3, k) are points of the surface for a start, at the directions ``at``."""
        self._order, self._tree, self._at = order, tree(near.T), at
        y, weights = directions(order)
        wave, every = y[0] + 1j * y[1], {}
        for m in range(order + 1):
            values = bases(order, m, y[2])[0] * wave.conj() ** m * weights
            every[m] = (2 - (m == 0)) / (2 * np.pi) * (points @ values.T)
        # Rods have two of these: the others are rounding of the sums over nodes.
        least = order * UNIT * max(abs(series).max() for series in every.values())
        self._series = {m: terms for m, terms in every.items() if abs(terms).max() > least}

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return normals and signed distances at the nearest points."""
        normals, distances = np.empty_like(points), np.empty(points.shape[1])
        for first in range(0, points.shape[1], AT_ONCE):
            part = slice(first, first + AT_ONCE)
            normals[:, part], distances[part] = self._some(points[:, part])
        return normals, distances

    def _some(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        y = self._at[:, self._tree.query(points.T)[1]]
        moving = np.arange(points.shape[1])
        for _ in range(STEPS):
            axes, x, (a, b), second = self.derivatives(y[:, moving])
            apart = points[:, moving] - x
            slope = np.stack([(apart * a).sum(axis=0), (apart * b).sum(axis=0)])
            aa, ab, bb = ((u * v).sum(axis=0) for u, v in ((a, a), (a, b), (b, b)))
            bent = [(apart * term).sum(axis=0) for term in second]
            # Newton's step where the distance is convex; else one of Gauss and Newton.
            convex = (aa > bent[0]) & ((aa - bent[0]) * (bb - bent[2]) > (ab - bent[1]) ** 2)
            aa, ab, bb = (
                term - np.where(convex, more, 0.0)
                for term, more in zip((aa, ab, bb), bent, strict=True)
            )
            s = np.stack([bb * slope[0] - ab * slope[1], aa * slope[1] - ab * slope[0]])
            s /= aa * bb - ab**2
            length = np.linalg.norm(s, axis=0)
            s /= np.maximum(1.0, length * self._order)  # within about a node distance
            moved = y[:, moving] + s[0] * axes[0] + s[1] * axes[1]
            y[:, moving] = moved / np.linalg.norm(moved, axis=0)
            moving = moving[length > LAST]
            if not moving.size:
                break
        _, x, (a, b), _ = self.derivatives(y)
        normals = np.cross(a, b, axis=0)
        normals /= np.linalg.norm(normals, axis=0)
        return normals, (normals * (points - x)).sum(axis=0)

    def derivatives(self, y: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return tangents (2, 3, n) at directions, the points there, and derivatives.

        These are along both tangents, shape (2, 3, n), and the second ones aa, ab and bb, shape
        (3, 3, n).
        """
        axes, wave = np.stack(tangents(y)), y[0] + 1j * y[1]
        # A step's part in the plane of x and y, and its part along z: of a, of b and of y.
        plane = [step[0] + 1j * step[1] for step in (*axes, y)]
        along = axes[0, 2], axes[1, 2], y[2]
        points, first = np.zeros_like(y), np.zeros((3, *y.shape))
        second, pairs = np.zeros((3, *y.shape)), ((0, 0), (0, 1), (1, 1))
        for m, series in self._series.items():
            f, slope, bend = series @ bases(self._order, m, y[2])
            here = wave**m
            below = m * wave ** max(m - 1, 0)
            twice = m * (m - 1) * wave ** max(m - 2, 0)
            points += (f * here).real
            for k in range(3):
                first[k] += (f * below * plane[k] + slope * here * along[k]).real
            for k, (i, j) in enumerate(pairs):
                mixed = plane[i] * along[j] + plane[j] * along[i]
                bend_of = f * twice * plane[i] * plane[j] + slope * below * mixed
                second[k] += (bend_of + bend * here * along[i] * along[j]).real
        second[0] -= first[2]  # great circles bend towards the centre
        second[2] -= first[2]
        return axes, points, first[:2], second
