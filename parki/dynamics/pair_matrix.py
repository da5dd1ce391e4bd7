"""`PairMatrix`: forces and torques by motions of pairs, as a sparse matrix, and solves with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.errors import ParkiError
from parki.solving.pairs import block_matrix, sparse

ERROR, MOST_STEPS = 1e-2, 500  # of solves, in the norm of the preconditioner


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
    diagonal : array, shape (6, N)
        Positive.
    """

    def __init__(self, xp: Any, blocks: Any, first: Any, second: Any, diagonal: Any) -> None:
        self.count, self.diagonal = diagonal.shape[1], diagonal
        own = np.zeros_like(diagonal, shape=(6, 6, self.count))
        for block, spheres in ((blocks[0, 0], first), (blocks[1, 1], second)):
            for row, each in zip(own.reshape(36, -1), block.reshape(36, -1), strict=True):
                row += np.bincount(spheres, weights=each, minlength=self.count)
        self.by_sphere = xp is np  # the order of vectors in the sparse matrix
        every = xp.arange(self.count)
        rows, columns = (
            np.concatenate([first, second, every]),
            np.concatenate([second, first, every]),
        )
        values = np.concatenate([blocks[0, 1], blocks[1, 0], own], axis=-1)
        if self.by_sphere:
            order = np.argsort(rows, kind="stable")
            ends = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=self.count))])
            data = np.ascontiguousarray(np.moveaxis(values, -1, 0)[order])
            shape = 6 * self.count, 6 * self.count
            self.matrix = sparse(np).bsr_matrix((data, columns[order], ends), shape=shape)
        else:
            self.matrix = block_matrix(xp, values, rows, columns, (self.count, self.count))
        within = np.arange(6)
        own[within, within] += diagonal
        self.inverses = np.linalg.inv(np.moveaxis(own, -1, 0))

    def __call__(self, moves: Any) -> Any:
        """Return forces and torques (6, N) by motions (6, N)."""
        if self.by_sphere:
            return (self.matrix @ moves.T.ravel()).reshape(-1, 6).T
        return (self.matrix @ moves.ravel()).reshape(6, -1)

    def solve(self, acts: Any) -> tuple[Any, Any]:
        """Return motions v, about, by forces and torques (6, N) of R and the diagonal matrix; R v.

        By conjugate gradients, whose preconditioner is the matrix of each sphere by itself.
        """
        found, left = np.zeros_like(acts), acts
        towards = z = np.einsum("nab,bn->an", self.inverses, left)
        first = size = float((left * z).sum())
        for _ in range(MOST_STEPS):
            if size <= ERROR**2 * first:
                return found, acts - left - self.diagonal * found
            product = self.diagonal * towards + self(towards)
            step = size / float((towards * product).sum())
            found = found + step * towards
            left = left - step * product
            z = np.einsum("nab,bn->an", self.inverses, left)
            size, before = float((left * z).sum()), size
            towards = z + size / before * towards
        raise ParkiError(
            f"the lubrication of pairs still has an error of {(size / first) ** 0.5:.2g} after "
            f"{MOST_STEPS} iterations; give a roughness, as spheres are too close to contact"
        )
