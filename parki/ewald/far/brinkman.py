"""Kernels of Brinkman's equation that fade: see `parki.ewald.far.fading`, whose m they are.

They are differences of two potentials over alpha^2, of charges and of screened charges:

    periodic directions   m
    0                     2 (1 - e^(-alpha r)) / (alpha^2 r)
    1                     4 (K0(K r) - K0(k r)) / alpha^2,                k^2 = K^2 + alpha^2
    1, K = 0              4 (-ln(r/R) - K0(alpha r)) / alpha^2
    2                     4 pi (e^(-K r) / K - e^(-k r) / k) / alpha^2

Where the two are nearly equal they are integrals over wavenumbers from K to k, as of ``x K0(x r)``,
or differences in closed form. With two periodic directions and K = 0 there is none: m would grow
like r^2 / alpha, and its second derivative is the kernel of screened charges.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray
from scipy.special import k0, k1

Array = NDArray[np.float64]
_NODES = 40  # of integrals over wavenumbers whose product with r is at most _APART apart
_APART = 2.0
# Coefficients of `shape`, the largest power first: 2 (-1)^n / (n! (n + 2)).
_SHAPE = [2 * (-1) ** n / (math.factorial(n) * (n + 2)) for n in range(19, -1, -1)]


def slope(n: int, modes: Array, alpha: float, r: Array) -> Array:
    """Return m' at distances r, shape (nodes, 1), of modes K >= 0; n counts the free directions."""
    whole = np.hypot(modes, alpha)
    if n == 3:
        return np.asarray(-shape(alpha * r) + 0 * modes)
    if n == 1:
        apart = alpha**2 / (modes + whole)
        return np.asarray(4 * np.pi / alpha**2 * np.exp(-modes * r) * np.expm1(-apart * r))
    safe, k, r = np.where(modes > 0, modes, 1.0), *np.broadcast_arrays(whole, r)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(modes > 0, safe * k1(safe * r), 1 / r)
        slopes = -4 / alpha**2 * (first - k * k1(k * r))
    close = (k - modes) * r <= _APART
    slopes[close] = -4 * r[close] * _mean(lambda x, r: x * k0(x * r), modes, k, r, close)
    return np.asarray(slopes)


def value(n: int, modes: Array, alpha: float, r: float, radius: float) -> Array:
    """Return ``(K^2 + alpha^2) m`` at a distance, shape (modes,)."""
    positive, whole = modes > 0, np.hypot(modes, alpha)
    safe = np.where(positive, modes, 1.0)
    square = whole**2 / alpha**2
    if n == 3:
        return np.asarray(-2 * math.expm1(-alpha * r) / r + 0 * modes)
    if n == 1:
        apart = alpha**2 / (modes + whole)
        m = -np.exp(-modes * r) * np.expm1(-apart * r) + np.exp(-whole * r) * apart / whole
        return np.where(positive, 4 * np.pi * square / safe * m, 0.0)
    first = np.where(positive, k0(safe * r), -np.log(r / radius))
    values = np.asarray(4 * square * (first - k0(whole * r)))
    close = positive & ((whole - modes) * r <= _APART) & (whole < 1.5 * modes)
    there = np.full(modes.shape, r)
    mean = _mean(lambda x, r: k1(x * r), modes, whole, there, close)
    values[close] = 4 * r * whole[close] ** 2 * mean
    return values


def _mean(function: Any, modes: Array, whole: Array, r: Array, where: Any) -> Array:
    """Return integrals of functions of x from K to k over ``k^2 - K^2``."""
    nodes, weights = legendre.leggauss(_NODES)
    s = (nodes + 1) / 2
    k, least = whole[where][:, None], np.broadcast_to(modes, whole.shape)[where][:, None]
    x = least + (k - least) * s**3  # logarithms at x = 0 are weaker by this
    values = function(x, r[where][:, None]) @ (1.5 * weights * s**2)
    return np.asarray(values / (k + least)[:, 0])


def shape(z: Array) -> Array:
    """Return ``2 (1 - (1 + z) exp(-z)) / z^2``, 1 for z = 0."""
    far = np.maximum(z, 1.0)
    return np.where(
        z > 1, 2 * (1 - (1 + far) * np.exp(-far)) / far**2, np.polyval(_SHAPE, np.minimum(z, 1.0))
    )
