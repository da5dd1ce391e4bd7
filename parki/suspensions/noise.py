"""Normal numbers whose covariance is a mobility.

`split`: far and near field are positive, each by itself, because `parki.ewald.split.shells`
multiplies a mode by the square of a shell's transform. So their noises are drawn apart, and added:
the positively split Ewald sum of Fiore, Balboa Usabiaga, Donev and Swan (2017). The far one takes
white noise on the grid, multiplies it by the root of the multiplier, and gathers it as a plan does.
Its covariance is the far matrix itself, with all errors of the window. The near one takes Lanczos'
iteration, of few products with the near matrix.

Without periodic axes the far field's kernel fades out, and is not positive there. Several radii, or
torques, are sums with splits of their own. `root` iterates the whole matrix then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from scipy.linalg import eigh_tridiagonal

from parki.errors import ParkiError
from parki.ewald.pipeline.one_device import OneDevice
from parki.ewald.plan import Plan
from parki.interchange import to_host

MOST_STEPS = 200
White = Callable[[tuple[int, ...]], Any]


def white(rng: Any, dtype: Any) -> White:
    """Return what makes arrays of independent normal numbers of a shape."""
    return lambda shape: rng.standard_normal(shape, dtype=dtype)


def split(plan: Plan, white: White, accuracy: float) -> Any:
    """Return noise (3, N) of a triply periodic plan whose targets are its sources."""
    pipeline, shape = cast(OneDevice, plan.pipeline), (3, plan.n_targets)
    near = root(pipeline.near, white(shape), accuracy)
    return near + pipeline.shaken(white, plan.n_targets)


def root(
    matrix: Callable[[Any], Any],
    white: Any,
    accuracy: float,
    total: Callable[[Any], Any] = lambda values: values,
) -> Any:
    """Return the square root of a positive matrix times a vector, by Lanczos' iteration.

    Parameters
    ----------
    matrix : callable
        Its product with an array of the shape of ``white``.
    white : array
    accuracy : float
        Relative change of the result in one step, at which it stops.
    total : callable
        Adds up what all ranks have, each of which has a part of the vectors.

    Raises
    ------
    ParkiError
        If the matrix is not positive, or the change stays larger.
    """
    dtype = white.dtype
    size = total((white * white).sum(dtype=np.float64)) ** 0.5
    basis = [white / size.astype(dtype)]
    diagonal: list[float] = []
    beside: list[float] = []
    before, change = np.zeros(0), 1.0
    while True:
        product = matrix(basis[-1])
        own = total((basis[-1] * product).sum(dtype=np.float64))
        product = product - own.astype(dtype) * basis[-1]
        if beside:
            product -= dtype.type(beside[-1]) * basis[-2]
        rest = total((product * product).sum(dtype=np.float64)) ** 0.5
        # One copy to the host, which waits for a device.
        for numbers, value in zip((diagonal, beside), to_host(np.stack([own, rest])), strict=True):
            numbers.append(float(value))
        values, vectors = eigh_tridiagonal(np.array(diagonal), np.array(beside[:-1]))
        if values[0] <= 0:
            raise ParkiError(
                f"the mobility has the eigenvalue {values[0]:.2g} of "
                f"{values[-1]:.2g}: by its error it is not positive; give a smaller tolerance"
            )
        weights = vectors @ (np.sqrt(values) * vectors[0])
        change = float(np.linalg.norm(weights - np.append(before, 0)) / np.linalg.norm(weights))
        if change <= accuracy or beside[-1] <= 1e-7 * values[-1]:
            found = basis[0] * (size * weights[0]).astype(dtype)
            for weight, vector in zip(weights[1:], basis[1:], strict=True):
                found += (size * weight).astype(dtype) * vector
            return found
        if len(basis) == MOST_STEPS:
            raise ParkiError(
                f"the noise still changes by {change:.2g} after {MOST_STEPS} steps; expected "
                f"{accuracy:g}"
            )
        before = weights
        basis.append(product / dtype.type(beside[-1]))
