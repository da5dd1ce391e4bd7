"""Series of densities on surfaces: spherical harmonics on maps of the sphere, Fourier's on tori.

They give values at finer nodes. The matrices that do so are products of small ones for rings of
nodes, with which sums over finer nodes take a tenth of the operations.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss, legval


def tangents(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two unit tangents of the sphere at directions (3, n); their product is y."""
    axes = np.eye(3)[np.abs(y).argmin(axis=0)].T
    first = np.cross(axes, y, axis=0)
    first /= np.linalg.norm(first, axis=0)
    return first, np.cross(y, first, axis=0)


@dataclass(frozen=True)
class Sphere:
    """A map of the unit sphere: points (3, n) at `directions` (order), and the densities' order.

    Rings of points have a multiple of the nodes of densities' rings.
    """

    points: np.ndarray
    order: int
    densities: int


LAST = 2  # degrees of a density that tell what is beyond them


def directions(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes (3, n) and weights of the unit sphere, n = 2 (order + 1)^2.

    They integrate spherical harmonics of degrees up to 2 order + 1.
    """
    height, weight = leggauss(order + 1)
    around = 2 * order + 2
    angle, ring = 2 * np.pi * np.arange(around) / around, np.sqrt(1 - height**2)
    columns = np.outer(ring, np.cos(angle)), np.outer(ring, np.sin(angle))
    nodes = np.stack([*columns, np.repeat(height[:, None], around, axis=1)])
    return nodes.reshape(3, -1), np.repeat(weight, around) * 2 * np.pi / around


def harmonics(order: int, at: np.ndarray) -> Any:
    """Return values at directions of densities at `directions` (order), by spherical harmonics.

    Their products summed over each degree are Legendre polynomials: no harmonic is computed.
    """
    nodes, weights = directions(order)
    series = (2 * np.arange(order + 1) + 1) / (4 * np.pi)
    return legval(at.T @ nodes, series) * weights


class Fold:
    """Products of rows with the matrix from nodes to finer nodes, by small matrices in turn.

    Parameters
    ----------
    first : ndarray, shape (around, k)
        For finer nodes along a ring.
    middle : ndarray, shape (rings, rings'), or (k, rings, rings')
        Across rings, for each of the k values along them.
    last : ndarray, shape (k, around'), optional
    """

    def __init__(self, first: np.ndarray, middle: np.ndarray, last: np.ndarray | None) -> None:
        self._copies: dict[Any, Any] = {np: (first, middle, last)}

    def __call__(self, xp: Any, rows: Any) -> Any:
        """Return rows (..., finer nodes) times the matrix, (..., nodes)."""
        if xp not in self._copies:
            own = self._copies[np]
            self._copies[xp] = tuple(None if each is None else xp.asarray(each) for each in own)
        first, middle, last = self._copies[xp]
        products = (rows.reshape(-1, len(first)) @ first).reshape(
            -1, middle.shape[-2], first.shape[1]
        )
        products = xp.ascontiguousarray(products.transpose(2, 0, 1)) @ middle
        products = xp.ascontiguousarray(products.transpose(1, 2, 0))
        products = products if last is None else products.reshape(-1, len(last)) @ last
        return products.reshape(*rows.shape[:-1], -1)


@functools.lru_cache(maxsize=16)
def to_finer(order: int, times: int) -> dict[str, Any]:
    """Return how densities at `directions` (order) have values at times finer ones.

    That is the matrix, its `Fold`, columns that span the densities with a series, and a projection
    to those without the last `LAST` degrees.

    Along a ring it is a sum of cos m (u - v) for azimuths u and v.
    """
    many = times * (order + 1) - 1
    matrix, m = harmonics(order, directions(many)[0]), np.arange(order + 1)
    rings = matrix.reshape(many + 1, 2 * many + 2, order + 1, -1)[..., 0]
    waves = np.fft.rfft(rings, axis=1)[:, : order + 1].real / (many + 1)
    waves[:, 0] /= 2
    middle = waves.transpose(1, 0, 2)[np.concatenate([m, m[1:]])]
    first, last = (
        np.concatenate([np.cos(angle), np.sin(angle[1:])])
        for angle in (np.pi * np.outer(m, np.arange(2 * k + 2)) / (k + 1) for k in (many, order))
    )
    resolved, (y, weights) = harmonics(order, directions(order)[0]), directions(order)
    few = (2 * np.arange(max(1, order + 1 - LAST)) + 1) / (4 * np.pi)
    lower = legval(y.T @ y, few) * weights
    fold = Fold(first.T, middle, last)
    return {"matrix": matrix, "fold": fold, "resolved": resolved, "lower": lower}


def around_torus(steps: tuple[int, int], times: int) -> dict[str, Any]:
    """Return the matrix from a torus's nodes to times finer ones, and its `Fold`."""
    ring, tube = (fourier(count, times) for count in steps)
    lower = np.kron(*(fourier(count, 1, LAST) for count in steps))
    return {"matrix": np.kron(ring, tube), "fold": Fold(tube, ring, None), "lower": lower}


def fourier(count: int, times: int, without: int = 0) -> np.ndarray:
    """Return values of a periodic function at ``times`` more steps, from an even count of them.

    The shortest waves may be left out: ``without`` is their number.
    """
    x = 2 * np.pi * (np.arange(times * count)[:, None] / times - np.arange(count)) / count
    most = count // 2 - without
    if without:
        return (
            np.asarray(1 + 2 * np.cos(x[..., None] * np.arange(1, most + 1)).sum(axis=-1)) / count
        )
    waves = np.cos(x[..., None] * np.arange(1, most)).sum(axis=-1)
    return np.asarray((1 + 2 * waves + np.cos(most * x)) / count)
