"""`Upright`: boxes of systems, with their first vectors along the first axis."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.ewald.lattice import Cell
from parki.ewald.options import EwaldOptions

Array = NDArray[np.float64]
# Boxes are looked at one by one if numbers are as large, or if a volume is as small over the
# product of its edges, or an edge over another.
FAR, FLAT = 1e100, 1e-3
LEAST = 1e-300
WRONG = [[np.nan] * 3] * 3
KNOWN = [[*kinds] for kinds in itertools.product((int, float), repeat=3)]


class Upright(NamedTuple):
    """Boxes whose first vector is along the first axis, and the second in a plane with the second.

    Axes are counted in the order of sums, which begins with the periodic ones.

    Attributes
    ----------
    matrices, rotations : ndarray, shape (S, 3, 3)
        As of `Cell`, but in the user's order of axes: the vectors, in rows, and what rotates the
        user's into these. Along free axes without a length in a box they have any.
    axes : tuple of 3 ints
        The user's axes in the order of sums.
    """

    matrices: Array
    rotations: Array
    axes: tuple[int, int, int]

    @classmethod
    def quickly(
        cls, boxes: Sequence[Any], options: EwaldOptions, unknown: Sequence[bool]
    ) -> tuple[Upright, NDArray[np.bool_]]:
        """Return boxes of 3 lengths or 3 vectors, and which of them are right.

        The ``options`` have their periodic axes; along axes that are ``unknown`` they have no
        length. Those that are not right need a look at each: they are no boxes, or have shorter
        vectors.
        """
        axes, periodicity = options.axes, sum(options.periodic)
        vectors = np.array([_vectors(box, unknown) for box in boxes])
        longest = abs(vectors).max(axis=(1, 2))
        for axis in np.flatnonzero(unknown).tolist():
            vectors[:, axis, axis] = longest
        vectors = vectors[:, axes][:, :, axes]
        right = np.isfinite(vectors).all(axis=(1, 2)) & (abs(vectors).max(axis=(1, 2)) < FAR)
        for axis in range(periodicity, 3):  # which no vector leans along
            along = vectors[:, axis, axis]
            others = abs(vectors[:, axis]).sum(axis=1) + abs(vectors[:, :, axis]).sum(axis=1)
            right &= (along > 0) & (others == 2 * along)
        if periodicity == 1:
            right &= vectors[:, 0, 0] > 0
        vectors = np.where(right[:, None, None], vectors, np.eye(3))
        size = np.sqrt((vectors**2).sum(axis=2))
        right &= np.linalg.det(vectors) > FLAT * size.prod(axis=1)
        right &= FLAT * size.max(axis=1) < size.min(axis=1)
        vectors = np.where(right[:, None, None], vectors, np.eye(3))
        gram = vectors @ vectors.swapaxes(1, 2)
        squares = gram.diagonal(axis1=1, axis2=2)
        sides = 2 * abs(gram[:, [0, 0, 1], [1, 2, 2]])
        least = np.minimum(squares[:, [0, 0, 1]], squares[:, [1, 2, 2]])
        right &= (sides <= least).all(axis=1)
        right &= squares.sum(axis=1) - sides.sum(axis=1) >= squares.max(axis=1)
        upright = ~vectors[:, [0, 0, 1], [1, 2, 2]].any(axis=1)
        upright &= (vectors.diagonal(axis1=1, axis2=2) > 0).all(axis=1)
        q, r = np.linalg.qr(vectors.swapaxes(1, 2))
        signs = np.sign(r.diagonal(axis1=1, axis2=2))
        rotations = (q * signs[:, None]).swapaxes(1, 2)
        matrices = (r * signs[:, :, None]).swapaxes(1, 2)
        same = np.asarray(upright)[:, None, None]
        rotations = np.where(same, np.eye(3), rotations)
        matrices = np.tril(np.where(same, vectors, matrices))
        for row, axis in ((1, 0), (2, 1), (2, 0)):  # tilts of at most half a side
            periods = np.rint(matrices[:, row, axis] / matrices[:, axis, axis])
            matrices[:, row] -= periods[:, None] * matrices[:, axis]
        places = np.argsort(axes)
        matrices, rotations = (a[:, places][:, :, places] for a in (matrices, rotations))
        return cls(matrices, rotations, axes), right

    def take(self, n: int, cell: Cell) -> None:
        """Take box number n of a cell."""
        rotation = np.eye(3) if cell.rotation is None else cell.rotation
        order = np.ix_(np.argsort(self.axes), np.argsort(self.axes))
        self.matrices[n], self.rotations[n] = cell.lattice.matrix[order], rotation[order]

    def chosen(self, places: Sequence[int]) -> Upright:
        """Return some of the boxes."""
        return self._replace(matrices=self.matrices[places], rotations=self.rotations[places])

    def within(self, lengths: Sequence[float | None]) -> Upright:
        """Return the boxes with these lengths along some axes, None for the others."""
        matrices = self.matrices.copy()
        for axis, length in enumerate(lengths):
            if length is not None:
                matrices[:, axis, axis] = length
        return self._replace(matrices=matrices)

    @property
    def rotated(self) -> NDArray[np.bool_]:
        """Which of them are not as the user has them."""
        return np.asarray((self.rotations != np.eye(3)).any(axis=(1, 2)))

    @property
    def vectors(self) -> Array:
        """The vectors in the user's axes, in rows."""
        return self.matrices @ self.rotations


def _vectors(box: Any, unknown: Sequence[bool]) -> Any:
    """Return the vectors of a box of 3 positive lengths or 3 vectors; NaN of anything else.

    Vectors along ``unknown`` axes are next to nothing.
    """
    tilted, rows = any(isinstance(length, tuple) for length in box), list[list[float]]()
    for axis, length in enumerate(box if len(box) == 3 else ()):
        row = [0.0, 0.0, 0.0]
        if unknown[axis]:
            row[axis] = LEAST
        elif not tilted and type(length) in (int, float) and length > 0:
            row[axis] = float(length)
        elif tilted and isinstance(length, tuple) and [*map(type, length)] in KNOWN:
            row = [*length]
        else:
            return WRONG
        rows.append(row)
    return rows or WRONG
