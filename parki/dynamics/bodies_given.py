"""Arguments of rigid bodies: shapes and their numbers, and the gradient of a flow."""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.dynamics.shapes import BodyShape
from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.options import EwaldOptions
from parki.interchange import as_array, shown, to_host


def kinds(shapes: Any, which: Any, count: int) -> tuple[tuple[BodyShape, ...], Any]:
    """Return shapes, and the number of each body's shape."""
    found = tuple(shapes) if isinstance(shapes, (list, tuple)) else (shapes,)
    for each in found or (None,):
        if not isinstance(each, BodyShape):
            raise ParkiTypeError(
                f"shapes is {shown(shapes)}; expected a parki.BodyShape, or a list of them"
            )
    if which is None:
        if len(found) > 1:
            raise ParkiTypeError(
                f"there are {len(found)} shapes, and which is missing; give the number of each "
                "body's shape, such as which=[0, 0, 1]"
            )
        return found, np.zeros(count, int)
    numbers = to_host(as_array("which", which))
    if numbers.dtype.kind not in "iu" or numbers.shape != (count,):
        raise ParkiValueError(
            f"which has shape {numbers.shape} and dtype {numbers.dtype}; expected {count} whole "
            "numbers, the shape of each body"
        )
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(found):
        raise ParkiValueError(
            f"which has numbers from {numbers.min()} to {numbers.max()}; expected 0 to "
            f"{len(found) - 1}, for {len(found)} shapes"
        )
    return found, numbers.astype(int)


def strain(gradient: Any, options: EwaldOptions) -> Any:
    """Return the symmetric part of the gradient of a flow, or refuse it."""
    given = np.asarray(to_host(as_array("gradient", gradient)), np.float64)
    if given.shape != (3, 3) or not np.isfinite(given).all():
        raise ParkiValueError(
            f"gradient is {shown(gradient)}; expected 3 rows of 3 numbers, d u_i / d x_j"
        )
    if abs(given.trace()) > 1e-6 * abs(given).max():
        raise ParkiValueError(
            f"gradient has a trace of {given.trace():g}; expected 0, as of incompressible flow"
        )
    if options.walled and (given[:, :2].any() or given[2].any()):
        raise ParkiValueError(
            "gradient is of a flow that moves the wall; expected one along the wall that depends "
            "on the height alone: numbers at [0, 2] and [1, 2]"
        )
    return (given + given.T) / 2
