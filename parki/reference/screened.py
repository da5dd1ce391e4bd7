"""Screened charges in `parki.reference`: ``exp(-kappa r) / r``, for both parts of the sum.

The far part is the transform ``4 pi / (k^2 + kappa^2)`` times ``exp(-(k^2 + kappa^2) / 4 xi^2)``;
what is left is the near part, of which 1/2 (h / r) below is known in closed form:

    h = exp(kappa r) erfc(xi r + kappa / 2 xi) + exp(-kappa r) erfc(xi r - kappa / 2 xi)

Along free directions a mode decays like Laplace's of the wavenumber sqrt(K^2 + kappa^2). The mode
K = 0 is cut off as p(r) - p(R), which ends without a jump, and `constant` adds p(R).
"""

from __future__ import annotations

import ast
from itertools import pairwise
from math import factorial

import numpy as np
from numpy.polynomial import legendre
from scipy.special import erfc, erfcx, gammainc, j0, j1, jv, k0, k1

from parki.reference.split import Array

PARAMETERS = {
    "yukawa": "kappa",
    **dict.fromkeys(("brinkman_sl", "brinkman_dl", "brinkman_dipole"), "alpha"),
}
_NODES = legendre.leggauss(60)[0]
# Its weights, which round less by this sum than by the slopes that NumPy divides by.
_WEIGHTS = 1 / (legendre.legvander(_NODES, 59) ** 2 @ (np.arange(60) + 0.5))


