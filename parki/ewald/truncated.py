"""Multipliers of kernels that end beyond all pairs, for the modes that free directions spoil.

The grid repeats along free directions too. Modes of small wavenumber along the periodic ones have
kernels that reach far: they are cut off at a radius R that no pair reaches, which has closed forms
(MATH D.5). But a kernel that is still large at R rings, and its ringing falls off slowly: sharp
edges broke the promise 47 times in a box of 4:1:1. So the kernel fades out between ``onset`` and R,
by ``chi = erfc(steepness t) / 2``; what fading takes away from the sharp kernel,
``int (1 - chi) m(r) e^(-ikr) dr``, is subtracted by Gauss's rule.

With k the wavenumber in the free directions, K that in the periodic ones and kappa^2 = K^2 + k^2:

    periodic directions   free kernel m(r) of Stokes, Laplace           sharp multiplier
    0                     R/2 + r^2/(2R) - r,  1/r                      sphere, `_ball`
    1, K > 0              2 r K1(K r) / K,  2 K0(K r)                   disc, `_disc`
    1, K = 0              r^2 (ln(r/R) - 1/2) + R^2/2,  -2 ln(r/R)      disc, `_disc_zero`
    2, K > 0              (2 pi/K^3)(1 + K r) e^(-Kr),  (2 pi/K) e^(-Kr)    interval, `_interval`
    2, K = 0              4 pi (R - r),  2 pi (R - r)                   interval, `_interval_zero`

(the last line but one is the velocity's own kernel, not its potential's: see `zero_mode`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.special import erfc, k0, k1

from parki.ewald.padding import Padding
from parki.ewald.split import Split

Array = NDArray[np.float64]
_TERMS = 19  # of the series that evaluate what fading takes away


def truncated(
    xp: Any,
    laplace: bool,
    split: Split,
    periodicity: int,
    waves: list[Array],
    largest: float,
    padding: Padding,
) -> Any:
    """Return the multiplier of a block of local modes.

    Parameters
    ----------
    xp : module
        numpy or cupy: where the result lives.
    laplace : bool
        Laplace's multiplier ``4 pi / kappa^2``, or Stokes' ``8 pi / kappa^4``, truncated.
    split : Split
        Supplies the far-field factor.
    periodicity : {0, 1, 2}
    waves : list of 3 ndarrays
        Wavenumbers of the block along each axis, non-negative, on the host.
    largest : float
        Largest wavenumber in the free directions of all blocks.
    padding : Padding
        Radii between which the kernel fades.

    Returns
    -------
    array, shape (len(waves[0]), len(waves[1]), len(waves[2]))
    """
    squares = [xp.asarray(k**2) for k in waves]
    k2 = squares[0][:, None, None] + squares[1][:, None] + squares[2]
    out = _BUILDERS[periodicity](xp, laplace, waves, k2, largest, padding)
    out *= split.gamma_laplace(k2) if laplace else split.gamma_stokes(k2)
    if waves[0][0] == 0:
        # Left to `parki.ewald.gauge`, which knows the sum of the densities exactly, and not by the
        # window: this is the largest of all modes, and its error was of one sign.
        out[0, 0, 0] = 0
    return out


@lru_cache(maxsize=8)
def _fading(largest: float, padding: Padding) -> tuple[Array, Array]:
    """Nodes r between onset and R, and weights ``(1 - chi) dr``, for wavenumbers to ``largest``."""
    width = padding.radius - padding.onset
    t, rule = np.polynomial.legendre.leggauss(int(largest * width / 2) + 40)
    r = padding.onset + width * (t + 1) / 2
    return r, erfc(-padding.steepness * t) / 2 * rule * width / 2


def _evaluate(xp: Any, pieces: Any, largest: float, k: Any) -> Any:
    """Evaluate `_pieces` at many k."""
    count = pieces.shape[1]
    place = k * (count / max(largest, 1e-300))
    index = xp.minimum(place.astype(np.int32), count - 1)
    twice = (4 * (place - index) - 2).reshape(place.shape + (1,) * (pieces.ndim - 2))
    # Clenshaw's recurrence: powers of the place would amplify rounding a million times.
    later, out = pieces[-1][index], twice * pieces[-1][index] + pieces[-2][index]
    for piece in pieces[-3:0:-1]:
        later, out = out, twice * out - later + piece[index]
    return twice / 2 * out - later + pieces[0][index]


def _nodes(largest: float, radius: float) -> Array:
    """Wavenumbers, shape (intervals * terms,), at which `_pieces` needs a function.

    Intervals of 4/R: there a function of bandwidth R has Chebyshev coefficients like J_n(2).
    """
    count = int(largest * radius / 4) + 1
    places = 2 * np.arange(count)[:, None] + 1 + chebyshev.chebpts1(_TERMS)
    return np.asarray(largest * places / (2 * count)).ravel()


def _pieces(xp: Any, values: Any) -> Any:
    """Chebyshev series, shape (terms, intervals, ...), of a function by its values at `_nodes`."""
    nodes = chebyshev.chebpts1(_TERMS)
    basis = chebyshev.chebvander(nodes, _TERMS - 1).T * (2 / _TERMS)
    basis[0] /= 2
    values = values.reshape(-1, _TERMS, *values.shape[1:])
    return xp.tensordot(xp.asarray(basis), values, axes=(1, 1))


# ---------------------------------------------------------------------- three free directions
def _balls(
    xp: Any, laplace: bool, waves: list[Array], k2: Any, largest: float, padding: Padding
) -> Any:
    radius = padding.radius
    k = xp.sqrt(k2)
    x = k * radius
    small = x < 0.35
    safe = xp.where(small, 1.0, x)
    t = x**2
    if laplace:
        series = 0.5 - t / 24 + t**2 / 720 - t**3 / 40320
        out = 4 * np.pi * radius**2 * xp.where(small, series, (1 - xp.cos(x)) / safe**2)
    else:
        series = 1 / 120 - t / 2520 + t**2 / 120960 - t**3 / 9979200 + t**4 / 1245404160
        closed = (1 + xp.cos(x) / 2 - 1.5 * xp.sin(x) / safe) / safe**4
        out = 8 * np.pi * radius**4 * xp.where(small, series, closed)
    out -= _evaluate(xp, _ball_pieces(xp, laplace, largest, padding), largest, k)
    return out


@lru_cache(maxsize=2)
def _ball_pieces(xp: Any, laplace: bool, largest: float, padding: Padding) -> Any:
    """Return what fading takes away, as `_pieces`; the same for all blocks of a plan."""
    radius = padding.radius
    r, away = _fading(largest, padding)
    kernel = 1 / r if laplace else radius / 2 + r**2 / (2 * radius) - r
    weights = xp.asarray(4 * np.pi * r**2 * kernel * away)
    waves = xp.asarray(_nodes(largest, radius) / np.pi)
    return _pieces(xp, xp.sinc(waves[:, None] * xp.asarray(r)) @ weights)


# ---------------------------------------------------------------------- two free directions
def _discs(
    xp: Any, laplace: bool, waves: list[Array], k2: Any, largest: float, padding: Padding
) -> Any:
    if xp is np:
        from scipy.special import j0 as bessel0
        from scipy.special import j1 as bessel1
    else:
        from cupyx.scipy.special import j0 as bessel0
        from cupyx.scipy.special import j1 as bessel1
    radius, along = padding.radius, waves[0]
    across = xp.hypot(xp.asarray(waves[1])[:, None], xp.asarray(waves[2]))
    x = across * radius
    disc = x, bessel0(x), bessel1(x)
    out = xp.empty(k2.shape)
    for i, kx in enumerate(along.tolist()):
        if kx == 0:
            out[i] = _disc_zero(xp, laplace, *disc, radius)
        else:
            out[i] = _disc(laplace, kx * radius, *disc, k2[i], radius)
    r, away = _fading(largest, padding)
    weights = _disc_kernel(laplace, along[:, None], r, radius) * 2 * np.pi * r * away

    waves_of_r = _disc_waves(xp, largest, padding)
    pieces = _pieces(xp, waves_of_r @ xp.asarray(weights.T.copy()))
    out -= xp.moveaxis(_evaluate(xp, pieces, largest, across), -1, 0)
    return out


@lru_cache(maxsize=2)
def _disc_waves(xp: Any, largest: float, padding: Padding) -> Any:
    """Return ``J0(k r)`` at `_nodes` and the nodes of `_fading`; the same for all blocks."""
    r, _ = _fading(largest, padding)
    if xp is np:
        from scipy.special import j0
    else:
        from cupyx.scipy.special import j0
    return j0(xp.asarray(_nodes(largest, padding.radius))[:, None] * xp.asarray(r))


def _disc(
    laplace: bool, z: float, x: Any, bessel0: Any, bessel1: Any, k2: Any, radius: float
) -> Any:
    """Sharp multiplier of a mode along the axis; z and x are K R and k R."""
    near = 1 + x * bessel1 * float(k0(z)) - z * bessel0 * float(k1(z))
    if laplace:
        return 4 * np.pi * near / k2
    edge = z * bessel0 * float(k0(z)) - x * bessel1 * float(k1(z))
    return 8 * np.pi * (near / k2**2 - radius**2 / (2 * z * k2) * edge)


def _disc_zero(xp: Any, laplace: bool, x: Any, bessel0: Any, bessel1: Any, radius: float) -> Any:
    """Sharp multiplier of the mode that is constant along the axis."""
    small = x < 0.3
    safe = xp.where(small, 1.0, x)
    t = x**2
    if laplace:
        series = np.pi * (1 - t / 16 + t**2 / 576 - t**3 / 36864 + t**4 / 3686400)
        return radius**2 * xp.where(small, series, 4 * np.pi * (1 - bessel0) / safe**2)
    series = 1 / 64 - t / 1152 + t**2 / 49152 - t**3 / 3686400 + t**4 / 424673280
    closed = (1 - bessel0 - safe * bessel1 / 2) / safe**4
    return 8 * np.pi * radius**4 * xp.where(small, series, closed)


def _disc_kernel(laplace: bool, k: Array, r: Array, radius: float) -> Array:
    """Kernels of the modes k, shape (n, 1), at distances r."""
    safe = np.where(k > 0, k, 1.0)
    if laplace:
        return np.where(k > 0, 2 * k0(safe * r), -2 * np.log(r / radius))
    zero = r**2 * (np.log(r / radius) - 0.5) + radius**2 / 2
    return np.where(k > 0, 2 * r * k1(safe * r) / safe, zero)


# ---------------------------------------------------------------------- one free direction
def _intervals(
    xp: Any, laplace: bool, waves: list[Array], k2: Any, largest: float, padding: Padding
) -> Any:
    radius = padding.radius
    along, k = np.hypot(waves[0][:, None], waves[1]), waves[2]
    r, away = _fading(largest, padding)
    positive = along > 0
    safe = np.where(positive, along, 1.0)[..., None]
    zero = 2 * np.pi * (radius - r)
    if laplace:
        kernel = np.where(positive[..., None], 2 * np.pi / safe * np.exp(-safe * r), zero)
    else:
        kernel = 2 * np.pi / safe**3 * (1 + safe * r) * np.exp(-safe * r)
        kernel = np.where(positive[..., None], kernel, 2 * zero)
    faded = xp.asarray(2 * kernel * away) @ xp.cos(xp.asarray(np.outer(r, k)))
    wave, edge = xp.asarray(k), xp.asarray(safe)
    cosine, sine = xp.cos(wave * radius), xp.sin(wave * radius)
    decay = xp.exp(-edge * radius)
    near = 1 - decay * (cosine - wave / edge * sine)
    safe2 = xp.where(k2 > 0, k2, 1.0)
    if laplace:
        out = 4 * np.pi * near / safe2
    else:
        slope = radius * (cosine - wave * sine / edge) - wave * sine / edge**2
        out = 8 * np.pi * (near / safe2**2 - decay / (2 * edge * safe2) * slope)
    out -= faded
    if not positive.all():  # the mode that is constant in the plane
        hat = xp.asarray(_interval_zero(k, radius)) * (1 if laplace else 2) - faded[0, 0]
        if not laplace:  # over k^2, which the convolution multiplies by
            hat = xp.where(wave > 0, hat / xp.where(wave > 0, wave, 1.0) ** 2, 0.0)
        out[0, 0] = hat
    return out


def _interval_zero(k: Array, radius: float) -> Array:
    """Transform of ``2 pi (R - |z|)`` for ``|z| < R``."""
    return np.asarray(2 * np.pi * radius**2 * np.sinc(k * radius / (2 * np.pi)) ** 2)


# ---------------------------------------------------------------------- the mode k = 0
def zero_mode(laplace: bool, periodicity: int, padding: Padding) -> float:
    """Return the integral of the faded kernel of the mode k = 0, which `truncated` leaves out.

    Of Laplace's potential, or (2-periodic, else it is 0) of the velocity along the plane.
    """
    if laplace:
        zero = [np.zeros(1)] * 3
        build = _BUILDERS[periodicity]
        return float(build(np, True, zero, np.zeros((1, 1, 1)), 0.0, padding)[0, 0, 0])
    if periodicity != 2:
        return 0.0
    r, away = _fading(0.0, padding)
    radius = padding.radius
    return 4 * np.pi * radius**2 - 2 * float(4 * np.pi * (radius - r) @ away)


_BUILDERS = (_balls, _discs, _intervals)
