"""The prolate split: a mollifier that ends at the cut-off, and whose transform nearly ends too.

The near field has no error of its own, and the far field ends at the wavenumber ``c / rc``. Among
all functions that end at rc the prolate one leaves least beyond.  The grid needs 2.5 to 5 times
fewer modes than with Hasimoto's split.  One number c sets the accuracy. It is taken from a discrete
set, so that results for a c are computed once.  `solve` finds the split of a given accuracy.

"Near and far" of docs/theory.md has the formulas. Dual-space multilevel kernel splitting (DMK) has
the same split; for Stokes see arXiv 2509.21471.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev, legendre
from numpy.typing import ArrayLike, NDArray
from scipy.fft import dct
from scipy.linalg import eigh_tridiagonal
from scipy.special import spherical_jn

from parki.errors import ParkiValueError
from parki.ewald.split.hasimoto import Hasimoto, ends_at
from parki.ewald.split.protocol import Factor, Split
from parki.ewald.split.quadrature import balanced, gauss
from parki.ewald.split.radial_series import chebyshev_series, horner_order, series_losses
from parki.ewald.sums.tables import RadialTables

Array = NDArray[np.float64]
SPLITS = ("hasimoto", "prolate")
# One step of c changes the error by 1.28, and costs on average 2 % more modes than needed.
STEP = 0.25
_LEAST, _MOST = 3.0, 60.0  # the error estimates hold from 3 on; exp(-60) is below all tolerances
# Least (xi rc)^2 of Hasimoto's split, by itself and over kappa rc: what ends at a smaller cut-off
# has a wider transform than the Gaussian, of which errors are estimated.
_LEAST_EXPONENT, _SCREENED_EXPONENT = 4.0, 0.75
_SCREENED = 10.0  # kappa rc from which on a split without an end saves most of the grid
# From here on exact integrals of the near field change its error by a fifth at most.
_LEAST_BALANCED = 6.0
_START = 20.0  # start of searches for c; an error of about 1e-4


@dataclass(frozen=True)
class Prolate(Split):
    """The prolate split, ``psi(r) = psi_0(r/rc) / (rc int psi_0)`` up to rc, and 0 beyond.

    ``psi_0`` is the prolate spheroidal wave function of order zero and bandwidth c.

    Parameters
    ----------
    c : float
        Product of the cut-off and the largest wavenumber of the far field; see `solve`.
    rc : float
        Cut-off of the near field.
    """

    c: float
    rc: float

    @property
    def name(self) -> str:
        """``prolate split, c = ...``."""
        return f"prolate split, c = {self.c:.4g}"

    def scaled(self, factor: float) -> Prolate:
        """Return the same split with all lengths multiplied by ``factor``."""
        return Prolate(self.c, self.rc * factor)

    @property
    def psi0(self) -> float:
        """Mollifier at 0, in inverse length units."""
        return _prolate(self.c).psi0 / self.rc

    @property
    def band(self) -> float:
        """Largest wavenumber ``c / rc`` of the far field."""
        return self.c / self.rc

    @property
    def background(self) -> float:
        """``4 pi a`` with ``psi^ = 1 - a k^2 + ...``, in squared length units."""
        return 2 * math.pi * _prolate(self.c).chi / self.band**2

    def factor(self, order: int) -> Factor:
        """Return ``psi_0(x)``, x = k / band, or ``psi_0 - x psi_0' / 2``; over ``psi_0(0)``."""
        return Factor(_prolate(self.c).gammas[order - 1], 2 / self.band**2, 1.0, 2.0, False)

    def near(self, r: ArrayLike) -> tuple[Array, ...]:
        """Return ``b', b'', ...`` up to rc, six of them, and 0 beyond."""
        t = np.asarray(r, dtype=np.float64) / self.rc
        inside = t <= 1
        t = np.where(inside, t, 1.0)
        s = 2 * t**2 - 1
        tables = _waves(self.c).map(lambda series: np.asarray(chebyshev.chebval(s, series)))
        both, mean = tables.flow, tables.smooth(0)
        slope, second, third, fourth = (tables.psi(n) for n in (1, 2, 3, 4))
        sixth = t**4 * fourth + 6 * t**2 * third + 3 * second
        return (
            np.where(inside, 1 - 2 * t * mean, 0.0),
            np.where(inside, 2 * (mean - both), 0.0) / self.rc,
            np.where(inside, -2 * t * slope, 0.0) / self.rc**2,
            np.where(inside, -2 * (slope + t**2 * second), 0.0) / self.rc**3,
            np.where(inside, -2 * t * (3 * second + t**2 * third), 0.0) / self.rc**4,
            np.where(inside, -2 * sixth, 0.0) / self.rc**5,
        )

    def series(self, rc: float) -> RadialTables:
        """Return Chebyshev series of the radial functions; refuse another cut-off than its own."""
        ends_at(rc, self.rc)
        return _waves(self.c)

    def tables(self, rc: float, degree: int) -> RadialTables:
        """Return the polynomials that pairs take, with exact integrals, unless c is small."""
        tables = self.radial_polynomials(rc, degree)
        if self.c < _LEAST_BALANCED:
            return tables
        return balanced(tables, self.background / (4 * math.pi * rc**2))

    def losses(self, rc: float, term: str) -> Array:
        """Return the errors of cutting the series, which depend on c alone."""
        self.series(rc)
        return _losses(self.c, term)


