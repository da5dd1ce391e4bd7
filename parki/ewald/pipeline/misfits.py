"""Values that do not fit: a device counts them while it goes on, and the host asks for the number.

To look first would leave the device without work. Where there are some, the host looks at all
values, and refuses them as it does elsewhere.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from parki.arrays import real_name
from parki.ewald.options import EwaldOptions
from parki.ewald.points import MOST_SINGLE, limits
from parki.runtime import ExecutionSpace, Kernel, load


def counting_kernel(space: ExecutionSpace, dtype: Any) -> Kernel:
    """Return the kernel of `Misfits`."""
    return load("extremes", "count_misfits", space, executor="embedded", REAL=real_name(dtype))


class Misfits:
    """Counts values of densities that are not finite, or not for single precision."""

    def __init__(self, space: ExecutionSpace, dtype: Any, single: bool) -> None:
        self._kernel = counting_kernel(space, dtype)
        most = MOST_SINGLE if single else float(np.finfo(dtype).max)
        self._sizes = {"least": 1 / MOST_SINGLE if single else 0.0, "most": most}
        self._report = space.adapter.report(1)

    def count(self, values: Any) -> None:
        """Count those among values (..., N), and wait for nothing."""
        *rows, count = values.shape
        flat, numbers = values.reshape(math.prod(rows), count), self._report.numbers
        self._kernel(count, values=flat, rows=len(flat), misfits=numbers, **self._sizes)
        self._report.send()

    def found(self) -> bool:
        """Return whether there were some."""
        (count,) = self._report.read()
        if count:
            self._report.numbers.fill(0)
        return bool(count)


def limits_of(options: EwaldOptions, arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the smallest and largest value, (2, 3), of each row of points and normals by name."""
    found = {}
    for name in arrays.keys() & {"trg", "src", "norms"}:
        if name == "norms":
            most = MOST_SINGLE if options.precision == "mixed" else np.finfo(arrays[name].dtype).max
            found[name] = np.array([[-most] * 3, [most] * 3])
        else:
            found[name] = limits(options, arrays[name].dtype)[:, options.axes]
            if options.cell is not None:  # edges bound no coordinates there; and points are checked
                most = np.finfo(arrays[name].dtype).max
                found[name] = np.array([[-most] * 3, [most] * 3])
    return found


class Mending:
    """Replaces values of points and normals beyond their limits, so that they can be placed.

    Parameters
    ----------
    space, options
    arrays : dict of arrays
        As those to come, in dtype.
    misfits : array, shape (1,)
        Where they are counted.
    """

    def __init__(
        self, space: ExecutionSpace, options: EwaldOptions, arrays: dict[str, Any], misfits: Any
    ) -> None:
        self._launches = []
        for name, (lowest, highest) in limits_of(options, arrays).items():
            dtype, constant = arrays[name].dtype, space.adapter.constant
            kernel = load(
                "extremes", "mend_misfits", space, executor="embedded", REAL=real_name(dtype)
            )
            kernel.build()  # before launches are recorded
            limits = {"lowest": constant(lowest, dtype), "highest": constant(highest, dtype)}
            self._launches.append((name, partial(kernel, misfits=misfits, **limits)))

    def __call__(self, arrays: dict[str, Any]) -> None:
        """Replace values of arrays by name."""
        for name, launch in self._launches:
            values = arrays[name]
            launch(values.shape[1], values=values, rows=len(values))
