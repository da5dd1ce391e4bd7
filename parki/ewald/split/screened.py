"""`Screened`: any split, for charges whose potential is ``exp(-kappa r) / r``.

Outside of a mollified charge, the screened potential is N times the potential of a point charge,
where N is the transform of the mollifier at ``k^2 = -kappa^2``. So the far field is the potential
of the mollifier over N, ``4 pi / (k^2 + kappa^2) psi^(k) / N``, and the near field ends where the
mollifier ends. With ``h(r) / r`` the near field, ``2 T_0 = (exp(-kappa r) - h) / r`` solves

    T_0'' + 2 T_0' / r - kappa^2 T_0 = psi' / (r N) ,

which determines it by its value at the cut-off. See "Screened charges" of docs/theory.md.

T_0 is smooth in r^2. The pair function takes the exponential: strong screening leaves so little of
1/r that a polynomial in place of it would round by far more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfc, erfcx

from parki.errors import ParkiValueError
from parki.ewald.split.hasimoto import Hasimoto
from parki.ewald.split.of_points import OfPoints
from parki.ewald.split.protocol import Factor, Split
from parki.ewald.split.quadrature import gauss
from parki.ewald.split.radial_series import series_losses, slope_over_r, solve_radial
from parki.ewald.sums import term_of
from parki.ewald.sums.tables import SCREENING, RadialTables, Table

Array = NDArray[np.float64]
# kappa times the largest cut-off: exp(-45) is below rounding.
REACH = 45.0
_GONE = 1e-16  # below this amplitude there is no far field
# Least kappa over the box, so that the mode k = 0, 4 pi / kappa^2, is finite in float32; and the
# largest one, by which charges feel each other only where rounding makes them one.
_LEAST, _MOST = 1e-15, 1e15
_NODES = 100


def screened(split: Split, kappa: float) -> Split:
    """Return a split of screened charges, or the split itself for a kappa of 0.

    Parameters
    ----------
    split : Split
    kappa : float
        In the unit of the split, which is about the size of the box.
    """
    if 0 < kappa < _LEAST:
        raise ParkiValueError(
            f"kappa times the size of the box is {kappa:g}; expected at least {_LEAST:g}. Charges "
            "that add up to zero are not screened then: take laplace"
        )
    if kappa > _MOST:
        raise ParkiValueError(
            f"kappa times the size of the box is {kappa:g}; expected at most {_MOST:g}. Charges do "
            "not feel each other beyond that: check the unit of kappa"
        )
    return Screened(split, kappa) if kappa else split


@dataclass(frozen=True)
class Screened(OfPoints):
    """A split for screened charges.

    Parameters
    ----------
    base : Split
        The split without screening.
    screening : float
        kappa, in inverse length units.
    """

    screening: float = 0.0

    @property
    def amplitude(self) -> float:  # type: ignore[override]
        """1 / N; 0 if it is below rounding."""
        if isinstance(self.base, Hasimoto) and math.isinf(self.base.rc):
            return _kept(math.exp(-((self.screening / self.base.xi) ** 2) / 4))
        return _compact(self.base, self.screening)

    def scaled(self, factor: float) -> Screened:
        """Return the same split with all lengths multiplied by ``factor``."""
        return Screened(self.base.scaled(factor), self.screening / factor)

    @property
    def background(self) -> float:
        """The mode k = 0, ``-4 pi / (kappa^2 N)``: see `Split`."""
        return -4 * math.pi * self.amplitude / self.screening**2

    def factor(self, order: int) -> Factor:
        """Return the factor as a function of ``k^2 + kappa^2``."""
        bare, amplitude = self.base.factor(order), self.amplitude
        if amplitude == 0:
            return bare._replace(coefficients=np.zeros(1))
        more = bare.scale * self.screening**2
        if bare.decays:
            amplitude *= math.exp(more)  # exp(-(k^2 + kappa^2) / 4 xi^2) has about 1 / N
        terms = amplitude * bare.coefficients
        return Factor(terms, bare.scale, bare.shift + more, bare.end + more, bare.decays)

    def near(self, r: ArrayLike) -> tuple[Array, Array, Array, Array]:
        """Return ``h, h', h'', h'''``."""
        r = np.asarray(r, dtype=np.float64)
        _, _, third, fourth, *_ = self.base.near(r)
        if isinstance(self.base, Hasimoto):  # without an end
            h, slope = _gaussian(self.base.xi, self.screening, r)
        else:
            h, slope = self._within(r)
        square, a = self.screening**2, self.amplitude
        return h, slope, square * h + a * third, square * slope + a * fourth

    def _within(self, r: Array) -> tuple[Array, Array]:
        """Return h and h' of a split that ends."""
        rc = float(self.base.rc)  # type: ignore[attr-defined]
        t = np.minimum(r / rc, 1.0)
        series = self.series(rc)
        mean, slope = (2 * chebyshev.chebval(2 * t**2 - 1, series.smooth(n)) for n in (0, 1))
        z, inside = float(series[SCREENING][0]), r < rc
        fallen = np.exp(-z * t)
        h = np.where(inside, fallen - t * mean, 0.0)
        return h, np.where(inside, t**2 * slope - mean - z * fallen, 0.0) / rc

    def series(self, rc: float) -> RadialTables:
        """Return Chebyshev series of the smooth part in ``2 (r/rc)^2 - 1``."""
        return _series(self.scaled(1 / rc))

    def losses(self, rc: float, term: str) -> Array:
        """Return bounds of the errors of cutting the series at each degree, shape (n,)."""
        tables, power = self.series(rc), term_of(term).power
        kept = 2 * np.abs(tables.smooth(min(power, 2) - 1))
        if power > 2:  # of the second derivatives, which take 3 T_1 + psi_1 at most
            kept = 4 * kept + 2 * np.abs(tables.psi(1))
        return np.append(np.cumsum(kept[:0:-1])[::-1], 0.0)


