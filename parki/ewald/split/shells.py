"""A split of spheres: the far field is spread over shells, and averaged over shells.

A force on a sphere of radius a is spread over its surface, and a sphere moves with the mean
velocity over its own. In the far field that multiplies a mode k by sinc(k a). A torque is spread,
and turns, by 3 j1(k a) / (k a). Either sphere multiplies the factor of points by one of these. The
radial functions follow from the mollifier alone, which for any factor gamma is

    psi(r) = 1/pi int gamma(k) cos(k r) dk                          of harmonic symbols,
    psi(r) = 2/pi int gamma(k) (j0(k r) - 2 j1(k r) / (k r)) dk     of biharmonic ones.

It ends at the cut-off, later than the mollifier of points by the sum of the radii.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import spherical_jn

from parki.ewald.split.hasimoto import Factor, Split, horner_order, radial_series
from parki.ewald.split.prolate import chebyshev_series
from parki.ewald.split.quadrature import gauss
from parki.ewald.sums.pairs import RadialPolynomials
from parki.ewald.sums.symbols import Shell

Array = NDArray[np.float64]
LEAST = 2.5  # least cut-off, over the sum of the radii: polynomials of smaller ones lose digits
_GONE = 40.0  # exp(-40) is below rounding


@dataclass(frozen=True)
class OfPoints(Split):
    """A split that takes its mollifier and its band from the split of points, ``base``."""

    base: Split

    @property
    def name(self) -> str:
        """The name of the split of points."""
        return self.base.name

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


@dataclass(frozen=True)
class Shells(OfPoints):
    """The split of points ``base``, spread over and averaged over shells.

    Parameters
    ----------
    base : Split
        Its cut-off is the near field's less both radii.
    shells : tuple of 2 Shell
        The targets' and the sources'.
    order : int
        The symbol's: 1 harmonic, 2 biharmonic.
    """

    shells: tuple[Shell, Shell]
    order: int

    @property
    def reach(self) -> float:
        """Sum of the radii."""
        return self.shells[0].radius + self.shells[1].radius

    def scaled(self, factor: float) -> Shells:
        """Return the same split with all lengths multiplied by ``factor``."""
        one, other = (shell._replace(radius=shell.radius * factor) for shell in self.shells)
        return replace(self, base=self.base.scaled(factor), shells=(one, other))

    def of_points(self, rc: float) -> tuple[Split, float]:
        """Return the split of points, whose errors bound these, and its cut-off."""
        return self.base, rc - self.reach

    def factor(self, order: int) -> Factor:
        """Return the factor of points times the shells', as a polynomial in k^2."""
        given = self.base.factor(order)
        end = min(given.end, _GONE)

        def values(t: Array) -> Array:
            x = end * (t + 1) / 2
            polynomial = np.polyval(given.coefficients, x - given.shift)
            return np.asarray(polynomial * self._shape(np.sqrt(x / given.scale)))

        waves = int(math.sqrt(end / given.scale) * self.reach)
        series = _series(values, given.coefficients.size + 30 + waves)
        powers = horner_order(series, series.size - 1)
        powers *= (end / 2) ** -np.arange(series.size - 1.0, -1, -1)
        return Factor(powers, given.scale, end / 2, end, given.decays)

    def near(self, r: ArrayLike) -> tuple[Array, Array, Array, Array]:
        """Return what points have where they are as far from their end."""
        return self.base.near(np.asarray(r) - self.reach)

    def series(self, rc: float) -> RadialPolynomials:
        """Return Chebyshev series of the radial functions."""
        return _radial(self.scaled(1 / rc))

    def _shape(self, k: Array) -> Array:
        """Return what the shells multiply a mode by."""
        one, other = (
            _ball(k * shell.radius) if shell.turns else np.sinc(k * shell.radius / np.pi)
            for shell in self.shells
        )
        return np.asarray(one * other)


@lru_cache(maxsize=256)
def _radial(split: Shells) -> RadialPolynomials:
    """Radial functions for a cut-off of 1."""
    k, gamma = waves(split.base, split.order, 1 + split.reach)
    return of_waves(split.order, k, gamma * split._shape(k))


def waves(base: Split, order: int, reach: float) -> tuple[Array, Array]:
    """Return wavenumbers, and the factor of points times weights, for distances up to ``reach``."""
    given = base.factor(order)
    largest = math.sqrt(min(given.end, _GONE) / given.scale)
    x, weights = gauss(60 + int(largest * reach))
    k = largest * (x + 1) / 2
    return k, largest / 2 * weights * given.at(k**2)


def of_waves(order: int, k: Array, gamma: Array) -> RadialPolynomials:
    """Return radial functions for a cut-off of 1, by quadrature over wavenumbers."""

    def psi(s: Array) -> Array:
        z = np.sqrt((s + 1) / 2)[:, None] * k
        each = np.cos(z) / 2 if order == 1 else spherical_jn(0, z) - 2 / 3 * _ball(z)
        return np.asarray(2 / np.pi * each @ gamma)

    return radial_series(_series(psi, 40 + int(k[-1])))


def _ball(z: Array) -> Array:
    """Return ``3 j1(z) / z``."""
    small = np.minimum(z, 0.1) ** 2
    series = 1 - small / 10 * (1 - small / 28 * (1 - small / 54))
    return np.where(z < 0.05, series, 3 * spherical_jn(1, z) / np.maximum(z, 0.05))


def _series(function: Callable[[Array], Array], count: int) -> Array:
    """Return the Chebyshev series of a function on [-1, 1], down to rounding."""
    return chebyshev_series(function(np.cos(np.pi / (2 * count) * (2 * np.arange(count) + 1))))
