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
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from parki.core import RecordedSteps
from parki.errors import ParkiError
from parki.interchange import real_name
from parki.runtime import ExecutionSpace, Kernel, load
from parki.settings import MOST_THREADS
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
        return self._replace(acts=np.ldexp(self.acts, power), moves=np.ldexp(self.moves, power))


def divide(steps: RecordedSteps, sides: Sequence[AnyArray]) -> Any:
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


def dot(a: AnyArray, b: AnyArray) -> Any:
    """Return the sum of products, in double precision: single has none of two small numbers."""
    return (a.astype(np.float64, copy=False) * b).sum()


FEW = 2**15  # entries of vectors, which take less time than to wake another thread


def threads(entries: int) -> int:
    """Return the most threads that take the entries of a vector."""
    return 1 if entries <= FEW else MOST_THREADS


def kernels(space: ExecutionSpace, dtype: DTypeLike) -> list[Kernel]:
    """Return the kernels of a solve for vectors of a dtype."""
    names = "multiply_parts", "step_on", "conjugate"
    return [load("iterate", name, space, REAL=real_name(dtype)) for name in names]


# Parts of a dot product, by a host and by a device; and entries of each, where there are few.
PARTS, PARTS_OF_DEVICE, ENTRIES = 64, 2**14, 4


def dots(space: ExecutionSpace, pairs: Sequence[tuple[AnyArray, AnyArray]]) -> Any:
    """Return the sums of products (n,) of pairs of arrays, in double precision."""
    most = max(first.size for first, _ in pairs)
    parts = min(PARTS_OF_DEVICE if space.on_device else PARTS, -(-most // ENTRIES)) or 1
    entries = -(-most // parts)
    # A device reads neighbours at once, and a thread of a host reads one entry after the other.
    lead, stride = (1, parts) if space.on_device else (entries, 1)
    sums = space.array_module.empty((len(pairs), parts))
    for row, (first, second) in enumerate(pairs):
        load("iterate", "multiply_parts", space, REAL=real_name(first.dtype))(
            parts,
            threads(most),
            lead=lead,
            stride=stride,
            most=entries,
            total=first.size,
            first=first.reshape(-1),
            second=second.reshape(-1),
            row=row,
            parts=sums,
        )
    return sums.sum(axis=1)


# What a step changes, flat.
VECTORS = "x", "u", "residual", "p", "v", "z", "w", "left", "length"


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
    freed : callable
        Changes residual and motions in place, where motions are not determined; returns both.
    kind : callable
        Tells apart what functions launch, where it is not always the same.

    Raises
    ------
    ParkiError
        If the error stays larger, or M is not positive.
    """
    arrays, numbers, space = steps.arrays, steps.numbers, steps.space

    def begin() -> None:
        x, u = start()
        _put(steps, x=x, u=u)

    def multiply(acts: str) -> None:
        _put(steps, product=mobility(arrays[acts]))

    def ask(*others: Any) -> Any:
        """Keep what the preconditioner says; return products of its z with residual and others."""
        z, w = precondition(arrays["residual"])
        _put(steps, z=z, w=w)
        numbers[1] = scale(arrays["x"], arrays["u"])
        return dots(space, [(arrays["residual"], z), *((z, other) for other in others)])

    def launch(name: str, **more: Any) -> None:
        """Change vectors by a step's numbers."""
        total, moved = arrays["x"].size, arrays["u"].size
        flat = {key: arrays[key].reshape(-1) for key in VECTORS}
        kernel = load("iterate", name, space, REAL=real_name(arrays["x"].dtype))
        most = max(total, moved)
        kernel(most, threads(most), arguments=flat, total=total, moved=moved, **more)

    def first() -> None:
        u = arrays["u"]
        residual, u = freed(k - arrays["product"] + carried(u), u)
        _put(steps, residual=residual, u=u)
        left = ask()
        _put(steps, p=arrays["z"], v=arrays["w"], left=left, length=np.ones_like(left))
        numbers[0], numbers[2] = left[0], 1.0

    def again() -> None:
        h = arrays["product"] - carried(arrays["v"])
        energy = dots(space, [(arrays["p"], h)])
        launch("step_on", h=h.reshape(-1), energy=energy)
        freed(arrays["residual"], arrays["u"])
        launch("conjugate", products=ask(h), energy=energy, numbers=numbers)

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
