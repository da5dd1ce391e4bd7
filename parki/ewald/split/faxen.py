"""The split of spheres of any radii: points, and the Laplacian of their field, once and twice.

A sphere of radius a multiplies a mode k by ``1 - (k a)^2 / 6``, on the side of the targets, of the
sources, or both. So the field of points is the sum of these, with n = 0, 1, 2:

    (-k^2)^n gamma(k), which ``1``, ``(a^2 + b^2) / 6`` and ``(a b / 6)^2`` multiply,

where gamma is the factor of points. The radial functions of each follow from the quadrature of
`parki.ewald.split.waves`, and do not depend on the radii. Within the cut-off, the near field is
the pair function minus the far field's. Spheres must not overlap beyond it: their field is the
field of points with Laplacians there. The error beyond the cut-off grows with the radii.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from parki.ewald.split.hasimoto import Hasimoto
from parki.ewald.split.of_points import OfPoints
from parki.ewald.split.prolate import Prolate
from parki.ewald.split.protocol import Split
from parki.ewald.split.quadrature import flow, gauss, plus
from parki.ewald.split.radial_series import series_losses, solve_radial, tails
from parki.ewald.split.waves import GONE, MOST, Tail, ball, of_waves, waves
from parki.ewald.sums import term_of
from parki.ewald.sums.tables import FLOW, RadialTables, Table

Array = NDArray[np.float64]
# How negative a mode of the near field may be, over the mode of points. The near matrix sums over
# many modes: in suspensions its smallest eigenvalue stayed positive up to five times this.
LEAST = -0.05


@dataclass(frozen=True)
class FaxenSplit(OfPoints):
    """The split of points ``base``, and of their Laplacians, which the grid has apart.

    Parameters
    ----------
    base : Split
    largest : float
        The largest radius.
    sides : int
        On how many sides there are spheres: 1 for targets or sources, 2 for both.
    order : int
        The symbol's: 1 harmonic, 2 biharmonic.
    """

    largest: float
    sides: int
    order: int

    def scaled(self, factor: float) -> FaxenSplit:
        """Return the same split with all lengths multiplied by ``factor``."""
        return replace(self, base=self.base.scaled(factor), largest=self.largest * factor)

    def felt(self, order: int, k2: Array) -> Array:
        """Return the factor of the radius, 0 to the largest, that makes a mode largest."""
        size = np.abs(1 - k2 * self.largest**2 / 6) ** self.sides
        return np.asarray(self.base.felt(order, k2) * np.maximum(size, 1))

    @property
    def positive(self) -> bool:
        """Whether the near field is positive: for the largest spheres, and so for all."""
        factor = self.base.factor(self.order)
        k = np.linspace(0, math.sqrt(min(factor.end, GONE) / factor.scale), 400)
        whole = np.sinc(k * self.largest / np.pi) ** 2
        far = (1 - (k * self.largest) ** 2 / 6) ** 2 * factor.at(k**2)
        return bool((whole - far).min() >= LEAST)

    def enlarged(self, term: str, rc: float) -> tuple[float, float]:
        """Return the error of the near field over the error of points, or 1 if that is larger."""
        base = self.base.scaled(1 / rc)
        square = (self.largest / rc) ** 2
        # Beyond the cut-off the error falls as exp(-x r^2) by Hasimoto's split, x = (xi rc)^2, and
        # as J0(c sqrt(2 (r - 1))) by the other one. Laplacians have the powers of x and c.
        if isinstance(base, Prolate) and base.c > MOST:
            base, square = Prolate(MOST, base.rc), square * (base.c / MOST) ** 4
        if isinstance(base, Hasimoto) and base.xi**2 > MOST:
            base, square = Hasimoto(math.sqrt(MOST)), square * (base.xi**2 / MOST) ** 2
        return _ratios(base, self.order, term, square, self.sides)

    def series(self, rc: float) -> RadialTables:
        """Return Chebyshev series of the radial functions."""
        return RadialTables.of_levels(levels(self.base.scaled(1 / rc), self.order))

    def tables(self, rc: float, degree: int) -> RadialTables:
        """Return the polynomials that pairs take, with exact integrals of the flow of forces."""
        tables = self.radial_polynomials(rc, degree)
        if self.order != 2:
            return tables
        each = [tables.level(n) for n in range(len(WHOLE))]
        return RadialTables.of_levels(
            [
                own | {FLOW: flow(own.flow, own.smooth(1), whole)}
                for own, (whole, _) in zip(each, WHOLE, strict=True)
            ]
        )

    def losses(self, rc: float, term: str) -> Array:
        """Return bounds of the errors of cutting the series at each degree, shape (n,)."""
        base = self.base.scaled(1 / rc)
        each_level, square = levels(base, self.order), (self.largest / rc) ** 2 / 6
        total = np.zeros(max(each.flow.size for each in each_level))
        for weight, each in zip(weights(square, self.sides), each_level, strict=False):
            lost = series_losses(each, term)
            total[: lost.size] += weight * lost
        return total


def weights(square: float, sides: int) -> tuple[float, ...]:
    """Return the factors of the levels, for ``square`` a^2 / 6 of equal spheres on all sides."""
    return (1.0, square) if sides == 1 else (1.0, 2 * square, square**2)


@lru_cache(maxsize=256)
def levels(base: Split, order: int) -> tuple[RadialTables, ...]:
    """Radial functions of points and of their Laplacians, for a cut-off of 1."""
    k, gamma = waves(base, order, 1.0)
    return tuple(of_waves(order, k, gamma * (-(k**2)) ** n) for n in range(3))


@lru_cache(maxsize=4096)
def _ratios(base: Split, order: int, term: str, square: float, sides: int) -> tuple[float, float]:
    """Errors of spheres, of a squared radius, over errors of points, beyond a cut-off of 1."""
    tail = _tail(base, order)
    points, spheres = tail.size(term), tail.size(term, weights(square / 6, sides))
    rms, peak = (math.sqrt(max(1.0, b / a)) for a, b in zip(points, spheres, strict=True))
    return rms, peak


@lru_cache(maxsize=256)
def _tail(base: Split, order: int) -> Tail:
    """Errors of points and of their Laplacians, once and twice, beyond a cut-off of 1."""
    shapes = [(lambda k, n=n: (-(k**2)) ** n, n == 0, n == 1) for n in range(3)]
    return Tail(base, order, 1.0, shapes)


# Integrals over all space of the flow of forces, and of the gradient of the flow of their dipoles,
# as in `quadrature`: of points, of the Laplacian of their field, and of its.
WHOLE = (2 / 3, 1.0), (-4 / 3, 0.0), (0.0, 0.0)
_NODES = 96


@dataclass(frozen=True)
class ForceDipoleSplit(FaxenSplit):
    """The split of points, and of their Laplacians, for pairs of forces and force dipoles.

    Forces and velocities have the factor ``1 - (k a)^2 / 6``, force dipoles and gradients
    ``1 - (k a)^2 / 10``. So pairs take more functions of the distance than forces do, and combine
    tables T_n of the same three levels by other weights. Errors beyond the cut-off are bounded by
    errors with the larger factor.
    """

    @property
    def positive(self) -> bool:
        """Whether the near field is positive: for the largest spheres, and so for all."""
        factor = self.base.factor(self.order)
        k = np.linspace(0, math.sqrt(min(factor.end, GONE) / factor.scale), 400)
        x = k * self.largest
        whole = np.array([np.sinc(x / np.pi), ball(x)])
        far = np.array([1 - x**2 / 6, 1 - x**2 / 10]) * np.sqrt(factor.at(k**2))
        modes = whole[:, None] * whole - far[:, None] * far
        return bool(np.linalg.eigvalsh(modes.transpose(2, 0, 1)).min() >= LEAST)

    def series(self, rc: float) -> RadialTables:
        """Return Chebyshev series of T_0 to T_3 of all levels."""
        base = self.base.scaled(1 / rc)
        return RadialTables.of_levels([_smooth(each) for each in levels(base, self.order)])

    def tables(self, rc: float, degree: int) -> RadialTables:
        """Return the polynomials that pairs take, with exact integrals."""
        tables = self.radial_polynomials(rc, degree)
        return RadialTables.of_levels(
            [_balanced(tables.level(n), flow, slope) for n, (flow, slope) in enumerate(WHOLE)]
        )

    def losses(self, rc: float, term: str) -> Array:
        """Return bounds of the errors of cutting the series at each degree, shape (n,)."""
        series, square = self.series(rc), (self.largest / rc) ** 2 / 6
        total = np.zeros(max(each.size for each in series.values()))
        for n, weight in enumerate(weights(square, self.sides)):
            s, lost = tails(series.level(n))
            r2 = (1 + s) / 2
            error = np.sqrt(term_of(term).square(r2, _functions(r2, lost)).max(axis=1))
            total[: error.size] += weight * error
        return total


@dataclass(frozen=True)
class EqualForceDipoleSplit(ForceDipoleSplit):
    """The same split for spheres of one radius, the largest."""

    def tables(self, rc: float, degree: int) -> RadialTables:
        """Return the polynomials that pairs take, with the Laplacians of both spheres."""
        tables, square = super().tables(rc, degree), (self.largest / rc) ** 2
        shell, own_ball = square / 6, square / 10

        def joined(n: int, one: float, other: float) -> Array:
            points, one_shot, twice = (tables.smooth(n, laplacians) for laplacians in range(3))
            return np.asarray(points + (one + other) * one_shot + one * other * twice)

        result = {Table("shells", n): joined(n, shell, shell) for n in (0, 1)}
        result |= {Table("shell_ball", n): joined(n, shell, own_ball) for n in (1, 2)}
        result |= {Table("balls", n): joined(n, own_ball, own_ball) for n in (1, 2, 3)}
        return RadialTables(result)


def _smooth(tables: RadialTables) -> RadialTables:
    """Return T_0 to T_3, of ``(r^(2 n + 1) T_n)' = (-1)^n r^(2 n) psi_n``."""
    third, fourth = solve_radial(5, tables.psi(2)), solve_radial(7, -tables.psi(3))
    return RadialTables.of(smooth=(tables.smooth(0), tables.smooth(1), third, fourth))


