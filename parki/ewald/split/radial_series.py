"""Chebyshev series of the radial functions of the pair kernels, which `RadialTables` has.

With r over rc, ``y = 1/r``, ``e = r/|r|`` (r = target - source)::

    Laplace       (1/rc)   [ (y - 2 T_0) q ]
    single layer  (1/rc)   [ (y - 2 S) f + (y - 2 T_1 r^2) (f.e) e ]
    double layer  (1/rc^2) [ -2 psi_1 r ((q.n) e + (n.e) q + (q.e) n)
                             + (-6 y^2 + (4 psi_1 + 12 T_1) r) (q.e) (n.e) e ]
    rotlet        (1/rc^2) [ (y^2 - 2 T_1 r) t x e ]

where ``(r T_0)' = psi``, ``T_{n+1} = -T_n' / r``, ``psi_{n+1} = psi_n' / r``, and S is
``2 T_0 - r^2 T_1 = T_0 + psi``. These are polynomials in ``s = 2 r^2 - 1``. Gradients and pressures
follow from ``T_1' = -(psi_1 + 3 T_1) / r`` and ``S' = r (psi_1 - T_1)``: psi_2 is the only other
polynomial that they need, and psi_3 and psi_4 are for derivatives of doublets, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.fft import dct

from parki.ewald.sums import term_of
from parki.ewald.sums.tables import RadialTables
from parki.typing import AnyArray

Array = NDArray[np.float64]


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
