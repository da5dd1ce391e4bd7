"""The flow of forces between two walls without slip: a slow sum over modes.

Each mode of the slit's flow is the solution of linear equations: no slip at both walls, and the
jump of the third derivative at the force. Less the mode of the free flow, which `direct_sum` has in
closed form, modes fall as ``exp(-k d)``, d the distance of a target and a source by way of a wall.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parki.reference.direct import direct_sum

Array = NDArray[np.float64]
DIGITS = 36.0  # exp(-36) is the unit roundoff
MOST_MODES = 200_000


def between_walls(
    trg: ArrayLike,
    src: ArrayLike,
    forces: ArrayLike,
    *,
    box: Any,
    mean_flow: str | tuple[str, str] = "no-gradient",
) -> Array:
    """Return 8 pi times the velocity of forces, for a viscosity of 1, by a slow sum.

    Parameters
    ----------
    trg, src : array, shape (3, Nt) and (3, Ns)
        Between the walls at z = 0 and z = H; a pair at one of them takes very many modes.
    forces : array, shape (3, Ns)
    box : 3 lengths, or 3 lattice vectors
        Two periods, and H along z.
    mean_flow : {"no-gradient", "no-flux"}, or two of them

    Returns
    -------
    ndarray, shape (3, Nt)

    Raises
    ------
    ValueError
        If a pair is so close to a wall that it takes more than `MOST_MODES` modes.
    """
    x, y, f = (np.asarray(array, dtype=float) for array in (trg, src, forces))
    rows = np.asarray(box, dtype=float)
    rows = np.diag(rows) if rows.ndim == 1 else rows
    gap, area = rows[2, 2], abs(float(np.linalg.det(rows[:2, :2])))
    z, h = x[2][:, None], y[2][None]
    around = float(np.minimum(z + h, 2 * gap - z - h).min())
    waves = waves_of(rows[:2, :2], around)
    words = (mean_flow,) * 2 if isinstance(mean_flow, str) else tuple(mean_flow)
    u = np.asarray(direct_sum("stokes_sl", x, y, f, box=box, periodicity=2))
    low, high = np.minimum(z, h), np.maximum(z, h)
    for axis, word in enumerate(words):
        mean = 8 * np.pi / area * low * (gap - high) / gap + 4 * np.pi / area * abs(z - h)
        if word == "no-flux":
            mean -= 24 * np.pi / (area * gap**3) * z * (gap - z) * h * (gap - h)
        u[axis] += mean @ f[axis]
    for wave in waves:
        k = float(np.hypot(*wave))
        rotation = np.array([[wave[0], -wave[1], 0], [wave[1], wave[0], 0], [0, 0, k]]) / k
        local = (_slit(k, z, h, gap) - _free(k, z - h)) / area
        phases = np.exp(1j * (wave @ x[:2])[:, None] - 1j * (wave @ y[:2])[None])
        flows = np.einsum(
            "ia,abxy,jb,jy,xy->ix", rotation, local, rotation, f, phases, optimize=True
        )
        u += 2 * flows.real
    return u


def waves_of(rows: Array, around: float) -> Array:
    """Return one of each two opposite wave vectors that count for pairs so far by way of a wall.

    Raises
    ------
    ValueError
        If there are more than `MOST_MODES`.
    """
    most, area = DIGITS / max(around, 1e-300), abs(float(np.linalg.det(rows)))
    if area * most**2 > 8 * np.pi * MOST_MODES:
        raise ValueError(
            f"a target and a source are {around / 2:g} from a wall, on the mean; expected at least "
            f"{DIGITS * (area / (32 * np.pi * MOST_MODES)) ** 0.5:g}"
        )
    back = 2 * np.pi * np.linalg.inv(rows).T
    first, second = (int(most * np.hypot(*row) / (2 * np.pi)) for row in rows)
    i, j = np.meshgrid(np.arange(-first, first + 1), np.arange(second + 1), indexing="ij")
    waves = np.stack([i, j], axis=-1)[(j > 0) | (i > 0)] @ back
    return np.asarray(waves[np.hypot(*waves.T) <= most])


def _free(k: float, d: Array) -> NDArray[np.complex128]:
    """Return the mode of the free flow over 1 / A, (3, 3, Nt, Ns): along k, transverse, z."""
    a = k * np.abs(d)
    mode = np.zeros((3, 3, *d.shape), dtype=complex)
    mode[0, 0], mode[1, 1], mode[2, 2] = 1 - a, 2, 1 + a
    mode[0, 2] = mode[2, 0] = -1j * k * d
    mode *= 2 * np.pi / k * np.exp(-a)
    return mode


def _slit(k: float, z: Array, h: Array, gap: float) -> NDArray[np.complex128]:
    """Return the mode of the flow between walls over 1 / A, by its equations."""

    def row(height: Array, order: int) -> Array:
        """Return the derivative, over k^order, of four functions that make the flow along z."""
        a, b, sign = np.exp(-k * height), np.exp(k * (height - gap)), (-1.0) ** order
        one, two = sign * (k * height - order) * a, (k * (height - gap) + order) * b
        return np.stack([sign * a, b, one, two], axis=-1)

    sources = h.shape[1]
    matrix, right = np.zeros((sources, 8, 8)), np.zeros((sources, 8, 2), dtype=complex)
    zero = np.zeros(1)
    for n, (height, order, part) in enumerate(
        ((zero, 0, 0), (zero, 1, 0), (zero + gap, 0, 4), (zero + gap, 1, 4))
    ):
        matrix[:, n, part : part + 4] = row(height, order)
    for order in range(4):
        rows = row(h[0], order)
        matrix[:, 4 + order, :4], matrix[:, 4 + order, 4:] = -rows, rows
    right[:, 6, 0], right[:, 7, 1] = 8j * np.pi / k, 8 * np.pi / k
    scale = np.abs(matrix).max(axis=2)[:, :, None]
    solved = np.linalg.solve(matrix / scale, right / scale)  # (Ns, 8, 2)
    below = (z < h)[..., None, None]
    of_target = np.where(below, solved[None, :, :4], solved[None, :, 4:])  # (Nt, Ns, 4, 2)
    w, slope = (np.einsum("xf,xyfc->cxy", row(z[:, 0], order), of_target) for order in (0, 1))
    mode = np.zeros((3, 3, *np.broadcast_shapes(z.shape, h.shape)), dtype=complex)
    mode[0, [0, 2]], mode[2, [0, 2]] = 1j * slope, w
    low, high = np.minimum(z, h), np.maximum(z, h)
    through = np.exp(-k * (high - low)) * (1 - np.exp(-2 * k * low))
    through = through * (1 - np.exp(-2 * k * (gap - high)))
    mode[1, 1] = 4 * np.pi * through / (k * (1 - np.exp(-2 * k * gap)))
    return mode