def solve(
    kind: str, rc: float, error: Callable[[Split], float], goal: float, screening: float = 0.0
) -> Split:
    """Find the split whose near field just meets a goal.

    Parameters
    ----------
    kind : {"hasimoto", "prolate"}
    rc : float
        Cut-off of the near field.
    error : callable
        ``error(split)`` must not exceed ``goal``; it falls with xi or c.
    goal : float
    screening : float
        The kappa of a screened sum.

    Returns
    -------
    Hasimoto
        The split whose error is within some percent of the goal, or less. It ends at the cut-off,
        unless the screening has ended the sum before.
    Prolate
        The split of the smallest c of the discrete set that meets the goal.
    """
    if kind == "prolate":
        return Prolate(_fewest(lambda n: error(Prolate(n * STEP, rc)) / goal) * STEP, rc)
    if kind != "hasimoto":
        raise ParkiValueError(f"split is {kind!r}; expected one of {', '.join(SPLITS)}")
    square = exponent(lambda x: error(Hasimoto(math.sqrt(x) / rc)), goal)
    least = max(_LEAST_EXPONENT, _SCREENED_EXPONENT * screening * rc)
    if square < least and screening * rc > _SCREENED:
        return Hasimoto(math.sqrt(square) / rc)
    return Hasimoto(math.sqrt(max(square, least)) / rc, rc)


def exponent(error: Callable[[float], float], goal: float) -> float:
    """Return x at which an error that falls like exp(-x) is within some percent of a goal."""
    x = 9.0
    for _ in range(12):
        step = math.log(max(error(x), 1e-300) / goal)
        x = min(max(x + max(-4.0, min(8.0, step)), 0.05), 60.0)
        if abs(step) < 0.02:
            break
    return x


def _fewest(error: Callable[[int], float]) -> int:
    """Return the fewest steps of c whose error, which falls about like exp(-c), is at most 1."""
    least, most = math.ceil(_LEAST / STEP), math.floor(_MOST / STEP)
    known: dict[int, float] = {}

    def logarithm(n: int) -> float:
        if n not in known:
            known[n] = math.log(max(error(n), 1e-300))
        return known[n]

    n = round(_START / STEP)
    for _ in range(3):
        n = min(max(n + math.ceil(logarithm(n) / STEP), least), most)
    while n < most and logarithm(n) > 0:
        n += 1
    while n > least and logarithm(n - 1) <= 0:
        n -= 1
    return n


