"""Normal numbers whose covariance is a mobility.

`split`: far and near field are positive, each by itself, because `parki.ewald.split.shells`
multiplies a mode by the square of a shell's transform; and so they are of several radii, if the
near field reaches far enough for the largest ones (`FaxenSplit.positive`). So their noises are
drawn apart, and added: the positively split Ewald sum of Fiore, Balboa Usabiaga, Donev and Swan
(2017). The far one takes white noise on the grid, multiplies it by the root of the multiplier, and
gathers it as a plan does. Its covariance is the far matrix itself, with all errors of the window.
The near one takes Lanczos' iteration, of few products with the near matrix.

A density of forces and their dipoles has torques: a torque T is the antisymmetric dipole ``D_jk =
eps_jmk T_m / 2``, and a sphere turns by half the curl of the mean gradient. They are drawn in the
same way, by `TorqueFields`, whose near field is positive up to about the same radius. Without
periodic axes the far field's kernel fades out, and is not positive there. `root` iterates the whole
matrix then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from parki.core import EwaldOptions, OneDevice, Plan, RecordedSteps
from parki.errors import ParkiError, ParkiTypeError, ParkiValueError
from parki.interchange import finite, number, shown, to_host
from parki.typing import AnyArray, ArrayModule

WANT = ("u", "grad_u")
MOST_ENERGY = 1e300  # over a duration, whose root is the size of random forces
# The dipole's rows that are half of each component of a torque, and minus half.
ROWS = (7, 5), (2, 6), (3, 1)


def density(forces: AnyArray, torques: AnyArray) -> Any:
    """Return the density (..., 12, N) of forces and torques (..., 3, N)."""
    dens = np.zeros_like(forces, shape=(*forces.shape[:-2], 12, forces.shape[-1]))
    dens[..., :3, :] = forces
    for axis, (plus, minus) in enumerate(ROWS):
        dens[..., 3 + plus, :] = torques[..., axis, :] / 2
        dens[..., 3 + minus, :] = -dens[..., 3 + plus, :]
    return dens


def turns(gradients: AnyArray) -> Any:
    """Return turns (..., 3, N) of mean gradients (..., 9, N)."""
    turns = np.zeros_like(gradients, shape=(*gradients.shape[:-2], 3, gradients.shape[-1]))
    for axis, (plus, minus) in enumerate(ROWS):
        turns[..., axis, :] = (gradients[..., plus, :] - gradients[..., minus, :]) / 2
    return turns


class TorqueFields:
    """Near field and grid of forces and torques, as noise takes them, by the plan of their sum."""

    rows: tuple[int, ...] = (2, 3)  # of noise

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @property
    def pipeline(self) -> OneDevice:
        """The pipeline of the present points."""
        return cast(OneDevice, self.plan.pipeline)

    def near(self, values: AnyArray) -> Any:
        """Return the near field of forces and torques (2, 3, N): velocities and turns."""
        forces, torques = values
        return self._moved(self.pipeline.near(density(forces, torques)))

    def brownian_noise(self, standard_normal: Callable[[tuple[int, ...]], Any], count: int) -> Any:
        """Return the far field's noise (2, 3, N), of what makes normal numbers of a shape."""
        return self._moved(self.pipeline.brownian_noise(standard_normal, count))

    def repeated(self, name: str, work: Any, inputs: Any, outputs: Any) -> None:
        """Do what `OneDevice.repeated` does."""
        self.pipeline.repeated(name, work, inputs, outputs)

    def _moved(self, rows: AnyArray) -> Any:
        moved = np.zeros_like(rows, shape=(2, 3, rows.shape[-1]))
        moved[0], moved[1] = rows[:3], turns(rows[3:])
        return moved


MOST_STEPS = 200
TINY = float(np.finfo(np.float32).tiny)
# Products on a device before the first look at the numbers that say whether to stop. Later ones
# take as many as the noise before needed.
FIRST = 3
White = Callable[[tuple[int, ...]], Any]


def generator(name: str, seed: Any, xp: ArrayModule) -> Any:
    """Return a generator of random numbers of a library, of what its ``default_rng`` takes.

    Raises
    ------
    ParkiTypeError
        If it takes something else.
    """
    try:
        return xp.random.default_rng(seed)
    except (TypeError, ValueError):
        raise ParkiTypeError(
            f"{name} is {shown(seed)}; expected what {xp.__name__}.random.default_rng takes: a "
            "generator that it made, a seed, which is a whole number, or None"
        ) from None