def parsed(kernel: str) -> tuple[str, float]:
    """Return the kernel without its parameters, and kappa or alpha; 0 without parameters.

    Raises
    ------
    ValueError
        If the text is no call, or the parameter is not a positive number.
    """
    if "(" not in kernel:
        return kernel, 0.0
    expected = "expected a name such as 'yukawa(kappa=2.0)'"
    try:
        call = ast.parse(kernel, mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise SyntaxError
        [word] = call.keywords
        name, kappa = call.func.id, float(ast.literal_eval(word.value))
    except (SyntaxError, TypeError, ValueError):
        raise ValueError(f"kernel is {kernel!r}, {expected}") from None
    if PARAMETERS.get(name) != word.arg or not 0 < kappa < np.inf:
        raise ValueError(f"kernel is {kernel!r}, {expected}")
    return name, kappa


def radial(r2: Array, xi: float, kappa: float, coincide: float, depth: int) -> list[Array]:
    """Return h/r and, for larger depths, its derivatives over r, as `near._radial` does.

    The Laplacian of h/r is ``kappa^2 h/r`` and the density of the mollified charge: from it follow
    the higher derivatives.
    """
    same = r2 <= coincide
    r = np.sqrt(np.where(same, 1.0, r2))
    if xi > 0:
        a, b = kappa / (2 * xi), xi * r
        gauss = np.exp(-(a**2) - b**2)
        plus = gauss * erfcx(a + b)
        below = np.exp(-kappa * r) * erfc(b - a)  # erfcx overflows there
        minus = np.where(b > a, gauss * erfcx(np.maximum(b - a, 0.0)), below)
        slope = kappa * (plus - minus) / 2 - 2 * xi / np.sqrt(np.pi) * gauss
        # What the far part has at r = 0: minus the limit of h/r - exp(-kappa r)/r.
        itself = kappa * erfc(a) - 2 * xi / np.sqrt(np.pi) * np.exp(-(a**2))
    else:
        plus, minus = np.zeros_like(r), 2 * np.exp(-kappa * r)
        slope, itself = -kappa * minus / 2, 0.0
    h = (plus + minus) / 2
    square = np.where(same, 1.0, r2)
    charge = 4 * xi**3 / np.sqrt(np.pi) * np.exp(-(xi**2) * r2)
    charge *= np.exp(-((kappa / xi) ** 2) / 4) if xi > 0 else 0.0
    phi = [np.where(same, itself, h / r), (slope - h / r) / square]
    for n in range(max(depth - 1, 1)):
        both = kappa**2 * phi[n] + (-2 * xi**2) ** n * charge
        phi[n + 1] = np.where(same, both / (2 * n + 3), phi[n + 1])
        phi.append((both - (2 * n + 3) * phi[n + 1]) / square)
    return phi[:depth]


def brinkman(
    phi: list[Array], r2: Array, xi: float, alpha: float, coincide: float
) -> tuple[list[Array], list[Array]]:
    """Return phi and g of `near._radial` for Brinkman's equation, one less than phi of charges.

    There the difference of charges and of screened charges over alpha^2 is in the place of r. For
    close pairs it is the closed form less a series of the far part, in which nothing cancels, and
    for other pairs with a small alpha r an integral.
    """
    differences = zip(phi, radial(r2, xi, alpha, coincide, len(phi)), strict=True)
    scaled = [-2 / alpha**2 * (charges - less) for charges, less in differences][1:]
    close = r2 * xi**2 < 1
    parts = zip(
        _closed(len(scaled), alpha, r2[close], coincide), _far(len(scaled), alpha, xi), strict=True
    )
    for values, (singular, series) in zip(scaled, parts, strict=True):
        values[close] = singular + np.polynomial.polynomial.polyval(r2[close] * xi**2 / 2, series)
    alike = ~close & (r2 * alpha**2 < 1)
    for values, together in zip(scaled, _alike(len(scaled), alpha, xi, r2[alike]), strict=True):
        values[alike] = together
    square = np.where(r2 <= coincide, 0.0, r2)
    pairs = enumerate(pairwise(scaled))
    return scaled[:-1], [-(2 * n + 1) * one - square * after for n, (one, after) in pairs]


def _closed(count: int, alpha: float, r2: Array, coincide: float) -> list[Array]:
    """Return ``b = 2 (1 - (1 + z) exp(-z)) / (z^2 r)``, z = alpha r, and its derivatives over r.

    They are 0 where points coincide.
    """
    same = r2 <= coincide
    r = np.sqrt(np.where(same, 1.0, r2))
    z = alpha * r
    far, near = np.maximum(z, 1.0), np.minimum(z, 1.0)
    series = [2 * (-1) ** n / (factorial(n) * (n + 2)) for n in range(20)]
    shape = np.polynomial.polynomial.polyval(near, series)
    shape = np.where(z > 1, 2 * (1 - (1 + far) * np.exp(-far)) / far**2, shape)
    derivatives, bessel = [], [np.ones_like(z), 1 + z]  # reverse polynomials
    for n in range(count):
        derivatives.append(np.where(same, 0.0, (-1) ** n * shape / r ** (2 * n + 1)))
        shape = (2 * n + 3) * shape - 2 * bessel[n] * np.exp(-z)
        bessel.append((2 * n + 3) * bessel[-1] + z**2 * bessel[-2])
    return derivatives


def _far(count: int, alpha: float, xi: float) -> list[Array]:
    """Return the far part of the same with a minus sign, as series in (xi r)^2 / 2."""
    terms = 40
    if xi == 0:
        return [np.zeros(1)] * count
    kappa = alpha / xi  # with lengths in units of 1 / xi: powers of xi overflow in small boxes
    damping = np.exp(-(kappa**2) / 4)
    value = 2 / np.sqrt(np.pi) * damping - kappa * erfc(kappa / 2)
    charge, less = 4 / np.sqrt(np.pi) * damping, 4 / np.sqrt(np.pi) * _damped(kappa)
    rest = []
    for n in range(count + terms):  # derivatives at 0, and what they differ by over kappa^2 / 2
        rest.append(-2 * (value + (-2) ** n * less) / (2 * n + 3))
        value = (kappa**2 * value - (-2) ** n * charge) / (2 * n + 3)
    factorials = np.array([float(factorial(n)) for n in range(terms)])
    return [xi ** (2 * n + 1) * np.array(rest[n : n + terms]) / factorials for n in range(count)]


def _alike(count: int, alpha: float, xi: float, r2: Array) -> list[Array]:
    """Return `brinkman`'s near parts of pairs beyond 1 / xi, as integrals over Gaussians.

    ``h / r = 2 / sqrt(pi) int_xi^inf exp(-t^2 r^2 - kappa^2 / 4 t^2) dt``: without kappa and with
    it they differ by a factor of one sign in the integrand, so that nothing cancels.
    """
    square, parts = r2[:, None], [np.zeros(r2.size)] * count
    if r2.size:
        width = np.sqrt(xi**2 + 45 / square) - xi  # exp(-45) of it is beyond
        t = xi + width * (_NODES + 1) / 2
        kernel = np.exp(-(t**2) * square) * width * _damped(alpha / t) / t**2
        moments = [(-2 * t**2) ** (n + 1) * kernel @ _WEIGHTS for n in range(count)]
        parts = [-2 / np.sqrt(np.pi) * moment for moment in moments]
    return parts


def _damped(z: float | Array) -> Array:
    """Return ``(1 - exp(-z^2 / 4)) / z^2``."""
    return np.asarray(-np.expm1(-np.square(z) / 4) / np.square(z))


def inverse(k2: Array, kappa: float, xi: float) -> Array:
    """Return ``1 / (k^2 + kappa^2)`` with the damping that the part of kappa brings."""
    return np.asarray(np.exp(-((kappa / xi) ** 2) / 4) / (k2 + kappa**2))


def cut_off(
    n: int, along: float | Array, free: Array, kappa: float, radius: float
) -> tuple[Array, Array]:
    """Return transforms F of cut-off kernels as ``E = (k^2 + K^2 + kappa^2) F / 4 pi``.

    And by how much E is less than without screening, over kappa^2, of which no digits cancel.
    There are n free axes; ``along`` is K, and ``free`` is k. With two free axes and K = 0 this has
    the transform of the parabola ``K0(kappa R) (R^2 - r^2)`` taken away, whose second derivatives
    are part of `constant`: it grows as kappa falls.
    """
    decay = np.hypot(along, kappa)
    z, x = decay * radius, free * radius
    if n == 1:
        return _cut_off_by_one(np.asarray(along), z, x, kappa, radius)
    if along > 0:
        plain = 1 + x * j1(x) * k0(z) - z * j0(x) * k1(z)
        first, second = _apart(float(along) * radius, float(z))
        return np.asarray(plain), radius**2 * (x * j1(x) * first - j0(x) * second)
    safe, whole = np.where(x > 0, x, 1.0), _whole(kappa * radius)
    plain = 1 - z * j0(x) * k1(z) - z**2 * k0(z) * j1(safe) / safe
    rest = np.where(x > 0, jv(2, x) / safe**2, 0.125) * k0(z) * (z * radius) ** 2 / 2
    return np.where(x > 0, plain, whole), -j0(x) * whole / kappa**2 - rest


def _cut_off_by_one(
    along: Array, z: Array, x: Array, kappa: float, radius: float
) -> tuple[Array, Array]:
    """Return `cut_off` with one free axis, for decays z and wavenumbers x over the radius."""
    zero, edge, sinc = along == 0, np.exp(-z), np.sinc(x / np.pi)
    slope = np.where(zero, z, x**2 / np.where(z > 0, z, 1.0)) * sinc
    plain = 1 - edge * (np.cos(x) + np.where(zero, 1, -1) * slope)
    plain = np.where(zero & (x == 0), gammainc(2, kappa * radius), plain)
    # As decays are apart by kappa^2 / both.
    own, both = along * radius, z + along * radius
    less = np.expm1(-((kappa * radius) ** 2) / both) / kappa**2
    other = x**2 * sinc * (own * less - radius**2 / both) / np.where(zero, 1.0, own * z)
    return plain, np.where(zero, 0.0, np.exp(-own) * (np.cos(x) * less - other))


def _apart(low: float, high: float) -> tuple[float, float]:
    """Return integrals of K1(t) and ``t K0(t)`` over t from low to high, over high^2 - low^2."""
    if high > 1.5 * low:  # nothing cancels
        first, second = k0(low) - k0(high), low * k1(low) - high * k1(high)
        return float(first / (high**2 - low**2)), float(second / (high**2 - low**2))
    t = np.sqrt(low**2 + (_NODES + 1) / 2 * (high**2 - low**2))
    return float(_WEIGHTS @ (k1(t) / t)) / 4, float(_WEIGHTS @ k0(t)) / 4


def _whole(z: float) -> float:
    """Return ``1 - z^2 K2(z) / 2``, the integral of ``t^2 K1(t) / 2`` from 0 to z."""
    if z > 2:
        return float(1 - z**2 / 2 * (k0(z) + 2 * k1(z) / z))
    t = z * ((_NODES + 1) / 2) ** 2  # the logarithm at 0 is weaker by this
    return float(_WEIGHTS @ (t**2 * k1(t) / 2 * np.sqrt(t * z)))


def constant(n: int, kappa: float, radius: float, xi: float, brinkman: bool) -> float | Array:
    """Return the constant of the mode K = 0 that cutting off takes away, for n free axes.

    It is p(R) times the damping. Flows have it twice; they have no part along the only free axis,
    and across the only periodic one lack the parabola of `cut_off`.
    """
    damping = np.exp(-((kappa / xi) ** 2) / 4)
    edge = 2 * k0(kappa * radius) if n == 2 else 2 * np.pi / kappa * np.exp(-kappa * radius)
    if not brinkman:
        return float(edge * damping)
    if n == 1:
        return np.array([2.0, 2.0, 0.0]) * float(edge * damping)
    return np.array([0.0, -1.0, -1.0]) * float(edge) + float(2 * edge * damping)
