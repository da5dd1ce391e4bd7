"""Multipliers of kernels that end beyond all pairs, for the modes that free directions spoil.

The grid repeats along free directions too. Modes of small wavenumber along the periodic ones have
kernels that reach far: beyond all pairs they fade by chi (sharp ends ring: they broke the promise
47 times in a box of 4:1:1). Fading adds to the right hand sides of `parki.ewald.far.fading`, which
has the kernels p of Laplace, m of Stokes and l, what lives where it fades alone:

    transform of chi p = (4 pi - F[p]) / kappa^2
    transform of chi m = (8 pi - F[l]) / kappa^4 - F[m] / kappa^2
    F[f] = transform of div(f grad chi) + grad f . grad chi
         = integral of chi' (w f' - w' f) r^(n-1),  with the waves w(r) of wavenumber k

The rounding of F is divided by powers of kappa, as the multiplier is. By parts F has the slope of
chi alone, which has one sign: F[l] of a long wave is 8 pi to a few roundings. Terms of chi''
cancelled to a thirtieth of themselves, in other digits on each processor. Sharp ends in closed form
("Kernels that end" of docs/theory.md), less an integral of what fading takes away, have rounding of
one size at all k: in a box of 10:1:1 double layers stopped at 6e-11. With Brinkman's alpha

    transform of chi m = (8 pi - F[l]) / kappa^2 / (kappa^2 + alpha^2) - F[m] / (kappa^2 + alpha^2)
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from parki.ewald.far.fading import FadingKernels, fading_kernels, fading_length, fading_nodes
from parki.ewald.far.padding import Padding
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
    largest = min(largest, _SMOOTH / fading_length(padding))
    inside = across[: np.flatnonzero(across <= largest).max(initial=-1) + 1]
    # Others' kernels have gone before they fade: most of those in a plane.
    felt = np.flatnonzero(modes * fading_nodes(largest, padding).r[0] < _GONE)
    faded: Any = np.zeros((1, 1))
    if felt.size and inside.size:
        fading = fading_kernels(order, free, modes[felt], largest, padding, screening)
        nodes = fading_nodes(largest, padding).r.size
        waves_there = inside.size if free == 1 else _TERMS * _intervals(largest, padding)
        where = np if waves_there * nodes <= _FEW else xp
        faded = _added(where, free, modes[felt], inside, fading, largest, padding)
        if free == 1:
            faded = where.ascontiguousarray(faded.T)
        else:
            faded = _evaluate(task, _pieces(where, faded), largest, inside)
        row[felt], constant[felt] = np.arange(felt.size), volume * fading.constant
    return _Fades(largest, xp.asarray(faded), xp.asarray(row), xp.asarray(constant))


# ---------------------------------------------------------------------- kernels that fade


# ---------------------------------------------------------------------- their transforms
def _added(
    xp: ArrayModule,
    n: int,
    modes: Array,
    across: Any,
    kernels: FadingKernels,
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
    fading = fading_nodes(largest, padding)
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
    return int(largest * fading_nodes(largest, padding).r[-1] / 4) + 1


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
