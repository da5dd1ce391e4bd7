"""`PairMatrix`: solves with the resistance of pairs of spheres, and of what is left of the fluid.

Close pairs are stiff, and all others hardly resist more than the fluid does. So solves are
preconditioned by what two spheres do: the inverse of each sphere's own block, and for each close
pair what the other sphere changes in it.

`PairProduct` is how pairs resist. A pair is written down for both of its spheres, as fourteen
numbers: a unit vector, and forces and torques on the sphere by motions of it and of the other one,
along the vector and across it. `BlockProduct` takes any blocks, of 36 numbers.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from parki.core import RecordedSteps
from parki.dynamics import conjugate
from parki.dynamics.close import Slots, kernel
from parki.dynamics.lubrication import Lubrication
from parki.errors import ParkiError
from parki.runtime import ExecutionSpace, load
from parki.solving.search import threads
from parki.typing import AnyArray


class BlockProduct:
    """The product of blocks with motions of spheres, (6, N).

    Parameters
    ----------
    space : ExecutionSpace
    slots : Slots
    own : array, shape (36, N)
        The block of each sphere with itself.
    """

    def __init__(self, space: ExecutionSpace, slots: Slots, own: Any) -> None:
        self._kernel = kernel("resist", "multiply_blocks", space)
        self._count = slots.count
        self.arguments = arrays_of(slots, 36, like=own) | {"own": own}

    def __call__(self, moves: AnyArray, acts: AnyArray) -> Any:
        """Write the product to ``acts``; return it."""
        self._kernel(
            self._count, threads(self._count), arguments=self.arguments, moves=moves, acts=acts
        )
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
        self._kernel, self._count = kernel("resist", "resist", space), pairs.count
        self.arguments = arrays_of(pairs.slots, 14, like=scales)
        kernel("resist", "write_numbers", space)(
            pairs.first.size,
            threads(pairs.first.size),
            first=pairs.first,
            second=pairs.second,
            places=pairs.slots.places,
            axes=pairs.axes,
            blocks=pairs.rows,
            scales=scales,
            numbers=self.arguments["numbers"],
            others=self.arguments["others"],
        )

    def __call__(
        self,
        moves: AnyArray,
        acts: AnyArray,
        unit: float = 0.0,
        sign: float = 1.0,
    ) -> Any:
        """Write ``sign`` times the product, and ``unit`` times the motions, to ``acts``; return it.

        Arrays are (6, N).
        """
        own = {"moves": moves, "acts": acts, "unit": unit, "sign": sign}
        self._kernel(self._count, threads(self._count), arguments=self.arguments | own)
        return acts


def arrays_of(slots: Slots, rows: int, like: Any) -> dict[str, Any]:
    """Return the arrays of kernels: numbers (rows, size) of slots, and the other spheres there."""
    return {
        "numbers": np.empty_like(like, shape=(rows, slots.size)),
        "others": np.empty_like(slots.places, shape=(slots.size,)),
        "counts": slots.counts,
        "begins": slots.begins,
    }


CLOSE = 0.3  # gaps of close pairs, over the mean radius
ERROR, ROUNDING = 0.3, 1e-14  # of solves, and of the square of their norm
MOST_STEPS = 500
FEWEST = 2  # steps that a device makes at once


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
        self._space, scales = space, mobility**0.5
        self.scale = np.repeat(scales, 3, axis=0)
        self.product = PairProduct(space, pairs, scales)
        self.inverse = self._inverse(space, pairs)

    def _inverse(self, space: ExecutionSpace, pairs: Lubrication) -> BlockProduct:
        """Return the inverse, about, of the matrix of close pairs and of blocks of spheres.

        It is the sum of inverses of spheres alone, and of each pair less its two spheres. This is
        exact for separate pairs, and positive for any: see docs/notebook/decisions.md.
        """
        count, arguments = pairs.count, self.product.arguments
        own = np.empty_like(self.scale, shape=(count, 36))
        of_slots = {name: arguments[name] for name in ("numbers", "counts", "begins")}
        kernel("resist", "resist_alone", space)(
            count, threads(count), arguments=of_slots, blocks=own
        )
        alone = np.linalg.inv(own.reshape(-1, 6, 6)).reshape(-1, 36)
        close = np.flatnonzero((pairs.gaps < CLOSE) & (pairs.first != pairs.second))
        first, second, size = pairs.first[close], pairs.second[close], close.size
        slots = Slots(space, first, second, count)
        joined = np.empty_like(own, shape=(size, 144))
        kernel("resist", "join_blocks", space)(
            size,
            threads(size),
            close=close.astype(np.int32),
            first=pairs.first,
            second=pairs.second,
            places=pairs.slots.places,
            numbers=arguments["numbers"],
            own=own,
            joined=joined,
        )
        inverses = np.linalg.inv(joined.reshape(-1, 12, 12)).reshape(-1, 144)
        found = BlockProduct(space, slots, alone.T.copy())
        changes = np.empty_like(found.arguments["numbers"])
        kernel("resist", "part_blocks", space)(
            size,
            threads(size),
            first=first,
            second=second,
            places=slots.places,
            inverses=inverses,
            alone=alone,
            numbers=found.arguments["numbers"],
            others=found.arguments["others"],
            changes=changes,
        )
        found.arguments["own"] += slots.add_up(changes)
        return found

    def __call__(self, moves: AnyArray) -> Any:
        """Return forces and torques (6, N) by motions (6, N)."""
        moves = np.divide(moves, self.scale, out=np.empty_like(self.scale))
        return self.product(moves, np.empty_like(moves)) / self.scale

    def recorded(self, steps: RecordedSteps) -> PairMatrix:
        """Return the same matrix, its arrays where steps that are recorded find them."""
        other = copy.copy(self)
        [other.scale] = steps.keep(scale=self.scale)
        for name in ("product", "inverse"):
            each = copy.copy(getattr(self, name))
            named = {f"{name} {own}": array for own, array in each.arguments.items()}
            kept = steps.keep_columns(named)
            each.arguments = dict(zip(each.arguments, kept.values(), strict=True))
            setattr(other, name, each)
        return other

    def solve(self, acts: AnyArray, most: int | None = None, told: Any = None) -> tuple[Any, Any]:
        """Return motions v, about, by forces and torques b (6, N) of A = R + D^-1; and R v.

        By conjugate gradients. D^-1 is the diagonal matrix. What counts is the error of R v, of
        which the caller has the energy by D: where b - A v is left, the squares of that error and
        of v's make ``left.(D - A^-1) left``, and all of it is ``b.(D - A^-1) b``.

        Where it is said how many steps there are at ``most``, all of them are made, for which
        nobody waits, but those after the end change nothing; ``told`` (2,) gets how many did, and
        the square of the error before the last one: see `enough`.
        """
        acts = self.scale * acts
        space, left = self._space, acts.copy()
        # Motions; the direction of a step, and how much less is left after it; and z.
        motions, towards, less, z = np.zeros_like(acts, shape=(4, *acts.shape))
        states = np.zeros_like(acts, shape=(2 + (most or MOST_STEPS), 7))
        states[0, ::3] = 1.0
        vectors = {"towards": towards, "less": less, "motions": motions, "left": left, "z": z}
        flat = {name: array.reshape(-1) for name, array in vectors.items()}
        flat |= {"states": states, "error": ERROR, "rounding": ROUNDING}

        def launch(name: str, step: int, products: AnyArray) -> None:
            """Launch a part of a step for all entries of its vectors."""
            part = load("iterate", name, space, REAL="double")
            count = conjugate.threads(z.size)
            part(z.size, count, arguments=flat, step=step, products=products)

        for step in range(most or MOST_STEPS):
            self.inverse(left, z)
            products = conjugate.dots(space, [(left, left), (z, left)])
            launch("direct", step, products)
            if most is None and not float(states[step + 1, 3]):  # for which a device is waited for
                break
            self.product(towards, less, unit=1.0, sign=-1.0)
            launch("go", step, conjugate.dots(space, [(towards, less)]))
        else:
            ends = states[step + 1]
            if most is None:
                self.enough(MOST_STEPS, MOST_STEPS, float(ends[5] / ends[6]))
            else:
                told[0], told[1] = ends[4], ends[5] / ends[6]
        return self.scale * motions, (acts - left - motions) / self.scale

    def enough(self, most: int | None, took: float, error: float) -> int | None:
        """Return how many steps to make at most, after a solve that took some of them.

        Raises
        ------
        ParkiError
            If they were not enough, and cannot be more.
        """
        if most is None or took < most:
            return most
        if most < MOST_STEPS:
            return min(2 * most, MOST_STEPS)
        raise ParkiError(
            f"the lubrication of pairs still has an error of {math.sqrt(max(error, 0.0)):.2g} "
            f"after {MOST_STEPS} iterations; give a roughness, as spheres are too close to contact"
        )