def _functions(r2: Array, tables: RadialTables) -> RadialTables:
    """Return radial functions at squared distances; psi_3 and psi_4 are not of these terms."""
    t0, t1, t2, t3 = (tables.smooth(n) for n in range(4))
    return RadialTables.of(
        flow=2 * t0 - r2 * t1,
        smooth=(t0, t1),
        psi=(r2 * t2 - 3 * t1, 5 * t2 - r2 * t3, 0 * t0, 0 * t0),
    )


def _balanced(tables: RadialTables, flow: float, slope: float) -> RadialTables:
    """Return T_0 to T_3 by which kernels have the right integrals over the ball of the cut-off.

    In units of the cut-off these are ``int (4 T_0 - 4/3 t^2 T_1) t^2 dt`` of the flow of forces and
    ``int (15 T_1 - 10 t^2 T_2 + t^4 T_3) t^2 dt`` of the gradient of the flow of their dipoles,
    which is minus ``int (5 psi_1 + t^2 psi_2) t^2 dt`` of `parki.ewald.split.quadrature`.
    """
    t0, t1, t2, t3 = (tables.smooth(n) for n in range(4))
    nodes, weights = gauss(_NODES)
    square = ((nodes + 1) / 2) ** 2  # of t
    weights = weights / 2 * square

    def value(table: Array) -> Array:
        return np.asarray(np.polyval(table, 2 * square - 1))

    integral = weights @ (15 * value(t1) - 10 * square * value(t2) + square**2 * value(t3))
    t1 = plus(t1, (slope - integral) / 5)
    integral = weights @ (4 * value(t0) - 4 / 3 * square * value(t1))
    return RadialTables.of(smooth=(plus(t0, 3 / 4 * (flow - integral)), t1, t2, t3))
