"""Kernels that fade beyond all pairs: their values where they fade, and the mode k = 0.

With k the wavenumber in the n free directions, K that in the periodic ones, kappa^2 = K^2 + k^2 and
L = K^2 - Laplacian, the kernel p of Laplace and m of Stokes obey ``L p = 4 pi delta``, ``L m = l``
and ``L l = 8 pi delta``. They fade by ``chi = erfc(steepness t) / 2``, where t is -1 at ``onset``
and 1 at ``radius``.

    periodic directions   p                     m                                l
    0                     1/r                   R/2 + r^2/(2R) - r               2 p - 3/R
    1, K > 0              2 K0(K r)             2 r K1(K r) / K                  2 p
    1, K = 0              -2 ln(r/R)            r^2 (ln(r/R) - 1/2) + R^2/2      2 p - 2
    2, K > 0              (2 pi/K) e^(-Kr)      (2 pi/K^3)(1 + K r) e^(-Kr)      2 p
    2, K = 0              2 pi (R - r)          none: l / kappa^2 is             2 p
                                                the velocity's own kernel

Where K R is small, m is nearly a constant, whose fading would show as rounding: with K > 0 it fades
not to zero but to its value c in the middle of the fading, ``chi (m - c) + c``. A constant is the
mode k = 0 alone.

Screened kernels have ``K^2 + screening^2`` in place of K^2: ``p = e^(-Kr) / r`` in space, and never
the case K = 0. In a plane and along a line their p fades to a constant, as m does.

With Brinkman's alpha ``(L + alpha^2) m = l`` and ``l = 2 p``, except for constants: see
`parki.ewald.far.brinkman`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.special import digamma, gamma, gammainc, k0, k1

from parki.ewald.far import brinkman
from parki.ewald.far.padding import FAINT, Padding

Array = NDArray[np.float64]
_SLOPES = 32  # values of m' whose integral is m: 1e-16 where the fading is as steep as that


def zero_mode(order: int, periodicity: int, padding: Padding, screening: float = 0.0) -> float:
    """Return the integral of the faded kernel of the mode k = 0, which `truncated` leaves out.

    It is the one of Laplace's potential, screened or not, or of the velocity along the plane of a
    2-periodic box; of other velocities it is 0.
    """
    if order == 2 and periodicity != 2:
        return 0.0
    if screening:
        return order * _screened_zero_mode(3 - periodicity, padding, screening)
    fading = fading_nodes(0.0, padding)
    r, radius = fading.r, padding.radius
    # By parts, with the integral of the kernel over a ball.
    ball = (
        lambda: 2 * np.pi * r**2,
        lambda: 2 * np.pi * r**2 * (0.5 - np.log(r / radius)),
        lambda: 2 * np.pi * r * (2 * radius - r),
    )[periodicity]()
    return -float(ball @ fading.slope) * order


def _screened_zero_mode(n: int, padding: Padding, kappa: float) -> float:
    """Return the integral of the faded kernel of screened charges along n free axes, at k = 0."""
    fading = fading_nodes(0.0, padding)
    r, radius = fading.r, padding.radius
    # The integral over a ball, over 4 pi / kappa^2.
    ball = (-np.expm1(-kappa * r), _disc(kappa * r), gammainc(2, kappa * r))[n - 1]
    integral = -4 * np.pi / kappa**2 * float(ball @ fading.slope)
    if n < 3:
        middle = r[r.size // 2]
        one = np.ones(1)
        value, _, _ = _laplace(n, one > 0, kappa * one, middle, radius)
        chi = -float((2 * r if n == 1 else np.pi * r**2) @ fading.slope)
        integral += float(value[0]) * (padding.period**n - chi)
    return integral


def _disc(x: Array) -> Array:
    """Return the integral of ``t K0(t)`` from 0 to x, ``1 - x K1(x)``, without cancellation."""
    y, n = np.minimum(x / 2, 1.0) ** 2, np.arange(15)[:, None]
    logarithm = digamma(n + 1) + digamma(n + 2) - np.log(y)
    series = y ** (n + 1) / (gamma(n + 1) * gamma(n + 2)) * logarithm
    return np.asarray(np.where(x < 2, series.sum(axis=0), 1 - x * k1(x)))


class FadingNodes(NamedTuple):
    """Where the kernels fade: distances r, and ``chi' dr`` there."""

    r: Array
    slope: Array


@lru_cache(maxsize=8)
def fading_nodes(largest: float, padding: Padding) -> FadingNodes:
    """Return equidistant nodes, which integrate a Gaussian times waves up to ``largest``.

    They go on a little before the onset and after the radius: chi is not cut off there.
    """
    end = np.sqrt(padding.steepness**2 + FAINT)
    scale = fading_length(padding)
    half = int(end * (largest * scale + 2 * end) / (2 * np.pi)) + 1
    t = end * np.arange(-half, half + 1) / half
    slope = -np.exp(-(t**2)) / np.sqrt(np.pi) * (end / half)
    r = (padding.onset + padding.radius) / 2 + scale * t
    return FadingNodes(r, slope)


