"""Values that do not fit: a device counts them while it goes on, and the host asks for the number.

To look first would leave the device without work. Where there are some, the host looks at all
values, and refuses them as it does elsewhere.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.ewald.options import EwaldOptions
from parki.ewald.points import MOST_SINGLE, check_values, limits
from parki.interchange import real_name
from parki.runtime import ExecutionSpace, Kernel, load
from parki.typing import AnyArray, DType


def counting_kernel(space: ExecutionSpace, dtype: DType) -> Kernel:
    """Return the kernel of `InvalidValues`."""
    return load("extremes", "count_invalid", space, executor="embedded", REAL=real_name(dtype))


class InvalidValues:
    """Counts values of densities that are not finite, or not for single precision."""

    def __init__(self, space: ExecutionSpace, dtype: DType, single: bool) -> None:
        self._kernel, self._single = counting_kernel(space, dtype), single
        most = MOST_SINGLE if single else float(np.finfo(dtype).max)
        self._sizes = {"least": 1 / MOST_SINGLE if single else 0.0, "most": most}
        self._report = space.adapter.report(1)

    def count(self, values: AnyArray) -> None:
        """Count those among values (..., N), and wait for nothing."""
        *rows, count = values.shape
        flat, numbers = values.reshape(math.prod(rows), count), self._report.numbers
        self._kernel(count, values=flat, rows=len(flat), invalid=numbers, arguments=self._sizes)
        self._report.send()

    def check(self, values: AnyArray, shape: tuple[int, ...]) -> None:
        """Refuse a density that was counted last, if there were some; ``values`` are its rows."""
        (count,) = self._report.read()
        if count:
            self._report.numbers.fill(0)
            check_values("dens", values, shape, self._single)


def limits_of(
    options: EwaldOptions, rotation: AnyArray, dtype: DType
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the matrix from points in the pipeline's axes to lengths along the edges.

    And the limits of these, (2, 3), and a point within them.
    """
    matrix = options.edgewise[:, options.axes]
    ends = limits(options, dtype)
    if options.cell is not None:
        matrix = matrix if rotation is None else matrix @ rotation.T
        # The host computed the points' lengths by other roundings.
        most = float(np.finfo(dtype).max)
        rounding = 8 * np.finfo(dtype).eps * abs(ends).max(axis=0)
        ends = np.clip(ends + np.outer([-1, 1], rounding), -most, most)
    middle = np.where(options.periodic, 0.0, ends.mean(axis=0))
    return matrix, ends, np.linalg.solve(matrix, middle)


class ReplacedValues:
    """Replaces values of points and normals beyond their limits, so that they can be placed.

    Parameters
    ----------
    space, options
    arrays : dict of arrays
        As those to come.
    users_dtype : dtype
        Of the user's points, whose roundings count.
    invalid : array, shape (1,)
        Where they are counted.
    """

    def __init__(
        self,
        space: ExecutionSpace,
        options: EwaldOptions,
        arrays: dict[str, AnyArray],
        users_dtype: Any,
        invalid: Any,
    ) -> None:
        self._launches = []
        dtype, constant = arrays["trg"].dtype, space.adapter.constant
        of_points = limits_of(options, options.cell and options.cell.rotation, users_dtype)
        most = MOST_SINGLE if options.precision == "mixed" else float(np.finfo(dtype).max)
        of_normals = np.eye(3), np.array([[-most] * 3, [most] * 3]), np.zeros(3)
        kernel = load(
            "extremes", "replace_invalid", space, executor="embedded", REAL=real_name(dtype)
        )
        kernel.build()  # before launches are recorded
        for name in arrays.keys() & {"trg", "src", "norms"}:
            matrix, ends, inside = of_normals if name == "norms" else of_points
            numbers = {"edgewise": matrix, "lowest": ends[0], "highest": ends[1], "inside": inside}
            arguments = {label: constant(each, dtype) for label, each in numbers.items()}
            self._launches.append((name, partial(kernel, invalid=invalid, **arguments)))

    def __call__(self, arrays: dict[str, AnyArray]) -> None:
        """Replace values of arrays by name."""
        for name, launch in self._launches:
            launch(arrays[name].shape[1], values=arrays[name])
