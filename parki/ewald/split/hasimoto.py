"""Hasimoto's split, with Gaussians that may end at the cut-off."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import dct
from scipy.special import erfc, gammaincc, ive

from parki.errors import ParkiValueError
from parki.ewald.split.protocol import Factor, Split
from parki.ewald.split.quadrature import balanced, gauss
from parki.ewald.split.radial_series import horner_order, radial_series
from parki.ewald.sums.tables import RadialTables

Array = NDArray[np.float64]
# A Gaussian ends smoothly: with this many derivatives, over about 1 / z of the square of the
# cut-off times the reciprocal of 1 + _FALL.
_DERIVATIVES, _FALL = 3, 0.3
# The far field is kept until its Gaussian is exp(-_BEYOND) times as large as at the cut-off.
_BEYOND = 3.0
_MIDDLE = 0.25  # of its polynomial, over where it ends
_NODES = 192  # of quadratures over the part of a Gaussian that is taken away


@dataclass(frozen=True)
class Hasimoto(Split):
    """Hasimoto's split, ``psi = xi / sqrt(pi) exp(-xi^2 r^2)``.

    Kosmacher, Du, Bagge, Biros (2026), equations (4) and (5b).

    With a cut-off psi ends there: it is multiplied by ``P(4, 1.3 xi^2 (rc^2 - r^2))``, the
    incomplete gamma function, and normalised. So the near field ends at the cut-off with all its
    derivatives, and the far field has the transform of what is left. What the pairs beyond the
    cut-off would add is left out of neither: only its modes beyond the grid are, which densities of
    one sign do not add up in. See "Near and far" of docs/theory.md.

    Parameters
    ----------
    xi : float
        Splitting parameter, in inverse length units.
    rc : float, optional
        Cut-off of the near field. Default: none, as the literature has it.
    """

    xi: float
    rc: float = math.inf

    @property
    def name(self) -> str:
        """``Hasimoto's split, xi = ...``."""
        return f"Hasimoto's split, xi = {self.xi:.4g}"

    def scaled(self, factor: float) -> Hasimoto:
        """Return the same split with all lengths multiplied by ``factor``."""
        return Hasimoto(self.xi / factor, self.rc * factor)

    @property
    def endless(self) -> Hasimoto:
        """The literature's split."""
        return Hasimoto(self.xi)

    @property
    def psi0(self) -> float:
        """The Gaussian at 0, in inverse length units."""
        return float(self.xi / np.sqrt(np.pi))

    @property
    def band(self) -> float:
        """Infinite: the far field decays like a Gaussian."""
        return float("inf")

    @property
    def background(self) -> float:
        """``4 pi a`` with ``a = 1 / (4 xi^2)``, in squared length units."""
        if math.isinf(self.rc):
            return float(np.pi / self.xi**2)
        return 4 * math.pi * self.rc**2 * _ended(self.xi * self.rc).spread

    def factor(self, order: int) -> Factor:
        """Return ``exp(-c)``, or ``(1 + c) exp(-c)``, with ``c = k^2 / (4 xi^2)``; or nearly so."""
        scale = 1 / (4 * self.xi**2)
        if math.isinf(self.rc):
            return Factor(np.ones(order), scale, 0.0, math.inf, True)
        ended = _ended(self.xi * self.rc)
        return Factor(ended.factors[order - 1], scale, _MIDDLE * ended.end, ended.end, True)

    def near(self, r: ArrayLike) -> tuple[Array, ...]:
        """Return ``erfc(xi r), -g, 2 xi^2 r g``, and three derivatives of this.

        These are the literature's, without an end.
        """
        r = np.asarray(r, dtype=np.float64)
        z2 = (self.xi * r) ** 2
        g = 2 * self.psi0 * np.exp(-z2)
        second = 2 * self.xi**2 * g
        fifth = -2 * self.xi**2 * r * (3 - 2 * z2) * second
        sixth = -2 * self.xi**2 * (3 - 12 * z2 + 4 * z2**2) * second
        return np.asarray(erfc(self.xi * r)), -g, r * second, (1 - 2 * z2) * second, fifth, sixth

    def series(self, rc: float) -> RadialTables:
        """Return Chebyshev series of the radial functions; refuse another cut-off than its own."""
        if math.isinf(self.rc):
            return radial_series(_gaussian(self.xi * rc))
        ends_at(rc, self.rc)
        return _ended(self.xi * self.rc).radial

    def tables(self, rc: float, degree: int) -> RadialTables:
        """Return the polynomials that pairs take, with exact integrals."""
        spread = self.background / (4 * math.pi * rc**2)
        return balanced(self.radial_polynomials(rc, degree), spread)


