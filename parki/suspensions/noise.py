"""Normal numbers whose covariance is the mobility, by the positively split Ewald sum.

Far and near field are positive, each by itself: `parki.ewald.split.shells` multiplies a mode by
the square of a shell's transform. So their noises are drawn apart, and added (Fiore, Balboa
Usabiaga, Donev and Swan 2017). The far one takes white noise on the grid, multiplied by the root of
the multiplier, through the plan's own gathering. Its covariance is the far matrix itself, with all
errors of the window. The near one takes Lanczos' iteration: few products with the near matrix.

Without periodic axes the kernel of the far field is not positive where it fades out; with several
radii there is no split of all pairs of radii together. The whole matrix is iterated then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import eigh_tridiagonal

from parki.errors import ParkiError
from parki.ewald.pipeline.one_device import OneDevice
from parki.ewald.plan import Plan

MOST_STEPS = 200  # of Lanczos' iteration


class Noise:
    """Noise of some groups of spheres, with a plan for each pair of groups."""

    def __init__(self, plans: dict[tuple[int, int], Plan], groups: list[Any]) -> None:
        self.plans, self.groups = plans, groups
        self.plan = plans[0, 0]

    def draw(self, rng: Any, accuracy: float) -> Any:
        """Return noise (3, N) whose covariance is the matrix of the sums."""
        count = sum(len(members) for members in self.groups)
        white = _white(rng, (3, count), self.plan)
        pipeline = self.plan.pipeline
        alone = len(self.groups) == 1 and self.plan.options.periodicity == 3
        if not (alone and isinstance(pipeline, OneDevice)):
            return root(self._whole, white, accuracy)
        found = root(pipeline.near, white, accuracy)
        return found + pipeline.shaken(lambda shape: _white(rng, shape, self.plan), count)

    def _whole(self, values: Any) -> Any:
        if len(self.groups) == 1:
            return self.plan(values)
        found = 0 * values
        for (t, s), plan in self.plans.items():
            found[:, self.groups[t]] += plan(values[:, self.groups[s]])
        return found


def _white(rng: Any, shape: tuple[int, ...], plan: Plan) -> Any:
    return rng.standard_normal(shape, dtype=plan.task.dtype)


def root(matrix: Callable[[Any], Any], white: Any, accuracy: float) -> Any:
    """Return the square root of a positive matrix times a vector, by Lanczos' iteration.

    Parameters
    ----------
    matrix : callable
        Its product with an array of the shape of ``white``.
    white : array
    accuracy : float
        Relative change of the result in one step, at which it stops.

    Raises
    ------
    ParkiError
        If the matrix is not positive, or the change stays larger.
    """
    size = _norm(white)
    basis = [white / size]
    diagonal: list[float] = []
    beside: list[float] = []
    before: Any = None
    for _ in range(MOST_STEPS):
        product = matrix(basis[-1])
        diagonal.append(_dot(basis[-1], product))
        # Against all vectors, which rounding would let back in.
        for vector in basis:
            product = product - vector * product.dtype.type(_dot(vector, product))
        values, vectors = eigh_tridiagonal(np.array(diagonal), np.array(beside))
        if values[0] <= 0:
            raise ParkiError(
                f"the mobility has the eigenvalue {values[0]:.2g}, which is not positive: "
                "its error is as large; give a smaller tolerance"
            )
        weights = vectors @ (np.sqrt(values) * vectors[0])
        if before is not None:
            change = np.linalg.norm(weights - np.append(before, 0)) / np.linalg.norm(weights)
            if change <= accuracy:
                break
        before = weights
        length = _norm(product)
        if length <= 1e-6 * values[-1]:
            break
        beside.append(length)
        basis.append(product / product.dtype.type(length))
    else:
        raise ParkiError(f"the noise changes by more than {accuracy:g} after {MOST_STEPS} steps")
    found = 0 * white
    for weight, vector in zip(weights, basis, strict=False):
        found += vector * vector.dtype.type(size * weight)
    return found


def _dot(one: Any, other: Any) -> float:
    return float((one * other).sum(dtype=np.float64))


def _norm(values: Any) -> float:
    return float(np.sqrt(_dot(values, values)))
