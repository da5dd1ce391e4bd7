"""The far field's multiplier: symbol, split, truncation, window and scale in one real number.

Stokes modes are ``u = M [k^2 A - k (k.A) + i k k^2 D]`` with ``M = -B^(k) gamma_S``, Laplace modes
``phi = M q`` with ``M = (4 pi / k^2) gamma_L`` (MATH B.5, C), each over the window's transform
squared, times the grid's cell volume. Where free directions need it, the kernel ends beyond
all pairs: see `parki.ewald.far.truncated`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.arrays import real_name
from parki.ewald.far import truncated
from parki.ewald.far.padding import Padding
from parki.ewald.split.hasimoto import Split
from parki.ewald.task import Task
from parki.runtime import Kernel, load

Array = NDArray[np.float64]


def tabulate(
    task: Task,
    split: Split,
    waves: list[Array],
    windows: list[Array],
    end: tuple[float, Padding] | None = None,
    given: Any = None,
) -> Any:
    """Return the multiplier of a block of modes, computed in double precision; 0 at k = 0.

    That mode is left to `parki.ewald.far.gauge`, which knows the sum of the densities exactly, and
    not by the window: it is the largest of all, and its error was of one sign. Of a kernel that is
    ``given`` what is left of it is no larger than other modes.

    Parameters
    ----------
    task : Task
    split : Split
        Supplies the far-field factor.
    waves, windows : list of 3 ndarrays
        Wavenumbers of the block along each axis, on the host, and factors for them; of a kernel
        that ends, along free axes but the first, all of the transform.
    end : tuple, optional
        Of a kernel that ends beyond all pairs: largest wavenumber in the free directions of all
        blocks, and the radii between which it fades.
    given : array, optional
        The kernel's transforms, of the shape of the result, float64: see `parki.ewald.far.cropped`.

    Returns
    -------
    array, shape (len(waves[0]), len(waves[1]), len(waves[2]))
    """
    xp, laplace = task.xp, task.sum.harmonic
    shape = tuple(k.size for k in waves)
    values = xp.empty(shape, dtype=task.dtype)
    added = constant = None
    places = 1
    if end is not None:
        added, constant = truncated.added(task, waves, *end)
        places = math.prod(shape) // constant.size
    if given is not None:
        added = given.reshape(-1)
    factor = split.factor(laplace)
    arguments = {f"square{axis}": xp.asarray(k**2) for axis, k in enumerate(waves)}
    arguments.update({f"window{axis}": xp.asarray(f) for axis, f in enumerate(windows)})
    _kernel(task, split, end is not None, given is not None)(
        values.size,
        multiplier=values.reshape(-1),
        shape=xp.asarray(shape, dtype=np.int32),
        added=added,
        constant=constant,
        places=places,
        gamma=xp.asarray(factor.coefficients),
        terms=factor.coefficients.size,
        scale=factor.scale,
        shift=factor.shift,
        end=factor.end,
        strength=4 * math.pi if laplace else 8 * math.pi,
        **arguments,
    )
    return values


def kernels(task: Task, split: Split) -> list[Kernel]:
    """Return all kernels that make multipliers."""
    periodicity = task.options.periodicity
    found = [] if periodicity > 1 else [truncated.kernel(task)]
    kinds = [(False, False)] if periodicity > 0 else []
    if periodicity < 3:
        kinds.append((periodicity == 2, periodicity < 2))
    return found + [_kernel(task, split, *kind) for kind in kinds]


def _kernel(task: Task, split: Split, local: bool, given: bool) -> Kernel:
    """Return the kernel of `tabulate`, of kernels that end beyond all pairs, or are given."""
    return load(
        "fgc",
        "tabulate",
        task.space,
        executor=task.executor,
        REAL=real_name(task.dtype),
        QUARTIC=not task.sum.harmonic,
        LOCAL=local,
        GIVEN=given,
        DECAYS=split.factor(task.sum.harmonic).decays,
    )
