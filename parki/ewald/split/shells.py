"""A split of spheres: the far field is spread over shells, and averaged over shells.

A force on a sphere of radius a is spread over its surface, and a sphere moves with the mean
velocity over its own. In the far field that multiplies a mode k by sinc(k a). A torque is spread,
and turns, by 3 j1(k a) / (k a). Either sphere multiplies the factor of points by one of these. The
radial functions follow from the mollifier alone, which for any factor gamma is

    psi(r) = 1/pi int gamma(k) cos(k r) dk                          of harmonic symbols,
    psi(r) = 2/pi int gamma(k) (j0(k r) - 2 j1(k r) / (k r)) dk     of biharmonic ones.

It ends later than the mollifier of points by the sum of the radii, at the cut-off or beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parki.ewald.split.of_points import OfPoints
from parki.ewald.split.prolate import Prolate
from parki.ewald.split.protocol import Factor, Split
from parki.ewald.split.quadrature import flow
from parki.ewald.split.radial_series import horner_order
from parki.ewald.split.waves import GONE, MOST, Tail, ball, of_waves, sampled, waves
from parki.ewald.sums.symbols import Shell
from parki.ewald.sums.tables import FLOW, RadialTables

Array = NDArray[np.float64]
LEAST = 2.5  # least cut-off, over the sum of the radii: polynomials of smaller ones lose digits
# Parts of the sum of the radii by which points have a smaller cut-off, of which the least is taken
# that makes no larger errors. With all of it the near field ends at the cut-off.
PARTS = (0.3, 0.5, 0.7, 1.0)


@dataclass(frozen=True)
class Shells(OfPoints):
    """The split of points ``base``, spread over and averaged over shells.

    Parameters
    ----------
    base : Split
        Its cut-off is the near field's less a part of both radii: see `keeps`.
    shells : tuple of 2 Shell
        The targets' and the sources'.
    order : int
        The symbol's: 1 harmonic, 2 biharmonic.
    """

    shells: tuple[Shell, Shell]
    order: int

    @property
    def bare(self) -> Shells:
        """The split itself."""
        return self

    @property
    def reach(self) -> float:
        """Sum of the radii."""
        return self.shells[0].radius + self.shells[1].radius

    def scaled(self, factor: float) -> Shells:
        """Return the same split with all lengths multiplied by ``factor``."""
        one, other = (shell._replace(radius=shell.radius * factor) for shell in self.shells)
        return replace(self, base=self.base.scaled(factor), shells=(one, other))

    def of_points(self, rc: float) -> tuple[Split, float]:
        """Return the split of points, whose errors bound these, and its cut-off."""
        return self.base, self.base.rc if isinstance(self.base, Prolate) else rc - self.reach

    def keeps(self, terms: Iterable[str], rc: float) -> bool:
        """Return whether points make errors as large, beyond the cut-off of their split.

        The near field may end beyond the cut-off by a part of the radii, as there is little of it:
        few parts of two shells are as near to each other.
        """
        base, end = self.of_points(rc)
        if rc - end >= self.reach * (1 - 1e-9):
            return True
        split, rc = self.scaled(1 / end), rc / end
        return base.band * end <= MOST and all(_smaller(split, rc, term) for term in terms)

    def factor(self, order: int) -> Factor:
        """Return the factor of points times the shells', as a polynomial in k^2."""
        base = self.base.factor(order)
        end = min(base.end, GONE)

        def values(t: Array) -> Array:
            x = end * (t + 1) / 2
            polynomial = np.polyval(base.coefficients, x - base.shift)
            return np.asarray(polynomial * self.shape(np.sqrt(x / base.scale)))

        more = int(math.sqrt(end / base.scale) * self.reach)
        series = sampled(values, base.coefficients.size + 30 + more)
        powers = horner_order(series, series.size - 1)
        powers *= (end / 2) ** -np.arange(series.size - 1.0, -1, -1)
        return Factor(powers, base.scale, end / 2, end, base.decays)

    def near(self, r: ArrayLike) -> tuple[Array, ...]:
        """Return the near field of points that are as far from their end."""
        return self.base.near(np.asarray(r) - self.reach)

    def series(self, rc: float) -> RadialTables:
        """Return Chebyshev series of the radial functions."""
        return _radial(self.scaled(1 / rc))

    def tables(self, rc: float, degree: int) -> RadialTables:
        """Return the polynomials that pairs take, with an exact integral of the flow of forces."""
        tables = self.radial_polynomials(rc, degree)
        if self.order != 2 or any(shell.turns for shell in self.shells):
            return tables
        less = 2 / 9 * sum((shell.radius / rc) ** 2 for shell in self.shells)
        return tables | {FLOW: flow(tables.flow, tables.smooth(1), 2 / 3 - less)}

    @property
    def positive(self) -> bool:
        """Whether the near field is positive: both fields have the square of the shells' factor."""
        return True

    def shape(self, k: Array) -> Array:
        """Return the factor of the shells for a mode."""
        one, other = (
            ball(k * shell.radius) if shell.turns else np.sinc(k * shell.radius / np.pi)
            for shell in self.shells
        )
        return np.asarray(one * other)


@lru_cache(maxsize=4096)
def _smaller(split: Shells, rc: float, term: str) -> bool:
    """Whether errors beyond rc are no larger than errors of points beyond 1, in all ways."""
    laplacian = sum(shell.radius**2 for shell in split.shells) / 6
    of_shells = Tail(split.base, split.order, rc, [(split.shape, 1.0, laplacian)]).size(term)
    points = _points(split.base, split.order, term)
    return all(ours <= theirs for ours, theirs in zip(of_shells, points, strict=True))


@lru_cache(maxsize=256)
def _points(base: Split, order: int, term: str) -> tuple[float, float]:
    """Errors of points beyond a cut-off of 1: mean square, and largest square."""
    return Tail(base, order, 1.0, [(np.ones_like, 1.0, 0.0)]).size(term)


@lru_cache(maxsize=256)
def _radial(split: Shells) -> RadialTables:
    """Radial functions for a cut-off of 1."""
    k, gamma = waves(split.base, split.order, 1 + split.reach)
    return of_waves(split.order, k, gamma * split.shape(k))
