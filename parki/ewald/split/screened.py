"""`Screened`: any split, for charges whose potential is ``exp(-kappa r) / r``.

Outside of a mollified charge, the screened potential is N times the potential of a point charge,
where N is the transform of the mollifier at ``k^2 = -kappa^2``. So the far field is the potential
of the mollifier over N, ``4 pi / (k^2 + kappa^2) psi^(k) / N``, and the near field ends where the
mollifier ends. With ``h(r) / r`` the near field, ``2 L = (exp(-kappa r) - h) / r`` solves

    L'' + 2 L' / r - kappa^2 L = psi' / (r N) ,

which determines it by its value at the cut-off. See "Screened charges" of docs/theory.md.

L is smooth in r^2. The pair function takes the exponential: strong screening leaves so
little of 1/r that a polynomial in place of it would round by far more.
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
from parki.ewald.split.hasimoto import Factor, Hasimoto, Split, solve_radial
from parki.ewald.split.of_points import OfPoints
from parki.ewald.split.quadrature import gauss
from parki.ewald.sums import term_of
from parki.ewald.sums.pairs import ScreenedPolynomials

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
        bare: Any = self.base
        return _compact(bare, self.screening)

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
        mean, slope, _, number = self.series(rc)
        mean, slope = (2 * chebyshev.chebval(2 * t**2 - 1, f) for f in (mean, slope))
        z, inside = float(number[0]), r < rc
        fallen = np.exp(-z * t)
        h = np.where(inside, fallen - t * mean, 0.0)
        return h, np.where(inside, t**2 * slope - mean - z * fallen, 0.0) / rc

    def series(self, rc: float) -> ScreenedPolynomials:
        """Return Chebyshev series of the smooth part in ``2 (r/rc)^2 - 1``."""
        scaled: Any = self.scaled(1 / rc)
        return _series(scaled)

    def losses(self, rc: float, term: str) -> Array:
        """Return bounds of the errors of cutting the series at each degree, shape (n,)."""
        tables, power = self.series(rc), term_of(term).power
        kept = 2 * np.abs(tables[min(power, 2) - 1])
        if power > 2:  # of the second derivatives, which take 3 X + R at most
            kept = 4 * kept + 2 * np.abs(tables.R)
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
def mollifier(split: Any) -> tuple[Array, Array]:
    """Return Gauss nodes on [0, 1], and weights times psi there, for a cut-off of 1."""
    x, w = gauss(_NODES)
    series, t = split.series(1.0), (x + 1) / 2
    return t, w / 2 * chebyshev.chebval(2 * t**2 - 1, series.S - series.L)


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
def _series(split: Screened) -> ScreenedPolynomials:
    """Series for a cut-off of 1, complete to double precision."""
    z, a = split.screening, split.amplitude
    beyond = 0.0
    if isinstance(split.base, Hasimoto) and math.isinf(split.base.rc):
        beyond = float(_gaussian(split.base.xi, z, np.ones(1))[0][0])
    source = split.base.series(1.0).R
    count = source.size + 8 + int(6 * math.sqrt(z))
    source = np.append(a * source, np.zeros(count - source.size))
    mean = smooth(z, source, (math.exp(-z) - beyond) / 2)
    bend = source + z**2 * mean
    slope = solve_radial(3, -bend)
    return ScreenedPolynomials(_whole(mean), _whole(slope), _whole(bend), np.array([z]))


def smooth(z: float, source: Array, edge: float) -> Array:
    """Return the series of L, of which the Laplacian less z^2 is a source; ``edge`` is L(1)."""
    # In r^2: L = L(1) - int_r^1 L', where L' = -r X and (r^3 X)' = -r^2 (source + z^2 L).
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
