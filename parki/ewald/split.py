"""How a kernel is divided between the near and the far field.

A split is one even mollifier psi with unit integral.  The near field is made of
``b' = 1 - 2 int_0^r psi``, ``b'' = -2 psi`` and ``b''' = -2 psi'``; the far field multiplies the
free-space symbols by ``gamma``: the transform psi^ for Laplace, ``psi^ - k psi^' / 2`` for Stokes.
This module gives the exact functions for the error estimates, and polynomials for the P2P kernel,
which never evaluates erfc or exp.  It takes ``xi`` and ``rc`` from ``parameters`` and knows nothing
of grids or devices.

The pair kernel, with ``R = r/rc``, ``y = 1/R``, ``e = r/|r|`` (r = target - source)::

    Laplace       (1/rc)   [ (y - 2 L) q ]
    single layer  (1/rc)   [ (y - 2 S) f + (y - 2 X R^2) (f.e) e ]
    double layer  (1/rc^2) [ -2 R' R ((q.n) e + (n.e) q + (q.e) n)
                             + (-6 y^2 + (4 R' + 12 X) R) (q.e) (n.e) e ]

where L, S, X and R' (field ``R`` of `RadialPolynomials`) are polynomials in ``s = 2 R^2 - 1``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfc, ive

from parki.errors import ParkiValueError

Array = NDArray[np.float64]
KERNELS = ("laplace", "stokes_sl", "stokes_dl")


class RadialPolynomials(NamedTuple):
    """Smooth parts of the near kernels in ``s = 2 (r/rc)^2 - 1``, made dimensionless with rc.

    With ``int_0^r psi = r P``, ``psi = Q``, ``psi' = r R`` and ``X = (P - Q)/r^2``, each field is
    a 1-D float64 array of coefficients: ``S = rc (P + Q)``, ``X = rc^3 X``, ``R = rc^3 R``,
    ``L = rc P``.
    """

    S: Array
    X: Array
    R: Array
    L: Array


class Split(Protocol):
    """What the near field, the far field and the error estimates ask of a split."""

    @property
    def psi0(self) -> float:
        """Mollifier at 0; a coinciding pair contributes -4 psi0 f (Stokes), -2 psi0 q (Laplace)."""

    @property
    def laplace_background(self) -> float:
        """``4 pi a``: a triply periodic potential gets ``-4 pi a / V sum(q)``."""

    def gamma_stokes(self, k2: Any) -> Any:
        """Far-field factor of the Stokes symbols at squared wavenumber ``k2`` (NumPy or CuPy)."""

    def gamma_laplace(self, k2: Any) -> Any:
        """Far-field factor of the Laplace symbol at squared wavenumber ``k2``."""

    def near(self, r: ArrayLike) -> tuple[Array, Array, Array]:
        """Residual derivatives ``b', b'', b'''`` at distances ``r``."""

    def radial_polynomials(self, rc: float, degree: int) -> RadialPolynomials:
        """Polynomials of the near kernel for the cut-off ``rc``."""


@dataclass(frozen=True)
class Hasimoto:
    """Hasimoto's split, ``psi = xi / sqrt(pi) exp(-xi^2 r^2)``.

    Kosmacher, Du, Bagge, Biros (2026), equations (4) and (5b).

    Parameters
    ----------
    xi : float
        Splitting parameter, in inverse length units.
    """

    xi: float

    @property
    def psi0(self) -> float:
        """Mollifier at 0, in inverse length units."""
        return float(self.xi / np.sqrt(np.pi))

    @property
    def laplace_background(self) -> float:
        """``4 pi a`` with ``a = 1 / (4 xi^2)``, in squared length units."""
        return float(np.pi / self.xi**2)

    def gamma_stokes(self, k2: Any) -> Any:
        """``(1 + c) exp(-c)``, ``c = k2 / (4 xi^2)``."""
        c = k2 / (4 * self.xi**2)
        return (1 + c) * np.exp(-c)

    def gamma_laplace(self, k2: Any) -> Any:
        """``exp(-c)``, ``c = k2 / (4 xi^2)``."""
        return np.exp(k2 / (-4 * self.xi**2))

    def near(self, r: ArrayLike) -> tuple[Array, Array, Array]:
        """Residual derivatives ``b' = erfc(xi r)``, ``b'' = -g``, ``b''' = 2 xi^2 r g``."""
        r = np.asarray(r, dtype=np.float64)
        g = 2 * self.psi0 * np.exp(-((self.xi * r) ** 2))
        return np.asarray(erfc(self.xi * r)), -g, 2 * self.xi**2 * r * g

    def radial_polynomials(self, rc: float, degree: int) -> RadialPolynomials:
        """Coefficients in powers of ``s``, highest first, of the near kernel's smooth parts.

        Parameters
        ----------
        rc : float
            Cut-off of the near field, in the unit of ``1 / xi``.
        degree : int
            Degree of all four polynomials, see `radial_degree`.
        """
        return horner_polynomials(_hasimoto_series(self.xi * rc), degree)

    @staticmethod
    def radial_degree(kernel: str, xi_rc: float, tolerance: float) -> int:
        """Smallest degree whose pair kernel is within ``tolerance`` on ``0 < r <= rc``.

        Parameters
        ----------
        kernel : {"laplace", "stokes_sl", "stokes_dl"}
        xi_rc : float
            Product of the splitting parameter and the cut-off.
        tolerance : float
            In units of 1/rc (1/rc^2 for the double layer); see `series_degree`.
        """
        return series_degree(_hasimoto_series(float(xi_rc)), kernel, tolerance)


@lru_cache(maxsize=256)
def _hasimoto_series(xi_rc: float) -> RadialPolynomials:
    """Chebyshev series of Hasimoto's radial functions, complete to double precision."""
    z = xi_rc**2 / 2
    # The coefficients of exp(-z (1 + s)) are (-1)^n exp(-z) I_n(z) ~ exp(-n^2 / 2z).
    n = np.arange(24 + int(10 * np.sqrt(z)))
    psi = 2 * xi_rc / np.sqrt(np.pi) * (-1.0) ** n * ive(n, z)
    psi[0] /= 2
    return radial_series(psi)


