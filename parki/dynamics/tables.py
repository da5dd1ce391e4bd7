"""`scalars`: the resistance of two spheres that forces, torques and stresslets alone do not have.

It is the exact resistance minus the inverse of `parki.reference.rigid_spheres.moment_mobility`. The
difference is positive for all radii and gaps, as the latter has fewer ways to push on the fluid.
`scripts/lubrication.py` makes the file of numbers from scratch. Below the gap `NEAR` it is the
singular part of `contact`, and a remainder by `near_basis`. From there to `FAR` it is a Chebyshev
series in the logarithm of the gap. The coefficients are Chebyshev series in the logarithm of the
ratio of the radii.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from parki.dynamics.contact import SCALARS, singular
from parki.interchange import to_host

FILE = Path(__file__).with_name("lubrication.npy")
NEAR, FAR = 0.08, 2.0  # gaps, over the mean radius
SMALLEST_RATIO = 0.2
# Pairs at a time, by whether they are on a device, and ratios whose pairs are taken together.
AT_ONCE, FEW = {False: 1 << 13, True: 1 << 20}, 8


def _powers(begin: tuple[int, ...]) -> Any:
    """Return the powers of a length in the scalars, of the motions from ``begin`` on, by m.

    A velocity counts 1/2, an angular velocity and a strain 3/2.
    """

    def power(m: int, motion: int) -> float:
        return 0.0 if motion < begin[m] else 0.5 if m < 2 and motion % 3 == 0 else 1.5

    return np.array([power(m, i) + power(m, j) for m, i, j in SCALARS])


LENGTHS, OF_SECOND = _powers((0, 0, 0)), _powers((3, 3, 1))


def near_basis(gap: Any) -> Any:
    """Return the functions (6, n) of the remainder near contact."""
    log = -np.log(gap)
    return np.stack([gap**0, gap, gap**2 * log, gap**2, gap**3 * log, gap**3])


def chebyshev(x: Any, terms: int) -> Any:
    """Return Chebyshev's polynomials (terms, n) of numbers from -1 to 1."""
    found = np.empty_like(x, shape=(terms, *x.shape))
    found[0], found[1] = 1, x
    for n in range(2, terms):
        found[n] = 2 * x * found[n - 1] - found[n - 2]
    return found


def by_gap(gap: Any) -> Any:
    """Return gaps from `NEAR` to `FAR` as numbers from -1 to 1."""
    return 2 * np.log(gap / NEAR) / math.log(FAR / NEAR) - 1


def by_ratio(ratio: Any) -> Any:
    """Return ratios from `SMALLEST_RATIO` to 1 as numbers from -1 to 1."""
    return 1 - 2 * np.log(ratio) / math.log(SMALLEST_RATIO)


@lru_cache(maxsize=1)
def coefficients() -> Any:
    """Return the numbers of the file, shape (by ratio, by gap, scalars)."""
    return np.load(FILE)


def scalars(gap: Any, ratio: Any) -> Any:
    """Return the numbers of pairs, shape (scalars, n), of radii 1 and ``ratio``.

    Parameters
    ----------
    gap : array, shape (n,), float64
        Positive, up to `FAR`.
    ratio : array, shape (n,), float64
        From `SMALLEST_RATIO` to 1.
    """
    found = np.empty_like(gap, shape=(len(SCALARS), gap.size))
    # What depends on the ratio alone is made on the host where few ratios serve all pairs.
    kinds = to_host(np.unique(ratio))
    each = kinds.size > FEW
    for kind in kinds[:1] if each else kinds:
        pairs = np.arange(gap.size, like=gap) if each else np.flatnonzero(ratio == kind)
        at_once = AT_ONCE[type(gap) is not np.ndarray]
        for begin in range(0, pairs.size, at_once):
            part = pairs[begin : begin + at_once]
            found[:, part] = _of_gaps(gap[part], ratio[part] if each else np.array([kind]))
    return found


def _of_gaps(gap: Any, ratio: Any) -> Any:
    """Return the numbers of some pairs, with one ratio for each, or one for all."""
    every = np.asarray(coefficients(), like=ratio)
    near = gap < NEAR
    x = np.where(near, gap, NEAR)
    functions = np.concatenate(
        [
            near * near_basis(x),
            ~near * chebyshev(by_gap(np.where(near, NEAR, gap)), every.shape[1] - 6),
        ]
    )
    of_ratio = chebyshev(by_ratio(ratio), len(every))
    if ratio.size == 1:
        weights = np.tensordot(of_ratio[:, 0], every, axes=1).T
        found = np.asarray(weights, like=gap) @ functions
    else:
        both = of_ratio[:, None] * functions
        found = every.reshape(-1, len(SCALARS)).T @ both.reshape(-1, gap.size)
    found *= np.asarray(ratio ** np.asarray(OF_SECOND, like=ratio)[:, None], like=gap)
    log, parts = -np.log(x), np.asarray(singular(ratio), like=gap)
    for function, part in zip((1 / x, log, x * log), parts, strict=True):
        found += near * function * part
    return found
