"""Eleven numbers for each sphere, what acts on the fluid and what moves, and their tensors.

What acts on the fluid is a force F, a torque T and a stresslet S; torque and stresslet are parts of
a couplet ``D_jk``, the first moment of the forces, ``S_jk + eps_jmk T_m / 2``. What moves is a
velocity U, an angular velocity W and a rate of strain E; W and E are parts of the gradient
``L_jk = d u_j / d x_k``. With an orthonormal basis of the stresslets, which are symmetric and have
no trace, ``F.U + D:L`` is the dot product of eleven numbers with eleven others, in units of
8 pi viscosity = 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

SQRT2, SQRT6 = math.sqrt(2), math.sqrt(6)


def _basis() -> Any:
    basis = np.zeros((8, 3, 3))
    for axis in range(3):
        j, k = (axis + 1) % 3, (axis + 2) % 3
        basis[axis, k, j], basis[axis, j, k] = 0.5, -0.5
    basis[3] = np.diag([1, -1, 0]) / SQRT2
    basis[4] = np.diag([-1, -1, 2]) / SQRT6
    for row, (j, k) in zip(basis[5:], ((0, 1), (0, 2), (1, 2)), strict=True):
        row[j, k] = row[k, j] = 1 / SQRT2
    return basis


# Couplets of three unit torques and of five unit stresslets.
BASIS = _basis()


def self_mobility(xp: Any, radii: Any) -> Any:
    """Return the mobility of a sphere alone by its eleven numbers, shape (11, N)."""
    radii = xp.asarray(radii, dtype=np.float64)
    sizes = xp.asarray([4 / 3] * 3 + [1.0] * 3 + [1.2] * 5)
    powers = xp.asarray([1] * 3 + [3] * 8)
    return sizes[:, None] / radii ** powers[:, None]


def couplets(xp: Any, numbers: Any) -> Any:
    """Return couplets (3, 3, N) of torques and stresslets (8, N)."""
    return xp.tensordot(xp.asarray(BASIS), numbers, axes=(0, 0))


def turning(xp: Any, gradients: Any) -> Any:
    """Return angular velocities and rates of strain (8, N) of gradients (3, 3, N)."""
    return xp.tensordot(xp.asarray(BASIS), gradients, axes=2)


def symmetric(xp: Any, numbers: Any) -> Any:
    """Return tensors (3, 3, N) of five numbers (5, N)."""
    return xp.tensordot(xp.asarray(BASIS[3:]), numbers, axes=(0, 0))


def five(xp: Any, tensors: Any) -> Any:
    """Return the five numbers (5, N) of symmetric tensors (3, 3, N) without a trace."""
    return xp.tensordot(xp.asarray(BASIS[3:]), tensors, axes=2)
