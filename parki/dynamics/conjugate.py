"""Conjugate gradients for what particles do to the fluid, x, and how they move, u.

    M x - K u = k      kinematics: a slip, or minus a flow far away
    K^T x + R u = f    balance: what resists motions, and what drives them

M is the mobility of spheres, K has their velocities by the motions u, and R is a resistance that
leaves M out. The preconditioner solves these equations with a simpler matrix in place of M. So the
balance holds in every step. On changes p, v that leave it the form ``p.(M p - K v)`` is
``p.M p + v.R v``, which is positive: plain conjugate gradients apply, with one product with M in
each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from parki.core import RecordedSteps
from parki.errors import ParkiError
from parki.typing import AnyArray

Show = Callable[[float], Any]


class Solved(NamedTuple):
    """What acts on the fluid, what moves, products with M, and the relative error, estimated."""

    acts: Any
    moves: Any
    products: int
    error: float

    def scaled(self, power: Any) -> Solved:
        """Return the solution times a power of two."""
        acts, moves = scaled(power, self.acts, self.moves)
        return self._replace(acts=acts, moves=moves)


def divide(steps: RecordedSteps, *sides: Any) -> Any:
    """Divide right sides by the power of two that is next above their largest entry; return it.

    Without it energies of small right sides are zero, as if all were solved, and energies of large
    right sides overflow. A solve is linear: divided and multiplied by that power, it changes no
    digit. The host is told the largest entry, the number 3.
    """
    power = steps.empty("power", (), np.dtype(np.int32))
    size = reduce(np.maximum, [abs(side).max() for side in sides])
    steps.numbers[3] = size
    power[...] = steps.space.array_module.frexp(size)[1]
    for side in sides:
        side[...] = np.ldexp(side, -power)
    return power


def scaled(power: Any, *arrays: Any) -> list[Any]:
    """Return arrays times a power of two."""
    return [np.ldexp(array, power) for array in arrays]


def dot(a: AnyArray, b: AnyArray) -> Any:
    """Return the sum of products, in double precision: single has none of two small numbers."""
    return (a.astype(np.float64, copy=False) * b).sum()


def conjugate(
    steps: RecordedSteps,
    mobility: Callable[[Any], Any],
    precondition: Callable[[Any], tuple[Any, Any]],
    carried: Callable[[Any], Any],
    start: Callable[[], tuple[Any, Any]],
    k: Any,
    scale: Callable[[Any, Any], Any],
    accuracy: float,
    most: int,
    show: Show | None = None,
    of: str = "the mobility",
    last: Callable[[Any, Any, Any], tuple[Any, Any]] = lambda step, z, w: (z, w),
    freed: Callable[[Any, Any], tuple[Any, Any]] = lambda residual, u: (residual, u),
    kind: Callable[[], Any] = tuple,
) -> Solved:
    """Return the solution, from a start that satisfies the balance.

    Functions take and return arrays, launch the same each time, and wait for no device: so each
    step is a graph where a device records. The host waits for the error alone, once in a step: that
    takes a device far less time than one more product.

    Parameters
    ----------
    steps : RecordedSteps
        It has begun. What functions read stays where it is until it begins otherwise.
    mobility : callable
        M, on what acts.
    precondition : callable
        What acts and what moves by a residual of the kinematics, where the balance has none.
    carried : callable
        K, on what moves.
    start : callable
        What acts and what moves at the start.
    k : array
        Of the shape of what acts.
    scale : callable
        The energy of a solution, about, by what acts and what moves: the error's is over it.
    accuracy : float
        Relative error, the root of that ratio, at which it stops: estimated by what a step as long
        as the one before takes away.
    most : int
        Products with M at most.
    show : callable, optional
        Called with that error in each step.
    of : str
        What M is, in errors.
    last : callable
        What is added to what acts and what moves at the end, by the length of the last step and by
        what the preconditioner says then, which costs no product. Default: just that.
    kind : callable
        Tells apart what functions launch, where it is not always the same.

    Raises
    ------
    ParkiError
        If the error stays larger, or M is not positive.
    """
    arrays, numbers = steps.arrays, steps.numbers

    def begin() -> None:
        x, u = start()
        _put(steps, x=x, u=u)

    def multiply(acts: str) -> None:
        _put(steps, product=mobility(arrays[acts]))

    def step_on(
        residual: Any, x: Any, u: Any, energy: Any = 1.0, length: Any = None
    ) -> tuple[Any, Any]:
        """Keep what a step has changed; return what the preconditioner says of it."""
        z, w = precondition(residual)
        left = dot(residual, z)
        length = np.ones_like(left) if length is None else length
        _put(steps, residual=residual, x=x, u=u, z=z, w=w, left=left, length=length)
        for place, each in enumerate((length * left, scale(x, u), energy)):
            numbers[place] = each
        return z, w

    def first() -> None:
        x, u = arrays["x"], arrays["u"]
        residual, u = freed(k - arrays["product"] + carried(u), u)
        z, w = step_on(residual, x, u)
        _put(steps, p=z, v=w)

    def again() -> None:
        p, v = arrays["p"], arrays["v"]
        h = arrays["product"] - carried(v)
        energy = dot(p, h)
        length = arrays["left"] / energy
        size = length.astype(p.dtype)
        residual, u = freed(arrays["residual"] - size * h, arrays["u"] + size * v)
        z, w = step_on(residual, arrays["x"] + size * p, u, energy, length)
        # As the residual has become orthogonal to p, also where the preconditioner is inexact.
        size = (-dot(z, h) / energy).astype(p.dtype)
        _put(steps, p=z + size * p, v=w + size * v)

    def end() -> None:
        z, w = last(arrays["length"], arrays["z"], arrays["w"])
        _put(steps, acts=arrays["x"] + z, moves=arrays["u"] + w)

    with steps.busy():
        steps.around(("begin", kind()), begin, partial(multiply, "x"), first)
        products = 1
        while True:
            left, size, energy = steps.read()[:3]
            error, positive = _error(left, size, energy)
            if show is not None:
                show(error)
            if error <= accuracy:
                steps(("end", kind()), end)
                return Solved(arrays["acts"].copy(), arrays["moves"].copy(), products, error)
            if products >= most or not positive:
                raise ParkiError(_why(error, accuracy, products, positive, of))
            steps.around(("step", kind()), None, partial(multiply, "p"), again)
            products += 1


def _put(steps: RecordedSteps, **values: Any) -> None:
    """Write arrays to where the next step finds them."""
    for name, array in values.items():
        steps.empty(name, array.shape, array.dtype)[...] = array


def _error(left: float, scale: float, energy: float) -> tuple[float, bool]:
    """Return the relative error, and whether the last step met a positive matrix."""
    # Rounding, and a preconditioner that is not exact, may leave a negative number: no zero.
    size = math.sqrt(abs(left) / scale) if scale > 0 else math.inf
    return size if left else 0.0, energy > 0 and not math.isnan(left)


def _why(error: float, accuracy: float, products: int, positive: bool, of: str) -> str:
    """Return the message of a solve that did not end."""
    if not positive:
        return (
            f"{of} is not positive, by its error: give a smaller tolerance "
            f"(the velocities were to have an error of {accuracy:g})"
        )
    return (
        f"the velocities have an error of {error:.2g} after {products} products with {of}; "
        f"expected {accuracy:g}: give a larger accuracy or a smaller tolerance, or keep particles "
        "apart"
    )
