"""Errors of the modes that a grid leaves out: see `parki.ewald.split.estimates`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from parki.ewald.split.estimates import EXPONENT, decay, legendre, symbol_size
from parki.ewald.split.protocol import Estimate, Split
from parki.ewald.sums import term_of

Array = NDArray[np.float64]
_PLANES = 32  # most planes of modes beyond a face that are summed one by one


def truncation(
    term: str, split: Split, steps: Sequence[float], volume: float, periods: Sequence[float] = ()
) -> Estimate:
    """Error of leaving out the modes outside the box ``|k_i| <= pi / steps[i]``.

    Sums over modes become sums over the planes of modes beyond each face of the box. A mode beyond
    two faces counts twice, which gives a bound.  Over a plane an isotropic integrand gives
    ``G(k) = 2 pi int_k^inf F(q) q dq``.  E^F of equation (10).  The error is zero if the split's
    band is within the box.

    - Along a period L the planes are ``2 pi / L`` apart, which may exceed the length over which
      F falls. The grid has half of the modes on the face: they keep half of their size.
    - Across it, F falls like a Gaussian with its value and its integral over the face's plane,
      ``exp(-a k^2)``. By Poisson's formula the sum over the modes of a period L is
      ``1 + 2 sum_m exp(-m^2 L^2 / 4 a)`` times the integral.

    Parameters
    ----------
    term : str
        A name in `parki.ewald.sums.TERMS`.
    split : Split
    steps : sequence of 3 float
        Grid spacings.
    volume : float
        Volume that the points fill.
    periods : sequence of float
        Edges of the first axes, which are periodic.  The modes of the others become integrals.
    """
    odd = term_of(term).power % 2 == 0  # modes k and -k cancel in a point's own error
    mean_square = peak = 0.0
    lengths = [*periods, *[math.inf] * (3 - len(periods))]
    for axis, edge in enumerate((np.pi / np.asarray(steps, dtype=np.float64)).tolist()):
        if edge >= split.band:
            continue
        others = lengths[:axis] + lengths[axis + 1 :]
        for power in (2, 1):
            integral, fall = _outside(term, split, edge, lengths[axis], power)
            integral *= math.prod(_over_integral(length, fall) for length in others)
            if power == 2:
                mean_square += integral / volume
            else:
                peak += integral
    return Estimate(float(np.sqrt(mean_square)), peak, 0.0 if odd else peak)


@lru_cache(maxsize=128)
def _outside(
    term: str, split: Split, edge: float, length: float, power: int
) -> tuple[float, float]:
    """Sum, over the modes beyond a face, of the symbol's size to a power; and a of its Gaussian."""
    s, planes, weights, k2, factor = _face(split, edge, length, power, term_of(term).order)
    size = symbol_size(term, factor, k2) ** power
    over_plane = 2 * np.pi * weights * size * (edge + s)
    total = over_plane.sum()
    if total < np.finfo(np.float64).tiny:  # below the smallest number
        return 0.0, 0.0
    fall = float(np.pi * size.max() / total)
    # On both sides of the box.
    return 2 * float(planes @ over_plane) / (2 * np.pi) ** 3, fall


def _over_integral(length: float, fall: float) -> float:
    """Return the sum of ``exp(-fall k^2)`` over the modes of a period, over its integral."""
    if length**2 > 4 * EXPONENT * fall:
        return 1.0
    x = length**2 / (4 * fall)
    if x < 1:  # by the modes themselves
        modes = np.exp(-((np.pi * np.arange(1, 4)) ** 2) / x)
        return float(math.sqrt(math.pi / x) * (1 + 2 * modes.sum()))
    return float(1 + 2 * np.exp(-x * np.arange(1, 6) ** 2).sum())


@lru_cache(maxsize=32)
def _face(split: Split, edge: float, length: float, power: int, order: int) -> tuple[Array, ...]:
    """Distances from a face, what planes are before them, weights, squared wavenumbers, factors.

    The first node is on the face, without weight. ``planes`` is the number of planes of modes up to
    a node, times their distance. The face's own plane counts as 2^-power, since the grid has half
    of it.
    """
    if math.isfinite(split.band):
        s, weights = ((split.band - edge) * x for x in legendre())
    else:
        s, weights = decay(edge, 1 / (np.sqrt(np.pi) * split.psi0), power / 4)
    end, step, share = float(weights.sum()), 2 * np.pi / length, 0.5**power
    if end > _PLANES * step:  # planes are so dense that their mean count is right
        planes = s + step * (share - 0.5)
    else:
        starts = np.arange(0.0, end, step)
        widths = np.minimum(step, end - starts)
        x, w = legendre()
        s, weights = (starts + widths * x[:, None]).T.ravel(), (widths * w[:, None]).T.ravel()
        planes = np.repeat(starts, x.size) + step * share
    s, planes, weights = (np.append(first, x) for first, x in ((0, s), (0, planes), (0, weights)))
    k2 = (edge + s) ** 2 + split.screening**2
    return s, planes, weights, k2, split.felt(order, k2)
