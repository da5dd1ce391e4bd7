"""The far field's multiplier: symbol, split, truncation, window and scale in one real number.

Stokes modes are ``u = M [k^2 A - k (k.A) + i k k^2 D]`` with ``M = -B^(k) gamma_S``, Laplace modes
``phi = M q`` with ``M = (4 pi / k^2) gamma_L``: "The far field in Fourier space" of docs/theory.md;
each over the window's transform squared, times the grid's cell volume. Where free directions need
it, the kernel ends beyond all pairs: see `parki.ewald.far.truncated` and `cropped`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.ewald.far import truncated
from parki.ewald.far.padding import Padding
from parki.ewald.far.sizes import sizes_of
from parki.ewald.split.protocol import Split
from parki.ewald.task import Task
from parki.interchange import real_name, to_host
from parki.runtime import Kernel, load
from parki.runtime.forks import cuts
from parki.typing import AnyArray

Array = NDArray[np.float64]


def tabulate(
    task: Task,
    split: Split,
    waves: list[Array],
    windows: list[Array],
    ending: Any = None,
    basis: AnyArray = None,
) -> tuple[Any, Callable[[], None]]:
    """Return the multiplier of a block of modes, computed in double precision; 0 at k = 0.

    And what overwrites it, for another ``basis`` in the same memory.

    That mode is left to `parki.ewald.far.gauge`, which knows the sum of the densities exactly, and
    not by the window: it is the largest of all, and its error was of one sign. With a kernel
    that ends (``ending``), what is left of this mode is no larger than the others.

    Parameters
    ----------
    task : Task
    split : Split
        Supplies the far-field factor.
    waves, windows : list of 3 ndarrays
        Wavenumbers of the block along each axis, on the host, and factors for them.
    ending : array, optional
        Transforms of a kernel that ends, of the shape of the result, float64.
    basis : array, shape (3, 3) or (3 S, 3), float64, optional
        For a tilted box, whose ``waves`` are the grid's: `Lattice.basis`. For boxes of S systems
        each mode along the first axis has the values of all systems, one after the other.

    Returns
    -------
    values : array, shape (len(waves[0]) S, len(waves[1]), len(waves[2]))
    fill : callable
    """
    xp, symbol = task.xp, task.sum.symbol
    shape, boxes = tuple(k.size for k in waves), len(basis) // 3 if task.in_boxes else 1
    values = xp.empty((shape[0] * boxes, *shape[1:]), dtype=task.dtype)
    factor = split.factor(symbol.order)
    squares = [waves[0] ** 2 + split.screening**2, waves[1] ** 2, waves[2] ** 2]
    if basis is not None:
        squares = waves
    squares = [xp.asarray(square) for square in squares]
    windows = [xp.asarray(factors) for factors in windows]
    gamma = xp.asarray(factor.coefficients)
    launch = partial(
        _kernel(task),
        values.size,
        multiplier=values.reshape(-1),
        shape=xp.asarray(shape, dtype=np.int32),
        given=gamma if ending is None else ending.reshape(-1),
        ends=ending is not None,
        order=symbol.order,
        gamma=gamma,
        decays=factor.decays,
        terms=factor.coefficients.size,
        scale=factor.scale,
        shift=factor.shift,
        end=factor.end,
        strength=symbol.strength,
        screening=split.screening,
        alpha2=split.alpha**2,
        basis=basis,
        square0=squares[0],
        square1=squares[1],
        square2=squares[2],
        window0=windows[0],
        window1=windows[1],
        window2=windows[2],
        systems=boxes,
    )
    mean = ending is None and split.screening and all(k.size and k[0] == 0 for k in waves)

    def fill() -> None:
        launch()
        if mean:
            values[:boxes, 0, 0] = 0

    fill()
    return values, fill


def kernels(task: Task) -> list[Kernel]:
    """Return all kernels that make multipliers."""
    return [*([] if task.periodicity == 3 else truncated.kernels(task)), _kernel(task)]


def _kernel(task: Task) -> Kernel:
    """Return the kernel of `tabulate`."""
    return load(
        "fgc",
        "tabulate",
        task.space,
        {"TILTED": True} if task.tilted else {},
        executor=task.executor,
        REAL=real_name(task.dtype),
    )


FEW = 2**15  # values that the host has before a device has compiled what makes them


def cropped(
    task: Task,
    padding: Padding,
    box: Array,
    steps: Array,
    waves: list[Array],
    screening: float = 0.0,
    basis: Array | None = None,
) -> Any:
    """Return the transforms of kernels that fade at the faces of a box.

    They need the shortest padding. Kernels of `truncated` fade beyond all pairs, at a radius above
    the diagonal of the points' box. But along an axis no two points are further apart than the
    box's edge. So kernels are multiplied by ``chi`` of each free coordinate, which is 1 up to that
    edge and then fades. Transforms then have twice the length of an edge, plus the fading width
    ("Kernels that end" of docs/theory.md).

    A product in space is a convolution of modes. ``X(q) = 2 sin(q a) / q exp(-(q w / 4 s)^2)`` is
    the transform of ``chi(x) = erfc(s t) / 2``, with t from -1 to 1 over the width w around a. As
    chi is narrow, modes of all sizes keep their relative accuracy; on a grid, the rounding of the
    largest mode would be in all of them. The split's factor and the window come later.

    With one free axis the radius is an edge plus the fading width: kernels fade only once.

    Parameters
    ----------
    task : Task
    padding : Padding
    box, steps : ndarray, shape (3,)
        Edge lengths and grid spacings.
    waves : list of 3 ndarrays
        Non-negative wavenumbers along each axis, on the host.
    screening : float
        As for `truncated.transforms`.
    basis : ndarray, shape (3, 3) or (3 S, 3), optional
        For a tilted box, whose wavenumbers along the grid may be negative: `Lattice.basis`.

    Returns
    -------
    array, shape (len(waves[0]) S, len(waves[1]), len(waves[2])), float64
    """
    periodicity = task.periodicity
    free, edge = range(periodicity, 3), padding.period
    along = waves[0][:, None]  # of each system, whose boxes differ along periodic axes alone
    if basis is not None:
        basis = basis.reshape(-1, 3, 3)
        along = along * basis[:, 0, 0]
    shape = along.size, *(k.size for k in waves[1:])
    xp = np if math.prod(shape) <= FEW else task.xp
    if periodicity == 2:
        across = waves[1]
        if basis is not None:
            across = (waves[0][:, None] * basis[:, 0, 1])[..., None]
            across = across + basis[:, 1, 1, None] * waves[1]
        modes = np.hypot(along[..., None], across).ravel()
        faded = truncated.transforms(
            task,
            modes,
            waves[2],
            largest=float(waves[2][-1]),
            padding=padding,
            volume=edge,
            screening=screening,
        )
        return faded.reshape(shape)
    # A kernel and the period are the same in all free directions: modes are numbered by the
    # squares of their wavenumbers.
    beyond = 4 * padding.steepness / padding.width  # X is exp(-1) there
    counts = [math.ceil((math.pi / steps[a] + beyond) * edge / (2 * math.pi)) + 1 for a in free]
    unit = 2 * math.pi / edge
    matrices: list[Any] = []
    for axis, count in zip(free, counts, strict=True):
        # A cube has the same matrix along all axes.
        last = axis - 1
        same = matrices and box[axis] == box[last] and steps[axis] == steps[last]
        same = same and np.array_equal(waves[axis], waves[last])
        if not same:
            matrix = _matrix(padding, float(box[axis]), waves[axis], unit * np.arange(count)) / edge
        matrices.append(matrices[-1] if same else xp.asarray(matrix))
    *first, second, third = (np.arange(count, dtype=np.int32) ** 2 for count in counts)
    most = sum((count - 1) ** 2 for count in counts)

    def kernels(modes: Array, numbers: AnyArray) -> Any:
        """Return the transforms for square wavenumbers, in units of the smallest but 0."""
        across, largest = unit * np.sqrt(numbers), unit * math.sqrt(most)
        volume = edge ** len(free)
        faded = truncated.transforms(task, modes, across, largest, padding, volume, screening)
        return to_host(faded) if xp is np else faded

    def product(axes: str, *operands: Any) -> Any:
        """Sum products; deterministic sums avoid BLAS, whose digits may depend on its threads."""
        return xp.einsum(axes, *operands, optimize=not task.options.deterministic)

    def blocks(count: int) -> int:
        """Return the number of parts in which to take this many values, with their places."""
        return math.ceil(32 * count / sizes_of(task.space.on_device).block)

    # Kernels depend on y and z by a sum of two squares, and few numbers are such sums.
    sums = second[:, None] + third
    there = np.zeros(int(sums[-1, -1]) + 1, dtype=bool)
    there[sums] = True
    numbers, places = np.flatnonzero(there), np.cumsum(there, dtype=np.int32)[sums] - 1
    places = xp.asarray(places)
    if first:
        [kernel] = kernels(np.zeros(1), np.arange(most + 1))
        squares, numbers = xp.asarray(first[0]), xp.asarray(numbers)
        values = xp.empty((waves[0].size, numbers.size))
        for part in cuts(numbers.size, blocks(numbers.size * counts[0])):
            values[:, part] = product(
                "ix,xs->is", matrices[0], kernel[squares[:, None] + numbers[part]]
            )
    else:
        values = kernels(along.ravel(), numbers)
    hats = xp.empty(shape)
    for part in cuts(len(values), blocks(len(values) * sums.size)):
        rows = product("iyz,kz->iyk", values[part][:, places], matrices[-1])
        hats[part] = product("jy,iyk->ijk", matrices[-2], rows)
    return task.xp.asarray(hats)


def _matrix(padding: Padding, edge: float, k: Array, wide: Array) -> Array:
    """Return the matrix that convolves modes ``wide`` of an even function to modes ``k``."""
    width = padding.width
    middle = edge + padding.kept + width / 2

    def wave(q: Array) -> Array:
        fades = np.exp(-((q * (width / (4 * padding.steepness))) ** 2))
        return 2 * middle * np.sinc(q * (middle / math.pi)) * fades

    waves = wave(k[:, None] - wide) + wave(k[:, None] + wide)
    waves[:, 0] /= 2  # there is one mode 0
    return waves
