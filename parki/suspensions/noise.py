"""Normal numbers whose covariance is a mobility.

`split`: far and near field are positive, each by itself, because `parki.ewald.split.shells`
multiplies a mode by the square of a shell's transform; and so they are of several radii, if the
near field reaches far enough for the largest ones (`Lifted.positive`). So their noises are drawn
apart, and added: the positively split Ewald sum of Fiore, Balboa Usabiaga, Donev and Swan (2017).
The far one takes white noise on the grid, multiplies it by the root of the multiplier, and gathers
it as a plan does. Its covariance is the far matrix itself, with all errors of the window. The near
one takes Lanczos' iteration, of few products with the near matrix.

Torques and turns of spheres of one radius are drawn in the same way, by `Turning`. Without periodic
axes the far field's kernel fades out, and is not positive there. Nor is the near field of torques
on spheres of several radii. `root` iterates the whole matrix then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Any, cast

import numpy as np

from parki.errors import ParkiError
from parki.ewald.pipeline.one_device import OneDevice
from parki.ewald.plan import Plan
from parki.interchange import to_host
from parki.suspensions.derivatives import ACTS, MOVES
from parki.suspensions.turning import Turning

MOST_STEPS = 200
TINY = float(np.finfo(np.float32).tiny)
# Products on a device before the first look at the numbers that say whether to stop. Later ones
# take as many as the noise before needed.
FIRST = 3
White = Callable[[tuple[int, ...]], Any]


def white(rng: Any, dtype: Any) -> White:
    """Return what makes arrays of independent normal numbers of a shape."""
    return lambda shape: rng.standard_normal(shape, dtype=dtype)


def expect(spheres: Any) -> None:
    """Let near fields take lists of pairs from the first one on, as noise takes many."""
    plan = spheres._plan("velocity", "force")
    if _apart(spheres):
        plan._sum._pipeline.expect()  # for which the host need not wait


def _apart(spheres: Any) -> bool:
    """Return whether far and near field have noises of their own, if they are positive."""
    return bool(spheres._splits and spheres.options.periodicity == 3)


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

    how: dict[str, Any] = {"scales": scales}
    how["first"] = spheres._products if plan.space.on_device else 1
    if _apart(spheres) and plan.setup.split.positive and (alike or not torques):
        turning = spheres._turning() if torques else None
        found, spheres._products = split(plan, turning, white, accuracy, **how)
        return math.sqrt(spheres.factor) * found
    start = white((2, *shape) if torques else shape)
    found, spheres._products = root(product, start, accuracy, total=spheres._total, **how)
    return found


def split(
    plan: Plan, turning: Turning | None, white: White, accuracy: float, **how: Any
) -> tuple[Any, int]:
    """Return what `root` does, for a triply periodic plan whose targets are its sources.

    With `Turning` it is noise of velocities and turns.
    """
    pipeline, count, order = cast(OneDevice, plan.pipeline), plan.n_targets, plan._sum.order
    with plan._sum.exclusive():
        if turning is None:
            start, far = white((3, count)), pipeline.shaken(white, count)
            how["repeated"] = pipeline.repeated if pipeline.short else None
            found, products = root(pipeline.near, start, accuracy, **how)
        else:
            start, far = white((2, 3, count)), turning.shaken(white, count)
            found, products = root(turning.near, start, accuracy, **how)
        found += far
        if not order.kept:
            order.back(found.copy(), found)
        return found, products


def root(
    matrix: Callable[[Any], Any],
    white: Any,
    accuracy: float,
    repeated: Any = None,
    total: Callable[[Any], Any] = lambda values: values,
    scales: Any = None,
    first: int = 1,
) -> tuple[Any, int]:
    """Return a root of a positive matrix times a vector, by Lanczos' iteration.

    It is the square root; with scales S, S^-1 times the square root of S M S, which takes fewer
    steps where the diagonal of M varies. The covariance is M in either case.

    Parameters
    ----------
    matrix : callable
        Its product with an array of the shape of ``white``.
    white : array
    accuracy : float
        Relative error of the result, as `left` estimates it, at which it stops.
    repeated : callable, optional
        By which a device takes several products at a time: see `OneDevice.repeated`.
    total : callable
        Adds up what all ranks have, each of which has a part of the vectors.
    scales : array, optional
        A diagonal matrix S, broadcast to the shape of ``white``.
    first : int
        Products before the first look at numbers, for which a device waits. More of them than it
        takes do not change the result.

    Returns
    -------
    array, int
        The root, and the number of products that it took.

    Raises
    ------
    ParkiError
        If the matrix is not positive, or the error stays larger.
    """
    dtype, size = white.dtype, total((white * white).sum(dtype=np.float64)) ** 0.5
    given = {
        "start": np.zeros_like(white, shape=(2, *white.shape)),
        "beside": np.zeros_like(white, shape=1),
    }
    given["start"][1] = white / size.astype(dtype)
    scaled = {} if scales is None else {"scales": scales}
    basis, numbers, before, changes = [], np.zeros((2, 0)), np.zeros(0), list[float]()
    many = first
    while True:
        found = {
            "basis": np.empty_like(white, shape=(many + 1, *white.shape)),
            "numbers": np.empty_like(white, shape=(2, many)),
        }
        work = partial(advance, matrix, total)
        if repeated:
            repeated(f"Lanczos {many}", work, given | scaled, found)
        else:
            work({**given, **scaled, **found})
        basis.append(found["basis"][:-1])
        # This waits for a device.
        numbers = np.hstack([numbers, to_host(found["numbers"]).astype(np.float64)])
        for count in range(len(changes) + 1, numbers.shape[1] + 1):
            weights, ended = _weights(*numbers[:, :count])
            change = weights - np.append(before, np.zeros(len(weights) - len(before)))
            changes.append(float(np.linalg.norm(change) / np.linalg.norm(weights)))
            if ended or left(changes) <= accuracy:
                vectors = chain(*basis, found["basis"][-1:])
                result = size.astype(dtype) * _combined(weights.astype(dtype), vectors)
                return (result if scales is None else result / scales), count
            before = weights
        if numbers.shape[1] >= MOST_STEPS:
            raise ParkiError(
                f"the noise still changes by {changes[-1]:.2g} after {MOST_STEPS} steps; expected "
                f"an error of {accuracy:g}"
            )
        given = {"start": found["basis"][-2:], "beside": found["numbers"][1, -1:]}
        many = 1


def left(changes: list[float]) -> float:
    """Return the error after relative changes, as if the next ones were a geometric series.

    Its ratio is the last one or, if that is larger, the mean ratio of the latter half.
    """
    if len(changes) < 3:  # before, the ratio says little
        return math.inf
    last, half = changes[-1], len(changes) // 2
    ratio = max(last / changes[-2], (last / changes[-1 - half]) ** (1 / half))
    return last * ratio / (1 - ratio) if ratio < 1 else math.inf


def _weights(diagonal: Any, beside: Any) -> tuple[Any, bool]:
    """Return the weights of vectors in the root, and whether there are no more of them.

    One vector more is known than the diagonal has numbers. Numbers of the diagonal hardly differ
    after the first ones, so that the last one stands for the next. This saves a product.
    """
    count, ended = len(diagonal), beside[-1] <= 1e-7 * abs(diagonal).max()
    for size in (count,) if ended else (count + 1, count):
        matrix = np.diag([*diagonal, diagonal[-1]][:size]) + np.diag(beside[: size - 1], -1)
        values, vectors = np.linalg.eigh(matrix)
        if values[0] > 0:
            return vectors @ (np.sqrt(values) * vectors[0]), ended
    raise ParkiError(
        f"the mobility has the eigenvalue {values[0]:.2g} of {values[-1]:.2g}: by its error it is "
        "not positive; give a smaller tolerance"
    )


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


def _combined(weights: Any, vectors: Iterable[Any]) -> Any:
    """Return the sum of weighted vectors, of which the last ones may be left out."""
    found: Any = 0
    for weight, vector in zip(weights, vectors, strict=False):
        found = found + weight * vector
    return found
