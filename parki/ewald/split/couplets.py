"""The split of spheres of any radii with forces and couplets: `Lifted`, by tables T_n.

Forces and velocities have the factor ``1 - (k a)^2 / 6``, couplets and gradients ``1 - (k a)^2 /
10``. So pairs take more functions of the distance than forces do, and combine tables of the same
three levels by other weights. Errors beyond the cut-off are bounded by errors with the larger
factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.ewald.split.hasimoto import solve_radial, tails
from parki.ewald.split.lifted import LEAST, Lifted, levels, weights
from parki.ewald.split.means import plus
from parki.ewald.split.quadrature import gauss
from parki.ewald.split.waves import GONE, ball
from parki.ewald.sums import term_of
from parki.ewald.sums.pairs import AlikePolynomials, CoupletPolynomials, RadialPolynomials

Array = NDArray[np.float64]
# Integrals over all space of the flow of forces, and of the gradient of the flow of couplets, as
# in `means`: of points, of the Laplacian of their field, and of its.
WHOLE = (2 / 3, 1.0), (-4 / 3, 0.0), (0.0, 0.0)
_NODES = 96


@dataclass(frozen=True)
class LiftedCouplets(Lifted):
    """The split of points, and of their Laplacians, for pairs of forces and couplets."""

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

    def series(self, rc: float) -> CoupletPolynomials:
        """Return Chebyshev series of T_0 to T_3 of all levels."""
        base: Any = self.base.scaled(1 / rc)
        return CoupletPolynomials(*(t for each in levels(base, self.order) for t in _smooth(each)))

    def tables(self, rc: float, degree: int) -> Any:
        """Return the polynomials that pairs take, with exact integrals."""
        tables: CoupletPolynomials = self.radial_polynomials(rc, degree)
        balanced = (_balanced(tables[4 * n : 4 * n + 4], *whole) for n, whole in enumerate(WHOLE))
        return CoupletPolynomials(*(table for each in balanced for table in each))

    def losses(self, rc: float, term: str) -> Array:
        """Return bounds of the errors of cutting the series at each degree, shape (n,)."""
        series, square = self.series(rc), (self.largest / rc) ** 2 / 6
        total = np.zeros(max(each.size for each in series))
        for n, weight in enumerate(weights(square, self.sides)):
            own = series[4 * n : 4 * n + 4]
            s, lost = tails(own)
            r2 = (1 + s) / 2
            error = np.sqrt(term_of(term).square(r2, _functions(r2, *lost)).max(axis=1))
            total[: error.size] += weight * error
        return total


@dataclass(frozen=True)
class AlikeCouplets(LiftedCouplets):
    """The same split for spheres of one radius, the largest."""

    def tables(self, rc: float, degree: int) -> Any:
        """Return the polynomials that pairs take, with the Laplacians of both spheres."""
        tables, square = super().tables(rc, degree), (self.largest / rc) ** 2
        shell, own_ball = square / 6, square / 10

        def both(n: int, one: float, other: float) -> Array:
            points, once, twice = tables[n], tables[4 + n], tables[8 + n]
            return np.asarray(points + (one + other) * once + one * other * twice)

        return AlikePolynomials(
            *(both(n, shell, shell) for n in (0, 1)),
            *(both(n, shell, own_ball) for n in (1, 2)),
            *(both(n, own_ball, own_ball) for n in (1, 2, 3)),
        )


def _smooth(found: RadialPolynomials) -> tuple[Array, Array, Array, Array]:
    """Return T_0 to T_3, of ``(r^(2 n + 1) T_n)' = (-1)^n r^(2 n) Q_n`` with Q_n R, W and V."""
    return found.L, found.X, solve_radial(5, found.W), solve_radial(7, -found.V)


def _functions(r2: Array, t0: Array, t1: Array, t2: Array, t3: Array) -> RadialPolynomials:
    """Return radial functions at squared distances; V and U are not of these terms."""
    return RadialPolynomials(
        S=2 * t0 - r2 * t1, X=t1, R=r2 * t2 - 3 * t1, L=t0, W=5 * t2 - r2 * t3, V=0 * t0, U=0 * t0
    )


def _balanced(tables: tuple[Array, ...], flow: float, slope: float) -> tuple[Array, ...]:
    """Return T_0 to T_3 by which kernels have the right integrals over the ball of the cut-off.

    In units of the cut-off these are ``int (4 T_0 - 4/3 t^2 T_1) t^2 dt`` of the flow of forces and
    ``int (15 T_1 - 10 t^2 T_2 + t^4 T_3) t^2 dt`` of the gradient of the flow of couplets, which is
    minus ``int (5 R + t^2 W) t^2 dt`` of `parki.ewald.split.means`.
    """
    t0, t1, t2, t3 = tables
    nodes, own = gauss(_NODES)
    square = ((nodes + 1) / 2) ** 2  # of t
    own = own / 2 * square

    def value(table: Array) -> Array:
        return np.asarray(np.polyval(table, 2 * square - 1))

    integral = own @ (15 * value(t1) - 10 * square * value(t2) + square**2 * value(t3))
    t1 = plus(t1, (slope - integral) / 5)
    integral = own @ (4 * value(t0) - 4 / 3 * square * value(t1))
    return plus(t0, 3 / 4 * (flow - integral)), t1, t2, t3
