"""Radial functions of a far field, by quadrature over its wavenumbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray
from scipy.special import spherical_jn

from parki.ewald.split.hasimoto import Split, chebyshev_series, radial_series
from parki.ewald.sums.pairs import RadialPolynomials

Array = NDArray[np.float64]
GONE = 40.0  # exp(-40) is below rounding


def waves(base: Split, order: int, reach: float) -> tuple[Array, Array]:
    """Return wavenumbers, and the factor of points times weights, for distances up to ``reach``."""
    given = base.factor(order)
    largest = math.sqrt(min(given.end, GONE) / given.scale)
    x, weights = gauss(60 + int(largest * reach))
    k = largest * (x + 1) / 2
    return k, largest / 2 * weights * given.at(k**2)


def of_waves(order: int, k: Array, gamma: Array) -> RadialPolynomials:
    """Return radial functions for a cut-off of 1, by quadrature over wavenumbers."""

    def psi(s: Array) -> Array:
        z = np.sqrt((s + 1) / 2)[:, None] * k
        each = np.cos(z) / 2 if order == 1 else spherical_jn(0, z) - 2 / 3 * ball(z)
        return np.asarray(2 / np.pi * each @ gamma)

    return radial_series(sampled(psi, 40 + int(k[-1])))


@lru_cache(maxsize=32)
def _gauss(count: int) -> tuple[Array, Array]:
    return legendre.leggauss(count)


def gauss(least: int) -> tuple[Array, Array]:
    """Return points and weights of Gauss' rule on [-1, 1]: some more, as they take long to make."""
    return _gauss(-(-least // 32) * 32)


def ball(z: Array) -> Array:
    """Return ``3 j1(z) / z``."""
    small = np.minimum(z, 0.1) ** 2
    series = 1 - small / 10 * (1 - small / 28 * (1 - small / 54))
    return np.where(z < 0.05, series, 3 * spherical_jn(1, z) / np.maximum(z, 0.05))


def sampled(function: Callable[[Array], Array], count: int) -> Array:
    """Return the Chebyshev series of a function on [-1, 1], down to rounding."""
    return chebyshev_series(function(np.cos(np.pi / (2 * count) * (2 * np.arange(count) + 1))))
