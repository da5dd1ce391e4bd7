"""Normal numbers whose covariance is a mobility.

`split`: far and near field are positive, each by itself, because `parki.ewald.split.shells`
multiplies a mode by the square of a shell's transform; and so they are of several radii, if the
near field reaches far enough for the largest ones (`Lifted.positive`). So their noises are drawn
apart, and added: the positively split Ewald sum of Fiore, Balboa Usabiaga, Donev and Swan (2017).
The far one takes white noise on the grid, multiplies it by the root of the multiplier, and gathers
it as a plan does. Its covariance is the far matrix itself, with all errors of the window. The near
one takes Lanczos' iteration, of few products with the near matrix.

Without periodic axes the far field's kernel fades out, and is not positive there. Torques are sums
with other splits than forces, so that there is no positive far field of both. `root` iterates the
whole matrix then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np

from parki.errors import ParkiError
from parki.ewald.pipeline.one_device import OneDevice
from parki.ewald.plan import Plan
from parki.interchange import to_host
from parki.suspensions.derivatives import ACTS, MOVES

MOST_STEPS = 200
TINY = float(np.finfo(np.float32).tiny)
# Products on a device between two looks at the numbers that say whether to stop.
TOGETHER = 4
White = Callable[[tuple[int, ...]], Any]


def white(rng: Any, dtype: Any) -> White:
    """Return what makes arrays of independent normal numbers of a shape."""
    return lambda shape: rng.standard_normal(shape, dtype=dtype)


def drawn(spheres: Any, white: White, torques: bool, accuracy: float) -> Any:
    """Return noise (3, N) of the velocities of `parki.Spheres`; with torques, (2, 3, N)."""
    plan, shape = spheres._plan("velocity", "force"), tuple(spheres.points.shape)
    alike, scales = spheres._sizes.marks is None or spheres.options.walled, None
    if torques or not alike:
        # So scaled, a sphere alone has the same mobility for forces and torques, for all radii.
        xp = plan.task.xp
        radii = xp.asarray(spheres.radii, dtype=plan.dtype)
        scales = (3 * radii / 4) ** 0.5
    if torques:
        scales = xp.stack([scales, radii**1.5])[:, None]
        scales = scales / plan.dtype.type(math.sqrt(spheres.factor))

    def product(values: Any) -> Any:
        if not torques:
            return spheres._moved("velocity", {"force": values})
        given = dict(zip(ACTS, values, strict=True))
        return plan.task.xp.stack([spheres._moved(moves, given) for moves in MOVES])

    apart = spheres._splits and not torques and spheres.options.periodicity == 3
    if apart and plan.setup.split.positive:
        return math.sqrt(spheres.factor) * split(plan, white, accuracy, scales)
    start = white((2, *shape) if torques else shape)
    return root(product, start, accuracy, total=spheres._total, scales=scales)


def split(plan: Plan, white: White, accuracy: float, scales: Any = None) -> Any:
    """Return noise (3, N) of a triply periodic plan whose targets are its sources."""
    pipeline, shape = cast(OneDevice, plan.pipeline), (3, plan.n_targets)
    with plan._sum.exclusive():
        repeated = partial(pipeline.repeated, "Lanczos") if pipeline.short else None
        near = root(pipeline.near, white(shape), accuracy, repeated, scales=scales)
        return near + pipeline.shaken(white, plan.n_targets)


def root(
    matrix: Callable[[Any], Any],
    white: Any,
    accuracy: float,
    repeated: Any = None,
    total: Callable[[Any], Any] = lambda values: values,
    scales: Any = None,
) -> Any:
    """Return a root of a positive matrix times a vector, by Lanczos' iteration.

    It is the square root; with scales S, S^-1 times the square root of S M S, which takes fewer
    steps where the diagonal of M varies. The covariance is M in either case.

    Parameters
    ----------
    matrix : callable
        Its product with an array of the shape of ``white``.
    white : array
    accuracy : float
        Relative change of the result in one step, at which it stops.
    repeated : callable, optional
        By which a device takes several products at a time: see `OneDevice.repeated`.
    total : callable
        Adds up what all ranks have, each of which has a part of the vectors.
    scales : array, optional
        A diagonal matrix S, broadcast to the shape of ``white``.

    Raises
    ------
    ParkiError
        If the matrix is not positive, or the change stays larger.
    """
    many = TOGETHER if repeated else 1
    dtype, size = white.dtype, total((white * white).sum(dtype=np.float64)) ** 0.5
    given = {
        "start": np.zeros_like(white, shape=(2, *white.shape)),
        "beside": np.zeros_like(white, shape=1),
    }
    given["start"][1] = white / size.astype(dtype)
    scaled = {} if scales is None else {"scales": scales}
    basis, numbers, before = [], np.zeros((2, 0)), np.zeros(0)
    while True:
        found = {
            "basis": np.empty_like(white, shape=(many + 1, *white.shape)),
            "numbers": np.empty_like(white, shape=(2, many)),
        }
        (repeated or _once)(partial(advance, matrix, total), given | scaled, found)
        basis.append(found["basis"][:-1])
        # This waits for a device.
        numbers = np.hstack([numbers, to_host(found["numbers"]).astype(np.float64)])
        for count in range(len(before) + 1, numbers.shape[1] + 1):
            diagonal, beside = numbers[:, :count]
            values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside[:-1], -1))
            if values[0] <= 0:
                raise ParkiError(
                    f"the mobility has the eigenvalue {values[0]:.2g} of "
                    f"{values[-1]:.2g}: by its error it is not positive; give a smaller tolerance"
                )
            weights = vectors @ (np.sqrt(values) * vectors[0])
            change = np.linalg.norm(weights - np.append(before, 0)) / np.linalg.norm(weights)
            if change <= accuracy or beside[-1] <= 1e-7 * values[-1]:
                result = size.astype(dtype) * _combined(weights.astype(dtype), basis)
                return result if scales is None else result / scales
            before = weights
        if numbers.shape[1] >= MOST_STEPS:
            raise ParkiError(
                f"the noise still changes by {change:.2g} after {MOST_STEPS} steps; expected "
                f"{accuracy:g}"
            )
        given = {"start": found["basis"][-2:], "beside": found["numbers"][1, -1:]}


def advance(
    matrix: Callable[[Any], Any], total: Callable[[Any], Any], arrays: dict[str, Any]
) -> None:
    """Do steps of Lanczos' iteration, whose numbers stay on the device.

    Parameters
    ----------
    matrix, total : callable
        As for `root`.
    arrays : dict of arrays
        Given are the vector before and the first one, "start" (2, ...), the number "beside" the
        diagonal between them, and "scales", if there are any. "basis" (k + 1, ...) becomes the
        first vector and k more, "numbers" (2, k) the diagonal and the numbers beside it.
    """
    basis, numbers, beside = arrays["basis"], arrays["numbers"], arrays["beside"]
    scales = arrays.get("scales")
    before, basis[0] = arrays["start"]
    for step, vector in enumerate(basis[:-1]):
        product = matrix(vector) if scales is None else scales * matrix(scales * vector)
        product = product - beside * before
        own = total((vector * product).sum())
        product -= own * vector
        # Where nothing is left, the next vector counts for nothing.
        beside = np.maximum(total((product * product).sum()) ** 0.5, TINY)
        np.divide(product, beside, out=basis[step + 1])
        numbers[0, step], numbers[1, step] = own, beside
        before = vector


def _once(work: Callable[[dict[str, Any]], None], given: Any, found: Any) -> None:
    work({**given, **found})


def _combined(weights: Any, basis: list[Any]) -> Any:
    """Return the sum of weighted vectors, of which the last ones may be left out."""
    found: Any = 0
    for block in basis:
        vectors = block[: len(weights)]
        own, weights = weights[: len(vectors)], weights[len(vectors) :]
        found = found + np.tensordot(np.asarray(own, like=block), vectors, 1)
    return found
