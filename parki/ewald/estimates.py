"""A-priori errors of the near field, the far field, the window and the near polynomials.

Every estimate is a pair ``(rms, peak)`` per sqrt(Q), Q the sum of |f|^2, of |q|^2 |n|^2 or of q^2,
for densities of random sign and direction:

``rms``
    Root mean square of the error over targets, when all points fill ``volume`` uniformly.
``peak``
    For any arrangement of the points: the largest size that the error of one pair can take.

If pairs at short range are S >= 1 times as dense as among uniform points (a target that is a source
makes a pair), the square of the error is at most ``min(S rms^2, peak^2) Q``.  The size of a pair's
error is its Frobenius norm averaged over the directions of density and normal: ``|K| / sqrt(3)``,
``|K| / 3``, ``|K|``.  ``parameters`` combines the estimates and inverts them; this module knows
neither tolerance nor cost.  Lengths are in one unit; factors such as 1/(8 pi mu) are left out.

Kosmacher, Du, Bagge, Biros (2026), equation (10), states the double layer's in closed form; here
they follow from the functions of the split and of the window, so that any split is covered and the
window's error is a sum over modes where the paper fits ``C(xi) exp(-2.5 P)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parki.errors import ParkiValueError
from parki.ewald.split import KERNELS, Split
from parki.ewald.window import Images, images

Array = NDArray[np.float64]
_EXPONENT = 20.0  # integrals of decaying functions stop where the integrand has lost exp(-20)
_LOW, _GAUSS, _HIGH = 6, 14, 3  # modes summed one by one, Gauss nodes for those in between


class Estimate(NamedTuple):
    """Error per sqrt(Q): for uniform points, and the bound for any points."""

    rms: float
    peak: float


def near(kernel: str, split: Split, rc: float, volume: float) -> Estimate:
    """Error of leaving out the pairs beyond ``rc``.

    ``rms^2 = (1/V) int_{r > rc} |K(r)|^2 dr`` and ``peak = max_{r > rc} |K(r)|``, E^N of equation
    (10).

    Parameters
    ----------
    kernel : {"laplace", "stokes_sl", "stokes_dl"}
    split : Split
    rc : float
        Cut-off of the near field.
    volume : float
        Volume that the points fill.
    """
    nodes, weights = _decay(rc, np.sqrt(np.pi) * split.psi0, 2.0)
    r = np.concatenate([[rc], rc + nodes])
    b1, b2, b3 = split.near(r)
    _check(kernel)
    if kernel == "laplace":
        square = (b1 / r) ** 2
    elif kernel == "stokes_sl":
        across, along = b2 + b1 / r, 2 * b1 / r  # a and a + bb r^2
        square = (2 * across**2 + along**2) / 3
    else:
        c, d = b3, -2 * b3 + 6 * b2 / r - 6 * b1 / r**2  # times r and r^3: factors of unit tensors
        square = (15 * c**2 + 6 * c * d + d**2) / 9
    total = 4 * np.pi * float(weights @ (r**2 * square)[1:])
    return Estimate(float(np.sqrt(total / volume)), float(np.sqrt(square.max())))


def polynomial(kernel: str, rc: float, volume: float, delta: float) -> Estimate:
    """Error of a near pair kernel that is off by at most ``delta`` inside ``rc``.

    Parameters
    ----------
    kernel : {"laplace", "stokes_sl", "stokes_dl"}
    rc, volume : float
        As for `near`.
    delta : float
        The tolerance given to ``radial_degree``: in units of 1/rc, or 1/rc^2 (double layer).
    """
    _check(kernel)
    peak = delta / rc ** (2 if kernel == "stokes_dl" else 1)
    return Estimate(float(peak * np.sqrt(4 * np.pi * rc**3 / (3 * volume))), float(peak))


def truncation(kernel: str, split: Split, steps: Sequence[float], volume: float) -> Estimate:
    """Error of leaving out the modes outside the box ``|k_i| <= pi / steps[i]``.

    Sums over modes become integrals, ``(1/V) sum -> (2 pi)^-3 int``, over the outer side of each
    face of the box; a mode beyond two faces counts twice, which is a bound.  Over a half-space an
    isotropic integrand leaves ``2 pi int_0^inf F(K + s) s (K + s) ds``.  E^F of equation (10).

    Parameters
    ----------
    kernel : {"laplace", "stokes_sl", "stokes_dl"}
    split : Split
    steps : sequence of 3 float
        Grid spacings.
    volume : float
        Volume that the points fill.
    """
    _check(kernel)
    xi = np.sqrt(np.pi) * split.psi0
    mean_square = peak = 0.0
    for edge in np.pi / np.asarray(steps, dtype=np.float64):
        for power, rate in ((2, 0.5), (1, 0.25)):
            s, weights = _decay(edge, 1 / xi, rate)
            k = edge + s
            size = _symbol(kernel, split, k * k)
            integral = 4 * np.pi * float(weights @ (size**power * s * k)) / (2 * np.pi) ** 3
            if power == 2:
                mean_square += integral / volume
            else:
                peak += integral
    return Estimate(float(np.sqrt(mean_square)), peak)


def aliasing(
    kernel: str,
    split: Split,
    lengths: Sequence[float],
    shape: Sequence[int],
    points: ArrayLike,
    beta_over_p: ArrayLike,
) -> tuple[Array, Array]:
    """Error of the window, for every pair of a number of points and a shape.

    Spreading adds to a mode k of the grid its images ``k + 2 pi m / h`` along each axis e, by the
    weight ``rho = w^(k + 2 pi m / h) / w^(k)``; so does gathering.  The double layer is spread with
    the window's gradient (four grid components), which carries ``rho k + b e``, b as in
    `parki.ewald.window.images`: the square of its symbol, averaged over the directions of q and n,
    becomes ``(8 pi gamma / k^2)^2`` times

        ``(7/9) rho^2 k^2 + (8/9) rho b k_e + (6/9) b^2 - (2/9) b^2 k_e^2 / k^2``

    in the spreading half, and stays ``(7/9) rho^2 k^2`` in the gathering half.  E^w of equation
    (10).

    Parameters
    ----------
    kernel : {"laplace", "stokes_sl", "stokes_dl"}
    split : Split
    lengths : sequence of 3 float
        Lengths of the grid's box, which the points are taken to fill.  If they fill a part of it,
        ``rms`` grows by the square root of the ratio of the volumes.
    shape : sequence of 3 int
        Grid points along each axis.
    points : array_like, shape (n,), int
        Even numbers of window points P.
    beta_over_p : array_like, shape (m,)
        Kaiser-Bessel shapes, as multiples of P.

    Returns
    -------
    rms, peak : ndarray, shape (n, m), float64
        See the module; ``peak`` adds all modes, images, axes and both halves in phase.
    """
    _check(kernel)
    windows = tuple(
        (int(p), float(q) * int(p)) for p in np.ravel(points) for q in np.ravel(beta_over_p)
    )
    rules = [_mode_rule(int(n)) for n in shape]
    waves = [2 * np.pi / length * rule[0] for length, rule in zip(lengths, rules, strict=True)]
    k2 = waves[0][:, None, None] ** 2 + waves[1][:, None] ** 2 + waves[2] ** 2
    k2[0, 0, 0] = 1.0  # any number: the mean is left out
    profiles = []
    for power in _mode_powers(kernel, split, k2):
        power[0, 0, 0] = 0.0
        profiles.append(_profiles(power, [rule[1] for rule in rules]))
    mean_square = np.zeros(len(windows))
    peak = np.zeros(len(windows))
    for axis in range(3):
        step = lengths[axis] / shape[axis]
        sums = [profile[axis] for profile in profiles]
        square, size = _half_sums(
            kernel, waves[axis], step, _images(int(shape[axis]), windows), sums
        )
        mean_square += square
        peak += size
    form = (np.size(points), np.size(beta_over_p))
    volume = float(np.prod(lengths))
    return np.sqrt(mean_square).reshape(form) / volume, peak.reshape(form) / volume


def _mode_powers(kernel: str, split: Split, k2: Array) -> list[Array]:
    """Functions of the mode whose sums across an axis `_half_sums` needs."""
    if kernel != "stokes_dl":
        size = _symbol(kernel, split, k2)
        return [size**2, size]
    size = 8 * np.pi * split.gamma_stokes(k2) / k2
    square = size**2
    return [square * k2, square, square / k2, size * k2, size, size * np.sqrt(k2)]


def _half_sums(
    kernel: str, k: Array, step: float, image: Images, sums: list[Array]
) -> tuple[Array, Array]:
    """Spreading plus gathering along one axis, by window: sums of squares, and of sizes."""
    if kernel != "stokes_dl":
        square, size = sums
        return 2 * (image.rho_square @ square), 2 * (image.rho_size @ size)
    k2_s, s, s_k2, k2_u, u, k_u = sums
    b = image.b / step
    cross = image.rho * b * k
    b_square = image.b_square / step**2
    squares = (
        14 / 9 * (image.rho_square @ k2_s)
        + cross.sum(axis=0) @ (8 / 9 * s)
        + b_square @ (6 / 9 * s - 2 / 9 * k**2 * s_k2)
    )
    # At most u sqrt(v), v = rho^2 k^2 + (2/3)(b^2 + 2 rho b k_e), and that by Cauchy-Schwarz.
    v = image.rho**2 * k2_u + 2 / 3 * (b**2 + 2 * cross) * u
    spread = np.sqrt(u * np.maximum(v, 0.0)).sum(axis=(0, 2))
    spread += image.b_rest / step @ (np.sqrt(2 / 3) * u)
    return squares, spread + image.rho_size @ (np.sqrt(7 / 9) * k_u)


def _profiles(values: Array, weights: list[Array]) -> list[Array]:
    """For each axis, its weights times the sums over the modes of the other two."""
    rows = values @ weights[2]
    planes = np.tensordot(weights[0], values, 1)
    totals = [rows @ weights[1], weights[0] @ rows, weights[1] @ planes]
    return [w * total for w, total in zip(weights, totals, strict=True)]


@lru_cache(maxsize=512)
def _mode_rule(count: int) -> tuple[Array, Array]:
    """Mode indices n >= 0 and weights that sum an even function over the modes of one axis.

    Small grids are summed exactly.  On large ones the lowest modes, where the symbols are steep,
    and the highest ones, where the images are, stay exact, and a Gauss rule takes the rest: the
    cost does not grow with the grid.
    """
    modes = np.arange(count // 2 + 1, dtype=np.float64)
    weights = np.where((modes == 0) | (modes == count / 2), 1.0, 2.0)
    if len(modes) <= _LOW + _GAUSS + _HIGH:
        return modes, weights
    x, w = np.polynomial.legendre.leggauss(_GAUSS)
    start, width = _LOW - 0.5, len(modes) - _LOW - _HIGH
    u = (x + 1) / 2  # squared below: the nodes crowd towards the low modes
    return (
        np.concatenate([modes[:_LOW], start + width * u**2, modes[-_HIGH:]]),
        np.concatenate([weights[:_LOW], 2 * width * u * w, weights[-_HIGH:]]),
    )


@lru_cache(maxsize=64)
def _images(count: int, windows: tuple[tuple[int, float], ...]) -> Images:
    """Images of the modes of `_mode_rule`; kept, since a search over xi and grids asks again."""
    return images(2 * np.pi / count * _mode_rule(count)[0], windows)


def _symbol(kernel: str, split: Split, k2: Array) -> Array:
    """Size of the far field's symbol, averaged over the directions of the density."""
    if kernel == "laplace":
        size = 4 * np.pi * split.gamma_laplace(k2) / k2
    elif kernel == "stokes_sl":
        size = math.sqrt(2 / 3) * 8 * np.pi * split.gamma_stokes(k2) / k2
    else:
        size = math.sqrt(7 / 9) * 8 * np.pi * split.gamma_stokes(k2) / np.sqrt(k2)
    return np.asarray(size)


def _decay(start: float, scale: float, rate: float) -> tuple[Array, Array]:
    """Gauss rule for integrals over t >= 0 of ``exp(-rate scale^2 (start + t)^2)`` times powers."""
    x, w = _legendre()
    length = np.sqrt(start**2 + _EXPONENT / (rate * scale**2)) - start
    return length * x, length * w


@lru_cache(maxsize=1)
def _legendre() -> tuple[Array, Array]:
    """Gauss-Legendre rule on [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(20)
    return (x + 1) / 2, w / 2


def _check(kernel: str) -> None:
    """Refuse an unknown kernel by name."""
    if kernel not in KERNELS:
        raise ParkiValueError(f"kernel is {kernel!r}; expected one of {', '.join(KERNELS)}")