class _Functions(NamedTuple):
    """Functions of c alone: Horner coefficients of factors, and numbers."""

    gammas: tuple[Array, Array]
    psi0: float
    chi: float


@lru_cache(maxsize=256)
def _losses(c: float, term: str) -> Array:
    return series_losses(_waves(c), term)


@lru_cache(maxsize=256)
def _prolate(c: float) -> _Functions:
    """All functions of wavenumbers, without dimensions."""
    terms, chi = legendre_series(c)
    count = 20 + int(4 * math.sqrt(c))
    # Chebyshev points of s = 2 t^2 - 1 by their angle; half of the angle belongs to t.
    t = np.cos(np.pi / (4 * count) * (2 * np.arange(count) + 1))
    psi = legendre.legval(t, terms)
    # The Legendre series is used since the Chebyshev series would lose digits at t = 1.
    slope_term = t / 2 * legendre.legval(t, legendre.legder(terms))
    psi0 = float(legendre.legval(0.0, terms))
    gammas = [chebyshev_series(f / psi0) for f in (psi, psi - slope_term)]
    harmonic, biharmonic = (horner_order(f, f.size - 1) for f in gammas)
    return _Functions((harmonic, biharmonic), psi0, chi)


@lru_cache(maxsize=256)
def _waves(c: float) -> RadialTables:
    """Return Chebyshev series of the radial functions, all of which are exact to rounding.

    psi_0 is its own transform: a sum of waves. Their derivatives lose no digits. A Chebyshev
    series does: after four derivatives eleven digits would be left, or fewer.
    """
    count = int(4.5 + 4.3 * math.sqrt(c))  # with which all of them have ended
    x, weights = gauss(2 * int(12 + 0.7 * c))
    terms, _ = legendre_series(c)
    weights = weights * legendre.legval(x, terms)
    k2 = (c * x) ** 2
    weights /= 2 * (weights @ np.sinc(c * x / np.pi))
    z = np.multiply.outer(np.cos(np.pi / (4 * count) * (2 * np.arange(count) + 1)), c * x)
    first, second, third = (spherical_jn(n, abs(z)) / abs(z) ** n for n in (1, 2, 3))
    mean, psi = np.sinc(z / np.pi) @ weights, np.cos(z) @ weights
    fields = RadialTables.of(
        flow=mean + psi,
        smooth=(mean, first @ (k2 * weights)),
        psi=(
            -(np.sinc(z / np.pi) @ (k2 * weights)),
            first @ (k2**2 * weights),
            -(second @ (k2**3 * weights)),
            third @ (k2**4 * weights),
        ),
    )
    series = dct(np.array([*fields.values()])) / count
    series[:, 0] /= 2
    return RadialTables(zip(fields, series, strict=True))


@lru_cache(maxsize=256)
def legendre_series(c: float) -> tuple[Array, float]:
    """Return the Legendre series of psi_0 on [-1, 1], with an integral of 1, and its eigenvalue.

    Its even coefficients are the eigenvector to the least eigenvalue chi of a tridiagonal matrix;
    chi is also ``-psi_0''(0) / psi_0(0)``, by the differential equation.
    """
    k = 2.0 * np.arange(24 + int(0.7 * c))
    diagonal = k * (k + 1) + c**2 * (2 * k * (k + 1) - 1) / ((2 * k + 3) * (2 * k - 1))
    i = k[:-1]
    beside = c**2 * (i + 2) * (i + 1) / ((2 * i + 3) * np.sqrt((2 * i + 1) * (2 * i + 5)))
    chi, vectors = eigh_tridiagonal(diagonal, beside, select="i", select_range=(0, 0))
    terms = np.zeros(2 * k.size - 1)
    terms[::2] = vectors[:, 0] * np.sqrt(k + 0.5)
    return terms / (2 * terms[0]), float(chi[0])