def check_accuracy(accuracy: float, dtype: DTypeLike, of: str = "the noise") -> None:
    """Refuse an error at which iterations cannot stop, or stop too early."""
    least = float(np.finfo(dtype).eps)
    if not least <= finite("accuracy", accuracy, "a number below 1") < 1:
        raise ParkiValueError(
            f"accuracy is {accuracy!r}; expected the relative error of {of}, at least "
            f"{least:.1g} for {dtype}, and below 1"
        )


def check_step(kT: float, dt: float) -> tuple[float, float]:
    """Return a thermal energy and a duration as floats; refuse what is no number, 0 or more."""
    energy, duration = (
        number(name, value, "a number, 0 or more") for name, value in (("kT", kT), ("dt", dt))
    )
    for name, argument, value in (("kT", kT, energy), ("dt", dt, duration)):
        if not 0 <= value < math.inf:
            raise ParkiValueError(f"{name} is {argument!r}; expected a number, 0 or more")
    if duration and not energy / MOST_ENERGY < duration:
        raise ParkiValueError(
            f"dt is {dt!r}, in which noise of kT={kT!r} has velocities that no float holds; take a "
            "longer step, or another unit of time"
        )
    return energy, duration


def refuse_gauge(options: EwaldOptions, others: str) -> None:
    """Refuse noise of a mobility that is not positive, by its gauge; name other periodicities."""
    if sum(options.periodic) in (1, 2):
        raise ParkiValueError(
            f"noise with periodicity={options.periodicity} is not defined: the mean velocity of a "
            "cell depends on the gauge there, and the mobility is not positive; take periodicity "
            f"{others}"
        )


def open_axes(options: EwaldOptions, mean: Any) -> tuple[int, ...]:
    """Return the axes along which the gauge moves all spheres, if ``mean`` is to be taken out.

    Raises
    ------
    ParkiValueError
        If it is neither None nor "zero", or there are no such axes.
    """
    if mean is None:
        return ()
    if not (isinstance(mean, str) and mean == "zero"):
        raise ParkiValueError(f"mean is {mean!r}; expected 'zero', or leave it out")
    count = sum(options.periodic)
    if options.walled or count in (0, 3):
        raise ParkiValueError(
            f"mean is 'zero', but with periodicity={options.periodicity} and "
            f"wall={options.wall!r} the mean of displacements is defined; leave mean out"
        )
    return tuple(n for n in range(3) if count == 1 or options.periodic[n])


def standard_normal(rng: Any, dtype: Any) -> White:
    """Return a function that makes arrays of independent normal numbers of a shape."""
    return lambda shape: rng.standard_normal(shape, dtype=dtype)


def split(
    plan: Plan,
    torque_fields: TorqueFields | None,
    standard_normal: White,
    accuracy: float,
    size: float,
    *,
    scales: AnyArray,
    first: int,
) -> tuple[Any, int]:
    """Return ``size`` times what `root` does, of a triply periodic plan from sources to themselves.

    With `TorqueFields` it is noise of velocities and turns. ``scales`` and ``first`` are as for
    `root`.
    """
    placed, count = plan.terms[0].sum, plan.n_targets
    with plan.exclusive():
        pipeline, order = cast(OneDevice, placed.pipeline), placed.task.order
        fields: OneDevice | TorqueFields = torque_fields or pipeline
        start = standard_normal((*((3,) if torque_fields is None else torque_fields.rows), count))
        far = fields.brownian_noise(standard_normal, count)
        far *= far.dtype.type(size)
        repeated = fields.repeated if pipeline.short else None
        numbers, products = root(
            fields.near, start, accuracy, repeated, scales=scales, first=first, size=size
        )
        numbers += far
        if not order.is_identity:
            order.to_user(numbers.copy(), numbers)
        return numbers, products


