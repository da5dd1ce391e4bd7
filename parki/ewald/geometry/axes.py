"""`AxisPermutation`: from the user's axes to the solver's, where the periodic ones come first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.typing import AnyArray


class AxisPermutation:
    """The user's axes in the solver's order: periodic ones come first, or slabs divide the first.

    It also turns vectors into the axes of a tilted box, whose first vector is along the first axis.
    The sums do not depend on the order of the axes, except that a mirror changes the sign of what a
    vector of rotation makes.

    Parameters
    ----------
    axes : sequence of 3 ints
        The user's axis for each axis of the solver.
    rotation : ndarray, shape (3, 3), optional
        Turns vectors in the solver's order.
    finer : bool
        Whether arrays of points become float64.

    Attributes
    ----------
    is_identity : bool
        Whether the order is the user's, and nothing turns.
    changes : bool
        Whether the solver's points are others than the user's.
    mirrors : bool
        Whether it mirrors the box, as an exchange of two axes does. A turn in a circle does not.
    """

    def __init__(self, axes: Iterable[int], rotation: AnyArray = None, finer: bool = False) -> None:
        self.axes, self.rotation, self.finer = [*axes], rotation, finer
        self.is_identity = self.axes == [0, 1, 2] and rotation is None
        self.changes = finer or not self.is_identity
        self.mirrors = self.axes not in ([0, 1, 2], [1, 2, 0], [2, 0, 1])

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The matrix, shape (3, 3), that takes the user's vectors to the solver's."""
        permutation = np.eye(3)[self.axes]
        return permutation if self.rotation is None else self.rotation @ permutation

    def all_to_solver(self, arrays: dict[str, AnyArray]) -> dict[str, Any]:
        """Return arrays (rows, N) in the solver's order; one array for both clouds stays one."""
        if not self.changes:
            return arrays
        same = arrays["trg"] is arrays.get("src")
        ordered = {n: array for n, array in arrays.items() if not (same and n == "src")}
        if self.finer:
            ordered = {n: array.astype(np.float64, copy=False) for n, array in ordered.items()}
        ordered = {n: self.to_solver(array) for n, array in ordered.items()}
        return {name: ordered["trg" if same and name == "src" else name] for name in arrays}

    def to_solver(self, values: AnyArray) -> Any:
        """Return values (..., rows, N) in the solver's order; themselves, if that is the same."""
        if self.is_identity or values.shape[-2] == 1:
            return values
        ordered = values.take(self.places(values.shape[-2]), axis=-2)
        return ordered if self.rotation is None else rotated(ordered, self.rotation)

    def to_user(self, values: AnyArray, out: AnyArray) -> None:
        """Write values (..., rows, N) of the solver's order in the user's."""
        if self.is_identity or values.shape[-2] == 1:
            out[...] = values
            return
        if self.rotation is not None:
            values = rotated(values, self.rotation.T)
        out[..., self.places(values.shape[-2]), :] = values

    def density(self, dens: AnyArray, sources: Iterable[Any]) -> Any:
        """Return a density (rows, N), whose sources have rows that follow each other."""
        rows, start = self.to_solver(dens), 0
        for source in sources if self.mirrors else ():
            if source.axial:  # it changes its sign in a mirror
                rows[start : start + source.rows] *= -1
            start += source.rows
        return rows

    def places(self, rows: int) -> list[int]:
        """Return the user's row for each row in the solver's order.

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
