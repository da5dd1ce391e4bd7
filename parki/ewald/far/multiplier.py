"""The far field's multiplier: symbol, split, truncation, window and scale in one real number.

Stokes modes are ``u = M [k^2 A - k (k.A) + i k k^2 D]`` with ``M = -B^(k) gamma_S``, Laplace modes
``phi = M q`` with ``M = (4 pi / k^2) gamma_L``: "The far field in Fourier space" of docs/theory.md;
each over the window's transform squared, times the grid's cell volume. Where free directions need
it, the kernel ends beyond all pairs: see `parki.ewald.far.cropped`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.arrays import real_name
from parki.ewald.far import truncated
from parki.ewald.split.hasimoto import Split
from parki.ewald.task import Task
from parki.runtime import Kernel, load

Array = NDArray[np.float64]


def tabulate(
    task: Task,
    split: Split,
    waves: list[Array],
    windows: list[Array],
    given: Any = None,
    basis: Any = None,
) -> tuple[Any, Callable[[], None]]:
    """Return the multiplier of a block of modes, computed in double precision; 0 at k = 0.

    And what overwrites it, for another ``basis`` in the same memory.

    That mode is left to `parki.ewald.far.gauge`, which knows the sum of the densities exactly, and
    not by the window: it is the largest of all, and its error was of one sign. With a kernel that
    is ``given``, what is left of this mode is no larger than the others.

    Parameters
    ----------
    task : Task
    split : Split
        Supplies the far-field factor.
    waves, windows : list of 3 ndarrays
        Wavenumbers of the block along each axis, on the host, and factors for them.
    given : array, optional
        Transforms of a kernel that ends, of the shape of the result, float64.
    basis : array, shape (3, 3), float64, optional
        For a tilted box, whose ``waves`` are the grid's: `Lattice.basis`.

    Returns
    -------
    values : array, shape (len(waves[0]), len(waves[1]), len(waves[2]))
    fill : callable
    """
    xp, symbol = task.xp, task.sum.symbol
    shape = tuple(k.size for k in waves)
    values = xp.empty(shape, dtype=task.dtype)
    factor = split.factor(symbol.order)
    squares = [waves[0] ** 2 + split.screening**2, waves[1] ** 2, waves[2] ** 2]
    if basis is not None:
        squares = waves
    arguments = {f"square{axis}": xp.asarray(square) for axis, square in enumerate(squares)}
    arguments.update({f"window{axis}": xp.asarray(f) for axis, f in enumerate(windows)})
    launch = partial(
        _kernel(task, split, given is not None),
        values.size,
        multiplier=values.reshape(-1),
        shape=xp.asarray(shape, dtype=np.int32),
        given=None if given is None else given.reshape(-1),
        gamma=xp.asarray(factor.coefficients),
        terms=factor.coefficients.size,
        scale=factor.scale,
        shift=factor.shift,
        end=factor.end,
        strength=symbol.strength,
        screening=split.screening,
        friction=split.friction**2,
        basis=basis,
        **arguments,
    )
    mean = given is None and split.screening and all(k.size and k[0] == 0 for k in waves)

    def fill() -> None:
        launch()
        if mean:
            values[0, 0, 0] = 0

    fill()
    return values, fill


def kernels(task: Task, split: Split) -> list[Kernel]:
    """Return all kernels that make multipliers."""
    periodicity = task.periodicity
    kernels = [] if periodicity == 3 else truncated.kernels(task)
    kinds = [False] * (periodicity > 0) + [True] * (periodicity < 3)
    return kernels + [_kernel(task, split, given) for given in kinds]


def _kernel(task: Task, split: Split, given: bool) -> Kernel:
    """Return the kernel of `tabulate`, of kernels in closed form or ``given``."""
    more: dict[str, Any] = {"TILTED": True} if task.tilted else {}
    return load(
        "fgc",
        "tabulate",
        task.space,
        executor=task.executor,
        REAL=real_name(task.dtype),
        QUARTIC=task.sum.symbol.order == 2,
        GIVEN=given,
        **more,
        DECAYS=split.factor(task.sum.symbol.order).decays,
    )