def root(
    matrix: Callable[[Any], Any],
    standard_normal: Any,
    accuracy: float,
    repeated: Any = None,
    total: Callable[[Any], Any] = lambda values: values,
    scales: AnyArray = None,
    first: int = 1,
    size: float = 1.0,
) -> tuple[Any, int]:
    """Return ``size`` times a root of a positive matrix times a vector, by Lanczos' iteration.

    It is the square root; with scales S, S^-1 times the square root of S M S, which takes fewer
    steps where the diagonal of M varies. The covariance is M in either case.

    Parameters
    ----------
    matrix : callable
        Its product with an array of the shape of ``standard_normal``.
    standard_normal : array
    accuracy : float
        Relative error of the result, as `left` estimates it, at which it stops.
    repeated : callable, optional
        By which a device takes several products at a time: see `OneDevice.repeated`.
    total : callable
        Adds up what all ranks have, each of which has a part of the vectors.
    scales : array, optional
        A diagonal matrix S, broadcast to the shape of ``standard_normal``.
    first : int
        Products before the first look at numbers, for which a device waits. More of them than it
        takes do not change the result.
    size : float

    Returns
    -------
    array, int
        The root, and the number of products that it took.

    Raises
    ------
    ParkiError
        If the matrix is not positive, or the error stays larger.
    """
    inputs, scaled = (
        {"standard_normal": standard_normal},
        {} if scales is None else {"scales": scales},
    )
    numbers, before, changes = np.zeros((2, 0)), np.zeros(0), list[float]()
    basis, many, work = list[Any](), first, partial(advance, matrix, total)
    while True:
        outputs = {
            "basis": np.empty_like(standard_normal, shape=(many + 1, *standard_normal.shape)),
            "numbers": np.empty_like(standard_normal, shape=(2, many + 1)),
        }
        if repeated:
            name = f"Lanczos {many}{' more' * ('start' in inputs)}"
            repeated(name, work, inputs | scaled, outputs)
        else:
            work({**inputs, **scaled, **outputs})
        basis = [*basis[:-1], *(block[:-1] for block in basis[-1:]), outputs["basis"]]
        *more, last = to_host(outputs["numbers"]).astype(np.float64).T  # for which a device waits
        numbers = np.hstack([numbers, np.transpose(more)])
        if not changes:
            size *= last[0]
            if not last[0]:  # of no spheres
                return np.zeros_like(standard_normal), 1
        for count in range(len(changes) + 1, numbers.shape[1] + 1):
            diagonal, beside = numbers[:, :count]
            weights = _weights(diagonal, beside)
            change = np.linalg.norm(weights - np.append(before, 0))
            changes.append(float(change / np.linalg.norm(weights)))
            ended = beside[-1] <= 1e-7 * abs(diagonal).max()
            if ended or left(changes) <= accuracy:
                if not ended:
                    weights = _extended(diagonal, beside, weights)
                result = _combined((size * weights).astype(standard_normal.dtype), basis)
                return (result if scales is None else result / scales), count
            before = weights
        if numbers.shape[1] >= MOST_STEPS:
            raise ParkiError(
                f"the noise still changes by {changes[-1]:.2g} after {MOST_STEPS} steps; expected "
                f"an error of {accuracy:g}"
            )
        inputs = {"start": outputs["basis"][-2:], "beside": outputs["numbers"][1, many - 1 : many]}
        many = 1


def left(changes: list[float]) -> float:
    """Return the error after relative changes, as if the next ones were a geometric series.

    Its ratio is the mean one of the latter half. Without extension, the error is about that; with
    one, it is smaller.
    """
    last, half = changes[-1], len(changes) // 2
    if len(changes) < 3 or last >= changes[-1 - half]:  # the first ratio says little
        return math.inf
    ratio = (last / changes[-1 - half]) ** (1 / half)
    return float(last * ratio / (1 - ratio))


def _weights(diagonal: AnyArray, beside: AnyArray) -> Any:
    """Return the weights of vectors in the root."""
    count = len(diagonal)
    matrix = np.zeros((count, count))
    matrix.flat[:: count + 1], matrix.flat[count :: count + 1] = diagonal, beside[: count - 1]
    values, vectors = np.linalg.eigh(matrix)
    if not values[0] > 0:  # or NaN, of numbers that overflow
        raise ParkiError(
            f"the mobility has the eigenvalue {values[0]:.2g} of {values[-1]:.2g}: by its error it "
            "is not positive; give a smaller tolerance"
        )
    return vectors @ (np.sqrt(values) * vectors[0])