def _kept(amplitude: float) -> float:
    return amplitude if amplitude > _GONE else 0.0


@lru_cache(maxsize=1024)
def _compact(split: Any, kappa: float) -> float:
    """Return 1 / N, with ``N = 2 int_0^rc psi cosh(kappa r)``, without large numbers."""
    rc = float(split.rc)
    t, weights = mollifier(split.scaled(1 / rc))
    z = kappa * rc
    return _kept(math.exp(-z) / float(weights @ (np.exp(z * (t - 1)) + np.exp(-z * (t + 1)))))


@lru_cache(maxsize=256)
def mollifier(split: Split) -> tuple[Array, Array]:
    """Return Gauss nodes on [0, 1], and weights times psi there, for a cut-off of 1."""
    x, w = gauss(_NODES)
    series, t = split.series(1.0), (x + 1) / 2
    return t, w / 2 * chebyshev.chebval(2 * t**2 - 1, series.flow - series.smooth(0))


def _gaussian(xi: float, kappa: float, r: Array) -> tuple[Array, Array]:
    """Return h and h' by Hasimoto's split, at any distance."""
    a, b = kappa / (2 * xi), xi * r
    gauss = np.exp(-(b**2) - a**2)
    # exp(kappa r) erfc(b + a) and exp(-kappa r) erfc(b - a)
    plus = gauss * erfcx(b + a)
    minus = np.where(b > a, gauss * erfcx(np.maximum(b - a, 0)), np.exp(-kappa * r) * erfc(b - a))
    slope = kappa / 2 * (plus - minus) - 2 * xi / math.sqrt(math.pi) * gauss
    return (plus + minus) / 2, slope


@lru_cache(maxsize=256)
def _series(split: Screened) -> RadialTables:
    """Series for a cut-off of 1, complete to double precision."""
    z, a = split.screening, split.amplitude
    beyond = 0.0
    if isinstance(split.base, Hasimoto) and math.isinf(split.base.rc):
        beyond = float(_gaussian(split.base.xi, z, np.ones(1))[0][0])
    source = split.base.series(1.0).psi(1)
    count = source.size + 8 + int(6 * math.sqrt(z))
    source = np.append(a * source, np.zeros(count - source.size))
    mean = smooth(z, source, (math.exp(-z) - beyond) / 2)
    bend = source + z**2 * mean
    slope = solve_radial(3, -bend)
    smooth_parts, bends = (_whole(mean), _whole(slope)), (_whole(bend),)
    return RadialTables.of(smooth=smooth_parts, psi=bends) | {SCREENING: np.array([z])}


def smooth(z: float, source: Array, edge: float) -> Array:
    """Return the series of T_0, whose Laplacian less z^2 is a source; at 1 it is ``edge``."""
    # In r^2: T_0 = edge + int_r^1 r T_1, where (r^3 T_1)' = -r^2 (source + z^2 T_0).
    count = source.size
    inner = solve_radial(3, np.eye(count))
    integral: Any = chebyshev.chebint(inner, lbnd=1)[:count] / 4
    at_one = np.zeros(count)
    at_one[0] = edge
    return np.asarray(np.linalg.solve(np.eye(count) - z**2 * integral, at_one + integral @ source))


def _whole(series: Array) -> Array:
    """Return a series with zeros for its last coefficients, if they are of rounding alone."""
    size = np.abs(series)
    return np.where(np.cumsum(size[::-1])[::-1] > 1.5e-16 * size.sum(), series, 0.0)


# Least and largest alpha times the size of the box: powers of it are numbers in float32, too.
LEAST, MOST = 1e-8, 1e8
_LAYER = 300.0  # alpha times the cut-off from which on Y has no layer at the cut-off


def brinkman_split(split: Split, alpha: float) -> Split:
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
    return BrinkmanSplit(split, alpha)


