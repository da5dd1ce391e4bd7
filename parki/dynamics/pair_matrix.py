"""`PairMatrix`: solves with the resistance of pairs of spheres, and of what is left of the fluid.

Close pairs are stiff, and all others hardly resist more than the fluid does. So solves are
preconditioned by what two spheres do: the inverse of each sphere's own block, and for each close
pair what the other sphere changes in it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from parki.dynamics.lubrication import Lubrication
from parki.dynamics.pair_product import BlockProduct, PairProduct
from parki.errors import ParkiError
from parki.interchange import to_host
from parki.runtime import ExecutionSpace
from parki.solving.pairs import sums_by

CLOSE = 0.3  # gaps of close pairs, over the mean radius
ERROR, ROUNDING = 0.3, 1e-14  # of solves, and of the square of their norm
MOST_STEPS = 500


class PairMatrix:
    """The matrix R of pairs, and solves with R and a diagonal matrix.

    Motions are scaled within, so that the diagonal matrix is 1.

    Parameters
    ----------
    space : ExecutionSpace
    pairs : Lubrication
        At least one.
    mobility : array, shape (2, N)
        Inverse of the diagonal, of velocities and of turns; positive.
    """

    def __init__(self, space: ExecutionSpace, pairs: Lubrication, mobility: Any) -> None:
        self.count = pairs.count
        scales = mobility**0.5
        self.scale = np.repeat(scales, 3, axis=0)
        self.product = PairProduct(space, pairs, scales)
        own = self.product.alone()
        for axis in range(6):
            own[axis, axis] += 1
        close = np.flatnonzero((pairs.gaps < CLOSE) & (pairs.first != pairs.second))
        first, second = pairs.first[close], pairs.second[close]
        between = pairs.between(close)
        between *= self.scale[:, None, first] * self.scale[:, second]
        self.inverse = self._inverse(space, between, first, second, own)

    def _inverse(
        self, space: ExecutionSpace, between: Any, first: Any, second: Any, own: Any
    ) -> BlockProduct:
        """Return the inverse, about, of the matrix with these pairs and blocks of spheres.

        It is the sum of inverses of spheres alone, and of each pair less its two spheres. This is
        exact for separate pairs, and positive for any: see docs/notebook/decisions.md.
        """
        own = np.moveaxis(own, -1, 0)
        alone = np.linalg.inv(own)
        pairs = np.empty_like(alone, shape=(first.size, 2, 6, 2, 6))
        pairs[:, 0, :, 1] = np.moveaxis(between, -1, 0)
        pairs[:, 1, :, 0] = pairs[:, 0, :, 1].swapaxes(1, 2)
        for k, spheres in enumerate((first, second)):
            pairs[:, k, :, k] = own[spheres]
        pairs = np.linalg.inv(pairs.reshape(-1, 12, 12)).reshape(pairs.shape)
        for k, spheres in enumerate((first, second)):
            pairs[:, k, :, k] -= alone[spheres]
        pairs = pairs.transpose(1, 3, 2, 4, 0).copy()
        found = np.moveaxis(alone, 0, -1).copy()
        sums = sums_by(space.array_module, np.concatenate([first, second]), self.count)
        values = np.concatenate([pairs[0, 0], pairs[1, 1]], axis=-1).reshape(36, -1)
        found += (sums @ values.T).T.reshape(found.shape)
        every = np.arange(self.count, like=first)
        rows, columns = (
            np.concatenate([one, other, every]) for one, other in ((first, second), (second, first))
        )
        blocks = np.concatenate([pairs[0, 1], pairs[1, 0], found], axis=-1)
        return BlockProduct(space, blocks, rows, columns, self.count)

    def __call__(self, moves: Any) -> Any:
        """Return forces and torques (6, N) by motions (6, N)."""
        moves = np.divide(moves, self.scale, out=np.empty_like(self.scale))
        return self.product(moves, np.empty_like(moves)) / self.scale

    def solve(self, acts: Any) -> tuple[Any, Any]:
        """Return motions v, about, by forces and torques b (6, N) of A = R + D^-1; and R v.

        By conjugate gradients. D^-1 is the diagonal matrix. What counts is the error of R v, of
        which the caller has the energy by D: where b - A v is left, the squares of that error and
        of v's make ``left.(D - A^-1) left``, and all of it is ``b.(D - A^-1) b``.
        """
        acts = self.scale * acts
        # One launch changes motions and what is left, and one makes both products with the latter.
        # A device is waited for twice in each step.
        work = np.zeros_like(acts, shape=(3, *acts.shape))
        motions, left, z = work
        changes = np.zeros_like(acts, shape=(2, *acts.shape))
        towards, less = changes
        left[...] = acts
        before, power, whole = 1.0, 0.0, None
        for step in range(MOST_STEPS):
            self.inverse(left, z)
            every, size = to_host(work[1:].reshape(2, -1) @ left.ravel()).tolist()
            whole = every if whole is None else whole
            off, of = every - size, whole - power
            if not whole or (step and off <= ERROR**2 * of + ROUNDING * whole):
                return self.scale * motions, (acts - left - motions) / self.scale
            towards *= size / before
            towards += z
            self.product(towards, less, unit=1.0, sign=-1.0)
            ahead = -size / float(np.vdot(towards, less))
            work[:2] += ahead * changes
            power, before = power + ahead * size, size
        raise ParkiError(
            "the lubrication of pairs still has an error of "
            f"{math.sqrt(max(off / of, 0.0)):.2g} after {MOST_STEPS} iterations; give a "
            "roughness, as spheres are too close to contact"
        )
