"""`rotated`: vectors and tensors of points, rotated."""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.typing import AnyArray


def rotated(values: AnyArray, rotation: AnyArray) -> Any:
    """Return rotated vectors and tensors, in rows as of `AxisPermutation.places`.

    Value by value, so that equal points stay equal; in double precision. A rotation is (3, 3), or
    (3, 3, N) where each column has its own.
    """
    rows, product = values.shape[-2], values.astype(np.float64)
    rotation = rotation.tolist() if rotation.ndim == 2 else rotation
    first = rows in (4, 13)  # a number comes before the rest
    groups = [[first + 3 * row + axis for axis in range(3)] for row in range(rows // 3)]
    if rows > 6:  # both indices of a tensor, one after the other
        start = {13: 4, 12: 3}.get(rows, 0)
        groups += [[start + axis + 3 * row for row in range(3)] for axis in range(3)]
    for group in groups:
        before = [product[..., row, :].copy() for row in group]
        for row, weights in zip(group, rotation, strict=True):
            product[..., row, :] = sum(w * old for w, old in zip(weights, before, strict=True))
    return product.astype(values.dtype)
