"""Multipliers of kernels that end beyond all pairs, for the modes that free directions spoil.

The grid repeats along free directions too. Modes of small wavenumber along the periodic ones have
kernels that reach far: beyond all pairs they fade by ``chi = erfc(steepness t) / 2``, where t is -1
at ``onset`` and 1 at ``radius`` (sharp ends ring: they broke the promise 47 times in a box of
4:1:1).

With k the wavenumber in the n free directions, K that in the periodic ones, kappa^2 = K^2 + k^2 and
L = K^2 - Laplacian, the kernel p of Laplace and m of Stokes obey ``L p = 4 pi delta``, ``L m = l``
and ``L l = 8 pi delta``. Fading adds to these right hand sides what lives where it fades alone:

    transform of chi p = (4 pi - F[p]) / kappa^2
    transform of chi m = (8 pi - F[l]) / kappa^4 - F[m] / kappa^2
    F[f] = transform of div(f grad chi) + grad f . grad chi
         = integral of chi' (w f' - w' f) r^(n-1),  with the waves w(r) of wavenumber k

The rounding of F is divided by powers of kappa, as the multiplier is. By parts F has the slope of
chi alone, which has one sign: F[l] of a long wave is 8 pi to a few roundings. Terms of chi''
cancelled to a thirtieth of themselves, in other digits on each processor. Sharp ends in closed form
("Kernels that end" of docs/theory.md), less an integral of what fading takes away, have rounding of
one size at all k: in a box of 10:1:1 double layers stopped at 6e-11.

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

With friction alpha (Brinkman's equation) ``(L + alpha^2) m = l`` and ``l = 2 p``, except for
constants: see `parki.ewald.far.brinkman`.

    transform of chi m = (8 pi - F[l]) / kappa^2 / (kappa^2 + alpha^2) - F[m] / (kappa^2 + alpha^2)
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
from parki.ewald.task import Task
from parki.interchange import to_host
from parki.runtime import Kernel, load
from parki.runtime.spaces import adapter_of
from parki.typing import AnyArray, ArrayModule

Array = NDArray[np.float64]
_TERMS = 20  # of the series in the free wavenumber: k^2 J_0 is 1e-17 of itself beyond
_WIDTH = 8  # modes evaluated at a time
_GONE = 80.0  # wavenumber times distance from which on kernels, exp of minus that, are 0
_SMOOTH = 13.0  # wavenumber times the scale of the fading, whose transform is a Gaussian, likewise
_SLOPES = 32  # values of m' whose integral is m: 1e-16 where the fading is as steep as that
_FEW = 2**19  # waves at nodes that the host has before a device has compiled its Bessel functions


def transforms(
    task: Task,
    modes: Array,
    across: Any,
    largest: float,
    padding: Padding,
    volume: float,
    screening: float = 0.0,
    order: int = 0,
) -> Any:
    """Return the transforms of kernels that fade.

    Parameters
    ----------
    task : Task
    modes : ndarray, 1-D
        Wavenumbers along the periodic directions; 0 alone, if there is none.
    across : ndarray, 1-D
        Wavenumbers across them, up to ``largest``.
    padding : Padding
        Radii between which kernels fade.
    volume : float
        Of what repeats, in the free directions: the transform of 1 at k = 0.
    screening : float
        The kappa of screened kernels; with order 2 the alpha of Brinkman's equation.
    order : {1, 2}, optional
        The symbol's order. Default: the task's.

    Returns
    -------
    array, shape (modes, across), float64
        In the space's memory; without a split or a window; 0 where both are 0.
    """
    xp, order = task.xp, order or task.sum.symbol.order
    screened = np.hypot(modes, screening) if screening and order == 1 else modes
    values = xp.empty((modes.size, across.size))
    fades = _fades(task, order, screened, across, largest, padding, screening, volume)
    kernels(task)[0](
        values.size,
        values=values,
        squares=xp.asarray(modes**2),
        across=xp.asarray(across),
        largest=fades.largest,
        faded=fades.faded,
        row=fades.row,
        constant=fades.constant,
        whole=4 * np.pi * order,
        screening=screening**2,
        order=order,
        count=across.size,
    )
    if order == 2 and screening and task.periodicity == 2 and not modes.all():
        # Two derivatives of m are the potential of screened charges, which does not grow.
        [potential] = transforms(
            task, np.zeros(1), across, largest, padding, volume, screening, order=1
        )
        line = 2 * to_host(potential)
        line = np.divide(line, across**2, out=np.zeros_like(line), where=across != 0)
        for mode in np.flatnonzero(modes == 0):
            task.space.adapter.copy(values[mode], xp.asarray(line))
    return values


class _Fades(NamedTuple):
    """What `transforms` takes of kernels that fade.

    Attributes
    ----------
    largest : float
        Wavenumber beyond which fading adds nothing.
    faded : array, shape (rows, across)
        What fading adds.
    row : array, shape (modes,), int32
        The row of each mode, -1 if it has none.
    constant : array, shape (modes,)
        What the kernel of each mode fades to, times the volume.
    """

    largest: float
    faded: AnyArray
    row: AnyArray
    constant: AnyArray


def _fades(
    task: Task,
    order: int,
    modes: Array,
    across: Array,
    largest: float,
    padding: Padding,
    screening: float,
    volume: float,
) -> _Fades:
    """Return F[p], of Stokes F[l] + kappa^2 F[m], and the constants that kernels fade to."""
    xp, free = task.xp, 3 - task.periodicity
    row, constant = np.full(modes.size, -1, dtype=np.int32), np.zeros(modes.size)
    # What fading adds has no larger wavenumbers than a Gaussian as wide.
    largest = min(largest, _SMOOTH / _scale(padding))
    inside = across[: np.flatnonzero(across <= largest).max(initial=-1) + 1]
    # Others' kernels have gone before they fade: most of those in a plane.
    felt = np.flatnonzero(modes * _fading(largest, padding).r[0] < _GONE)
    faded: Any = np.zeros((1, 1))
    if felt.size and inside.size:
        fading = _kernels(order, free, modes[felt], largest, padding, screening)
        nodes = _fading(largest, padding).r.size
        waves_there = inside.size if free == 1 else _TERMS * _intervals(largest, padding)
        where = np if waves_there * nodes <= _FEW else xp
        faded = _added(where, free, modes[felt], inside, fading, largest, padding)
        if free == 1:
            faded = where.ascontiguousarray(faded.T)
        else:
            faded = _evaluate(task, _pieces(where, faded), largest, inside)
        row[felt], constant[felt] = np.arange(felt.size), volume * fading.constant
    return _Fades(largest, xp.asarray(faded), xp.asarray(row), xp.asarray(constant))


def zero_mode(order: int, periodicity: int, padding: Padding, screening: float = 0.0) -> float:
    """Return the integral of the faded kernel of the mode k = 0, which `truncated` leaves out.

    It is the one of Laplace's potential, screened or not, or of the velocity along the plane of a
    2-periodic box; of other velocities it is 0.
    """
    if order == 2 and periodicity != 2:
        return 0.0
    if screening:
        return order * _screened_zero_mode(3 - periodicity, padding, screening)
    fading = _fading(0.0, padding)
    r, radius = fading.r, padding.radius
    # By parts, with the integral of the kernel over a ball.
    ball = (
        lambda: 2 * np.pi * r**2,
        lambda: 2 * np.pi * r**2 * (0.5 - np.log(r / radius)),
        lambda: 2 * np.pi * r * (2 * radius - r),
    )[periodicity]()
    return -float(ball @ fading.slope) * order


def _screened_zero_mode(n: int, padding: Padding, kappa: float) -> float:
    """Return the same of screened charges, with what their kernel fades to."""
    fading = _fading(0.0, padding)
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


# ---------------------------------------------------------------------- kernels that fade
class _Fading(NamedTuple):
    """Where the kernels fade: distances r, and ``chi' dr`` there."""

    r: Array
    slope: Array


