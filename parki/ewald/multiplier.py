"""The far field's multiplier: symbol, split, truncation, window and scale in one real number.

Stokes modes are ``u = M [k^2 A - k (k.A) + i k k^2 D]`` with ``M = -B^(k) gamma_S``, Laplace modes
``phi = M q`` with ``M = (4 pi / k^2) gamma_L`` (MATH B.5, C), each over the window's transform
squared, times the grid's cell volume. Where free directions need it, the kernel ends beyond
all pairs: closed forms of MATH D.5, softened.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline
from scipy.special import erfc, k0, k1

from parki.ewald.padding import Padding
from parki.ewald.split import Split
from parki.ewald.window import KaiserBessel

Array = NDArray[np.float64]
_FADING_VALUES = 4_000_000  # largest temporary of the fading integral


def wavenumbers(length: int, step: float) -> Array:
    """Return the non-negative wavenumbers of a transform: indices 0 to length // 2."""
    return np.asarray(2 * np.pi / (length * step) * np.arange(length // 2 + 1))


def window_factor(window: KaiserBessel, length: int, step: float) -> Array:
    """Return ``1 / (h w^(k h)^2)``: undoes spreading and gathering, times the cell's edge."""
    k = 2 * np.pi / length * np.arange(length // 2 + 1)
    return 1 / (step * window.fourier(k) ** 2)


def plain(laplace: bool, split: Split, k2: Any) -> Any:
    """Return the multiplier of the untruncated kernel; 0 at k = 0. NumPy or CuPy."""
    zero = k2 == 0
    safe = k2 + zero
    if laplace:
        return (4 * np.pi / safe * split.gamma_laplace(k2)) * ~zero
    return (8 * np.pi / safe**2 * split.gamma_stokes(k2)) * ~zero


def truncated_1p(
    xp: Any, laplace: bool, split: Split, along: Array, across: Any, padding: Padding
) -> Any:
    """Return the multiplier of a kernel that fades out in the two free directions.

    A kernel cut off sharply at R has a closed form (MATH D.5). But the modes of a long box have
    kernels, ``2 rho K1(K rho) / K`` for small K, that are still large at R, and the ringing of
    their edge falls off slowly: it broke the promise 47 times in a box of 4:1:1. So the part that
    fading takes away, ``2 pi int (1 - chi) m J0 rho``, is subtracted by Gauss's rule.

    Parameters
    ----------
    xp : module
        numpy or cupy, the module of ``across``.
    along : ndarray, shape (n,)
        Wavenumbers along the periodic axis, on the host.
    across : array, shape (ny, nz)
        Length of the wavenumber in the free directions.
    padding : Padding
        Radii between which the kernel fades.

    Returns
    -------
    array, shape (n, ny, nz)
    """
    if xp is np:
        from scipy.special import j0, j1
    else:
        from cupyx.scipy.special import j0, j1
    radius = padding.radius
    x = across * radius
    bessel0, bessel1 = j0(x), j1(x)
    out = xp.empty((along.size, *across.shape))
    for i, kx in enumerate(along.tolist()):
        k2 = kx**2 + across**2
        if kx == 0:
            out[i] = _zero_mode(xp, laplace, x, bessel0, bessel1, radius)
        else:
            z = kx * radius
            near = 1 + x * bessel1 * float(k0(z)) - z * bessel0 * float(k1(z))
            if laplace:
                out[i] = 4 * np.pi * near / k2
            else:
                edge = kx * bessel0 * float(k0(z)) - across * bessel1 * float(k1(z))
                out[i] = 8 * np.pi * (near / k2**2 - radius**2 / (2 * kx * k2) * edge)
    rho, weights = _fading(laplace, along, float(across.max()), padding)
    if xp is np:
        # A function of one variable, of bandwidth R: a spline of a fine table costs far less.
        table = np.linspace(0, float(across.max()), int(float(across.max()) * radius / 0.125) + 32)
        spline = make_interp_spline(table, j0(table[:, None] * rho) @ weights.T, k=9)
        out -= np.moveaxis(spline(across), -1, 0)
    else:
        rho, weights = xp.asarray(rho), xp.asarray(weights)
        rows = max(1, _FADING_VALUES // (rho.size * across.shape[1]))
        for first in range(0, across.shape[0], rows):
            waves = j0(across[first : first + rows, :, None] * rho)
            out[:, first : first + rows] -= xp.tensordot(weights, waves, axes=(1, 2))
    for i, kx in enumerate(along.tolist()):
        k2 = kx**2 + across**2
        out[i] *= split.gamma_laplace(k2) if laplace else split.gamma_stokes(k2)
    return out


def _fading(laplace: bool, along: Array, largest: float, padding: Padding) -> tuple[Array, Array]:
    """Return nodes and, for each mode, weights of what fading takes away from the sharp kernel."""
    width = padding.radius - padding.onset
    t, rule = np.polynomial.legendre.leggauss(int(largest * width / 2) + 40)
    rho = padding.onset + width * (t + 1) / 2
    away = erfc(-padding.steepness * t) / 2 * 2 * np.pi * rho * rule * width / 2
    k = along[:, None]
    safe = np.where(k > 0, k, 1.0)
    if laplace:
        kernel = np.where(k > 0, 2 * k0(safe * rho), -2 * np.log(rho / padding.radius))
    else:
        zero = rho**2 * (np.log(rho / padding.radius) - 0.5) + padding.radius**2 / 2
        kernel = np.where(k > 0, 2 * rho * k1(safe * rho) / safe, zero)
    return rho, kernel * away


def _zero_mode(xp: Any, laplace: bool, x: Any, bessel0: Any, bessel1: Any, radius: float) -> Any:
    """Return the mode that is constant along the axis: the two-dimensional kernels (MATH D.5)."""
    safe = xp.where(x > 0.3, x, 1.0)
    t = x**2
    if laplace:
        series = np.pi * (1 - t / 16 + t**2 / 576 - t**3 / 36864 + t**4 / 3686400)
        return radius**2 * xp.where(x > 0.3, 4 * np.pi * (1 - bessel0) / safe**2, series)
    series = 1 / 64 - t / 1152 + t**2 / 49152 - t**3 / 3686400 + t**4 / 424673280
    closed = (1 - bessel0 - safe * bessel1 / 2) / safe**4
    return 8 * np.pi * radius**4 * xp.where(x > 0.3, closed, series)


def gauge_1p(laplace: bool, radius: float, length: float, unit: float) -> Any:
    """Return what the truncation changed, per unit of the summed density (MATH D.3, D.5).

    Parameters
    ----------
    radius, length : float
        Truncation radius and periodic edge, in solver units.
    unit : float
        The solver's length unit in the user's, in which the logarithm of the gauge is taken.

    Returns
    -------
    float (Laplace), or ndarray of shape (3,) for the components of the single layer's density;
    to be added, per solver unit of length.
    """
    log = np.log(radius * unit)
    if laplace:
        return float(-2 / length * log)
    return -(log + 0.5) / length * np.array([4.0, 2.0, 2.0])
