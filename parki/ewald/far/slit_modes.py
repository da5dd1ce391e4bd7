"""The flows of Stokes between two walls, mode by mode: closed forms of the correction.

For a wave vector of length k, with ``y = k (z - H/2)`` and cosh and sinh of y times ``e^{-kH/2}``,
named c and s, six flows are ``e^{ikx}`` times

======  =====================  ==========  ========  =========
flow    along the wave vector  across      pressure  d/dz
======  =====================  ==========  ========  =========
S       i c                    s           0         k C
R       i y s                  y c - s     2k c      k Q
C       i s                    c           0         k S
Q       i (s + y c)            y s         2k s      k (R + 2S)
T+      c, transverse                                k T-
T-      s, transverse                                k T+
======  =====================  ==========  ========  =========

What images in both walls lack of the flow of a force f at y is ``Phi(x) M Phi(y)^H f``. So each
kind of source is a linear operation on these flows, and so is each result.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# Flows, by their values along (l, t, z), of c, s, y c and y s.
FLOWS = np.zeros((6, 3, 4), dtype=complex)
FLOWS[0, 0, 0], FLOWS[0, 2, 1] = 1j, 1
FLOWS[1, 0, 3], FLOWS[1, 2, 2], FLOWS[1, 2, 1] = 1j, 1, -1
FLOWS[2, 0, 1], FLOWS[2, 2, 0] = 1j, 1
FLOWS[3, 0, 1], FLOWS[3, 0, 2], FLOWS[3, 2, 3] = 1j, 1j, 1
FLOWS[4, 1, 0] = FLOWS[5, 1, 1] = 1
# Their pressures over k, derivatives along z over k, and Laplacians over k^2, of the flows.
PRESSURES, SLOPES, LAPLACIANS = np.zeros((6, 4)), np.zeros((6, 6)), np.zeros((6, 6))
PRESSURES[1, 0] = PRESSURES[3, 1] = 2
SLOPES[0, 2] = SLOPES[1, 3] = SLOPES[2, 0] = SLOPES[3, 1] = SLOPES[4, 5] = SLOPES[5, 4] = 1
SLOPES[3, 0] = LAPLACIANS[1, 0] = LAPLACIANS[3, 2] = 2
TERMS = 30  # of Taylor series below kH = 1


class SlitModes(NamedTuple):
    """The wave vectors up to a length, one of each two that are opposite, and what they mean.

    Attributes
    ----------
    gap : float
        The distance of the walls, H.
    vectors : ndarray, shape (2, 2)
        The lattice's, in rows.
    numbers, waves : ndarray, shape (M, 2)
        The wave vectors, by their numbers along the reciprocal vectors, too.
    matrices : ndarray, shape (M, 6, 6)
        Twice M, for the opposite wave vectors.
    flux : tuple of 2 bools
        For each axis whether the fluid has no net flux.
    """

    gap: float
    vectors: Array
    numbers: NDArray[np.int64]
    waves: Array
    matrices: Array
    flux: tuple[bool, bool]

    @classmethod
    def of(cls, vectors: Array, gap: float, most: float, flux: tuple[bool, bool]) -> SlitModes:
        """Return the modes up to this length, for lattice vectors in rows, (2, 2)."""
        area, back = abs(float(np.linalg.det(vectors))), 2 * np.pi * np.linalg.inv(vectors).T
        first, second = (int(most * np.hypot(*row) / (2 * np.pi)) for row in vectors)
        i, j = np.meshgrid(np.arange(-first, first + 1), np.arange(second + 1), indexing="ij")
        numbers = np.stack([i, j], axis=-1)[(j > 0) | (i > 0)]
        numbers = numbers[np.hypot(*(numbers @ back).T) <= most]
        waves = numbers @ back
        matrices = 2 * _matrices(np.hypot(*waves.T), gap, area)
        return cls(gap, vectors, numbers, waves, matrices, flux)

    @property
    def finest(self) -> float:
        """Half the length of the shortest wave."""
        return float(np.pi / self.lengths.max())

    @property
    def area(self) -> float:
        """The area of a period."""
        return abs(float(np.linalg.det(self.vectors)))

    @property
    def lengths(self) -> Array:
        """The lengths of the wave vectors, (M,)."""
        return np.asarray(np.hypot(*self.waves.T))


def _brackets(kappa: Array) -> list[Array]:
    """Return b1, b2 and ``2 (sinh kappa - kappa)``, which vanish as powers of kappa."""
    small, series = np.minimum(kappa, 1.0), [np.zeros_like(kappa) for _ in range(3)]

    def over(m: int) -> float:
        return (-1.0) ** m / math.factorial(m) if m >= 0 else 0.0

    for n in range(2, TERMS):
        power = small**n
        series[1] += (over(n) - over(n - 1) - 2 * (n == 2)) * power
        if n >= 3:
            series[0] += (4 * over(n) - 4 * over(n - 1) + 2 * over(n - 2) + 4 * (n == 3)) * power
            series[2] += 2 * (n % 2) / math.factorial(n) * power
    e = np.exp(-kappa)
    plain = (
        -4 + 4 * e + 8 * kappa - 4 * kappa * e - 8 * kappa**2 + 2 * kappa**2 * e + 4 * kappa**3,
        -1 + e + 2 * kappa - kappa * e - 2 * kappa**2,
        (1 - e * e) / e - 2 * kappa,
    )
    return [np.where(kappa < 1, a, b) for a, b in zip(series, plain, strict=True)]


def _matrices(lengths: Array, gap: float, area: float) -> Array:
    """Return M (n, 6, 6), real and symmetric, for wave vectors of these lengths."""
    kappa = lengths * gap
    e, (b1, b2, d) = np.exp(-kappa), _brackets(kappa)
    matrices = np.zeros((len(kappa), 6, 6))
    matrices[:, 0, 0] = -b1 / d
    matrices[:, 0, 1] = matrices[:, 1, 0] = -4 * b2 / d
    matrices[:, 1, 1] = -8 * (e + 2 * kappa) / d
    over = e / (1 - e * e + 2 * kappa * e)
    g0, g1, g2 = 1 - e + kappa, 1 - e + 2 * kappa, 4 * kappa - 2 * e
    matrices[:, 2, 2] = over * (4 * g0 + 4 * kappa * g1 + kappa**2 * g2)
    matrices[:, 2, 3] = matrices[:, 3, 2] = -over * (4 * g1 + 2 * kappa * g2)
    matrices[:, 3, 3] = over * 4 * g2
    matrices[:, 4, 4], matrices[:, 5, 5] = 8 * e / (1 + e), -8 * e / (1 - e)
    return np.asarray(matrices * (np.pi / (area * lengths))[:, None, None])


# What modes that are left out may add to the error, of what the tolerance promises.
PART = 0.15


def unit_of_promise(gap: float, area: float) -> float:
    """Return the length l of the correction's promise, ``(2 A H)^{1/3}``, as of one wall's."""
    return float((2 * area * gap) ** (1 / 3))


def longest(gap: float, area: float, tolerance: float, power: int) -> float:
    """Return the length K up to which a tolerance takes modes.

    The modes beyond it leave an rms error of ``sqrt(4 pi K H Q / (3 A)) e^{-K H}`` where sources
    are on one wall and targets on the other, and ``sqrt(2) K`` times as much for each derivative.
    It may be `PART` of ``tolerance sqrt(2 Q) / l**power``.
    """
    kappa, length = float(power), unit_of_promise(gap, area)

    def error(kappa: float) -> float:
        slopes = (math.sqrt(2) * kappa * length / gap) ** (power - 1)
        of_one = length * math.sqrt(4 * math.pi * kappa / (3 * area)) * math.exp(-kappa)
        return slopes * of_one

    while error(kappa) > PART * math.sqrt(2) * tolerance:
        kappa += 0.1
    return kappa / gap
