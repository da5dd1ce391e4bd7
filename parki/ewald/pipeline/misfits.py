"""Values that do not fit: a device counts them while it goes on, and the host asks for the number.

To look first would leave the device without work. Where there are some, the host looks at all
values, and refuses them as it does elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.arrays import real_name
from parki.ewald.options import EwaldOptions
from parki.ewald.points import MOST_SINGLE, limits
from parki.runtime import ExecutionSpace, load


class Misfits:
    """Counts values of densities that are not finite, or not for single precision."""

    def __init__(self, space: ExecutionSpace, dtype: Any, single: bool) -> None:
        real = real_name(dtype)
        self._kernel = load("extremes", "count_misfits", space, executor="embedded", REAL=real)
        most = MOST_SINGLE if single else float(np.finfo(dtype).max)
        self._sizes = {"least": 1 / MOST_SINGLE if single else 0.0, "most": most}
        self._report = space.adapter.report(1)

    def count(self, values: Any) -> None:
        """Count those among values (..., N), and wait for nothing."""
        rows, numbers = values.reshape(-1, values.shape[-1]), self._report.numbers
        self._kernel(rows.shape[1], values=rows, rows=len(rows), misfits=numbers, **self._sizes)
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
    return found


def mend(
    space: ExecutionSpace, arrays: dict[str, Any], limits: dict[str, Any], misfits: Any
) -> None:
    """Replace values beyond their limits, so that points can be placed, and count them."""
    for name, (lowest, highest) in limits.items():
        values = arrays[name]
        real = real_name(values.dtype)
        load("extremes", "mend_misfits", space, executor="embedded", REAL=real)(
            values.shape[1],
            values=values,
            rows=len(values),
            lowest=space.adapter.constant(lowest, values.dtype),
            highest=space.adapter.constant(highest, values.dtype),
            misfits=misfits,
        )
