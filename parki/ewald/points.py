"""The public boundary: arrays come in, are checked once, and leave as solver arrays.

Nothing past this module checks a user's array again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.options import EwaldOptions
from parki.runtime import ExecutionSpace

ROWS = {"laplace": 1, "stokes_sl": 3, "stokes_dl": 3, "stokes_comb": 6}


def as_array(name: str, value: Any) -> Any:
    """Return ``value`` as a NumPy or CuPy array, without a copy where it is one already.

    Raises
    ------
    ParkiTypeError
        If it is no array of numbers.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise ParkiTypeError(
            f"{name} is a masked array; pass filled values, such as {name}.filled(0)"
        )
    if hasattr(value, "__cuda_array_interface__"):
        import cupy

        return cupy.asarray(value)
    if hasattr(value, "__dlpack_device__") and not isinstance(value, np.ndarray):
        kind = int(value.__dlpack_device__()[0])
        if kind in (2, 10):  # CUDA, ROCm
            import cupy

            return cupy.from_dlpack(value)
        return np.from_dlpack(value)
    try:
        array = np.asarray(value)
    except Exception as error:
        raise ParkiTypeError(f"{name} is a {type(value).__name__}; expected an array") from error
    if array.dtype == object:
        raise ParkiTypeError(f"{name} is a {type(value).__name__}; expected an array of numbers")
    return array


def check_dtypes(arrays: dict[str, Any]) -> Any:
    """Return the common dtype of the arrays, float32 or float64.

    Raises
    ------
    ParkiTypeError
        If an array has another dtype, or two differ, or some are on a device and some are not.
    """
    first = next(iter(arrays))
    for name, array in arrays.items():
        if array.dtype not in (np.float32, np.float64):
            raise ParkiTypeError(
                f"{name} has dtype {array.dtype}; expected float32 or float64 "
                f"(convert with {name}.astype(float))"
            )
        if isinstance(array, np.ndarray) != isinstance(arrays[first], np.ndarray):
            where = {True: "the host (NumPy)", False: "a device (CuPy)"}
            raise ParkiTypeError(
                f"{name} is on {where[isinstance(array, np.ndarray)]}, but {first} is on "
                f"{where[isinstance(arrays[first], np.ndarray)]}; move one of them"
            )
        if array.dtype != arrays[first].dtype:
            raise ParkiTypeError(
                f"{name} has dtype {array.dtype}, but {first} has {arrays[first].dtype}; "
                "give all arrays the same dtype"
            )
    return arrays[first].dtype


def check_points(name: str, points: Any, options: EwaldOptions) -> None:
    """Refuse points of a wrong shape, not finite, or outside the box along a free axis."""
    if points.ndim != 2 or points.shape[0] != 3:
        hint = f"; transpose it ({name}.T)" if points.ndim == 2 and points.shape[1] == 3 else ""
        raise ParkiValueError(f"{name} has shape {points.shape}; expected (3, N){hint}")
    if points.shape[1] == 0:
        return
    xp = _module(points)
    low, high = xp.min(points, axis=1), xp.max(points, axis=1)
    extent = np.array([[float(v) for v in low], [float(v) for v in high]])
    if not np.isfinite(extent).all():
        raise ParkiValueError(f"{name} contains NaN or infinity; {_first_bad(xp, points)}")
    for axis in range(options.periodicity, 3):
        length = options.box[axis]
        # The box's edge rounded to the points' dtype counts as inside.
        if extent[0, axis] < 0 or extent[1, axis] > max(length, float(points.dtype.type(length))):
            raise ParkiValueError(
                f"{name} reaches from {extent[0, axis]:g} to {extent[1, axis]:g} along axis "
                f"{axis}, which is free, but the box there is [0, {length:g}]; "
                "enlarge the box or shift the points"
            )
    for axis in range(options.periodicity):
        # Wrapping a point a million boxes away would leave it few digits.
        farthest = max(extent[:, axis], key=abs)
        if abs(farthest) > 1e6 * options.box[axis]:
            raise ParkiValueError(
                f"{name} reaches to {farthest:g} along axis {axis}, more than 1e6 boxes away; "
                "wrap the points into the box first, where their digits are known"
            )


def check_density(name: str, values: Any, rows: int, count: int) -> Any:
    """Return density or normals as (rows, N), C-contiguous; refuse other shapes, NaN, infinity."""
    expected = f"({count},)" if rows == 1 else f"({rows}, {count})"
    shape = (count,) if rows == 1 else (rows, count)
    if values.shape != shape:
        hint = ""
        if name == "dens" and values.ndim == 2 and rows == 6 and values.shape[0] == 3:
            hint = "; rows 0-2 are the single layer's density, rows 3-5 the double layer's"
        elif values.shape == shape[::-1]:
            hint = f"; transpose it ({name}.T)"
        raise ParkiValueError(
            f"{name} has shape {values.shape}; expected {expected} "
            f"for the {count} sources given{hint}"
        )
    xp = _module(values)
    if not bool(xp.isfinite(values).all()):
        raise ParkiValueError(f"{name} contains NaN or infinity; {_first_bad(xp, values)}")
    return xp.ascontiguousarray(values.reshape(rows, count))


def check_space(arrays: dict[str, Any], space: ExecutionSpace) -> None:
    """Refuse arrays that are not in the memory of the space."""
    for name, array in arrays.items():
        on_host = isinstance(array, np.ndarray)
        if on_host == space.on_device:
            here = "on the host (NumPy)" if on_host else "on a device (CuPy)"
            remedy = "cupy.asarray(...)" if on_host else "cupy.asnumpy(...)"
            raise ParkiTypeError(
                f"{name} is {here}, but execution_space is {space}; "
                f"move it with {remedy}, or leave execution_space to parki"
            )


def _first_bad(xp: Any, values: Any) -> str:
    index = np.unravel_index(int(xp.argmin(xp.isfinite(values))), values.shape)
    return f"the first is at index {tuple(int(i) for i in index)}"


def _module(values: Any) -> Any:
    if isinstance(values, np.ndarray):
        return np
    import cupy

    return cupy