def fading_length(padding: Padding) -> float:
    """Return the length r over which chi' falls by e, as ``exp(-(r / scale)^2)``."""
    return (padding.radius - padding.onset) / (2 * padding.steepness)


class FadingKernels(NamedTuple):
    """The integrands of F[p], or of F[l] and F[m - c], shape (2 nodes, modes); c; and K^2 c.

    `parki.ewald.far.truncated` says what F is.

    First those by which the waves are multiplied, then those for the slopes of the waves.
    """

    first: Array
    second: Array | None
    constant: Array
    level: Array


def fading_kernels(
    order: int, n: int, modes: Array, largest: float, padding: Padding, screening: float
) -> FadingKernels:
    """Return the kernels of modes of wavenumber ``modes`` along the periodic directions."""
    fading, radius = fading_nodes(largest, padding), padding.radius
    r, positive = fading.r[:, None], modes > 0
    safe = np.where(positive, modes, 1.0)

    def integrand(value: Array, slope: Array) -> Array:
        weight = fading.slope[:, None] * r ** (n - 1)
        slope, value = np.broadcast_arrays(slope, value)
        return np.concatenate([weight * slope, -weight * value])

    p, slope, less = _laplace(n, positive, safe, r, radius)
    if order == 1 and (n == 3 or not screening):
        return FadingKernels(integrand(p, slope), None, np.zeros(modes.size), np.zeros(modes.size))
    # m - c, or p - c, from the slope, free of the cancellation that c is for.
    middle, half = r[r.size // 2], (r[-1] - r[0]) / 2
    places, integral = _integral(r.size)
    if order == 1:
        c, _, _ = _laplace(n, positive, safe, middle, radius)
        _, slopes, _ = _laplace(n, positive, safe, middle + half * places, radius)
        c = np.asarray(c).ravel()
        rest = half * (integral @ slopes)
        return FadingKernels(integrand(rest, slope), None, c, modes**2 * c)
    if screening:

        def m_slope(r: Array) -> Array:
            return brinkman.slope(n, modes, screening, r)

        m = brinkman.value(n, modes, screening, float(middle[0]), radius)  # times K^2 + alpha^2
        less, square = np.where(positive, 0.0, m), modes**2 + screening**2
        constant = np.where(positive, m / square, 0.0)
        offset = np.zeros(modes.size)
    else:

        def m_slope(r: Array) -> Array:
            return _stokes_slope(n, positive, safe, r, radius)

        m, square = _stokes(n, positive, safe, middle, radius), modes**2
        constant = np.where(positive, m, 0.0)
        offset = m - constant
    rest = half * (integral @ m_slope(middle + half * places))
    return FadingKernels(
        integrand(2 * p - less, 2 * slope),
        integrand(rest + offset, m_slope(r)),
        constant,
        square * constant,
    )


def _laplace(
    n: int, positive: NDArray[np.bool_], k: Array, r: Array, radius: float
) -> tuple[Array, Array, Any]:
    """Return p, p' and 2 p - l at distances r, shape (nodes, 1), of modes k."""
    if n == 3:
        x = np.where(positive, k * r, 0.0)
        decay = np.exp(-x)
        return decay / r, -(1 + x) * decay / r**2, 3 / radius
    if n == 2:
        p = np.where(positive, 2 * k0(k * r), -2 * np.log(r / radius))
        return p, np.where(positive, -2 * k * k1(k * r), -2 / r), np.where(positive, 0.0, 2.0)
    slope = -2 * np.pi * np.where(positive, np.exp(-k * r), 1.0)
    return np.where(positive, -slope / k, 2 * np.pi * (radius - r)), slope, 0.0


def _stokes(n: int, positive: NDArray[np.bool_], k: Array, r: Array, radius: float) -> Array:
    """Return m."""
    if n == 3:
        return np.asarray((radius - r) ** 2 / (2 * radius))
    if n == 2:
        zero = r**2 * (np.log(r / radius) - 0.5) + radius**2 / 2
        return np.where(positive, 2 * r * k1(k * r) / k, zero)
    return np.where(positive, 2 * np.pi / k**3 * (1 + k * r) * np.exp(-k * r), 0.0)


def _stokes_slope(n: int, positive: NDArray[np.bool_], k: Array, r: Array, radius: float) -> Array:
    """Return m'."""
    if n == 3:
        return r / radius - 1
    if n == 2:
        return np.where(positive, -2 * r * k0(k * r), 2 * r * np.log(r / radius))
    return np.where(positive, -2 * np.pi * r / k * np.exp(-k * r), 0.0)


@lru_cache(maxsize=8)
def _integral(count: int) -> tuple[Array, Array]:
    """Return places in [-1, 1], shape (n, 1), and a matrix (count, n).

    It turns values there into the integral from 0 to ``count`` equidistant places.
    """
    places = chebyshev.chebpts1(_SLOPES)
    series = chebyshev.chebvander(places, _SLOPES - 1).T * (2 / _SLOPES)
    series[0] /= 2
    ends = chebyshev.chebvander(np.linspace(-1, 1, count), _SLOPES)
    return places[:, None], np.asarray(ends @ chebyshev.chebint(series, lbnd=0), dtype=np.float64)
