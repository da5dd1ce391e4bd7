"""`scalars`: the resistance of two spheres that forces, torques and stresslets alone do not have.

It is the exact resistance minus the inverse of `parki.reference.rigid_spheres.moment_mobility`. The
difference is positive for all radii and gaps, as the latter has fewer ways to push on the fluid.
`scripts/lubrication.py` makes the file of numbers from scratch. Below the gap `NEAR` it is the
singular part, and a remainder by `near_basis`. From there to `FAR` it is a Chebyshev
series in the logarithm of the gap. The coefficients are Chebyshev series in the logarithm of the
ratio of the radii.

With the gap ``xi = 2 r / (a + b) - 2`` a resistance function is

    g1 / xi + g2 ln(1 / xi) + g3 xi ln(1 / xi) + a smooth remainder,

by Jeffrey and Onishi (1984) and Jeffrey (1992): the first three are the singular part. `SCALARS`
names the numbers of a pair of spheres 1 and 2. They are entries of symmetric matrices between
motions of the spheres in a frame whose axis z runs from sphere 1 to sphere 2. Motions are as in
`parki.reference.rigid_spheres`:

    m = 0    U_z  W_z  E_zz    of sphere 1, then of sphere 2
    m = 1    U_x  W_y  E_xz
    m = 2    E_xx-yy
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from parki.interchange import to_host
from parki.typing import AnyArray

SIZES = 6, 6, 2
# All others of m = 0 are zero, as rotations about the axis move nothing else.
SCALARS = [
    (m, i, j)
    for m, size in enumerate(SIZES)
    for i in range(size)
    for j in range(i, size)
    if m or (i % 3 == 1) == (j % 3 == 1)
]
PLACES = {scalar: place for place, scalar in enumerate(SCALARS)}
SQRT2, SQRT6 = math.sqrt(2), math.sqrt(6)


def singular(ratio: AnyArray) -> Any:
    """Return g1, g2 and g3 of the scalars of radii 1 and ``ratio`` (n,), shape (3, scalars, n)."""
    terms: Any = np.zeros_like(ratio, shape=(3, len(SCALARS), *ratio.shape))
    for first, (a, b) in enumerate(((1 + 0 * ratio, ratio), (ratio, 1 + 0 * ratio))):
        one, both = _coefficients(b / a), a + b
        # Seen from sphere 2, the vector between the spheres has the other sign.
        sign, i, j = (1 - 2 * first), 3 * first, 3 - 3 * first

        def put(m: int, row: int, column: int, size: Any, values: AnyArray) -> None:
            place = PLACES[m, min(row, column), max(row, column)]
            for order, each in enumerate(values):
                terms[order, place] = size * each

        functions = {name: values[0] for name, values in one.items()}
        put(0, i, i, 0.75 * a, functions["XA"])
        put(0, i + 1, i + 1, a**3, functions["XC"])
        put(0, i + 2, i + 2, 5 / 6 * a**3, functions["XM"])
        put(0, i + 2, i, sign * a * a / SQRT6, functions["XG"])
        put(1, i, i, 0.75 * a, functions["YA"])
        put(1, i + 1, i, -sign * a * a / 2, functions["YB"])
        put(1, i + 1, i + 1, a**3, functions["YC"])
        put(1, i + 2, i, sign * a * a / SQRT2, functions["YG"])
        put(1, i + 2, i + 1, a**3 * SQRT2, functions["YH"])
        put(1, i + 2, i + 2, 5 / 6 * a**3, functions["YM"])
        put(2, first, first, 5 / 6 * a**3, functions["ZM"])
        other = {name: values[1] for name, values in one.items()}
        put(0, i, j, 3 * both / 8, other["XA"])
        put(0, i + 1, j + 1, both**3 / 8, other["XC"])
        put(0, i + 2, j + 2, 5 / 48 * both**3, other["XM"])
        put(0, i + 2, j, sign * both**2 / 4 / SQRT6, other["XG"])
        put(1, i, j, 3 * both / 8, other["YA"])
        put(1, i + 1, j, -sign * both**2 / 8, other["YB"])
        put(1, i + 1, j + 1, both**3 / 8, other["YC"])
        put(1, i + 2, j, sign * both**2 / 8 * SQRT2, other["YG"])
        put(1, i + 2, j + 1, both**3 / 8 * SQRT2, other["YH"])
        put(1, i + 2, j + 2, 5 / 48 * both**3, other["YM"])
        put(2, 0, 1, 5 / 48 * both**3, other["ZM"])
    return terms


def _coefficients(q: AnyArray) -> dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Return g1, g2 and g3 by name, of a sphere's own motion and of the other one's.

    ``q`` is the other radius over its own.
    """
    d, e, none = (1 + q) ** 3, (1 + q) ** 2, 0 * q

    def same(factor: AnyArray, *g: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return g, tuple(factor * each for each in g)

    def other(factor: AnyArray, g: tuple[Any, ...], h: tuple[Any, ...]) -> tuple[Any, Any]:
        return g, tuple(factor * each for each in h)

    a, b, c = -2 / (1 + q), -4 / e, 8 / d
    return {
        "XA": same(
            a,
            2 * q**2 / d,
            q * (1 + 7 * q + q**2) / (5 * d),
            (1 + 18 * q - 29 * q**2 + 18 * q**3 + q**4) / (42 * d),
        ),
        "YA": same(
            a,
            none,
            4 * q * (2 + q + 2 * q**2) / (15 * d),
            2 * (16 - 45 * q + 58 * q**2 - 45 * q**3 + 16 * q**4) / (375 * d),
        ),
        "YB": same(
            b, none, -q * (4 + q) / (5 * e), -(32 - 33 * q + 83 * q**2 + 43 * q**3) / (250 * e)
        ),
        "XC": other(c, (none, none, -(q**2) / (4 * (1 + q))), (none, none, q**2 / (4 * (1 + q)))),
        "YC": other(
            c,
            (none, 2 * q / (5 * (1 + q)), (8 + 6 * q + 33 * q**2) / (125 * (1 + q))),
            (none, q**2 / (10 * (1 + q)), q * (43 - 24 * q + 43 * q**2) / (500 * (1 + q))),
        ),
        "XG": same(
            b,
            3 * q**2 / d,
            0.3 * (q + 12 * q**2 - 4 * q**3) / d,
            (5 + 181 * q - 453 * q**2 + 566 * q**3 - 65 * q**4) / (140 * d),
        ),
        "YG": same(
            b,
            none,
            0.1 * (4 * q - q**2 + 7 * q**3) / d,
            (32 - 179 * q + 532 * q**2 - 356 * q**3 + 221 * q**4) / (500 * d),
        ),
        "YH": other(
            c,
            (none, (2 * q - q**2) / (10 * e), (16 - 61 * q + 180 * q**2 + 2 * q**3) / (500 * e)),
            (
                none,
                (q**2 + 7 * q**3) / (20 * e),
                (43 * q + 147 * q**2 - 185 * q**3 + 221 * q**4) / (1000 * e),
            ),
        ),
        "XM": other(
            c,
            (
                1.2 * q**2 / d,
                0.12 * (q + 17 * q**2 - 9 * q**3) / d,
                (5 + 272 * q - 831 * q**2 + 1322 * q**3 - 415 * q**4) / (350 * d),
            ),
            (
                1.2 * q**3 / d,
                0.12 * (-4 * q**2 + 17 * q**3 - 4 * q**4) / d,
                (-65 * q + 832 * q**2 - 1041 * q**3 + 832 * q**4 - 65 * q**5) / (350 * d),
            ),
        ),
        # The second g3 has -748, by fits to exact numbers at three ratios; some print -728.
        "YM": other(
            c,
            (
                none,
                0.24 * (q - q**2 + 4 * q**3) / d,
                (24 - 201 * q + 882 * q**2 - 1182 * q**3 + 591 * q**4) / (625 * d),
            ),
            (
                none,
                0.06 * (7 * q**2 - 10 * q**3 + 7 * q**4) / d,
                3 * q * (221 - 748 * q + 1902 * q**2 - 748 * q**3 + 221 * q**4) / (2500 * d),
            ),
        ),
        "ZM": same(-c, none, none, -0.3 * (q**2 + q**4) / d),
    }


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


def near_basis(gap: AnyArray) -> Any:
    """Return the functions (6, n) of the remainder near contact."""
    log = -np.log(gap)
    return np.stack([gap**0, gap, gap**2 * log, gap**2, gap**3 * log, gap**3])


def chebyshev(x: AnyArray, terms: int) -> Any:
    """Return Chebyshev's polynomials (terms, n) of numbers from -1 to 1."""
    values = np.empty_like(x, shape=(terms, *x.shape))
    values[0], values[1] = 1, x
    for n in range(2, terms):
        values[n] = 2 * x * values[n - 1] - values[n - 2]
    return values


def by_gap(gap: AnyArray) -> Any:
    """Return gaps from `NEAR` to `FAR` as numbers from -1 to 1."""
    return 2 * np.log(gap / NEAR) / math.log(FAR / NEAR) - 1


def by_ratio(ratio: AnyArray) -> Any:
    """Return ratios from `SMALLEST_RATIO` to 1 as numbers from -1 to 1."""
    return 1 - 2 * np.log(ratio) / math.log(SMALLEST_RATIO)


@lru_cache(maxsize=1)
def coefficients() -> Any:
    """Return the numbers of the file, shape (by ratio, by gap, scalars)."""
    return np.load(FILE)


def scalars(gap: AnyArray, ratio: AnyArray) -> Any:
    """Return the numbers of pairs, shape (scalars, n), of radii 1 and ``ratio``.

    Parameters
    ----------
    gap : array, shape (n,), float64
        Positive, up to `FAR`.
    ratio : array, shape (n,), float64
        From `SMALLEST_RATIO` to 1.
    """
    rows = np.empty_like(gap, shape=(len(SCALARS), gap.size))
    # What depends on the ratio alone is made on the host where few ratios serve all pairs.
    kinds = to_host(np.unique(ratio))
    each = kinds.size > FEW
    for kind in kinds[:1] if each else kinds:
        pairs = np.arange(gap.size, like=gap) if each else np.flatnonzero(ratio == kind)
        at_once = AT_ONCE[type(gap) is not np.ndarray]
        for begin in range(0, pairs.size, at_once):
            part = pairs[begin : begin + at_once]
            rows[:, part] = _of_gaps(gap[part], ratio[part] if each else np.array([kind]))
    return rows


def weights(ratio: float) -> Any:
    """Return the weights (27, scalars) of functions of the gap, for radii 1 and a ratio.

    The functions are `near_basis`, ``1 / gap``, ``log``, ``gap log`` with the negative logarithm,
    up to `NEAR`; and beyond it Chebyshev's polynomials of `by_gap`.
    """
    one = np.array([ratio])
    every = coefficients()
    rows = np.tensordot(chebyshev(by_ratio(one), len(every))[:, 0], every, axes=1)
    rows *= ratio**OF_SECOND
    return np.concatenate([rows[:6], singular(one)[..., 0], rows[6:]])


def _of_gaps(gap: AnyArray, ratio: AnyArray) -> Any:
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
        rows = np.asarray(weights, like=gap) @ functions
    else:
        both = of_ratio[:, None] * functions
        rows = every.reshape(-1, len(SCALARS)).T @ both.reshape(-1, gap.size)
    rows *= np.asarray(ratio ** np.asarray(OF_SECOND, like=ratio)[:, None], like=gap)
    log, parts = -np.log(x), np.asarray(singular(ratio), like=gap)
    for function, part in zip((1 / x, log, x * log), parts, strict=True):
        rows += near * function * part
    return rows
