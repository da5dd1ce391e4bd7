"""A split of spheres: the far field spreads over shells and is averaged over shells.

A force on a sphere of radius b is spread over its surface, and a sphere of radius a moves with the
mean velocity over its own. In the far field that multiplies a mode k by sinc(k a) sinc(k b), so its
factor is that of points times these. Its radial functions follow from the mollifier alone, which
for any factor gamma of biharmonic symbols is

    psi(r) = 2/pi int gamma(k) (j0(k r) - 2 j1(k r) / (k r)) dk.

They end, with the split of points, a + b later than that: at the cut-off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray
from scipy.fft import dct
from scipy.special import spherical_jn

from parki.ewald.split.hasimoto import (
    Factor,
    Split,
    horner_order,
    radial_series,
)
from parki.ewald.sums.pairs import RadialPolynomials

Array = NDArray[np.float64]
LEAST = 2.5  # least cut-off, over the sum of the radii: polynomials of smaller ones lose digits
_GONE = 40.0  # exp(-40) is below rounding


@dataclass(frozen=True)
class Shells(Split):
    """The split of points ``base``, with its far field spread over and averaged over shells.

    Parameters
    ----------
    base : Split
        Its cut-off is the near field's less both radii.
    radii : tuple of 2 floats
        Radii of targets and sources.
    """

    base: Split
    radii: tuple[float, float]

    @property
    def name(self) -> str:
        """The name of the split of points."""
        return self.base.name

    def scaled(self, factor: float) -> Shells:
        """Return the same split with all lengths multiplied by ``factor``."""
        a, b = self.radii
        return Shells(self.base.scaled(factor), (a * factor, b * factor))

    @property
    def psi0(self) -> float:
        """Mollifier of points at 0."""
        return self.base.psi0

    @property
    def band(self) -> float:
        """Largest wavenumber of the far field."""
        return self.base.band

    @property
    def background(self) -> float:
        """As for points."""
        return self.base.background

    def of_points(self, rc: float) -> tuple[Split, float]:
        """Return the split of points, whose errors bound these, and its cut-off."""
        return self.base, rc - sum(self.radii)

    def factor(self, order: int) -> Factor:
        """Return the factor of points, times ``sinc(k a) sinc(k b)``, as a polynomial in k^2."""
        given = self.base.factor(order)
        end = min(given.end, _GONE)
        largest = np.sqrt(end / given.scale)  # wavenumber
        waves = largest * sum(self.radii)

        def values(t: Array) -> Array:
            x = end * (t + 1) / 2
            k = np.sqrt(x / given.scale)
            return np.polyval(given.coefficients, x - given.shift) * _sinc(k, self.radii)

        series = _series(values, given.coefficients.size + 30 + int(waves))
        powers = horner_order(series, series.size - 1)
        powers *= (end / 2) ** -np.arange(series.size - 1.0, -1, -1)
        return Factor(powers, given.scale, end / 2, end, given.decays)

    def near(self, r: ArrayLike) -> tuple[Array, Array, Array, Array]:
        """Return what points have where this one is as far from its end."""
        return self.base.near(np.asarray(r) - sum(self.radii))

    def series(self, rc: float) -> RadialPolynomials:
        """Return Chebyshev series of the radial functions."""
        return _radial(self.scaled(1 / rc))


@lru_cache(maxsize=256)
def _radial(split: Shells) -> RadialPolynomials:
    """Radial functions for a cut-off of 1, by quadrature over wavenumbers."""
    given = split.base.factor(2)
    largest = float(np.sqrt(min(given.end, _GONE) / given.scale))
    x, weights = legendre.leggauss(60 + int(largest * (1 + sum(split.radii))))
    k, weights = largest * (x + 1) / 2, largest / 2 * weights
    gamma = weights * given.at(k**2) * _sinc(k, split.radii)

    def psi(s: Array) -> Array:
        z = np.sqrt((s + 1) / 2)[:, None] * k
        return 2 / np.pi * (spherical_jn(0, z) - 2 * _j1_over(z)) @ gamma

    return radial_series(_series(psi, 40 + int(largest)))


def _sinc(k: Array, radii: tuple[float, float]) -> Array:
    a, b = radii
    return np.asarray(np.sinc(k * a / np.pi) * np.sinc(k * b / np.pi))


def _j1_over(z: Array) -> Array:
    """Return ``j1(z) / z``."""
    small = np.minimum(z, 0.1) ** 2
    series = (1 - small / 10 * (1 - small / 28 * (1 - small / 54))) / 3
    return np.where(z < 0.05, series, spherical_jn(1, z) / np.maximum(z, 0.05))


def _series(function: Callable[[Array], Array], count: int) -> Array:
    """Return the Chebyshev series of a function on [-1, 1], down to rounding."""
    values = function(np.cos(np.pi / (2 * count) * (2 * np.arange(count) + 1)))
    series = np.asarray(dct(values)) / count
    series[0] /= 2
    size = np.abs(series)
    return series[: int(np.nonzero(size > 1.5e-16 * size.sum())[0][-1]) + 1]
