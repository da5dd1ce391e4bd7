"""`PairProduct`: how pairs resist motions of spheres, by a kernel over the pairs of each sphere.

A pair is written down for both of its spheres, as fourteen numbers: a unit vector, and forces and
torques on the sphere by motions of it and of the other one, along the vector and across it. A
matrix of the same has 36 numbers for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.dynamics.lubrication import Lubrication
from parki.runtime import ExecutionSpace, load
from parki.settings import MOST_THREADS

FEW = 256  # spheres, whose pairs take less time than to wake another thread
SLICE = 32  # spheres whose pairs are side by side
# Places in the matrices of m = 0 and 1, in the order of the kernel: rows of the force and torque on
# a sphere, columns of its velocity and turn (0, 1), and of the other one's (3, 4).
ALONG = (0, 0), (0, 3), (1, 1), (1, 4)
ACROSS = (0, 0), (0, 1), (0, 3), (0, 4), (1, 1), (1, 3), (1, 4)


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
        self.count, spheres = pairs.count, (pairs.first, pairs.second)
        rows, others = np.concatenate(spheres), np.concatenate(spheres[::-1])
        numbers = np.empty_like(pairs.axes, shape=(14, 2, pairs.first.size))
        numbers[:3] = pairs.axes[:, None]
        places = [(0, *each) for each in ALONG] + [(1, *each) for each in ACROSS]
        for row, (m, acts, moves) in enumerate(places, 3):
            for k in range(2):
                by = spheres[k if moves < 3 else 1 - k]
                size = scales[acts, spheres[k]] * scales[moves % 3, by]
                number = pairs.blocks[m][acts + 3 * k, (moves + 3 * k) % 6]
                np.multiply(size, number, out=numbers[row, k])
        self._kernel = load("resist", "resist", space, REAL="double", SLICE=SLICE)
        self._given = self._in_slices(numbers.reshape(14, -1), rows, others)

    def _in_slices(self, numbers: Any, rows: Any, others: Any) -> dict[str, Any]:
        """Return the kernel's arrays: pairs p of the spheres of a slice follow each other."""
        order = np.argsort(rows, kind="stable")
        rows, spheres = rows[order], np.arange(self.count, like=rows)
        counts = np.bincount(rows, minlength=self.count)
        slices = -(-self.count // SLICE)
        longest = np.zeros_like(counts, shape=slices * SLICE)
        longest[: self.count] = counts
        longest = longest.reshape(-1, SLICE).max(axis=1)
        ends = SLICE * np.cumsum(longest)
        begins = (ends - SLICE * longest)[spheres // SLICE] + spheres % SLICE
        of_sphere = np.arange(rows.size, like=rows) - (np.cumsum(counts) - counts)[rows]
        places, size = begins[rows] + SLICE * of_sphere, int(ends[-1])
        given = {
            "numbers": np.zeros_like(numbers, shape=(len(numbers), size)),
            "others": np.zeros_like(others, shape=size, dtype=np.int32),
            "counts": counts.astype(np.int32),
            "begins": begins.astype(np.int64),
        }
        given["numbers"][:, places] = numbers[:, order]
        given["others"][places] = others[order]
        return given

    def __call__(
        self, moves: Any, acts: Any, unit: float = 0.0, sign: float = 1.0, own: Any = None
    ) -> Any:
        """Write ``sign`` times the product, and ``unit`` times the motions, to ``acts``; return it.

        Arrays are (6, N). Each sphere moves by ``own`` itself, and by ``moves`` for others; default
        the same.
        """
        own = moves if own is None else own
        threads = 1 if self.count <= FEW else MOST_THREADS
        sizes = {"unit": unit, "sign": sign}
        self._kernel(self.count, threads, own=own, moves=moves, acts=acts, **sizes, **self._given)
        return acts

    def alone(self) -> Any:
        """Return the blocks (6, 6, N) by which spheres resist while others rest."""
        zeros = np.zeros_like(self._given["numbers"], shape=(6, self.count))
        blocks = np.empty_like(zeros, shape=(6, 6, self.count))
        for axis in range(6):
            unit = zeros.copy()
            unit[axis] = 1
            self(zeros, blocks[axis], own=unit)
        return blocks
