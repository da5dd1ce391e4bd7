"""The window that carries sources to the grid and the grid to targets, in grid units.

It computes the Kaiser-Bessel window, its derivative, its Fourier transform, and the piecewise
polynomials that the P2G and G2P kernels evaluate instead of Bessel functions. The error estimates
take from it the images of grid modes that the window lets through.  The choice of parameters gives
the number of points and the shape. `parki.ewald.split.windows` has other windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike, NDArray
from scipy.special import i0e

from parki.ewald.split.radial_series import horner_order
from parki.runtime.forks import cached_property
from parki.typing import AnyArray

Array = NDArray[np.float64]
_NEAREST = (0, -1, 1, -2, 2)  # images of a mode that are computed one by one
_FARTHEST = 24  # images up to this one are summed by their leading term


def default_degree(points: int) -> int:
    """Degree of the window's polynomials at which their error no longer shows in the far field.

    The error repeats from cell to cell, so it falls into the aliased modes, which the split damps.
    A far lower degree suffices than the maximum norm suggests.

    Parameters
    ----------
    points : int
        Window points P per axis.
    """
    return (points + 1) // 2 + 2


def transform_shape(ak: Array, beta: Array | np.float64) -> Array:
    """``exp(-beta) sinh(t) / t``, ``t^2 = beta^2 - ak^2``: the transform up to its constant.

    Parameters
    ----------
    ak, beta : ndarray, float64, of shapes that broadcast
        Half width times wavenumber, and the shape of the window.
    """
    t2 = (beta - ak) * (beta + ak)  # the product avoids cancellation at ak = beta
    t = np.sqrt(np.abs(t2))
    growing = t2 > 0
    decay = np.exp(np.where(growing, t, 0.0) - beta)
    # The exponential of sinh is taken out, so that large beta does not overflow.
    wave = np.where(growing, -0.5 * np.expm1(-2 * t), np.sin(t))
    return np.divide(wave, t, out=np.ones_like(t), where=t > 0) * decay


class Window(Protocol):
    """A window over ``points`` grid points per axis (grid spacing 1), as grids use it."""

    @property
    def points(self) -> int:
        """Grid points P under the window along one axis."""

    @property
    def degree(self) -> int:
        """Default degree of the polynomials of `piecewise`."""

    def fourier(self, k: ArrayLike) -> Array:
        """Fourier transform ``integral w(r) exp(-i k r) dr``, ``k`` in radians per grid step."""

    def piecewise(self, degree: int) -> tuple[Array, Array]:
        """One polynomial per window point: see `KaiserBessel.piecewise`."""


@dataclass(frozen=True)
class KaiserBessel:
    """Kaiser-Bessel window of ``points`` grid points per axis (grid spacing 1).

    ``w(r) = I0(beta sqrt(1 - (r/a)^2)) / I0(beta)`` for ``|r| <= a = points / 2``, and 0 outside;
    Kosmacher, Du, Bagge, Biros (2026), equation (9); Bagge & Tornberg (2023), section 4.5.

    Parameters
    ----------
    points : int
        Number P of grid points under the window along one axis.
    beta : float
        Shape.  The best one grows with the grid's refinement: from 2.1 P on the coarsest grid that
        holds the kernel to 2.8 P on one twice as fine. Found by
        `parki.ewald.split.estimates.WindowErrors`.
    """

    points: int
    beta: float

    @cached_property
    def degree(self) -> int:
        """See `default_degree`."""
        return default_degree(self.points)

    def fourier(self, k: ArrayLike) -> Array:
        """Fourier transform ``integral w(r) exp(-i k r) dr``, ``k`` in radians per grid step.

        ``(2 a / I0(beta)) sinh(t) / t`` with ``t^2 = beta^2 - (a k)^2``, which is ``sin(t) / t``
        where ``a k`` exceeds ``beta``.
        """
        ak = self.points / 2 * np.asarray(k, dtype=np.float64)
        scale = float(self.points / i0e(self.beta))
        return scale * transform_shape(ak, np.float64(self.beta))

    def piecewise(self, degree: int) -> tuple[Array, Array]:
        """One polynomial per window point, for the window and for its derivative.

        A point at grid coordinate ``t`` takes P grid points from ``floor(t)`` on. The p-th one has
        the window at ``r = p - (P/2 - 1) - frac``, ``frac = t - floor(t)``: the coordinates are
        shifted by P/2 - 1 steps, equally for sources and targets.  The polynomials take
        ``s = 2 frac - 1``, in [-1, 1].  Kosmacher, Du, Bagge, Biros (2026), section 4 and Figure 3.

        Parameters
        ----------
        degree : int
            See `default_degree`.

        Returns
        -------
        w, dw : ndarray, shape (degree + 1, points), float64, not to be changed
            Coefficients, highest power first (Horner's order), of ``w(r)`` and of ``dw/dr``.  The
            derivative is interpolated by itself: differentiating ``w`` would lose one order.  For
            every s the sum over the points is the window's integral, and zero for the derivative.
            For this the window is scaled, and a multiple of it is subtracted from the derivative.
        """
        value, slope, _ = _piecewise(self.points, self.beta, degree)
        return value, slope

    def curvature(self, degree: int) -> Array:
        """Return the polynomials of ``d^2 w / dr^2``, in the form of `piecewise`, with sum zero."""
        return _piecewise(self.points, self.beta, degree)[2]


@lru_cache(maxsize=64)
def _piecewise(points: int, beta: float, degree: int) -> tuple[Array, ...]:
    half_width = points / 2
    scale = 1 / _bessel_series(np.array([beta], dtype=np.longdouble) ** 2 / 4)[0][0]

    def sample(r: AnyArray) -> tuple[Any, ...]:
        x = r / half_width
        value, slope, curvature = _bessel_series(beta**2 * (1 - x) * (1 + x) / 4)
        inner = -(beta**2) * x / (2 * half_width)  # the derivative of the series' argument
        curvature = curvature * inner**2 - slope * beta**2 / (2 * half_width**2)
        return scale * value, scale * slope * inner, scale * curvature

    return fit(points, degree, sample, points * scale * np.sinh(np.longdouble(beta)) / beta)


def fit(
    points: int, degree: int, sample: Callable[[Any], tuple[Any, ...]], integral: Any
) -> tuple[Array, ...]:
    """Interpolate a window and its derivatives on its points: see `KaiserBessel.piecewise`.

    ``sample(r)`` returns all of them at r. The fit is in extended precision where it exists: errors
    of a few roundings, the same for all sources, show in modes of small wavenumber (a 2-periodic
    box of 1:1:10 at 1e-12).
    """
    n = degree + 1
    nodes = np.cos(np.pi * (np.arange(n, dtype=np.longdouble) + 0.5) / n)
    r = np.arange(points) - (points / 2 - 1) - (nodes[:, None] + 1) / 2
    basis = chebyshev.chebvander(nodes, degree)
    norm = np.where(np.arange(n) == 0, 1.0, 2.0)[:, None] / np.longdouble(n)
    value, *derivatives = sample(r)
    # The samples of the window sum only nearly to its integral, and the samples of its derivatives
    # to zero. Charges and stresses would put the remainder into modes that are constant across the
    # box, where the far field is largest.
    value = value * (integral / value.sum(axis=1, keepdims=True))
    kept = [d - value * (d.sum(axis=1) / value.sum(axis=1))[:, None] for d in derivatives]
    return tuple(horner_order(norm * (basis.T @ f), degree) for f in (value, *kept))


def _bessel_series(y: AnyArray) -> tuple[Any, Any, Any]:
    """``I0(z)`` and two derivatives by ``y = z^2 / 4 >= 0``, in the precision of ``y``."""
    value, slope, curvature = (np.zeros_like(y) for _ in range(3))
    term, k = np.ones_like(y), 0
    while float(term.max()) > 1e-24 * float(value.max()):
        value += term
        slope += term / (k + 1)
        curvature += term / ((k + 1) * (k + 2))
        k += 1
        term = term * y / k**2
    return value, slope, curvature


class ModeImages(NamedTuple):
    """Images of the modes of one axis, in grid units: by window (row) and mode (column).

    ``rho``, ``slope`` (b of `images`) and ``curvature`` (c) are signed and have the images as first
    axis; ``slope_rest`` and ``curvature_rest`` bound what far images add.
    """

    rho: Array
    slope: Array
    rho_square: Array
    rho_size: Array
    slope_square: Array
    slope_rest: Array
    curvature: Array
    curvature_square: Array
    curvature_rest: Array


def images(k: Array, windows: Sequence[tuple[int, float]]) -> ModeImages:
    """Weights of the images of modes: the nearest ones exactly, the far ones in closed form.

    On the grid k is the same as ``k + 2 pi m``, to which the window gives the weight
    ``rho = w^(k + 2 pi m) / w^(k)``.  The window's gradient carries ``rho k + b`` where exactly k
    is wanted.  The window ends with a jump, ``w(a) = 1 / I0(beta)``, and the samples of its
    derivative do not contain it. They carry ``(k + 2 pi m) w^(k + 2 pi m) - 2 w(a) sin(a k)``,
    which is not k even at m = 0. (For odd P all of this changes sign where m is odd.) The window's
    second derivative carries ``rho k^2 + c`` for k^2; its samples do not contain the derivative's
    jump either.

    Parameters
    ----------
    k : ndarray, shape (modes,), float64
        Wavenumbers in [0, pi], in radians per grid step.
    windows : sequence of (points, beta)
        Kaiser-Bessel windows.
    """
    p, beta = (column[:, None] for column in np.array(windows, dtype=np.float64).T)
    own = transform_shape(p / 2 * k, beta)
    edge = np.exp(-beta) / (p / 2 * own)  # 2 w(a) / w^(k)
    sine = np.sin(p / 2 * k)
    shifts = 2 * np.pi * np.array(_NEAREST, dtype=np.float64)[:, None, None]
    rho = transform_shape(p / 2 * np.abs(k + shifts), beta) / own
    rho[0] = 0.0  # the mode itself is no error of the window
    b = shifts * rho - edge * sine
    # (k + K)^2 rho - k^2 rho, less twice the jumps w(a) (k + K) sin(a k) and w'(a) cos(a k), where
    # w'(a) = -beta^2 / (2 a) w(a), and w''(a) as here, over w(a).
    drop, second = beta**2 / p, beta**4 / (2 * p**2) - 2 * beta**2 / p**2
    cosine = np.cos(p / 2 * k)
    c = shifts * (2 * k + shifts) * rho - edge * ((k + shifts) * sine - drop * cosine)
    # Image m has sin(t) for sin(a k), where t lags behind a k by nearly the same at all modes.
    m = np.arange(max(_NEAREST) + 1, _FARTHEST)
    lag = np.pi * p * m - np.sqrt((np.pi * p * m) ** 2 - beta**2)
    beyond = lag[:, -1] ** 2 * m[-1] ** 2 / (m[-1] + 0.5)  # the lag falls as 1/m
    sin2, cos2 = sine**2, 1 - sine**2

    def pairs(of_sine: Array, of_cosine: Array) -> Array:
        """Sum over the far m and -m, from the factors of sin(a k)^2 and cos(a k)^2."""
        return np.asarray(2 * edge**2 * (sin2 * of_sine[:, None] + cos2 * of_cosine[:, None]))

    wave = np.square([np.cos(lag), np.sin(lag)]) / (2 * np.pi * m) ** 2
    of_sine, of_cosine = wave.sum(axis=2)
    rho_far = pairs(of_sine, of_cosine)
    b_far = pairs(((1 - np.cos(lag)) ** 2).sum(axis=1), (np.sin(lag) ** 2).sum(axis=1) + beyond)
    # Largest ratio of the far images' sum to its rms over offsets from the grid, as measured.
    crest = 4 + 0.35 * p
    # Far images of the second derivative, by its leading term 2 w''(a) sin(a k) / (k + 2 pi m).
    # Their sum is a sawtooth without its first harmonics, whose crest is 3.5.
    c_far = 2 * (second * edge * sine) ** 2 * (1 / (2 * np.pi * m) ** 2).sum()
    return ModeImages(
        rho=rho,
        slope=b,
        rho_square=(rho**2).sum(axis=0) + rho_far,
        rho_size=np.abs(rho).sum(axis=0) + crest * np.sqrt(rho_far),
        slope_square=(b**2).sum(axis=0) + b_far,
        slope_rest=crest * np.sqrt(b_far),
        curvature=c,
        curvature_square=(c**2).sum(axis=0) + c_far,
        curvature_rest=4 * np.sqrt(c_far),
    )
