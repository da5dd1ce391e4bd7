"""Shapes of rigid bodies as arguments: which body has which."""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.dynamics.shapes import BodyShape
from parki.errors import ParkiTypeError, ParkiValueError
from parki.interchange import as_array, shown, to_host


def kinds(shapes: Any, which: Any, count: int) -> tuple[tuple[BodyShape, ...], Any]:
    """Return shapes, and the number of each body's shape."""
    found = tuple(shapes) if isinstance(shapes, (list, tuple)) else (shapes,)
    for each in found or (None,):
        if not isinstance(each, BodyShape):
            raise ParkiTypeError(
                f"shapes is {shown(shapes)}; expected a parki.BodyShape, or a list of them (bodies "
                "of a parki.Surface are for parki.RigidSurfaces)"
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
