"""Products of pairs with motions of spheres, by kernels over the pairs of each sphere.

`PairProduct` is how pairs resist. A pair is written down for both of its spheres, as fourteen
numbers: a unit vector, and forces and torques on the sphere by motions of it and of the other one,
along the vector and across it. `BlockProduct` takes any blocks, of 36 numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.dynamics.lubrication import Lubrication
from parki.runtime import ExecutionSpace, Kernel, load
from parki.settings import MOST_THREADS

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
        self, space: ExecutionSpace, blocks: Any, rows: Any, columns: Any, count: int
    ) -> None:
        self._kernel = kernel("multiply_blocks", space)
        self._count, self._threads = count, 1 if count <= FEW else MOST_THREADS
        self._given = in_slices(blocks.reshape(36, -1), rows, columns, count)

    def __call__(self, moves: Any, acts: Any) -> Any:
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

    def __init__(self, space: ExecutionSpace, pairs: Lubrication, scales: Any) -> None:
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
        self, moves: Any, acts: Any, unit: float = 0.0, sign: float = 1.0, own: Any = None
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


def in_slices(numbers: Any, rows: Any, columns: Any, count: int) -> dict[str, Any]:
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
