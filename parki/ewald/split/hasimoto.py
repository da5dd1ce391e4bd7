"""The splits that divide a kernel into the near and the far field.

A split is one even mollifier psi with unit integral.  The near field is made of
``b' = 1 - 2 int_0^r psi``, ``b'' = -2 psi`` and so on; the far field multiplies the free-space
symbols by ``gamma``: the transform psi^ for Laplace and the rotlet, ``psi^ - k psi^' / 2`` for the
layers.  This module gives the exact functions for the error estimates, and polynomials for the P2P
kernel, which never evaluates erfc or exp.  The choice of parameters gives it ``xi`` and ``rc``.
`parki.ewald.split.prolate` has the other split.

The pair kernel, with r over rc, ``y = 1/r``, ``e = r/|r|`` (r = target - source)::

    Laplace       (1/rc)   [ (y - 2 T_0) q ]
    single layer  (1/rc)   [ (y - 2 S) f + (y - 2 T_1 r^2) (f.e) e ]
    double layer  (1/rc^2) [ -2 psi_1 r ((q.n) e + (n.e) q + (q.e) n)
                             + (-6 y^2 + (4 psi_1 + 12 T_1) r) (q.e) (n.e) e ]
    rotlet        (1/rc^2) [ (y^2 - 2 T_1 r) t x e ]

where ``(r T_0)' = psi``, ``T_{n+1} = -T_n' / r``, ``psi_{n+1} = psi_n' / r``, and S is
``2 T_0 - r^2 T_1 = T_0 + psi``. These are polynomials in ``s = 2 r^2 - 1``, which `RadialTables`
has. Gradients and pressures follow from ``T_1' = -(psi_1 + 3 T_1) / r`` and
``S' = r (psi_1 - T_1)``: psi_2 is the only other polynomial that they need, and psi_3 and psi_4 are
for derivatives of doublets, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike, NDArray
from scipy.fft import dct
from scipy.special import erfc, gammaincc, ive

from parki.errors import ParkiValueError
from parki.ewald.split.quadrature import balanced, gauss
from parki.ewald.sums import term_of
from parki.ewald.sums.tables import RadialTables
from parki.typing import AnyArray

Array = NDArray[np.float64]
# A Gaussian ends smoothly: with this many derivatives, over about 1 / z of the square of the
# cut-off times the reciprocal of 1 + _FALL.
_DERIVATIVES, _FALL = 3, 0.3
# The far field is kept until its Gaussian is exp(-_BEYOND) times as large as at the cut-off.
_BEYOND = 3.0
_MIDDLE = 0.25  # of its polynomial, over where it ends
_NODES = 192  # of quadratures over the part of a Gaussian that is taken away


class Factor(NamedTuple):
    """The far field's factor gamma in a form that kernels evaluate.

    It is the polynomial of these ``coefficients`` (highest power first) in ``scale k^2 - shift``,
    times ``exp(-scale k^2)`` if it ``decays``. It is 0 where ``scale k^2`` is beyond ``end``.
    """

    coefficients: Array
    scale: float
    shift: float
    end: float
    decays: bool

    def at(self, k2: AnyArray) -> Any:
        """Return the factor at squared wavenumbers ``k2``.

        Terms of the polynomial are at most as large as its value at k = 0: powers lose nothing.
        """
        x = np.asarray(k2) * self.scale
        value = np.polyval(self.coefficients, np.minimum(x, self.end) - self.shift)
        return value * (np.exp(-x) if self.decays else 1.0) * (x <= self.end)


class Split(Protocol):
    """Functions of a split that the near field, the far field and the error estimates need.

    Attributes
    ----------
    screening : float
        The kappa of a screened split, which takes ``k^2 + kappa^2`` in place of k^2.
    alpha : float
        The alpha of Brinkman's equation, which takes ``k^2 + alpha^2`` in place of one k^2 of two.
    amplitude : float
        The far field at k^2 = 0, over the kernel's own; less than 1 if it is screened.
    """

    screening: float = 0.0
    alpha: float = 0.0
    amplitude: float = 1.0

    def __hash__(self) -> int:  # in dataclasses by their values
        return id(self)

    @property
    def name(self) -> str:
        """Name of the split, with its parameter."""

    @property
    def bare(self) -> Split:
        """The split without its screening."""
        return self

    @property
    def endless(self) -> Split:
        """The split of which errors are estimated: without the end of a Gaussian's near field."""
        return self

    def scaled(self, factor: float) -> Split:
        """Return the same split with all lengths multiplied by ``factor``."""

    @property
    def psi0(self) -> float:
        """Mollifier at 0; a coinciding pair contributes -4 psi0 f (Stokes), -2 psi0 q (Laplace)."""

    @property
    def band(self) -> float:
        """Largest wavenumber of the far field; infinite if it only decays."""

    @property
    def background(self) -> float:
        """``4 pi a``: a triply periodic potential gets ``-4 pi a / V sum(q)``."""

    def factor(self, order: int) -> Factor:
        """Return the far-field factor of symbols of an order: 1 harmonic, 2 biharmonic."""

    def felt(self, order: int, k2: Array) -> Array:
        """Return the size of the largest factor of modes, for the errors of grid and window."""
        return np.asarray(np.abs(self.endless.factor(order).at(k2)))

    def enlarged(self, term: str, rc: float) -> tuple[float, float]:
        """Return how many times larger the near field's error is than of points: rms and peak."""
        return 1.0, 1.0

    def of_points(self, rc: float) -> tuple[Split, float]:
        """Return the split, and its cut-off, whose errors bound the errors of this one."""
        return self, rc

    def near(self, r: ArrayLike) -> tuple[Array, ...]:
        """Return residual derivatives ``b', b'', ...`` at distances ``r``, up to the fifth."""

    def series(self, rc: float) -> RadialTables:
        """Return Chebyshev series of the radial functions for the cut-off ``rc``."""

    def losses(self, rc: float, term: str) -> Array:
        """Return the errors of a pair kernel by cutting the series: see `series_losses`."""
        return series_losses(self.series(rc), term)

    def radial_polynomials(self, rc: float, degree: int) -> RadialTables:
        """Return polynomials of the near kernel's smooth parts in powers of s, highest first."""
        return self.series(rc).map(lambda series: horner_order(series[: degree + 1], degree))

    def tables(self, rc: float, degree: int) -> RadialTables:
        """Return the polynomials that pairs take: see `parki.ewald.split.quadrature`."""
        return self.radial_polynomials(rc, degree)

    def polynomial_degree(self, term: str, rc: float, tolerance: float) -> int:
        """Return the smallest degree whose pair kernel is within a tolerance on ``0 < r <= rc``.

        Parameters
        ----------
        term : str
            A name in `parki.ewald.sums.TERMS`.
        rc : float
            Cut-off of the near field; for the prolate split its own.
        tolerance : float
            Tolerance in units of 1/rc to the power of the term.
        """
        enough = self.losses(rc, term) < tolerance
        return int(np.nonzero(~enough)[0][-1]) + 1 if not enough.all() else 0


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