@lru_cache(maxsize=8)
def _fading(largest: float, padding: Padding) -> _Fading:
    """Return equidistant nodes, which integrate a Gaussian times waves up to ``largest``.

    They go on a little before the onset and after the radius: chi is not cut off there.
    """
    end = np.sqrt(padding.steepness**2 + FAINT)
    scale = _scale(padding)
    half = int(end * (largest * scale + 2 * end) / (2 * np.pi)) + 1
    t = end * np.arange(-half, half + 1) / half
    slope = -np.exp(-(t**2)) / np.sqrt(np.pi) * (end / half)
    r = (padding.onset + padding.radius) / 2 + scale * t
    return _Fading(r, slope)


def _scale(padding: Padding) -> float:
    """Return the length r over which chi' falls by e, as ``exp(-(r / scale)^2)``."""
    return (padding.radius - padding.onset) / (2 * padding.steepness)


class _Kernels(NamedTuple):
    """The integrands of F[p], or of F[l] and F[m - c], shape (2 nodes, modes); c; and K^2 c.

    First those by which the waves are multiplied, then those for the slopes of the waves.
    """

    first: Array
    second: Array | None
    constant: Array
    level: Array


def _kernels(
    order: int, n: int, modes: Array, largest: float, padding: Padding, screening: float
) -> _Kernels:
    """Return the kernels of modes of wavenumber ``modes`` along the periodic directions."""
    fading, radius = _fading(largest, padding), padding.radius
    r, positive = fading.r[:, None], modes > 0
    safe = np.where(positive, modes, 1.0)

    def integrand(value: Array, slope: Array) -> Array:
        weight = fading.slope[:, None] * r ** (n - 1)
        slope, value = np.broadcast_arrays(slope, value)
        return np.concatenate([weight * slope, -weight * value])

    p, slope, less = _laplace(n, positive, safe, r, radius)
    if order == 1 and (n == 3 or not screening):
        return _Kernels(integrand(p, slope), None, np.zeros(modes.size), np.zeros(modes.size))
    # m - c, or p - c, from the slope, free of the cancellation that c is for.
    middle, half = r[r.size // 2], (r[-1] - r[0]) / 2
    places, integral = _integral(r.size)
    if order == 1:
        c, _, _ = _laplace(n, positive, safe, middle, radius)
        _, rise, _ = _laplace(n, positive, safe, middle + half * places, radius)
        c = np.asarray(c).ravel()
        rest = half * (integral @ rise)
        return _Kernels(integrand(rest, slope), None, c, modes**2 * c)
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
    return _Kernels(
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


# ---------------------------------------------------------------------- their transforms
def _added(
    xp: ArrayModule,
    n: int,
    modes: Array,
    across: Any,
    kernels: _Kernels,
    largest: float,
    padding: Padding,
) -> Any:
    """Return ``F[p]``, or ``F[l] + kappa^2 F[m]``, shape (waves, modes).

    The waves are those across, or (in a plane or space) those that `_pieces` needs.

    With what makes m (or p) fade to c: ``K^2 c`` times the transform of chi joins ``F[m - c]``.
    """
    if n == 1:
        k = xp.asarray(across)
        wave, inside = _waves(xp, n, k, largest, padding)
    else:
        k, wave, inside = _node_waves(xp, n, largest, padding)
    out = wave @ xp.asarray(kernels.first)
    if kernels.second is not None:
        later = wave @ xp.asarray(kernels.second)
        later += inside[:, None] * xp.asarray(kernels.level)
        out += (k[:, None] ** 2 + xp.asarray(modes**2)) * later
    elif kernels.level.any():
        out += inside[:, None] * xp.asarray(kernels.level)
    return out


def _waves(
    xp: ArrayModule, n: int, k: AnyArray, largest: float, padding: Padding
) -> tuple[Any, Any]:
    """Return the waves at the nodes of the fading, then their slopes; and the transform of chi.

    Their shapes are (k, 2 nodes) and (k,).
    """
    special = adapter_of(xp).special()
    j0, j1 = special.j0, special.j1
    fading = _fading(largest, padding)
    r = xp.asarray(fading.r)
    x = xp.maximum(k[:, None], 1e-150) * r  # as j1(x) / x has a limit
    if n == 3:
        wave = 4 * np.pi * xp.sinc(x / np.pi)
        slope, ball = (4 * np.pi * xp.cos(x) - wave) / r, xp.zeros(x.shape)  # c is 0
    elif n == 2:
        bessel = 2 * np.pi * j1(x)
        wave, slope, ball = 2 * np.pi * j0(x), -k[:, None] * bessel, r**2 * (bessel / x)
    else:
        ball = 2 * r * xp.sinc(x / np.pi)
        wave, slope = 2 * xp.cos(x), -(k[:, None] ** 2) * ball
    # By parts: the transforms of balls.
    return xp.concatenate([wave, slope], axis=1), ball @ xp.asarray(-fading.slope)


@lru_cache(maxsize=2)
def _node_waves(xp: ArrayModule, n: int, largest: float, padding: Padding) -> tuple[Any, Any, Any]:
    """Return `_waves` at the wavenumbers that `_pieces` needs; the same for all blocks of a plan.

    Intervals of 4/r: there a function of bandwidth r has Chebyshev coefficients like J_n(2).
    They begin at 0, so that the longest wave, divided by the least wavenumbers, is its own sum.
    """
    count = _intervals(largest, padding)
    places = 2 * np.arange(count)[:, None] + 1 + chebyshev.chebpts2(_TERMS)
    k = xp.asarray((largest * places / (2 * count)).ravel())
    return k, *_waves(xp, n, k, largest, padding)


def _intervals(largest: float, padding: Padding) -> int:
    """Return the intervals of the wavenumbers across, as long as `_node_waves` says."""
    return int(largest * _fading(largest, padding).r[-1] / 4) + 1


def _pieces(xp: ArrayModule, values: AnyArray) -> Any:
    """Chebyshev series, shape (terms, intervals, ...), of a function by its values at the nodes."""
    # By angles: polynomials of degree n, at nodes that are rounded, have n^2 roundings.
    last = _TERMS - 1
    turns = np.outer(np.arange(_TERMS), np.arange(last, -1, -1)) % (2 * last)
    basis = np.cos(np.pi / last * turns) * (2 / last)
    basis[[0, last]] /= 2
    basis[:, [0, last]] /= 2
    values = values.reshape((-1, _TERMS, *values.shape[1:]))
    return xp.tensordot(xp.asarray(basis), values, axes=(1, 1))


def _width(task: Task) -> int:
    """Return the modes evaluated at a time; 0-periodic sums have one alone."""
    return _WIDTH if task.periodicity else 1


def kernels(task: Task) -> list[Kernel]:
    """Return the kernels that make `transforms`, the last one of `_pieces`."""
    space, executor = task.space, task.executor
    first = load("fgc", "truncate", space, executor=executor)
    if task.periodicity == 2:
        return [first]
    width = _width(task)
    return [first, load("fgc", "evaluate", space, executor=executor, TERMS=_TERMS, WIDTH=width)]


def _evaluate(task: Task, pieces: Any, largest: float, k: Array) -> Any:
    """Evaluate `_pieces` at many k; shape (modes, k.size), or some more."""
    xp, width = task.xp, _width(task)
    terms, intervals, modes = pieces.shape
    groups = -(-modes // width)
    where = np if isinstance(pieces, np.ndarray) else xp
    whole = where.zeros((terms, intervals, groups * width))
    whole[:, :, :modes] = pieces
    values = xp.empty((groups * width, k.size))
    kernels(task)[-1](
        k.size,
        pieces=xp.asarray(whole),
        places=xp.asarray(k * (intervals / largest)),
        values=values,
        groups=groups,
        intervals=intervals,
    )
    return values
