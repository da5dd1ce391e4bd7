"""`PairMatrix`: solves with the resistance of pairs of spheres, and of what is left of the fluid.

Close pairs are stiff, and all others hardly resist more than the fluid does. So solves are
preconditioned by what two spheres do: the inverse of each sphere's own block, and for each close
pair what the other sphere changes in it.

`PairProduct` is how pairs resist. A pair is written down for both of its spheres, as fourteen
numbers: a unit vector, and forces and torques on the sphere by motions of it and of the other one,
along the vector and across it. `BlockProduct` takes any blocks, of 36 numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from parki.dynamics.lubrication import Lubrication
from parki.errors import ParkiError
from parki.interchange import to_host
from parki.runtime import ExecutionSpace, Kernel, load
from parki.settings import MOST_THREADS
from parki.solving.pairs import sums_by
from parki.typing import AnyArray

FEW = 256  # spheres, whose pairs take less time than to wake another thread
SLICE = 32  # spheres whose pairs are side by side
# Places in the matrices of m = 0 and 1, in the order of the kernel: rows of the force and torque on
# a sphere, columns of its velocity and turn (0, 1), and of the other one's (3, 4).
ALONG = (0, 0), (0, 3), (1, 1), (1, 4)
ACROSS = (0, 0), (0, 1), (0, 3), (0, 4), (1, 1), (1, 3), (1, 4)


def kernel(name: str, space: ExecutionSpace) -> Kernel:
    """Return the kernel "resist" or "multiply_blocks"."""
    return load("resist", name, space, REAL="double", SLICE=SLICE)


class BlockProduct:
    """The product of blocks with motions of spheres, (6, N).

    Parameters
    ----------
    space : ExecutionSpace
    blocks : array, shape (6, 6, n)
    rows, columns : array, shape (n,)
        Spheres of the blocks, in any order.
    count : int
        Number of spheres.
    """

    def __init__(
        self, space: ExecutionSpace, blocks: AnyArray, rows: AnyArray, columns: AnyArray, count: int
    ) -> None:
        self._kernel = kernel("multiply_blocks", space)
        self._count, self._threads = count, 1 if count <= FEW else MOST_THREADS
        self._given = in_slices(blocks.reshape(36, -1), rows, columns, count)

    def __call__(self, moves: AnyArray, acts: AnyArray) -> Any:
        """Write the product to ``acts``; return it."""
        self._kernel(self._count, self._threads, moves=moves, acts=acts, **self._given)
        return acts


class PairProduct:
    """The product of S R S with motions, where R is the resistance of pairs and S is diagonal.

    Parameters
    ----------
    space : ExecutionSpace
    pairs : Lubrication
        At least one.
    scales : array, shape (2, N)
        S of velocities and of turns.
    """

    def __init__(self, space: ExecutionSpace, pairs: Lubrication, scales: AnyArray) -> None:
        spheres = pairs.first, pairs.second
        numbers = np.empty_like(pairs.axes, shape=(14, 2, pairs.first.size))
        numbers[:3] = pairs.axes[:, None]
        places = [(0, *each) for each in ALONG] + [(1, *each) for each in ACROSS]
        for row, (m, acts, moves) in enumerate(places, 3):
            for k in range(2):
                by = spheres[k if moves < 3 else 1 - k]
                size = scales[acts, spheres[k]] * scales[moves % 3, by]
                number = pairs.blocks[m][acts + 3 * k, (moves + 3 * k) % 6]
                np.multiply(size, number, out=numbers[row, k])
        self._kernel = kernel("resist", space)
        self._count, self._threads = pairs.count, 1 if pairs.count <= FEW else MOST_THREADS
        rows, columns = np.concatenate(spheres), np.concatenate(spheres[::-1])
        self._given = in_slices(numbers.reshape(14, -1), rows, columns, pairs.count)

    def __call__(
        self,
        moves: AnyArray,
        acts: AnyArray,
        unit: float = 0.0,
        sign: float = 1.0,
        own: AnyArray = None,
    ) -> Any:
        """Write ``sign`` times the product, and ``unit`` times the motions, to ``acts``; return it.

        Arrays are (6, N). Each sphere moves by ``own`` itself, and by ``moves`` for others; default
        the same.
        """
        given = self._given | {"own": moves if own is None else own, "unit": unit, "sign": sign}
        self._kernel(self._count, self._threads, moves=moves, acts=acts, **given)
        return acts

    def alone(self) -> Any:
        """Return the blocks (6, 6, N) by which spheres resist while others rest."""
        zeros = np.zeros_like(self._given["numbers"], shape=(6, self._count))
        blocks = np.empty_like(zeros, shape=(6, 6, self._count))
        for axis in range(6):
            unit = zeros.copy()
            unit[axis] = 1
            self(zeros, blocks[axis], own=unit)
        return blocks


def in_slices(numbers: AnyArray, rows: AnyArray, columns: AnyArray, count: int) -> dict[str, Any]:
    """Return the arrays of kernels: numbers (k, n) of pairs, by slices of the spheres of rows.

    First pairs of the spheres of a slice are side by side, then second ones, and so on.
    """
    order = np.argsort(rows, kind="stable")
    rows, spheres = rows[order], np.arange(count, like=rows)
    counts = np.bincount(rows, minlength=count)
    longest = np.zeros_like(counts, shape=(-(-count // SLICE) * SLICE,))
    longest[:count] = counts
    longest = longest.reshape(-1, SLICE).max(axis=1)
    ends = SLICE * np.cumsum(longest)
    begins = (ends - SLICE * longest)[spheres // SLICE] + spheres % SLICE
    of_sphere = np.arange(rows.size, like=rows) - (np.cumsum(counts) - counts)[rows]
    places, size = begins[rows] + SLICE * of_sphere, int(ends[-1])
    given = {
        "numbers": np.zeros_like(numbers, shape=(len(numbers), size)),
        "others": np.zeros_like(columns, shape=(size,), dtype=np.int32),
        "counts": counts.astype(np.int32),
        "begins": begins.astype(np.int64),
    }
    given["numbers"][:, places] = numbers[:, order]
    given["others"][places] = columns[order]
    return given


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
        self, space: ExecutionSpace, between: Any, first: AnyArray, second: AnyArray, own: Any
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

    def __call__(self, moves: AnyArray) -> Any:
        """Return forces and torques (6, N) by motions (6, N)."""
        moves = np.divide(moves, self.scale, out=np.empty_like(self.scale))
        return self.product(moves, np.empty_like(moves)) / self.scale

    def solve(self, acts: AnyArray) -> tuple[Any, Any]:
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