def ends_at(asked: float, rc: float) -> None:
    """Refuse another cut-off than a split's own."""
    if not math.isclose(asked, rc, rel_tol=1e-12):
        raise ParkiValueError(
            f"rc is {asked:g}, and the split ends at {rc:g}; give the split's cut-off"
        )


@lru_cache(maxsize=256)
def _gaussian(xi_rc: float) -> Array:
    """Chebyshev series of the Gaussian for a cut-off of 1, complete to double precision."""
    z = xi_rc**2 / 2
    # The coefficients of exp(-z (1 + s)) are (-1)^n exp(-z) I_n(z) ~ exp(-n^2 / 2z).
    n = np.arange(24 + int(10 * np.sqrt(z)))
    psi = 2 * xi_rc / np.sqrt(np.pi) * (-1.0) ** n * ive(n, z)
    psi[0] /= 2
    return np.asarray(psi)


class _Ended(NamedTuple):
    """What follows from the product of xi and the cut-off, for a Gaussian that ends at 1.

    Attributes
    ----------
    radial : RadialTables
        Chebyshev series of the radial functions.
    factors : tuple of 2 ndarrays
        `Factor.coefficients` of harmonic and of biharmonic symbols.
    end : float
        `Factor.end`.
    spread : float
        a of ``psi^ = 1 - a k^2 + ...``.
    """

    radial: RadialTables
    factors: tuple[Array, Array]
    end: float
    spread: float


@lru_cache(maxsize=256)
def _ended(xi_rc: float) -> _Ended:
    z = xi_rc**2
    # What is taken away of the Gaussian, over its value at the cut-off: h, from 0 to `last`.
    last, (x, weights) = math.sqrt(1 + 80 / z), gauss(_NODES)
    t = np.concatenate([(x + 1) / 2, 1 + (last - 1) * (x + 1) / 2])
    size = math.sqrt(z / math.pi)
    h = size * np.concatenate([weights, (last - 1) * weights]) / 2 * _taken(z, t)
    kept = 1 - 2 * math.exp(-z) * float(h.sum())
    spread = (1 / (4 * z) - math.exp(-z) * float(h @ t**2)) / kept

    psi = _gaussian(xi_rc).copy()
    s = np.cos(np.pi / (2 * psi.size) * (2 * np.arange(psi.size) + 1))
    lost = np.asarray(dct(_taken(z, np.sqrt((1 + s) / 2)))) * (size * math.exp(-z) / psi.size)
    lost[0] /= 2

    # The factor over exp(-c), with c = k^2 / 4 z, is of one size up to its end, and as far on the
    # other side of its middle, where k is imaginary. So its powers do not cancel.
    end, count = z + _BEYOND, 18 + int(7 * xi_rc)
    c = end * (_MIDDLE + (1 - _MIDDLE) * np.cos(np.pi / (2 * count) * np.arange(1, 2 * count, 2)))
    kt = 2 * np.multiply.outer(np.sqrt(z * c + 0j), t)
    cosine, sine = np.cos(kt).real, (kt / 2 * np.sin(kt)).real
    powers = (end * (1 - _MIDDLE)) ** -np.arange(count - 1.0, -1, -1)

    def factor(own: Array, waves: Array) -> Array:
        values = (own - 2 * np.exp(c - z) * (waves @ h)) / kept
        series = np.asarray(dct(values)) / count
        series[0] /= 2
        return powers * horner_order(series, count - 1)

    factors = factor(np.ones(count), cosine), factor(1 + c, cosine + sine)
    return _Ended(radial_series((psi - lost) / kept), factors, end, spread)


def _taken(z: float, t: Array) -> Array:
    """Return the part of ``exp(z (1 - t^2))`` that is taken away."""
    v = z * (1 - t**2)
    return np.asarray(np.exp(v) * gammaincc(_DERIVATIVES, (1 + _FALL) * np.maximum(v, 0)))
