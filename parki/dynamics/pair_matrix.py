"""`PairMatrix`: forces and torques by motions of pairs, as a sparse matrix, and solves with it.

Close pairs are few and stiff, and all others hardly resist more than the fluid does. So solves are
preconditioned by the matrix of the closest pairs alone, on whose diagonal the others count, too.
Few pairs close to each other form loops, so that a CPU factors that matrix with little fill.
A device iterates it, by the matrix of each sphere by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from parki.errors import ParkiError
from parki.solving.pairs import block_matrix, sparse

# Gaps of close pairs over the mean radius, and how many of them a sphere has at most in the mean,
# because the fill grows fast beyond.
CLOSE, MOST_CLOSE = 0.1, 1.25
ERROR, OF_CLOSE = 0.3, 1e-2  # of solves, and of those with close pairs, in the norm of the energy
MOST_STEPS = 500
EVERY = {False: 1, True: 4}  # steps after which errors are compared, by whether on a device


class PairMatrix:
    """The matrix R of pairs, and solves with R and a diagonal matrix.

    Parameters
    ----------
    xp : module
        NumPy or CuPy.
    blocks : array, shape (2, 2, 6, 6, n)
        Forces and torques by motions, of the first and the second sphere of each pair.
    first, second : array, shape (n,)
        Spheres of each pair.
    gaps : array, shape (n,)
        Over the mean radius.
    diagonal : array, shape (6, N)
        Positive.
    factored : bool, optional
        Whether close pairs are factored. Default: on a CPU.
    """

    def __init__(
        self,
        xp: Any,
        blocks: Any,
        first: Any,
        second: Any,
        gaps: Any,
        diagonal: Any,
        factored: bool | None = None,
    ) -> None:
        self.xp, self.diagonal, self.count = xp, diagonal, diagonal.shape[1]
        own = np.zeros_like(diagonal, shape=(6, 6, self.count))
        for block, spheres in ((blocks[0, 0], first), (blocks[1, 1], second)):
            for row, each in zip(own.reshape(36, -1), block.reshape(36, -1), strict=True):
                row += np.bincount(spheres, weights=each, minlength=self.count)
        self.matrix = self._matrix(blocks, first, second, own)
        own = own.copy()
        for axis in range(6):
            own[axis, axis] += diagonal[axis]
        close = np.flatnonzero((gaps < CLOSE) & (first != second))
        close = close[np.argsort(gaps[close])][: int(MOST_CLOSE * self.count)]
        matrix = self._matrix(blocks[..., close], first[close], second[close], own)
        self.close = (
            self._factor(matrix)
            if (xp is np if factored is None else factored)
            else self._iterated(matrix, np.linalg.inv(np.moveaxis(own, -1, 0)))
        )

    def _matrix(self, blocks: Any, first: Any, second: Any, own: Any) -> Any:
        """Return the sparse matrix of pairs, and of spheres by themselves."""
        xp, every = self.xp, self.xp.arange(self.count)
        rows, columns = (
            np.concatenate([first, second, every]),
            np.concatenate([second, first, every]),
        )
        values = np.concatenate([blocks[0, 1], blocks[1, 0], own], axis=-1)
        if xp is not np:  # whose vectors have a component after the other
            return block_matrix(xp, values, rows, columns, (self.count, self.count))
        order = np.argsort(rows, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=self.count))])
        data = np.ascontiguousarray(np.moveaxis(values, -1, 0)[order])
        shape = 6 * self.count, 6 * self.count
        return sparse(np).bsr_matrix((data, columns[order], ends), shape=shape)

    def _times(self, matrix: Any, moves: Any) -> Any:
        if self.xp is np:
            return (matrix @ moves.T.ravel()).reshape(-1, 6).T
        return (matrix @ moves.ravel()).reshape(6, -1)

    def _factor(self, matrix: Any) -> Callable[[Any], Any]:
        """Return solves with a matrix, by its factors."""
        from scipy.sparse.linalg import splu  # takes a while, and is for this alone

        how = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
        factors = splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", **how)
        return lambda acts: factors.solve(acts.T.ravel()).reshape(-1, 6).T

    def _iterated(self, matrix: Any, inverses: Any) -> Callable[[Any], Any]:
        """Return solves with a matrix, about, by the inverses (N, 6, 6) of its blocks."""
        # A product of rows is far faster on a device than as many products of small matrices.
        rows = np.moveaxis(inverses, 0, -1).copy()

        def solve(acts: Any) -> Any:
            def product(moves: Any) -> Any:
                return self._times(matrix, moves)

            def alone(left: Any) -> Any:
                return (rows * left).sum(axis=1)

            return self._conjugate(product, alone, acts, OF_CLOSE)[0]

        return solve

    def __call__(self, moves: Any) -> Any:
        """Return forces and torques (6, N) by motions (6, N)."""
        return self._times(self.matrix, moves)

    def solve(self, acts: Any) -> tuple[Any, Any]:
        """Return motions v, about, by forces and torques (6, N) of R and the diagonal matrix; R v.

        By conjugate gradients, whose preconditioner is the matrix of close pairs.
        """

        def product(moves: Any) -> Any:
            return self.diagonal * moves + self(moves)

        found, left = self._conjugate(product, self.close, acts, ERROR)
        return found, acts - left - self.diagonal * found

    def _conjugate(self, product: Any, precondition: Any, acts: Any, error: float) -> Any:
        """Return a solution, and what is left."""
        found, left = np.zeros_like(acts), acts
        towards = z = precondition(left)
        first = size = (left * z).sum()
        for step in range(MOST_STEPS):
            if step % EVERY[self.xp is not np] == 0 and float(size) <= error**2 * float(first):
                return found, left
            along = product(towards)
            curvature = (towards * along).sum()
            ahead = size / (curvature + (curvature == 0))  # nothing is left
            found = found + ahead * towards
            left = left - ahead * along
            z = precondition(left)
            size, before = (left * z).sum(), size
            towards = z + size / (before + (before == 0)) * towards
        raise ParkiError(
            "the lubrication of pairs still has an error of "
            f"{math.sqrt(float(size) / float(first)):.2g} after {MOST_STEPS} iterations; give a "
            "roughness, as spheres are too close to contact"
        )
