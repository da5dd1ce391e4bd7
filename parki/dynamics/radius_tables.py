"""`RadiusTables`: what pairs of spheres have by their radii alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from parki.dynamics.close import kernel, kernels
from parki.dynamics.tables import FAR, LENGTHS, NEAR, PLACES, SCALARS, SIZES, scalars, weights
from parki.runtime import ExecutionSpace, prepare
from parki.solving.search import threads

FADED = 0.25  # the part of the gaps in which it fades out
FEW = 8  # radii, whose weights are made once
# The scalar of each entry of the symmetric matrices of a pair; zeros follow the scalars.
WHERE = np.array(
    [
        PLACES.get((m, min(i, j), max(i, j)), len(SCALARS))
        for m, size in enumerate(SIZES)
        for i in range(size)
        for j in range(size)
    ]
)


class RadiusTables:
    """What pairs of spheres have by their radii alone.

    Parameters
    ----------
    space : ExecutionSpace
    radii : ndarray, shape (N,), float64
    relative : bool
        Whether pairs resist nothing that moves both spheres in the same way.

    Attributes
    ----------
    radii : array, shape (N,), float64
    largest : float
    sorts : array, shape (N,), int32
        The place of each radius among all that there are.
    matrix : ndarray, shape (scalars, scalars), or None
        What takes out of the scalars that pairs resist a common motion, where that counts.
    """

    def __init__(self, space: ExecutionSpace, radii: Any, relative: bool) -> None:
        prepare(kernels(space))  # several at a time
        xp = space.array_module
        self.space, self.radii = space, xp.ascontiguousarray(xp.asarray(radii, dtype=np.float64))
        self.matrix = _relative() if relative else None
        self.largest = float(np.max(radii, initial=0.0))
        sizes, kinds = np.unique(radii, return_inverse=True)
        self.few = len(sizes) <= FEW
        self.sorts = xp.asarray(kinds.reshape(-1).astype(np.int32))
        if not self.few:
            return
        self._count, every = len(sizes), np.zeros((len(sizes), len(sizes), 27, len(SCALARS)))
        for i, large in enumerate(sizes):
            for j, small in enumerate(sizes[: i + 1]):
                each = weights(float(small / large)) * large**LENGTHS
                every[i, j] = each if self.matrix is None else each @ self.matrix.T
        self._weights = xp.asarray(every.reshape(-1, len(SCALARS)))

    def scalars(self, first: Any, second: Any, gaps: Any, kinds: Any) -> Any:
        """Return the scalars of pairs (scalars + 1, n), the last ones of which are zero.

        ``kinds`` (2, n) are the sorts of both radii.
        """
        rows = np.empty_like(gaps, shape=(len(SCALARS) + 1, gaps.size))
        rows[-1] = 0
        if self.few:
            tabulate = kernel("close_pairs", "tabulate_pairs", self.space)
            tabulate(
                gaps.size,
                threads(gaps.size),
                gaps=gaps,
                logs=np.log(gaps),
                kinds=kinds,
                sorts=self._count,
                weights=self._weights,
                nearest=NEAR,
                log_nearest=math.log(NEAR),
                slope=2 / math.log(FAR / NEAR),
                farthest=FAR,
                fading=1 / (FADED * FAR),
                numbers=rows,
            )
            return rows
        a, b = self.radii[first], self.radii[second]
        t = np.clip((FAR - gaps) / (FADED * FAR), 0, 1)
        numbers = scalars(gaps, b / a) * a ** np.asarray(LENGTHS, like=a)[:, None]
        numbers *= t * t * (3 - 2 * t)
        rows[:-1] = numbers
        if self.matrix is not None:
            rows[:-1] = np.asarray(self.matrix, like=a) @ numbers
        return rows


def _relative() -> Any:
    """Return the matrix that lets scalars resist no common velocity, nor a common turn."""
    mean = np.eye(6)
    mean[np.ix_([0, 3], [0, 3])] -= 0.5
    units = np.vstack([np.eye(len(SCALARS)), np.zeros(len(SCALARS))])[WHERE]
    blocks, matrix = split(units), np.eye(len(SCALARS))
    for place, (m, i, j) in enumerate(SCALARS):
        if m < 2:
            matrix[place] = np.einsum("a,abn,b->n", mean[i], blocks[m], mean[j])
    return matrix


def split(rows: Any) -> list[Any]:
    """Return the symmetric matrices (k, k, n) of each m."""
    blocks, start = [], 0
    for size in SIZES:
        blocks.append(rows[start : start + size * size].reshape(size, size, -1))
        start += size * size
    return blocks
