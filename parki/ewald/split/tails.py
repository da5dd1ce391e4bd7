"""Errors of spheres beyond the cut-off, by quadrature: the far field minus the field of spheres.

Beyond the cut-off spheres do not overlap: their field is the field of points, and a multiple of its
Laplacian. The errors are compared with errors of points, which have closed forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from parki.ewald.split.hasimoto import Hasimoto, Split
from parki.ewald.split.waves import gauss, waves
from parki.ewald.sums import term_of
from parki.ewald.sums.pairs import RadialPolynomials

Array = NDArray[np.float64]
# Exponent of the near field's error up to which a quadrature finds the error.
MOST = 26.0
FAR = 5.0  # cut-offs up to which the quadrature goes


class Tail:
    """Distances beyond a cut-off, with weights, and errors there.

    Parameters
    ----------
    base : Split
        The split of points.
    order : int
        The symbol's: 1 harmonic, 2 biharmonic.
    rc : float
    shapes : sequence of (callable, float, float)
        ``shape(k)`` multiplies the far field's modes. The numbers multiply the field of points and
        its Laplacian, which make up the exact field.

    Attributes
    ----------
    levels : array, shape (shapes, functions, distances)
        The error of each shape, as radial functions.
    """

    def __init__(
        self,
        base: Split,
        order: int,
        rc: float,
        shapes: Sequence[tuple[Callable[[Array], Array], float, float]],
    ) -> None:
        reach, base = FAR * rc, base.endless
        if isinstance(base, Hasimoto):
            reach = rc * math.sqrt(1 + 20 / (base.xi * rc) ** 2)
        k, gamma = waves(base, order, reach)
        x, weights = gauss(60 + int(2 * (reach - rc) * k[-1]))
        r, self.weights = rc + (reach - rc) * (x + 1) / 2, (reach - rc) / 2 * weights
        z = np.multiply.outer(r, k)
        j0, cosine = np.sin(z) / z, np.cos(z)
        g1 = (j0 - cosine) / z**2  # j1(z) / z
        g2 = (3 * g1 - j0) / z**2  # j2(z) / z^2
        g3 = (5 * g2 - g1) / z**2  # j3(z) / z^3
        if order == 1:
            mean, psi, slope = j0 / 2, cosine / 2, -(k**2) * j0 / 2
            second = k**4 * g1 / 2
        else:
            mean, psi, slope = g1, j0 - 2 * g1, k**2 * (2 * g2 - g1)
            second = k**4 * (g2 - 2 * g3)
        levels = []
        for shape, point, laplacian in shapes:
            own = 2 / np.pi * gamma * shape(k)
            lap = laplacian * (order == 2)  # a harmonic field has none
            m = mean @ own - (0.5 * point / r - lap / r**3)
            q = psi @ own - 2 * lap / r**3
            s, w = slope @ own + 6 * lap / r**5, second @ own - 30 * lap / r**7
            levels.append((m + q, (m - q) / r**2, s, m, w, 0 * r, 0 * r))
        self.r, self.levels = r, np.array(levels)

    def size(self, term: str, weights: Sequence[float] = (1.0,)) -> tuple[float, float]:
        """Return the mean square, and the largest square, of a sum of the errors."""
        fields = np.tensordot(weights, self.levels[: len(weights)], 1)
        error = term_of(term).square(self.r**2, RadialPolynomials(*fields))
        return float(self.weights @ (self.r**2 * error)), float(error.max())
