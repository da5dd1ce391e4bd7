"""Radial functions of a far field, by quadrature over its wavenumbers; and errors of spheres.

Beyond the cut-off spheres do not overlap: their field is the field of points, and a multiple of its
Laplacian. Errors of the far field are compared with errors of points, which have closed forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import spherical_jn

from parki.ewald.split.hasimoto import Hasimoto
from parki.ewald.split.protocol import Split
from parki.ewald.split.quadrature import gauss
from parki.ewald.split.radial_series import chebyshev_series, radial_series
from parki.ewald.sums import term_of
from parki.ewald.sums.tables import RadialTables

Array = NDArray[np.float64]
GONE = 40.0  # exp(-40) is below rounding


def waves(base: Split, order: int, reach: float) -> tuple[Array, Array]:
    """Return wavenumbers, and the factor of points times weights, for distances up to ``reach``."""
    given = base.factor(order)
    largest = math.sqrt(min(given.end, GONE) / given.scale)
    x, weights = at_least(60 + int(largest * reach))
    k = largest * (x + 1) / 2
    return k, largest / 2 * weights * given.at(k**2)


def of_waves(order: int, k: Array, gamma: Array) -> RadialTables:
    """Return radial functions for a cut-off of 1, by quadrature over wavenumbers."""

    def psi(s: Array) -> Array:
        z = np.sqrt((s + 1) / 2)[:, None] * k
        each = np.cos(z) / 2 if order == 1 else spherical_jn(0, z) - 2 / 3 * ball(z)
        return np.asarray(2 / np.pi * each @ gamma)

    return radial_series(sampled(psi, 40 + int(k[-1])))


def at_least(least: int) -> tuple[Array, Array]:
    """Return a rule of Gauss with some more points, as rules take long to make."""
    return gauss(-(-least // 32) * 32)


def ball(z: Array) -> Array:
    """Return ``3 j1(z) / z``."""
    small = np.minimum(z, 0.1) ** 2
    series = 1 - small / 10 * (1 - small / 28 * (1 - small / 54))
    return np.where(z < 0.05, series, 3 * spherical_jn(1, z) / np.maximum(z, 0.05))


def sampled(function: Callable[[Array], Array], count: int) -> Array:
    """Return the Chebyshev series of a function on [-1, 1], down to rounding."""
    return chebyshev_series(function(np.cos(np.pi / (2 * count) * (2 * np.arange(count) + 1))))


# Exponent of the near field's error up to which a quadrature finds the error.
MOST = 26.0
FAR = 5.0  # cut-offs up to which the quadrature goes


class Tail:
    """Distances beyond a cut-off, with weights, and errors there.

    Parameters
    ----------
    base : Split
        The split of points.
    order : int
        The symbol's: 1 harmonic, 2 biharmonic.
    rc : float
    shapes : sequence of (callable, float, float)
        ``shape(k)`` multiplies the far field's modes. The numbers multiply the field of points and
        its Laplacian, which make up the exact field.

    Attributes
    ----------
    levels : array, shape (shapes, functions, distances)
        The error of each shape, as ``functions`` of `RadialTables`; psi_3 and psi_4 are set to 0.
    """

    def __init__(
        self,
        base: Split,
        order: int,
        rc: float,
        shapes: Sequence[tuple[Callable[[Array], Array], float, float]],
    ) -> None:
        reach, base = FAR * rc, base.endless
        if isinstance(base, Hasimoto):
            reach = rc * math.sqrt(1 + 20 / (base.xi * rc) ** 2)
        k, gamma = waves(base, order, reach)
        x, weights = at_least(60 + int(2 * (reach - rc) * k[-1]))
        r, self.weights = rc + (reach - rc) * (x + 1) / 2, (reach - rc) / 2 * weights
        z = np.multiply.outer(r, k)
        j0, cosine = np.sin(z) / z, np.cos(z)
        g1 = (j0 - cosine) / z**2  # j1(z) / z
        g2 = (3 * g1 - j0) / z**2  # j2(z) / z^2
        g3 = (5 * g2 - g1) / z**2  # j3(z) / z^3
        if order == 1:
            mean, psi, slope = j0 / 2, cosine / 2, -(k**2) * j0 / 2
            second = k**4 * g1 / 2
        else:
            mean, psi, slope = g1, j0 - 2 * g1, k**2 * (2 * g2 - g1)
            second = k**4 * (g2 - 2 * g3)
        levels, zero = [], 0 * r
        for shape, point, laplacian in shapes:
            own = 2 / np.pi * gamma * shape(k)
            lap = laplacian * (order == 2)  # a harmonic field has none
            m = mean @ own - (0.5 * point / r - lap / r**3)
            q = psi @ own - 2 * lap / r**3
            s, w = slope @ own + 6 * lap / r**5, second @ own - 30 * lap / r**7
            levels.append(
                RadialTables.of(flow=m + q, smooth=(m, (m - q) / r**2), psi=(s, w, zero, zero))
            )
        self.r, self.functions = r, [*levels[0]]
        self.levels = np.array([[*fields.values()] for fields in levels])

    def size(self, term: str, weights: Sequence[float] = (1.0,)) -> tuple[float, float]:
        """Return the mean square, and the largest square, of a sum of the errors."""
        fields = np.tensordot(weights, self.levels[: len(weights)], 1)
        tables = RadialTables(zip(self.functions, fields, strict=True))
        error = term_of(term).square(self.r**2, tables)
        return float(self.weights @ (self.r**2 * error)), float(error.max())
