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

For charges c and s alone are potentials of modes, see `potentials`.

The mode k = 0 has flows, too: 1, ``z - H/2`` and ``z (H - z)`` along x and along y, the first two
along z, and a pressure of 1. A `FlowTable` has all of this; another one is for another field.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
METAL = -1.0  # its image factor
TERMS = 30  # of Taylor series below kH = 1


class FlowTable(NamedTuple):
    """What modes are made of: F flows of C components, of the mode k = 0 first, then of others.

    Four functions of z are c, s, y c and y s, and for k = 0 they are 1, ``z - H/2``, ``z (H - z)``
    and 0.

    Attributes
    ----------
    values : ndarray, shape (2, F, C, 4)
        Each flow by these functions; vectors along the wave vector, transverse, and along z.
    pressures : ndarray, shape (2, F, 4)
        Pressures over k.
    slopes, laplacians, curls : ndarray, shape (2, F, F)
        Derivatives along z over k, Laplacians over k^2, and curls over k, by flows.
    matrices : callable
        ``matrices(lengths, gap, area, flux)``: M (n, F, F), real, for the lengths of wave vectors,
        of which the first is 0, and whether the fluid has no net flux along each axis.
    """

    values: NDArray[np.complex128]
    pressures: Array
    slopes: Array
    laplacians: Array
    curls: NDArray[np.complex128]
    matrices: Callable[[Array, float, float, tuple[bool, bool]], Array]

    @property
    def columns(self) -> int:
        """Components of a flow, C."""
        return int(self.values.shape[2])


class SlitModes(NamedTuple):
    """The wave vectors up to a length, one of each two that are opposite, and what they mean.

    Attributes
    ----------
    table : FlowTable
    gap : float
        The distance of the walls, H.
    vectors : ndarray, shape (2, 2)
        The lattice's, in rows.
    numbers, waves : ndarray, shape (M, 2)
        The wave vectors, by their numbers along the reciprocal vectors, too; the first is 0.
    matrices : ndarray, shape (M, F, F)
        M; twice of it for wave vectors that have an opposite one.
    """

    table: FlowTable
    gap: float
    vectors: Array
    numbers: NDArray[np.int64]
    waves: Array
    matrices: Array

    @classmethod
    def of(
        cls, table: FlowTable, vectors: Array, gap: float, most: float, flux: tuple[bool, bool]
    ) -> SlitModes:
        """Return the modes up to this length, for lattice vectors in rows, (2, 2)."""
        area, back = abs(float(np.linalg.det(vectors))), 2 * np.pi * np.linalg.inv(vectors).T
        first, second = (int(most * np.hypot(*row) / (2 * np.pi)) for row in vectors)
        i, j = np.meshgrid(np.arange(-first, first + 1), np.arange(second + 1), indexing="ij")
        numbers = np.stack([i, j], axis=-1)[(j > 0) | (i > 0)]
        numbers = numbers[np.hypot(*(numbers @ back).T) <= most]
        numbers = np.concatenate([np.zeros_like(numbers, shape=(1, 2)), numbers])
        waves = numbers @ back
        matrices = table.matrices(np.hypot(*waves.T), gap, area, flux)
        matrices[1:] *= 2
        return cls(table, gap, vectors, numbers, waves, matrices)

    @property
    def total(self) -> int:
        """How many modes there are, without k = 0."""
        return 2 * len(self.waves) - 2

    @property
    def finest(self) -> float:
        """Half the length of the shortest wave, and at most the distance of the walls."""
        return float(np.pi / max(self.lengths.max(), np.pi / self.gap))

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


def _matrices(lengths: Array, gap: float, area: float, flux: tuple[bool, bool]) -> Array:
    """Return M (n, 9, 9) of flows; at k = 0 double layers make it unsymmetric."""
    matrices = np.zeros((len(lengths), 9, 9))
    for axis in range(2):
        no_flux = -24 * np.pi / (area * gap**3) if flux[axis] else 0.0
        of_axis = -6 * np.pi * gap / area, -8 * np.pi / (area * gap), no_flux
        matrices[0][(range(3 * axis, 3 * axis + 3),) * 2] = of_axis
    # The fluid that double layers take away comes from everywhere between the walls.
    matrices[0, 7, 8] = 8 * np.pi / (area * gap)
    matrices[1:, :6, :6] = _of_waves(lengths[1:], gap, area)
    return matrices


