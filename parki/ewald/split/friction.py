"""`Friction`: any split, for Brinkman's equation ``alpha^2 u - laplace u + grad p = 8 pi f``.

A force moves the fluid by ``8 pi (I - k k / k^2) / (k^2 + alpha^2)``. The mollifier multiplies it
by ``psi^ - beta k psi^' / 2``, where beta makes this 1 at ``k^2 = -alpha^2``. For alpha = 0 that is
the factor of Stokes' equations. So charges and screened charges of the mollifier have the
potentials of points beyond the cut-off, and so has the flow, which is made of both.

The smooth part of screened charges, Y with ``2 Y = exp(-alpha r) / r + beta psi`` at the cut-off,
solves ::

    Y'' + 2 Y' / r - alpha^2 Y = (1 + 3 beta / 2) R + beta r^2 W / 2

The tables of the flow follow without differences of nearly equal numbers, however small alpha is:
``3 T_0 + r T_0' = 2 Y``, and ``(2 n + 3) T_n + r T_n' = 2 Y_n``, where Y_n and T_n are -d/dr / r of
the ones before them. See "Brinkman's equation" of docs/theory.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.ewald.split.hasimoto import Factor, Split, series_losses, slope_over_r, solve_radial
from parki.ewald.split.of_points import OfPoints
from parki.ewald.split.screened import mollifier, smooth
from parki.ewald.sums.pairs import FrictionPolynomials, RadialPolynomials

Array = NDArray[np.float64]
# Least and largest alpha times the size of the box: powers of it are numbers in float32, too.
LEAST, MOST = 1e-8, 1e8
_LAYER = 300.0  # alpha times the cut-off from which on Y has no layer at the cut-off


def with_friction(split: Split, alpha: float) -> Split:
    """Return a split for Brinkman's equation, with alpha in the unit of the split.

    Raises
    ------
    ParkiValueError
    """
    if not LEAST <= alpha <= MOST:
        raise ParkiValueError(
            f"alpha times the size of the box is {alpha:g}; expected {LEAST:g} to {MOST:g}. Fluid "
            "without friction has the sums of stokes_sl; check the unit of alpha"
        )
    return Friction(split, alpha)


@dataclass(frozen=True)
class Friction(OfPoints):
    """A split for Brinkman's equation.

    Parameters
    ----------
    base : Split
        The split for Stokes' equations. Its errors are bounds: friction makes all fields smaller.
    friction : float
        alpha, in inverse length units.
    """

    friction: float = 0.0

    def scaled(self, factor: float) -> Friction:
        """Return the same split with all lengths multiplied by ``factor``."""
        return Friction(self.base.scaled(factor), self.friction / factor)

    @property
    def beta(self) -> float:
        """The part of the slope of the mollifier's transform, from 1 for alpha = 0 to 0."""
        bare: Any = self.base
        if math.isinf(getattr(bare, "rc", 0.0)):
            q = (self.friction / (2 * bare.xi)) ** 2
            return float(-math.expm1(-q) / q)
        return _beta(bare, self.friction)

    def factor(self, order: int) -> Factor:
        """Return the far-field factor, as a function of k^2."""
        plain, whole = self.base.factor(1), self.base.factor(2)
        terms = np.zeros(max(plain.coefficients.size, whole.coefficients.size))
        terms[terms.size - plain.coefficients.size :] += (1 - self.beta) * plain.coefficients
        terms[terms.size - whole.coefficients.size :] += self.beta * whole.coefficients
        return whole._replace(coefficients=terms)

    def series(self, rc: float) -> FrictionPolynomials:
        """Return Chebyshev series of the radial functions for the cut-off ``rc``."""
        scaled: Any = self.scaled(1 / rc)
        return _series(scaled)

    def losses(self, rc: float, term: str) -> Array:
        """Return the errors of a pair kernel by cutting the series; a pressure has no friction."""
        series = self.series(rc)
        losses = series_losses(RadialPolynomials(*series[:6], 0 * series.V), term)
        bare = self.base.losses(rc, term)
        losses[: bare.size] = np.maximum(losses[: bare.size], bare[: losses.size])
        return losses


@lru_cache(maxsize=1024)
def _beta(split: Any, alpha: float) -> float:
    """Return beta of a split that ends, ``2 int psi (cosh - 1) / int psi x sinh``, x = alpha r."""
    t, weights = mollifier(split.scaled(1 / float(split.rc)))
    x = alpha * float(split.rc) * t
    shift = np.exp(x - x.max())  # both over exp of the largest one
    above, odd = weights @ (shift * np.expm1(-x) ** 2), weights @ (-shift * x * np.expm1(-2 * x))
    return float(2 * above / odd)


@lru_cache(maxsize=256)
def _series(split: Friction) -> FrictionPolynomials:
    """Series for a cut-off of 1, complete to double precision."""
    z, beta = split.friction, split.beta
    bare = split.base.series(1.0)
    count = bare.R.size + 8 + int(6 * math.sqrt(min(z, _LAYER)))
    slope, second, third = (
        np.append(f, np.zeros(count - f.size)) for f in (bare.R, bare.W, bare.V)
    )

    def part(number: int, first: Array, after: Array) -> Array:
        """Return ``first + beta (number first + r^2 after) / 2``."""
        return np.asarray(first + beta / 2 * (number * first + _squared(after)))

    sources = part(3, slope, second), -part(5, second, third)
    # With Y_n' = -r Y_(n+1), Y_1 and Y_2 solve (2 n + 1) Y_n + r Y_n' = -(source + z^2 Y_(n-1)).
    edge = math.exp(-z) / 2 + beta / 2 * float((bare.S - bare.L).sum())
    y = _smooth(z, sources[0], edge)
    chain = [y]
    for n, source in enumerate((*sources, -slope_over_r(sources[1])), start=1):
        chain.append(solve_radial(2 * n + 1, -(source + z**2 * chain[-1])))
    tables = [2 * solve_radial(2 * n + 3, each) for n, each in enumerate(chain)]
    return FrictionPolynomials(
        S=2 * chain[0] - tables[0],
        X=tables[1],
        R=2 * (tables[1] - chain[1]),
        L=tables[0],
        W=2 * (chain[2] - tables[2]),
        V=2 * (tables[3] - chain[3]),
        P=bare.X - beta / 2 * bare.R,
        Q=solve_radial(5, bare.W) + beta / 2 * bare.W,
        O=-solve_radial(7, bare.V) - beta / 2 * bare.V,
        K=np.array([z]),
    )


def _smooth(z: float, source: Array, edge: float) -> Array:
    """Return the series of Y, of which the Laplacian less z^2 is a source; ``edge`` is Y(1)."""
    if z <= _LAYER:
        return smooth(z, source, edge)
    y = -source / z**2
    for _ in range(8):
        slope = slope_over_r(y)
        y = (3 * slope + _squared(slope_over_r(slope)) - source) / z**2
    return np.asarray(y)


def _squared(series: Array) -> Array:
    """Return the series of a function times r^2, of the same length."""
    product = series / 2
    product[:-1] += series[1:] / 4
    product[1:] += series[:-1] / 4
    product[1] += series[0] / 4
    return np.asarray(product)