def radial_functions(r: Array, derivatives: Iterable[Array]) -> RadialTables:
    """Radial functions of the pair kernel with these four or six derivatives of the residual."""
    b1, b2, b3, b4, *more = derivatives
    b5, b6 = more or (0.0, 0.0)
    mean, psi, slope = -b1 / (2 * r), -b2 / 2, -b3 / (2 * r)
    r2 = r * r
    second = -(b4 / 2 + slope) / r2
    third = -(b5 / (2 * r) + 3 * second) / r2
    fourth = -(b6 / (2 * r2) + 6 * third + 3 * second / r2) / r2
    return RadialTables.of(
        flow=mean + psi, smooth=(mean, (mean - psi) / r2), psi=(slope, second, third, fourth)
    )


def radial_series(psi: Array) -> RadialTables:
    """Chebyshev series of all radial functions from the mollifier's, for any split.

    ``(r T_0)' = psi`` and ``(r^3 T_1)' = -r^2 psi_1`` become, in s, ``2 (1 + s) F' + m F = G`` with
    m = 1 and 3. They are solved for coefficients: nothing is divided by a small r.

    Parameters
    ----------
    psi : ndarray, shape (n,)
        Chebyshev coefficients of ``rc psi`` in ``s = 2 (r/rc)^2 - 1``, down to rounding.
    """
    mean, slopes = solve_radial(1, psi), [slope_over_r(psi)]
    for _ in range(3):
        slopes.append(slope_over_r(slopes[-1]))
    return RadialTables.of(flow=mean + psi, smooth=(mean, solve_radial(3, -slopes[0])), psi=slopes)