@dataclass(frozen=True)
class BrinkmanSplit(OfPoints):
    """A split for Brinkman's equation, ``alpha^2 u - laplace u + grad p = 8 pi f``.

    A force moves the fluid by ``8 pi (I - k k / k^2) / (k^2 + alpha^2)``. The mollifier multiplies
    it by ``psi^ - beta k psi^' / 2``, where beta makes this 1 at ``k^2 = -alpha^2``. For alpha = 0
    that is the factor of Stokes' equations. So charges and screened charges of the mollifier have
    the potentials of points beyond the cut-off, and so has the flow, which is made of both.

    The smooth part of screened charges, Y with ``2 Y = exp(-alpha r) / r + beta psi`` at the
    cut-off, solves ::

        Y'' + 2 Y' / r - alpha^2 Y = (1 + 3 beta / 2) psi_1 + beta r^2 psi_2 / 2

    The tables of the flow follow without differences of nearly equal numbers, however small alpha
    is: ``3 T_0 + r T_0' = 2 Y``, and ``(2 n + 3) T_n + r T_n' = 2 Y_n``, where Y_n and T_n are
    -d/dr / r of the ones before them. See "Brinkman's equation" of docs/theory.md.

    Parameters
    ----------
    base : Split
        The split for Stokes' equations. Its errors are bounds: friction makes all fields smaller.
    alpha : float
        alpha, in inverse length units.
    """

    alpha: float = 0.0

    def scaled(self, factor: float) -> BrinkmanSplit:
        """Return the same split with all lengths multiplied by ``factor``."""
        return BrinkmanSplit(self.base.scaled(factor), self.alpha / factor)

    @property
    def beta(self) -> float:
        """The part of the slope of the mollifier's transform, from 1 for alpha = 0 to 0."""
        bare: Any = self.base
        if math.isinf(getattr(bare, "rc", 0.0)):
            q = (self.alpha / (2 * bare.xi)) ** 2
            return float(-math.expm1(-q) / q)
        return _beta(bare, self.alpha)

    def factor(self, order: int) -> Factor:
        """Return the far-field factor, as a function of k^2."""
        plain, whole = self.base.factor(1), self.base.factor(2)
        terms = np.zeros(max(plain.coefficients.size, whole.coefficients.size))
        terms[terms.size - plain.coefficients.size :] += (1 - self.beta) * plain.coefficients
        terms[terms.size - whole.coefficients.size :] += self.beta * whole.coefficients
        return whole._replace(coefficients=terms)

    def series(self, rc: float) -> RadialTables:
        """Return Chebyshev series of the radial functions for the cut-off ``rc``."""
        return _brinkman_series(self.scaled(1 / rc))

    def losses(self, rc: float, term: str) -> Array:
        """Return the errors of a pair kernel by cutting the series; a pressure has no friction."""
        series = self.series(rc)
        slopes = [series.psi(n) for n in (1, 2, 3)]
        flow = RadialTables.of(
            flow=series.flow,
            smooth=(series.smooth(0), series.smooth(1)),
            psi=(*slopes, 0 * slopes[-1]),
        )
        losses = series_losses(flow, term)
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
def _brinkman_series(split: BrinkmanSplit) -> RadialTables:
    """Series for a cut-off of 1, complete to double precision."""
    z, beta = split.alpha, split.beta
    bare = split.base.series(1.0)
    psi1, psi2, psi3 = (bare.psi(n) for n in (1, 2, 3))
    count = psi1.size + 8 + int(6 * math.sqrt(min(z, _LAYER)))
    slope, second, third = (np.append(f, np.zeros(count - f.size)) for f in (psi1, psi2, psi3))

    def part(number: int, first: Array, after: Array) -> Array:
        """Return ``first + beta (number first + r^2 after) / 2``."""
        return np.asarray(first + beta / 2 * (number * first + _squared(after)))

    sources = part(3, slope, second), -part(5, second, third)
    # With Y_n' = -r Y_(n+1), Y_1 and Y_2 solve (2 n + 1) Y_n + r Y_n' = -(source + z^2 Y_(n-1)).
    edge = math.exp(-z) / 2 + beta / 2 * float((bare.flow - bare.smooth(0)).sum())
    y = _smooth(z, sources[0], edge)
    chain = [y]
    for n, source in enumerate((*sources, -slope_over_r(sources[1])), start=1):
        chain.append(solve_radial(2 * n + 1, -(source + z**2 * chain[-1])))
    tables = [2 * solve_radial(2 * n + 3, each) for n, each in enumerate(chain)]
    flow = RadialTables.of(
        flow=2 * chain[0] - tables[0],
        smooth=tables[:2],
        psi=(2 * (tables[1] - chain[1]), 2 * (chain[2] - tables[2]), 2 * (tables[3] - chain[3])),
    )
    return flow | {
        Table("pressure", 1): bare.smooth(1) - beta / 2 * psi1,
        Table("pressure", 2): solve_radial(5, psi2) + beta / 2 * psi2,
        Table("pressure", 3): -solve_radial(7, psi3) - beta / 2 * psi3,
        SCREENING: np.array([z]),
    }


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
