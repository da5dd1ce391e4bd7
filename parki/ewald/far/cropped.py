"""Multipliers of kernels that fade at the faces of a box: they need the shortest padding.

Kernels of `truncated` fade beyond all pairs, at a radius above the diagonal of the points' box. But
along an axis no two points are further apart than the box's edge. So kernels are multiplied by
``chi`` of each free coordinate, which is 1 up to that edge and then fades. Transforms then have
twice the length of an edge, plus the fading width ("Kernels that end" of docs/theory.md).

A product in space is a convolution of modes. ``X(q) = 2 sin(q a) / q exp(-(q w / 4 s)^2)`` is the
transform of ``chi(x) = erfc(s t) / 2``, with t from -1 to 1 over the width w around a. As chi is
narrow, modes of all sizes keep their relative accuracy; on a grid, the rounding of the largest
mode would be in all of them. The split's factor and the window come later.

With one free axis the radius is an edge plus the fading width, so that kernels fade only once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.ewald.far import truncated
from parki.ewald.far.padding import Padding
from parki.ewald.far.sizes import sizes_of
from parki.ewald.task import Task
from parki.interchange import to_host
from parki.runtime.pool import cuts

Array = NDArray[np.float64]
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
    """Return the transforms of kernels that fade beyond a box.

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
    basis : ndarray, shape (3, 3), optional
        For a tilted box, whose wavenumbers along the grid may be negative: `Lattice.basis`.

    Returns
    -------
    array, shape (len(waves[0]), len(waves[1]), len(waves[2])), float64
    """
    periodicity = task.periodicity
    free, edge = range(periodicity, 3), padding.period
    xp = np if math.prod(k.size for k in waves) <= FEW else task.xp
    if periodicity == 2:
        x, y = waves[0][:, None], waves[1]
        if basis is not None:
            x, y = basis[0, 0] * x, basis[0, 1] * x + basis[1, 1] * y
        modes = np.hypot(x, y).ravel()
        given = modes, waves[2], float(waves[2][-1]), padding, edge, screening
        return truncated.transforms(task, *given).reshape([k.size for k in waves])
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
            made = _matrix(padding, float(box[axis]), waves[axis], unit * np.arange(count)) / edge
        matrices.append(matrices[-1] if same else xp.asarray(made))
    *first, second, third = (np.arange(count, dtype=np.int32) ** 2 for count in counts)
    most = sum((count - 1) ** 2 for count in counts)

    def kernels(modes: Array, numbers: Any) -> Any:
        """Return the transforms for square wavenumbers, in units of the smallest but 0."""
        across, largest = unit * np.sqrt(numbers), unit * math.sqrt(most)
        volume = edge ** len(free)
        made = truncated.transforms(task, modes, across, largest, padding, volume, screening)
        return to_host(made) if xp is np else made

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
        values = kernels(waves[0], numbers)
    hats = xp.empty([k.size for k in waves])
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

    both = wave(k[:, None] - wide) + wave(k[:, None] + wide)
    both[:, 0] /= 2  # there is one mode 0
    return both
