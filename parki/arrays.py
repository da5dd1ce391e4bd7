"""Conventions that host modules share with the kernels: types, row lengths, feature switches."""

from __future__ import annotations

from typing import Any

import numpy as np

REAL_NAMES = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}


# Variants of P2P, P2G and G2P that are best nearly everywhere, by whether they run on a device.
USUAL = {False: ("staged", "owner", "target"), True: ("tile", "tile", "tile")}


def real_name(dtype: Any) -> str:
    """Return the kernels' name of a NumPy dtype, ``"float"`` or ``"double"``."""
    return REAL_NAMES[np.dtype(dtype)]


def vector_row(points: int, dtype: Any) -> int:
    """Return ``points`` rounded up to whole 32-byte vectors: the row length of window tables."""
    lanes: int = 32 // np.dtype(dtype).itemsize
    return -(-points // lanes) * lanes


def rounded(length: float, dtype: Any) -> float:
    """Return a length rounded to a dtype, infinite if that does not hold it."""
    with np.errstate(over="ignore"):
        return float(dtype.type(length))
