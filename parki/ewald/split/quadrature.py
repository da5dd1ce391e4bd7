"""Gauss-Legendre rules; and the constants by which integrals of kernels are exact.

Tables of a near field have integrals over space that are exact, for densities of one sign. Pairs
within the cut-off sum derivatives of b up to it. The prolate split leaves a jump of psi and of its
slope there, of the size of the tolerance, and so does what blobs leave out. Derivatives of b then
lack what belongs to the jump. For densities of random sign that is a part of the error like any
other. Densities of one sign add it up: their error would grow with the root of their number.

Constants that are added to the tables make up for it within the cut-off, wherever the density
hardly varies over it, and with any periodicity. In units of the cut-off, with the singular part of
each kernel, the integrals over the ball are right if

    int (2 S + 2/3 t^2 T_1) t^2 dt = 2/3          flow of forces, S = 2 T_0 - t^2 T_1
    int T_0 t^2 dt = 1/4 - a/2                    potential of charges, psi^ = 1 - a k^2 + ...
    int psi_1 t^2 dt = -1/2                       second derivatives of potentials
    int (3 T_1 - t^2 T_2) t^2 dt = 1/2            the same, by other tables
    int (5 psi_1 + t^2 psi_2) t^2 dt = -1         fourth derivatives of b
    int (3 psi_2 + t^2 psi_3) t^2 dt = 0          fourth derivatives of potentials

for t from 0 to 1. Kernels of an odd number of derivatives have no mean. Shells of radii a and b
have 2/9 (a^2 + b^2) less than 2/3; the Laplacian of the flow has -4/3, the next Laplacian 0.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.ewald.sums.tables import RadialTables, Table


@lru_cache(maxsize=256)
def gauss(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights on [-1, 1], which must not be written to.

    Each rule is computed once: one of 100 nodes takes a millisecond.
    """
    nodes, weights = np.polynomial.legendre.leggauss(count)
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


Array = NDArray[np.float64]
_NODES = 96


def balanced(tables: RadialTables, spread: float) -> RadialTables:
    """Return tables whose kernels have the right integrals over the ball of the cut-off.

    Parameters
    ----------
    tables : RadialTables
        Coefficients of powers of s, the highest first.
    spread : float
        a, over the square of the cut-off.
    """
    x, weights = gauss(_NODES)
    square = ((x + 1) / 2) ** 2  # of t
    second, fourth = weights / 2 * square, weights / 2 * square**2

    def value(table: Array) -> Array:
        return np.asarray(np.polyval(table, 2 * square - 1))

    t0, t1 = tables.smooth(0), tables.smooth(1)
    p = value(t1)
    psi1, psi2 = value(tables.psi(1)), value(tables.psi(2))
    more1 = 3 * (-1 / 2 - second @ psi1)
    more2 = 5 * (-1 - 5 / 3 * more1 - 5 * (second @ psi1) - fourth @ psi2)
    more3 = -5 * (3 * (second @ psi2) + more2 + fourth @ value(tables.psi(3)))
    t2 = tables.row(Table("smooth", 2))
    exact = RadialTables.of(
        flow=plus(
            tables.flow, 3 / 2 * (2 / 3 - 2 * (second @ value(tables.flow)) - 2 / 3 * (fourth @ p))
        ),
        smooth=(
            plus(t0, 3 * (1 / 4 - spread / 2 - second @ value(t0))),
            t1,
            plus(t2, 5 * (3 * (second @ p) - fourth @ value(t2) - 1 / 2)),
        ),
        psi=[plus(tables.psi(n), more) for n, more in enumerate((more1, more2, more3), 1)],
    )
    return tables | exact


def flow(s: Array, x: Array, whole: float) -> Array:
    """Return S with the constant by which its integral with X, as above, is ``whole``."""
    nodes, weights = gauss(_NODES)
    square = ((nodes + 1) / 2) ** 2
    own, other = (np.polyval(table, 2 * square - 1) for table in (s, x))
    return plus(s, 3 / 2 * (whole - weights @ (square * own + square**2 * other / 3)))


def plus(table: Array, constant: Any) -> Array:
    """Return a table of powers, the highest first, with a constant added."""
    result = table.copy()
    result[-1] += constant
    return result
