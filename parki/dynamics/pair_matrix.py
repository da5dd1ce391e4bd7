"""`PairMatrix`: forces and torques by motions of pairs, as a sparse matrix, and solves with it.

Close pairs are stiff, and all others hardly resist more than the fluid does. So solves are
preconditioned by what two spheres do: the inverse of each sphere's own block, and for each close
pair what the other sphere changes in it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from parki.errors import ParkiError
from parki.solving.pairs import sparse, sums_by

CLOSE = 0.3  # gaps of close pairs, over the mean radius
ERROR, ROUNDING = 0.3, 1e-14  # of solves, and of the square of their norm
MOST_STEPS = 500


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
    """

    def __init__(
        self, xp: Any, blocks: Any, first: Any, second: Any, gaps: Any, diagonal: Any
    ) -> None:
        self.xp, self.diagonal, self.count = xp, diagonal, diagonal.shape[1]
        own = np.zeros_like(diagonal, shape=(6, 6, self.count))
        self._add(own, blocks, first, second)
        self.matrix = self._matrix(blocks, first, second, own)
        for axis in range(6):
            own[axis, axis] += diagonal[axis]
        close = np.flatnonzero((gaps < CLOSE) & (first != second))
        self.inverse = self._inverse(blocks[..., close], first[close], second[close], own)

    def _add(self, own: Any, blocks: Any, first: Any, second: Any) -> None:
        """Add what pairs say of each of their spheres to the blocks (6, 6, N) of spheres."""
        sums = sums_by(self.xp, np.concatenate([first, second]), self.count)
        values = np.concatenate([blocks[0, 0], blocks[1, 1]], axis=-1).reshape(36, -1)
        own += (sums @ values.T).T.reshape(own.shape)

    def _inverse(self, blocks: Any, first: Any, second: Any, own: Any) -> Any:
        """Return the inverse, about, of the matrix with these pairs and blocks of spheres.

        It is the sum of inverses of spheres alone, and of each pair less its two spheres. This is
        exact for separate pairs, and positive for any: see docs/notebook/decisions.md.
        """
        alone = np.linalg.inv(np.moveaxis(own, -1, 0))
        pairs = np.empty_like(alone, shape=(first.size, 2, 6, 2, 6))
        for k, spheres in enumerate((first, second)):
            pairs[:, k, :, k] = np.moveaxis(own, -1, 0)[spheres]
            pairs[:, k, :, 1 - k] = np.moveaxis(blocks[k, 1 - k], -1, 0)
        pairs = np.linalg.inv(pairs.reshape(-1, 12, 12)).reshape(pairs.shape)
        for k, spheres in enumerate((first, second)):
            pairs[:, k, :, k] -= alone[spheres]
        pairs = pairs.transpose(1, 3, 2, 4, 0).copy()
        found = np.moveaxis(alone, 0, -1).copy()
        self._add(found, pairs, first, second)
        return self._matrix(pairs, first, second, found)

    def _matrix(self, blocks: Any, first: Any, second: Any, own: Any) -> Any:
        """Return the sparse matrix of pairs, and of spheres by themselves."""
        xp, every = self.xp, self.xp.arange(self.count, dtype=np.int32)
        rows, columns = (
            np.concatenate([first, second, every]),
            np.concatenate([second, first, every]),
        )
        values = np.concatenate([blocks[0, 1], blocks[1, 0], own], axis=-1)
        order = np.argsort(rows, kind="stable")
        ends = np.searchsorted(rows[order], np.arange(self.count + 1, like=rows))
        columns, shape = columns[order].astype(np.int32), (6 * self.count, 6 * self.count)
        if xp is np:
            data = np.moveaxis(values, -1, 0)[order]
            return sparse(np).bsr_matrix((data, columns, ends), shape=shape)
        # CuPy has no blocks. Vectors have a component after the other, and products take columns
        # in any order.
        data = values.transpose(0, 2, 1)[:, order]
        places = columns[:, None] + self.count * xp.arange(6, dtype=np.int32)
        places = xp.broadcast_to(places, data.shape).ravel()
        begins = 6 * (order.size * xp.arange(6)[:, None] + ends[:-1]).ravel()
        begins = np.append(begins, np.asarray([data.size], like=begins)).astype(np.int32)
        found = sparse(xp).csr_matrix((data.ravel(), places, begins), shape=shape)
        found.has_canonical_format = True  # or they sort them
        return found

    def _times(self, matrix: Any, moves: Any) -> Any:
        if self.xp is np:
            return (matrix @ moves.T.ravel()).reshape(-1, 6).T
        return (matrix @ moves.ravel()).reshape(6, -1)

    def __call__(self, moves: Any) -> Any:
        """Return forces and torques (6, N) by motions (6, N)."""
        return self._times(self.matrix, moves)

    def solve(self, acts: Any) -> tuple[Any, Any]:
        """Return motions v, about, by forces and torques b (6, N) of A = R + D^-1; and R v.

        By conjugate gradients. D^-1 is the diagonal matrix. What counts is the error of R v, of
        which the caller has the energy by D: where b - A v is left, the squares of that error and
        of v's make ``left.(D - A^-1) left``, and all of it is ``b.(D - A^-1) b``.
        """
        # Numbers are on the host, where they cost a device less than launches.
        motions, left, towards, before, power = np.zeros_like(acts), acts, 0.0, 1.0, 0.0
        whole = float(np.vdot(acts, acts / self.diagonal))
        for step in range(MOST_STEPS):
            z = self._times(self.inverse, left)
            size = float(np.vdot(left, z))
            off, of = float(np.vdot(left, left / self.diagonal)) - size, whole - power
            if not whole or (step and off <= ERROR**2 * of + ROUNDING * whole):
                return motions, acts - left - self.diagonal * motions
            towards = z + size / before * towards
            along = self.diagonal * towards + self(towards)
            ahead = size / float(np.vdot(towards, along))
            motions = motions + ahead * towards
            left = left - ahead * along
            power, before = power + ahead * size, size
        raise ParkiError(
            "the lubrication of pairs still has an error of "
            f"{math.sqrt(max(off / of, 0.0)):.2g} after {MOST_STEPS} iterations; give a "
            "roughness, as spheres are too close to contact"
        )
