"""Functions that take the place of 1/r^k near a surface, of any order M, in closed form.

Let y be a target at the signed distance b from a surface, and r = y - x for a node x. With
coordinates xi of the surface around the nearest point, r^2 = b^2 + |xi|^2. A layer with F_k, the
change of 1/r^k, vanishes to order M if M moments of F_k over t = (r^2 - b^2)/w^2 do. Laguerre
polynomials are orthogonal under exp(-t), so that with lengths in the width w

    F_1 = erfc(r)/r - exp(-r^2) sum_{n<M} p_n L_n(t),        F_{k+2} = -(2/k) dF_k/dt,

where p_n are the Laguerre coefficients of erfc(r)/r. M = 2 and 3 are the functions of orders 5 and
7 of J. T. Beale and S. Tlupova (Advances in Computational Mathematics 50, 2024; arXiv 2510.13639).
One moment more is known in closed form: it is the jump, which `Functions.jump` spreads over the
nodes as a smooth delta function. Docs: `docs/boundary_integrals.md`.

One program for NumPy and CuPy. The module knows no kernels and no surfaces.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

from parki.typing import AnyArray, ArrayModule

# c_k, by which exp(-r^2) L_n^((k-1)/2)(t) occurs in F_k.
FACTORS = {1: 1.0, 3: 2.0, 5: 4 / 3, 7: 8 / 15}
TERMS = 20  # of series of smooth kernels, below one width
FROM_FAR = 250  # orders above the wanted ones at which the downward recurrence starts


def special(xp: ArrayModule) -> Any:
    """Return the special functions of NumPy's or CuPy's arrays."""
    return importlib.import_module("scipy.special" if xp is np else "cupyx.scipy.special")


def coefficients(xp: ArrayModule, distance: AnyArray, order: int) -> Any:
    """Return p_n for n < order: n! 2^(2n+1) exp(d^2) times the (2n+1)-fold integral of erfc.

    Parameters
    ----------
    distance : array, shape (n,)
        Distances d from the surface, in widths, not negative.
    order : int

    Returns
    -------
    array, shape (order, n)
        To 3e-13 for d up to 6. With e_m = exp(d^2) i^m erfc(d), e_{m-2} = 2 m e_m + 2 d e_{m-1},
        which is stable downwards, and upwards for small d.
    """
    top, first = 2 * order - 1, 2 / math.sqrt(math.pi)
    upward = [xp.full(distance.shape, first), special(xp).erfcx(distance)]  # e_{-1}, e_0
    for m in range(1, top + 1):
        upward.append((upward[-2] - 2 * distance * upward[-1]) / (2 * m))
    clipped = xp.maximum(distance, 0.5)  # where it is used, and some more
    higher, lower = xp.zeros_like(distance), xp.full(distance.shape, 1e-300)
    downward: dict[int, Any] = {}
    for m in range(top + FROM_FAR, 0, -1):
        higher, lower = lower, 2 * m * higher + 2 * clipped * lower  # e_{m-1}, e_{m-2}
        scale = xp.where(lower > 1e200, 1e-200, 1.0)
        higher, lower = higher * scale, lower * scale
        downward = {key: value * scale for key, value in downward.items()}
        if m - 2 <= top:
            downward[m - 2] = lower
    rows = []
    for n in range(order):
        m = 2 * n + 1
        value = xp.where(distance < 1, upward[m + 1], downward[m] * first / downward[-1])
        rows.append(math.factorial(n) * 2.0**m * value)
    return xp.stack(rows)


def laguerre(alpha: int, top: int, t: AnyArray) -> Any:
    """Yield the Laguerre polynomials L_n^(alpha)(t) for n = 0 to top."""
    before, value = 0 * t, 0 * t + 1
    for n in range(top + 1):
        yield value
        next_ = ((2 * n + 1 + alpha - t) * value - (n + alpha) * before) / (n + 1)
        before, value = value, next_


class Functions:
    """What a correction has in place of 1/r^k, for pairs of a target and a node.

    The sums have 1/r^k already. So corrections have -F_k, where nothing cancels; and for the pairs
    that the sums leave out, the finite 1/r^k - F_k.

    Parameters
    ----------
    squared : array, shape (n,)
        Squared distances of the pairs.
    b : array, shape (n,)
        Signed distances of their targets from the surface, positive outside.
    width : array, shape (n,)
    sign : array, shape (n,)
        Of b; where b = 0, 1 is the limit from outside, -1 from inside, 0 the mean of both.
    p : array, shape (order, n)
        `coefficients` of |b|/width.
    excluded : array, shape (n,), bool
        Whether the sums leave a pair out.
    """

    def __init__(
        self,
        xp: ArrayModule,
        squared: AnyArray,
        b: AnyArray,
        width: AnyArray,
        sign: Any,
        p: Any,
        excluded: AnyArray,
    ) -> None:
        self.xp, self.width, self.p = xp, width, p
        self.rho2 = squared / width**2
        self.distance, self.sign = abs(b) / width, sign
        self.t = self.rho2 - self.distance**2
        self.damp = xp.exp(-self.rho2)
        self.across = squared - b**2  # squared distance along the surface
        self._singular = Complements(xp, self.rho2, self.damp, excluded)
        self._found: dict[int, Any] = {}

    def __getitem__(self, k: int) -> Any:
        """Return the function for 1/r^k, k = 1, 3, 5 or 7."""
        if k not in self._found:
            series = self._series(k)
            value = FACTORS[k] * self.damp * series - self._singular[k]
            self._found[k] = value / self.width**k
        return self._found[k]

    def jump(self, k: int) -> Any:
        """Return the jump for 1/r^k, k = 3, 5 or 7: a kernel adds it to b times the function.

        It is bounded at b = 0. A correction adds it, too, since 1/r^k itself has no jump.
        """
        d = self.distance
        part = special(self.xp).erfc(d) - d * self.xp.exp(-(d**2)) * self.p.sum(axis=0)
        factor = FACTORS[k] * self.sign * part / self.width ** (k - 1)
        return factor * self.bump((k - 1) // 2)

    def bump(self, alpha: int = 1) -> Any:
        """Return a smooth delta function on the surface, with another factor than one."""
        *_, last = laguerre(alpha, len(self.p), self.t)
        return self.xp.exp(-self.t) * last

    def _series(self, k: int) -> Any:
        polynomials = laguerre((k - 1) // 2, len(self.p) - 1, self.t)
        return sum(p * polynomial for p, polynomial in zip(self.p, polynomials, strict=True))


class Complements:
    """E_k = Gamma(k/2, r^2) / (Gamma(k/2) r^k), what a smooth kernel lacks of 1/r^k, in widths.

    For a pair that the sums left out it is minus the smooth kernel itself, E_k - 1/r^k: below one
    width by a series of positive terms, since 1/r^k takes all digits of E_k where r is small.
    """

    def __init__(self, xp: ArrayModule, rho2: AnyArray, damp: Any, excluded: AnyArray) -> None:
        self._excluded = xp.flatnonzero(excluded)
        few = rho2[self._excluded]
        self._few, self._few_damp, self._small = few, damp[self._excluded], few < 1
        self._rho2, self._damp = rho2.copy(), damp
        self._rho2[self._excluded] = xp.maximum(few, 1.0)
        rho = xp.sqrt(self._rho2)
        self._xp, self._values = xp, {1: special(xp).erfc(rho) / rho}

    def __getitem__(self, k: int) -> Any:
        value = self._value(k)
        if not self._excluded.size:
            return value
        series = sum(self._few**j / math.gamma(k / 2 + 1 + j) for j in range(TERMS))
        difference = self._rho2[self._excluded] ** (-k / 2) - value[self._excluded]
        value = value.copy()
        value[self._excluded] = -self._xp.where(self._small, self._few_damp * series, difference)
        return value

    def _value(self, k: int) -> Any:
        if k not in self._values:
            gamma = math.gamma(k / 2)
            self._values[k] = (self._value(k - 2) + self._damp / gamma) / self._rho2
        return self._values[k]


class Smooth:
    """The change from 1/r^k to a kernel that is smooth at the width, with the signs of `Functions`.

    Kernels have their plain numerators; the sums leave out the pairs ``excluded``.
    """

    def __init__(
        self, xp: ArrayModule, squared: AnyArray, width: AnyArray, excluded: AnyArray
    ) -> None:
        rho2 = squared / width**2
        self._width = width
        self._complements = Complements(xp, rho2, xp.exp(-rho2), excluded)
        self.across = squared

    def __getitem__(self, k: int) -> Any:
        return -self._complements[k] / self._width**k

    def jump(self, k: int) -> Any:
        """Nothing: smooth kernels have no jump."""
        return 0.0


class Singular:
    """The functions 1/r^k of the sums themselves, which leave out a pair at r = 0.

    Areas are in them, as each term of a kernel has one of the functions.
    """

    def __init__(self, xp: ArrayModule, squared: AnyArray, areas: AnyArray) -> None:
        self.across = squared
        inverse = 1 / xp.where(squared > 0, squared, xp.inf)
        self._square, self._values = inverse, {1: xp.sqrt(inverse) * areas}

    def __getitem__(self, k: int) -> Any:
        if k not in self._values:  # products, since powers take ten times as long
            self._values[k] = self[k - 2] * self._square
        return self._values[k]

    def jump(self, k: int) -> Any:
        """Nothing: the sums have no jump."""
        return 0.0