def _of_waves(lengths: Array, gap: float, area: float) -> Array:
    """Return M (n, 6, 6), real and symmetric, of the flows with waves of these lengths."""
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


def _stokes() -> FlowTable:
    """Return the table of flows of Stokes."""
    values = np.zeros((2, 9, 3, 4), dtype=complex)
    pressures, slopes, laplacians = np.zeros((2, 9, 4)), np.zeros((2, 9, 9)), np.zeros((2, 9, 9))
    curls = np.zeros((2, 9, 9), dtype=complex)
    for axis, functions in enumerate((3, 3, 2)):
        for n in range(functions):
            values[0, 3 * axis + n, axis, n] = 1
        slopes[0, 3 * axis + 1, 3 * axis] = 1
    for second in (2, 5):  # z (H - z)
        slopes[0, second, second - 1] = laplacians[0, second, second - 2] = -2
    pressures[0, 8, 0] = 1
    waves = values[1]
    waves[0, 0, 0], waves[0, 2, 1] = 1j, 1
    waves[1, 0, 3], waves[1, 2, 2], waves[1, 2, 1] = 1j, 1, -1
    waves[2, 0, 1], waves[2, 2, 0] = 1j, 1
    waves[3, 0, 1], waves[3, 0, 2], waves[3, 2, 3] = 1j, 1j, 1
    waves[4, 1, 0] = waves[5, 1, 1] = 1
    pressures[1, 1, 0] = pressures[1, 3, 1] = 2
    for one, other in ((0, 2), (1, 3), (2, 0), (3, 1), (4, 5), (5, 4)):
        slopes[1, one, other] = 1
    slopes[1, 3, 0] = laplacians[1, 1, 0] = laplacians[1, 3, 2] = 2
    for n, slope in ((1, 1), (2, -2)):
        curls[0, n, 2 + n], curls[0, 3 + n, n - 1] = slope, -slope
    curls[1, 1, 5] = curls[1, 3, 4] = 2j
    curls[1, 4, 2] = curls[1, 5, 0] = 1j
    return FlowTable(values, pressures, slopes, laplacians, curls, _matrices)


STOKES = _stokes()


def potentials(factors: tuple[float, ...]) -> FlowTable:
    """Return the table of potentials of charges between dielectrics of these image factors.

    They are c and s, and for k = 0 1 and ``z - H/2``.
    """
    values, slopes = np.zeros((2, 2, 1, 4), dtype=complex), np.zeros((2, 2, 2))
    values[:, 0, 0, 0] = values[:, 1, 0, 1] = 1
    slopes[:, 1, 0] = slopes[1, 0, 1] = 1
    none = np.zeros((2, 2, 2))
    of_walls = partial(_of_charges, factors)
    return FlowTable(values, np.zeros((2, 2, 4)), slopes, none, none.astype(complex), of_walls)


def _of_charges(
    factors: tuple[float, ...], lengths: Array, gap: float, area: float, _: Any
) -> Array:
    """Return M (n, 2, 2): all images but the first ones, and the gauge at k = 0.

    There the images of dielectrics add a potential that is linear in z and in the height of the
    charge, which charges that add up to zero do not have between them. Metal keeps its own.
    """
    lower, upper = factors
    matrices, e = np.zeros((len(lengths), 2, 2)), np.exp(-lengths[1:] * gap)
    left, right = (0.0 if factor == METAL else factor for factor in factors)
    matrices[0] = [[(left + right) * gap, left - right], [left - right, 0]]
    matrices[0] *= 2 * np.pi / area
    both = 2 * np.pi / (area * lengths[1:]) * lower * upper * e / (1 - lower * upper * e * e)
    matrices[1:, 0, 0] = both * (2 + e * (lower + upper))
    matrices[1:, 1, 1] = both * (-2 + e * (lower + upper))
    matrices[1:, 0, 1] = matrices[1:, 1, 0] = both * e * (upper - lower)
    return matrices


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
