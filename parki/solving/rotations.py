"""Rotations of bodies: quaternions with the scalar last, as SciPy's, for NumPy and CuPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.interchange import as_array
from parki.typing import AnyArray, ArrayModule


def quaternions(name: str, rotations: AnyArray, count: int) -> Any:
    """Return the unit quaternions (4, count) of rotations, in double precision, or refuse them.

    Parameters
    ----------
    name : str
    rotations : array, shape (4, count), ``scipy.spatial.transform.Rotation``, or None
        Quaternions of any length, with the scalar last. None stands for no rotations.
    count : int
    """
    if rotations is None:
        return np.repeat([[0.0], [0.0], [0.0], [1.0]], count, axis=1)
    if hasattr(rotations, "as_quat"):
        rotations = np.atleast_2d(rotations.as_quat()).T
    given = as_array(name, rotations)
    if given.shape != (4, count):
        raise ParkiValueError(
            f"{name} has shape {given.shape}; expected (4, {count}), for each body a quaternion "
            "with the scalar last"
        )
    given = given.astype(np.float64)
    length = (given * given).sum(axis=0) ** 0.5
    if not bool(((length > 0) & (length < np.inf)).all()):
        raise ParkiValueError(
            f"{name} has zeros, infinite numbers or NaN; expected quaternions with the scalar "
            "last, such as (0, 0, 0, 1) without a rotation"
        )
    return given / length


def frames(xp: ArrayModule, unit: AnyArray) -> Any:
    """Return the matrices (B, 3, 3) of unit quaternions (4, B)."""
    x, y, z, w = unit
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)),
        (2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)),
        (2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)),
    )
    return xp.stack([xp.stack(row) for row in rows]).transpose(2, 0, 1)


def rotated(xp: ArrayModule, unit: AnyArray, turns: AnyArray) -> Any:
    """Return unit quaternions (4, B) after rotation vectors (3, B), exact for angles of any size.

    The vectors are in the lab's frame: the angle is their length.
    """
    half = 0.5 * (turns * turns).sum(axis=0) ** 0.5
    # sinc of NumPy is sin(pi x) / (pi x), which has a value at 0.
    a, b, c = 0.5 * xp.sinc(half / np.pi) * turns
    d, (x, y, z, w) = xp.cos(half), unit
    quaternions_after = xp.stack(
        [
            d * x + a * w + b * z - c * y,
            d * y + b * w + c * x - a * z,
            d * z + c * w + a * y - b * x,
            d * w - a * x - b * y - c * z,
        ]
    )
    return quaternions_after / (quaternions_after * quaternions_after).sum(axis=0) ** 0.5
