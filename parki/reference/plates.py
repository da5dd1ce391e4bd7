"""Charges near metal and dielectrics: a slow sum over modes.

In each mode the wave of a charge meets the walls, and each wall sends back ``g`` times what
arrives: two linear equations for the waves that leave the walls. The wave that goes to a target
without any wall is left to `direct_sum`, so that modes fall as ``exp(-k d)``, d the distance of a
target and a source by way of a wall.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parki.reference.direct import direct_sum
from parki.reference.slit import waves_of

Array = NDArray[np.float64]


def near_plates(
    trg: ArrayLike, src: ArrayLike, charges: ArrayLike, *, box: Any, factors: tuple[float, ...]
) -> Array:
    """Return the potential of charges near one or two walls, by a slow sum over modes.

    Parameters
    ----------
    trg, src : array, shape (3, Nt) and (3, Ns)
        Above the wall at z = 0, and below the one at z = H; a pair at one of them takes very many
        modes.
    charges : array, shape (Ns,)
        Which add up to zero, unless a wall is metal.
    box : 3 lengths, or 3 lattice vectors
        Two periods, and H along z.
    factors : tuple of one or two floats
        The image factor of the lower wall, and of the upper one; -1 for metal, at the potential 0.

    Returns
    -------
    ndarray, shape (Nt,)
        Near one dielectric its mean at a height is made by charges and images, in the gauge of
        `direct_sum`; between two dielectrics by the charges alone.

    Raises
    ------
    ValueError
        If a pair is so close to a wall that it takes more than `MOST_MODES` modes.
    """
    x, y, q = (np.asarray(array, dtype=float) for array in (trg, src, charges))
    rows = np.asarray(box, dtype=float)
    rows = np.diag(rows) if rows.ndim == 1 else rows
    gap, area = rows[2, 2], abs(float(np.linalg.det(rows[:2, :2])))
    z, h = x[2][:, None], y[2][None]
    down, up = z + h, 2 * gap - z - h  # by way of each wall
    around = float((np.minimum(down, up) if len(factors) == 2 else down).min())
    waves = waves_of(rows[:2, :2], around)
    phi = np.asarray(direct_sum("laplace", x, y, q, box=box, periodicity=2))
    mean = _mean(z, h, gap, factors)
    phi += 2 * np.pi / area * (mean @ q)
    g, far = factors[0], factors[1] if len(factors) == 2 else 0.0
    for wave in waves:
        k = float(np.hypot(*wave))
        across = np.exp(-k * gap) if far else 0.0
        # Waves that leave the lower and the upper wall: g (what arrives).
        matrix = np.array([[1, -g * across], [-far * across, 1]])
        arriving = np.stack([g * np.exp(-k * h[0]), far * np.exp(-k * (gap - h[0]))])
        low, high = np.linalg.solve(matrix, arriving)
        local = np.exp(-k * z) * low + np.exp(-k * (gap - z)) * high
        phases = np.cos((wave @ x[:2])[:, None] - (wave @ y[:2])[None])
        phi += 4 * np.pi / (area * k) * (phases * local) @ q
    return np.asarray(phi)


def _mean(z: Array, h: Array, gap: float, factors: tuple[float, ...]) -> Array:
    """Return the mode k = 0 that walls add, over 2 pi / A."""
    if len(factors) == 1:
        return -factors[0] * (z + h)
    low, high = np.minimum(z, h), np.maximum(z, h)
    if factors[0] == factors[1] == -1:
        return np.asarray(2 * low * (gap - high) / gap + abs(z - h))
    if factors[0] == -1:
        return z + h
    return np.asarray(2 * gap - z - h if factors[1] == -1 else 0 * (z + h))
