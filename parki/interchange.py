"""Arrays of other libraries: taken in, and results handed back, by DLPack and without a copy.

Knows libraries and memory, and nothing of shapes or sums.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from parki.errors import ParkiTypeError
from parki.meaning import refuse_meaning, variable
from parki.runtime import captures, forks, get_execution_space

# Kinds of memory in DLPack: the host's, also pinned; CUDA's, ROCm's, and CUDA's managed memory.
HOST_KINDS, DEVICE_KINDS = (1, 3, 11), (2, 10, 13)


def as_array(name: str, value: Any) -> Any:
    """Return ``value`` as a NumPy or CuPy array, without a copy where it is an array already.

    Parameters
    ----------
    name : str
        Of the argument, for messages.
    value : array
        Of NumPy, CuPy, or a library with DLPack or ``__cuda_array_interface__``; or nested lists of
        numbers. Subclasses of NumPy's arrays are taken for what they hold.

    Raises
    ------
    ParkiTypeError
        If it is no array of numbers, or means more than its numbers: a mask, units, derivatives.
    UnavailableError
        If it is on a device, and CuPy is missing, the process was forked from one that used it, or
        a stream is captured.
    """
    refuse_meaning(name, value)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return np.asarray(value)
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(value, cupy.ndarray):
        _check_device()
        return value
    if hasattr(value, "__dlpack_device__") and not isinstance(value, np.ndarray):
        return _exchange(name, value)
    if hasattr(value, "__cuda_array_interface__"):
        _check_device()
        return get_execution_space("GPU").array_module.asarray(value)
    try:
        array = np.asarray(value)
    except Exception as error:
        raise ParkiTypeError(f"{name} is a {type(value).__name__}; expected an array") from error
    if array is value:
        raise ParkiTypeError(
            f"{name} is an array of objects; convert it with {name}.astype(float) "
            "if these are numbers"
        )
    if array.dtype == object:
        raise ParkiTypeError(f"{name} is a {type(value).__name__}; expected an array of numbers")
    return array


def as_number(value: Any) -> float:
    """Return a number as a float.

    Raises
    ------
    TypeError, ValueError
        If it is none: neither are text, which `float` would read, truth values, arrays, and numbers
        with derivatives.
    """
    refused = isinstance(value, (str, bytes, bytearray, bool)) or variable(value) != ""
    if isinstance(value, (np.ndarray, np.generic)):
        refused = value.ndim > 0 or value.dtype.kind not in "iuf"
    if refused:
        raise TypeError
    try:
        return float(value)
    except OverflowError:  # of a whole number
        return math.inf
    except RuntimeError as error:  # of a tensor without values
        raise TypeError from error


def to_host(values: Any) -> Any:
    """Return NumPy's array of an array of NumPy or CuPy."""
    return values.get() if hasattr(values, "get") else values


def as_given(result: Any, like: Any) -> Any:
    """Return a new array, or a tuple of them, in the library of ``like``, which shares its memory.

    PyTorch's tensors, and arrays of any library with the array API standard (such as JAX). All else
    (NumPy's and CuPy's arrays, lists) gives NumPy's or CuPy's array as it is.
    """
    if isinstance(result, tuple):
        return tuple(as_given(array, like) for array in result)
    if isinstance(like, np.ndarray) or not hasattr(like, "__dlpack__"):
        return result
    # Subclasses of tensors too. PyTorch has no `__array_namespace__`.
    libraries = {base.__module__.partition(".")[0] for base in type(like).__mro__}
    if "cupy" in libraries:
        return result
    if "torch" in libraries:
        return sys.modules["torch"].from_dlpack(result)
    if hasattr(like, "__array_namespace__"):
        return like.__array_namespace__().from_dlpack(result)
    return result


def _check_device() -> None:
    """Refuse arrays on a device after a fork, and while a stream is captured."""
    forks.refuse("Cuda", "HIP")
    captures.refuse()


def _exchange(name: str, value: Any) -> Any:
    """Return an array of another library as NumPy's or CuPy's, by DLPack.

    CuPy tells the other library its current stream, so that what fills the array comes first.
    """
    try:
        kind = int(value.__dlpack_device__()[0])
    except Exception as error:  # whatever the library has to say
        raise _not_handed(name, value, error) from error
    if kind not in HOST_KINDS + DEVICE_KINDS:
        raise ParkiTypeError(
            f"{name} is a {type(value).__name__} in memory of kind {kind} (as DLPack counts); "
            "expected the host's, CUDA's or ROCm's: move it to the host"
        )
    if kind in DEVICE_KINDS:
        _check_device()
    xp = np if kind in HOST_KINDS else get_execution_space("GPU").array_module
    try:
        return xp.from_dlpack(value)
    except Exception as error:
        raise _not_handed(name, value, error) from error


def _not_handed(name: str, value: Any, error: Exception) -> ParkiTypeError:
    """Return the error for an array that its library keeps: sharded, deleted, of another type."""
    return ParkiTypeError(
        f"{name} is a {type(value).__name__} that DLPack does not hand over ({error}); "
        "convert it to a NumPy or CuPy array"
    )