def _extended(diagonal: AnyArray, beside: AnyArray, weights: AnyArray) -> Any:
    """Return weights of one vector more than the diagonal has numbers, if that is possible.

    Numbers of the diagonal hardly differ after the first ones, so that the last one stands for the
    next. This makes errors as small as one product more.
    """
    try:
        return _weights(np.append(diagonal, diagonal[-1]), beside)
    except ParkiError:
        return weights


def in_order(_: Any, *works: Callable[[], None] | None) -> None:
    """Do works one after the other: see `RecordedSteps.around`."""
    for work in works:
        if work is not None:
            work()


def advance(
    matrix: Callable[[Any], Any],
    total: Callable[[Any], Any],
    arrays: dict[str, AnyArray],
    around: Callable[..., None] = in_order,
) -> None:
    """Do steps of Lanczos' iteration, whose numbers stay on the device.

    Parameters
    ----------
    matrix, total : callable
        As for `root`.
    arrays : dict of arrays
        Given are "white", or the vector before and the first one, "start" (2, ...), and the number
        "beside" the diagonal between them; and "scales", if there are any. "basis" (k + 1, ...)
        becomes the first vector and k more, "numbers" (2, k + 1) the diagonal and the numbers
        beside it, and then the size of "white". "product" has memory for a product, if these may
        have graphs of their own.
    around : callable
        `RecordedSteps.around`, or `in_order`.
    """
    basis, numbers, scales = arrays["basis"], arrays["numbers"], arrays.get("scales")
    last: dict[str, Any] = {}

    def begin() -> None:
        if "start" in arrays:
            basis[0] = arrays["start"][1]
            return
        standard_normal = arrays["standard_normal"]
        size = total((standard_normal * standard_normal).sum(dtype=np.float64)) ** 0.5
        basis[0], numbers[:, -1] = standard_normal / size.astype(standard_normal.dtype), size

    def multiply(step: int) -> None:
        vector = basis[step]
        last["product"] = matrix(vector) if scales is None else scales * matrix(scales * vector)
        if "product" in arrays:
            arrays["product"][...], last["product"] = last["product"], arrays["product"]

    def orthogonalize(step: int) -> None:
        product, vector = last["product"], basis[step]
        if step:
            product = product - numbers[1, step - 1] * basis[step - 1]
        elif "start" in arrays:
            product = product - arrays["beside"] * arrays["start"][0]
        along = total((vector * product).sum())
        product = product - along * vector
        # Where nothing is left, the next vector counts for nothing.
        beside = np.maximum(total((product * product).sum()) ** 0.5, TINY)
        np.divide(product, beside, out=basis[step + 1])
        numbers[0, step], numbers[1, step] = along, beside

    for step in range(len(basis) - 1):
        first = None if step else begin
        around(step, first, partial(multiply, step), partial(orthogonalize, step))


def recorded(steps: RecordedSteps) -> Callable[..., None] | None:
    """Return `OneDevice.repeated` for steps that are recorded one by one; None where none are."""
    if not steps.recorded:
        return None

    def repeated(name: str, work: Any, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        arrays = {key: steps.copied(key, array) for key, array in inputs.items()}
        arrays |= {n: steps.empty(f"{name} {n}", a.shape, a.dtype) for n, a in outputs.items()}
        like = outputs["basis"]
        arrays["product"] = steps.empty("product", like.shape[1:], like.dtype)

        def around(step: int, before: Any, product: Any, after: Any) -> None:
            steps.around((name, step), before, product, after)

        work(arrays, around)
        for key, array in outputs.items():
            steps.space.adapter.copy(array, arrays[key])

    return repeated


def _combined(weights: AnyArray, blocks: Iterable[Any]) -> Any:
    """Return the sum of weighted vectors, of which the last ones may be left out."""
    total: Any = 0
    for block in blocks:
        vectors = block[: len(weights)]
        own_weights, weights = weights[: len(vectors)], weights[len(vectors) :]
        own_weights = np.asarray(own_weights, like=block).reshape(-1, *[1] * (block.ndim - 1))
        total = total + (own_weights * vectors).sum(axis=0)
    return total
