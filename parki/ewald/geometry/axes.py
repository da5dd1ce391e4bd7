"""`Order`: permutes the caller's axes, so that periodic ones come first, or slabs divide the first.

It also turns vectors into the axes of a tilted box, whose first vector is along the first axis.

The sums do not depend on the order of the axes, except that a mirror changes the sign of what a
vector of rotation makes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


class Order:
    """The caller's axes in another order.

    Parameters
    ----------
    axes : sequence of 3 ints
        The caller's axis for each axis of the other order.
    rotation : ndarray, shape (3, 3), optional
        Turns vectors in the other order.
    finer : bool
        Whether arrays of points become float64.

    Attributes
    ----------
    kept : bool
        Whether the order is the caller's, and nothing turns.
    mirrors : bool
        Whether it mirrors the box, as an exchange of two axes does. A turn in a circle does not.
    """

    def __init__(self, axes: Iterable[int], rotation: Any = None, finer: bool = False) -> None:
        self.axes, self.rotation, self.finer = [*axes], rotation, finer
        self.kept = self.axes == [0, 1, 2] and rotation is None
        self.mirrors = self.axes not in ([0, 1, 2], [1, 2, 0], [2, 0, 1])

    @property
    def changes(self) -> bool:
        """Whether points in the order are others than the caller's."""
        return self.finer or not self.kept

    @property
    def inverse(self) -> Order:
        """The order that gives the caller's axes back."""
        return Order(self.axes.index(axis) for axis in range(3))

    def arrays(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """Return arrays (rows, N) in the other order; one array for both clouds stays one."""
        if not self.changes:
            return arrays
        same = arrays["trg"] is arrays["src"]
        ordered = {n: each for n, each in arrays.items() if not (same and n == "src")}
        if self.finer:
            ordered = {n: each.astype(np.float64, copy=False) for n, each in ordered.items()}
        ordered = {n: self.rows(each) for n, each in ordered.items()}
        return {name: ordered["trg" if same and name == "src" else name] for name in arrays}

    def rows(self, values: Any) -> Any:
        """Return values (..., rows, N) in the other order; themselves, if that is the same."""
        if self.kept or values.shape[-2] == 1:
            return values
        ordered = values.take(self.places(values.shape[-2]), axis=-2)
        return ordered if self.rotation is None else _rotated(ordered, self.rotation)

    def back(self, values: Any, out: Any) -> None:
        """Write values (..., rows, N) of the other order in the caller's."""
        if self.kept or values.shape[-2] == 1:
            out[...] = values
            return
        if self.rotation is not None:
            values = _rotated(values, self.rotation.T)
        out[..., self.places(values.shape[-2]), :] = values

    def density(self, dens: Any, sources: Iterable[Any]) -> Any:
        """Return a density (rows, N), whose sources have rows that follow each other."""
        rows, start = self.rows(dens), 0
        for source in sources if self.mirrors else ():
            if source.axial:  # it changes its sign in a mirror
                rows[start : start + source.rows] *= -1
            start += source.rows
        return rows

    def places(self, rows: int) -> list[int]:
        """Return the caller's row for each row in the other order.

        The rows are a number, one vector or two, a tensor, a vector and a tensor, a tensor and a
        number, or a number and a vector, perhaps with a tensor.
        """
        vector = [3 * each + axis for each in range(rows // 3) for axis in self.axes]
        tensor = [3 * row + column for row in self.axes for column in self.axes]
        if rows in (4, 13):  # a number and a vector, perhaps with a tensor
            return [0, *(1 + axis for axis in self.axes), *(4 + place for place in tensor)][:rows]
        if rows == 12:
            return [*self.axes, *(3 + place for place in tensor)]
        return {1: [0], 9: tensor, 10: [*tensor, 9]}.get(rows, vector)


def _rotated(values: Any, rotation: Any) -> Any:
    """Return turned vectors and tensors, in rows as of `Order.places`.

    Value by value, so that equal points stay equal; in double precision.
    """
    rows, rotated = values.shape[-2], values.astype(np.float64)
    first = rows in (4, 13)  # a number comes before the rest
    groups = [[first + 3 * each + axis for axis in range(3)] for each in range(rows // 3)]
    if rows > 6:  # both indices of a tensor, one after the other
        start = {13: 4, 12: 3}.get(rows, 0)
        groups += [[start + axis + 3 * each for each in range(3)] for axis in range(3)]
    for group in groups:
        given = [rotated[..., row, :].copy() for row in group]
        for row, weights in zip(group, rotation.tolist(), strict=True):
            rotated[..., row, :] = sum(w * each for w, each in zip(weights, given, strict=True))
    return rotated.astype(values.dtype)