def radial_series(psi: Array) -> RadialPolynomials:
    """Chebyshev series of S, X, R, L from that of the mollifier, for any split.

    ``(r P)' = psi`` and ``(r^3 X)' = -r^2 R`` become, in s, ``2 (1 + s) F' + m F = G`` with m = 1
    and 3: solved in coefficients, so that nothing is divided by a small r.

    Parameters
    ----------
    psi : ndarray, shape (n,)
        Chebyshev coefficients of ``rc psi`` in ``s = 2 (r/rc)^2 - 1``, down to rounding.
    """
    slope = np.zeros_like(psi)
    slope[:-1] = 4 * chebyshev.chebder(psi)
    mean = _solve_radial(1, psi)
    return RadialPolynomials(S=mean + psi, X=_solve_radial(3, -slope), R=slope, L=mean)


def _solve_radial(m: int, g: Array) -> Array:
    """Chebyshev coefficients of the smooth solution F of ``2 (1 + s) F' + m F = G``."""
    f = np.zeros_like(g)
    # Downwards from a vanishing tail: the singular solution (1 + s)^(-m/2) cannot grow that way.
    d0 = d1 = 0.0  # coefficients n and n + 1 of F', where d[n-1] = d[n+1] + 2 n f[n]
    for n in range(len(g) - 1, 0, -1):
        f[n] = (g[n] - 2 * (d0 + d1)) / (2 * n + m)
        d0, d1 = d1 + 2 * n * f[n], d0
    f[0] = (g[0] - d0 - d1) / m  # the zeroth terms count half
    return f


def horner_polynomials(series: RadialPolynomials, degree: int) -> RadialPolynomials:
    """Chebyshev series cut at ``degree``, as coefficients of powers of s, highest first."""
    cut = []
    for c in series:
        head = np.zeros(degree + 1)
        monomials = chebyshev.cheb2poly(c[: degree + 1])
        head[: len(monomials)] = monomials  # cheb2poly drops trailing zeros
        cut.append(head[::-1].copy())
    return RadialPolynomials(*cut)


def series_degree(series: RadialPolynomials, kernel: str, tolerance: float) -> int:
    """Smallest degree at which the cut series keep the pair kernel within ``tolerance``.

    The size of an error is its Frobenius norm averaged over the directions of the densities (and
    normals), ``|K| / sqrt(3)`` or ``|K| / 3``, as in the error estimates: what a density of unit
    norm feels in the mean square.  Largest value over r/rc in (0, 1].
    """
    if kernel not in KERNELS:
        raise ParkiValueError(f"kernel is {kernel!r}; expected one of {', '.join(KERNELS)}")
    s, basis = _sample_basis(len(series.S))
    r2 = (1 + s) / 2

    def tails(c: Array) -> Array:
        """Row n: what is lost by keeping the coefficients 0..n."""
        sums = np.cumsum((c[:, None] * basis)[::-1], axis=0)[::-1]
        sums[:-1] = sums[1:]
        sums[-1] = 0.0
        return sums

    if kernel == "laplace":
        square = 4 * tails(series.L) ** 2
    elif kernel == "stokes_sl":
        across = 2 * tails(series.S)
        along = across + 2 * r2 * tails(series.X)
        square = (2 * across**2 + along**2) / 3
    else:
        slope, cross = tails(series.R), tails(series.X)
        c, d = -2 * slope, 4 * slope + 12 * cross
        square = r2 * (15 * c**2 + 6 * c * d + d**2) / 9
    enough = np.sqrt(square.max(axis=1)) < tolerance
    return int(np.nonzero(~enough)[0][-1]) + 1 if not enough.all() else 0


@lru_cache(maxsize=64)
def _sample_basis(terms: int) -> tuple[Array, Array]:
    """Points of s in [-1, 1], dense at the ends, and the Chebyshev polynomials there by row."""
    s = np.cos(np.linspace(0, np.pi, 97))
    return s, np.ascontiguousarray(chebyshev.chebvander(s, terms - 1).T)