def slope_over_r(f: Array) -> Array:
    """Chebyshev coefficients of ``F'/r``, the derivative by r, of the same length."""
    slope = np.zeros_like(f)
    slope[:-1] = 4 * chebyshev.chebder(f)
    return slope


def solve_radial(m: int, g: Array) -> Array:
    """Chebyshev coefficients of the smooth solution F of ``2 (1 + s) F' + m F = G``."""
    f = np.zeros_like(g)
    # Downwards from a vanishing tail, the singular solution (1 + s)^(-m/2) cannot grow.
    d0 = d1 = 0.0  # coefficients n and n + 1 of F', where d[n-1] = d[n+1] + 2 n f[n]
    for n in range(len(g) - 1, 0, -1):
        f[n] = (g[n] - 2 * (d0 + d1)) / (2 * n + m)
        d0, d1 = d1 + 2 * n * f[n], d0
    f[0] = (g[0] - d0 - d1) / m  # the zeroth terms count half
    return f


def horner_order(series: AnyArray, degree: int) -> Array:
    """Return power coefficients, highest first, of Chebyshev series up to a degree."""
    out = np.zeros((degree + 1, *series.shape[1:]))
    out[: len(series)] = monomials(len(series)) @ series
    return out[::-1].copy()


def chebyshev_series(values: Array) -> Array:
    """Chebyshev series from the values at the Chebyshev points, largest point first."""
    series = np.asarray(dct(values)) / len(values)
    series[0] /= 2
    # Coefficients below rounding would spoil the powers of s: T_n has large coefficients.
    size = np.abs(series)
    return series[: int(np.nonzero(size > 1.5e-16 * size.sum())[0][-1]) + 1]


@lru_cache(maxsize=64)
def monomials(terms: int) -> NDArray[Any]:
    """Return the matrix from Chebyshev to monomial coefficients, lowest first; whole numbers.

    They are in extended precision where it exists.
    """
    matrix = np.zeros((terms, terms), dtype=np.longdouble)
    matrix[0, 0] = 1
    if terms > 1:
        matrix[1, 1] = 1
    for n in range(2, terms):
        matrix[1:, n] = 2 * matrix[:-1, n - 1]
        matrix[:, n] -= matrix[:, n - 2]
    return matrix


def series_losses(series: RadialTables, term: str) -> Array:
    """Return the error of the pair kernel by cutting the series at each degree, shape (n,).

    The size of an error is as in `parki.ewald.sums.ErrorTerm` and the error estimates; the largest
    one over r/rc in (0, 1] counts.
    """
    s, lost = tails(series)
    squares = term_of(term).square((1 + s) / 2, lost)
    return np.asarray(np.sqrt(squares.max(axis=1)))


def tails(series: RadialTables) -> tuple[Array, RadialTables]:
    """Return places s, and what cutting each series leaves out there: by row, of each degree."""
    s, basis = _sample_basis(max(map(len, series.values())))

    def tail(c: Array) -> Array:
        """Row n: the error of keeping the coefficients 0..n."""
        sums = np.cumsum((c[:, None] * basis)[::-1], axis=0)[::-1]
        sums[:-1] = sums[1:]
        sums[-1] = 0.0
        return sums

    return s, series.map(tail)


@lru_cache(maxsize=64)
def _sample_basis(terms: int) -> tuple[Array, Array]:
    """Points of s in [-1, 1], dense at the ends, and the Chebyshev polynomials there by row."""
    s = np.cos(np.linspace(0, np.pi, 97))
    return s, np.ascontiguousarray(chebyshev.chebvander(s, terms - 1).T)
