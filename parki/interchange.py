"""Conversion of other libraries' arrays, and of results back, by DLPack and without a copy.

The module checks libraries and memory only, not shapes. It also has the checks of single arguments:
numbers, truth values and texts; and how kernels name types, and align rows.
"""

from __future__ import annotations

import math
import operator
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike

from parki.errors import ParkiTypeError, ParkiValueError
from parki.meaning import is_tensor, refuse_meaning, variable
from parki.runtime import ExecutionSpace, forks, get_execution_space
from parki.runtime.spaces import refuse_capture
from parki.settings import kept
from parki.typing import AnyArray, DType

REAL_NAMES = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}


def real_name(dtype: DTypeLike) -> str:
    """Return the kernels' name of a NumPy dtype, ``"float"`` or ``"double"``."""
    return REAL_NAMES[np.dtype(dtype)]


def vector_row(points: int, dtype: DTypeLike) -> int:
    """Return ``points`` rounded up to whole 32-byte vectors: the row length of window tables."""
    lanes: int = 32 // np.dtype(dtype).itemsize
    return -(-points // lanes) * lanes


def rounded(length: float, dtype: DType) -> float:
    """Return a length rounded to a dtype, infinite if that does not hold it."""
    with np.errstate(over="ignore"):
        return float(dtype.type(length))


T = TypeVar("T")
# DLPack's memory kinds: host and pinned memory; CUDA's and ROCm's memory, and CUDA's managed one.
HOST_KINDS, CUDA_KIND, DEVICE_KINDS = (1, 3, 11), 2, (2, 10, 13)
ALIGNED = 16  # bytes: where JAX's kernels on a device need arrays to begin
MOST_SHOWN = 200  # characters of a value in a message


def as_array(name: str, values: Any) -> Any:
    """Return ``values`` as a NumPy or CuPy array, without a copy if it is an array already.

    Parameters
    ----------
    name : str
        Name of the argument, for messages.
    values : array
        Array of NumPy, CuPy, or a library with DLPack or ``__cuda_array_interface__``; or nested
        lists of numbers. A subclass of NumPy's array counts as the plain array.

    Raises
    ------
    ParkiTypeError
        If it is no array of numbers, or has more than numbers: a mask, units or derivatives.
    UnavailableError
        If it is on a device, and CuPy is missing, the process was forked from one that used the
        device, or a stream is captured.
    """
    if type(values) is np.ndarray and values.dtype != object:  # it means its numbers
        return values
    cupy = sys.modules.get("cupy")
    if cupy is not None and type(values) is cupy.ndarray:
        _check_device()
        return values
    refuse_meaning(name, values)
    if isinstance(values, np.ndarray) and values.dtype != object:
        return np.asarray(values)
    if hasattr(values, "__dlpack_device__") and not isinstance(values, np.ndarray):
        return handed_over(name, values)
    if hasattr(values, "__cuda_array_interface__"):
        _check_device()
        return get_execution_space("GPU").array_module.asarray(values)
    try:
        array = np.asarray(values)
    except Exception as error:
        raise ParkiTypeError(f"{name} is a {type(values).__name__}; expected an array") from error
    if array is values:
        raise ParkiTypeError(
            f"{name} is an array of objects; convert it with {name}.astype(float) "
            "if these are numbers"
        )
    if array.dtype.kind in "OSU":
        raise ParkiTypeError(f"{name} is a {type(values).__name__}; expected an array of numbers")
    return array


def as_number(value: Any) -> float:
    """Return a number as a float.

    Raises
    ------
    TypeError, ValueError
        If it is not a plain number. Text (which `float` would read), truth values, arrays and
        numbers with derivatives are refused.
    """
    if isinstance(value, float):  # as nearly always
        return float(value)
    refused = isinstance(value, (str, bytes, bytearray, bool)) or variable(value) != ""
    if isinstance(value, (np.ndarray, np.generic)):
        refused = value.ndim > 0 or value.dtype.kind not in "iuf"
    if refused:
        raise TypeError
    try:
        return float(value)
    except OverflowError:  # from a large whole number
        return math.inf
    except RuntimeError as error:  # from a tensor without values
        raise TypeError from error


def number(name: str, value: Any, meaning: str) -> float:
    """Return a number as a float, or refuse it; ``meaning`` says what was expected.

    Raises
    ------
    ParkiTypeError
    """
    try:
        return as_number(value)
    except (RuntimeError, TypeError, ValueError):
        raise ParkiTypeError(f"{name} is {shown(value)}; expected {meaning}") from None


def finite(name: str, value: Any, meaning: str) -> float:
    """Return a `number`, or refuse it if it is NaN or infinite.

    Raises
    ------
    ParkiTypeError, ParkiValueError
    """
    result = number(name, value, meaning)
    if not math.isfinite(result):
        raise ParkiValueError(f"{name} is {shown(value)}; expected {meaning}")
    return result


def positive(name: str, value: Any, meaning: str = "a positive number") -> float:
    """Return a `finite` number, or refuse it if it is not positive.

    Raises
    ------
    ParkiTypeError, ParkiValueError
    """
    result = finite(name, value, meaning)
    if result <= 0:
        raise ParkiValueError(f"{name} is {shown(value)}; expected {meaning}")
    return result


def as_whole(value: Any) -> int:
    """Return a whole number.

    Raises
    ------
    TypeError
        If it is of another type. A truth value is refused, too.
    """
    if isinstance(value, (bool, np.bool_)):
        raise TypeError
    return operator.index(value)


def whole(name: str, value: Any, meaning: str, least: int = 1) -> int:
    """Return a whole number, or refuse it if it is smaller than ``least``.

    Raises
    ------
    ParkiTypeError, ParkiValueError
    """
    try:
        result = as_whole(value)
    except TypeError:
        raise ParkiTypeError(f"{name} is {shown(value)}; expected {meaning}") from None
    if result < least:
        raise ParkiValueError(f"{name} is {shown(value)}; expected {meaning}")
    return result


def as_flag(value: Any) -> bool:
    """Return a truth value, which 0 and 1 are too.

    Raises
    ------
    TypeError
        If it is anything else.
    """
    if not isinstance(value, (int, np.bool_)) or value not in (0, 1):
        raise TypeError
    return bool(value)


def flag(name: str, value: Any) -> bool:
    """Return a truth value, or refuse it.

    Raises
    ------
    ParkiTypeError
    """
    try:
        return as_flag(value)
    except TypeError:
        raise ParkiTypeError(f"{name} is {shown(value)}; expected True or False") from None


def one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return a text, or refuse it if it is none of the choices.

    Raises
    ------
    ParkiValueError
    """
    if not isinstance(value, str) or value not in choices:  # `in` would compare all of an array
        raise ParkiValueError(f"{name} is {shown(value)}; expected one of {', '.join(choices)}")
    return value


def names_of(
    name: str, value: Any, meaning: str, choices: Sequence[str] = (), *, mapping: bool = False
) -> None:
    """Refuse what is no collection of texts, or of some of the choices, if there are any.

    With ``mapping``, it must be a mapping of these texts to something.

    Raises
    ------
    ParkiTypeError, ParkiValueError
    """
    kind = Mapping if mapping else Collection
    whole = isinstance(value, kind) and getattr(value, "ndim", 1) > 0  # an array may be one number
    if not whole or not all(isinstance(each, str) for each in value):
        raise ParkiTypeError(f"{name} is {shown(value)}; expected {meaning}")
    if isinstance(value, str) or not {*value} or (choices and not {*value} <= {*choices}):
        raise ParkiValueError(f"{name} is {shown(value)}; expected {meaning}")


def shown(value: Any) -> str:
    """Return a value as Python writes it, for messages, cut if it is long."""
    try:
        text = repr(value)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        # A whole number has too many digits, or the type is another library's.
        text = f"a {type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def told_apart(*values: float, digits: int = 6) -> list[str]:
    """Return numbers for a message, with enough digits that different ones differ."""
    floats = [*map(float, values)]
    for precision in range(digits, 18):
        texts = [f"{value:.{precision}g}" for value in floats]
        if len({*texts}) == len({*floats}):
            break
    return texts


def numbers(
    name: str, values: Iterable[Any], convert: Callable[[Any], T], meaning: str, given: Any = None
) -> tuple[T, ...]:
    """Return converted values; refuse values of another kind, such as text, and show them as given.

    Raises
    ------
    ParkiTypeError
    """
    try:
        return tuple(convert(value) for value in values)
    except (RuntimeError, TypeError, ValueError):
        what = shown(values if given is None else given)
        raise ParkiTypeError(f"{name} is {what}; expected {meaning}") from None


def check_space(name: str, values: AnyArray, space: ExecutionSpace) -> None:
    """Refuse an array outside of the memory of the space, or not on the current device."""
    on_host = isinstance(values, np.ndarray)
    if on_host == space.on_device:
        here = "on the host (NumPy)" if on_host else "on a device (CuPy)"
        remedy = "cupy.asarray(...)" if on_host else "cupy.asnumpy(...)"
        raise ParkiTypeError(
            f"{name} is {here}, but execution_space is {space}; "
            f"move it with {remedy}, or leave execution_space to parki"
        )
    if on_host:
        return
    device, current = int(values.device.id), space.adapter.device()
    if device != current:
        raise ParkiValueError(
            f"{name} is on device {device}, but the current one is {current}; "
            f"call parki inside of 'with cupy.cuda.Device({device}):'"
        )


def bincount(xp: ModuleType, index: Any, count: int, weights: AnyArray = None) -> Any:
    """Return how often each index appears, or the sum of its weights, shape (count,).

    As ``xp.bincount`` does, of an empty array too, whose maximum CuPy asks for.
    """
    if index.size:
        return xp.bincount(index, weights, count)
    return xp.zeros(count, dtype=int if weights is None else float)


def to_host(values: AnyArray) -> Any:
    """Return an array of NumPy or CuPy as NumPy's."""
    return values.get() if hasattr(values, "get") else values


def as_given(values: AnyArray, like: T) -> T:
    """Return a new array, or a tuple of arrays, in the library of ``like``, without a copy.

    The library is PyTorch, or any with the array API standard (such as JAX). For other ``like``
    (arrays of NumPy and CuPy, lists) the arrays of NumPy or CuPy are returned unchanged.
    """
    back: Any = library_of(like)
    return cast(T, tuple(map(back, values)) if isinstance(values, tuple) else back(values))


def library_of(like: Any) -> Callable[[Any], Any]:
    """Return the function by which `as_given` changes an array; it does not hold ``like``."""
    if isinstance(like, np.ndarray) or not hasattr(like, "__dlpack__"):
        return unchanged
    # Includes subclasses of tensors. PyTorch has no `__array_namespace__`.
    libraries = {base.__module__.partition(".")[0] for base in type(like).__mro__}
    if "cupy" in libraries:
        return unchanged
    back: Callable[[Any], Any] = unchanged
    if "torch" in libraries:
        back = _tensor
    elif hasattr(like, "__array_namespace__"):
        take, device = like.__array_namespace__().from_dlpack, getattr(like, "device", None)

        def back(result: AnyArray) -> Any:
            if getattr(result.data, "ptr", 0) % ALIGNED:
                result = result.copy()
            _finish(result)
            array = take(result)
            # A host may have several devices, of which DLPack knows one.
            there = device is None or array.device == device
            return array if there else array.to_device(device)

    return back


def _tensor(result: AnyArray) -> Any:
    """Return an array as a tensor of PyTorch; neither asks about streams where both have one."""
    plain = isinstance(result, np.ndarray) or not _on_one_stream()
    return sys.modules["torch"].from_dlpack(result if plain else result.__dlpack__(stream=-1))


def finish_reading(trg: Any, src: Any, norms: Any) -> None:
    """Wait until a device has read points and normals, or None, that are arrays of JAX.

    Their memory may be used again as soon as Python has dropped them. PyTorch and CuPy do so in the
    order of the stream.
    """
    for value in (trg, src, norms):
        library = type(value).__module__.partition(".")[0]
        if library not in ("numpy", "cupy", "torch") and hasattr(value, "__dlpack_device__"):
            _finish(value)


def _finish(value: Any) -> None:
    if int(value.__dlpack_device__()[0]) in DEVICE_KINDS:
        get_execution_space("GPU").array_module.cuda.get_current_stream().synchronize()


def unchanged(values: T) -> T:
    """Return an array of NumPy or CuPy."""
    return values


def _check_device() -> None:
    """Refuse arrays on a device after a fork, and while a stream is captured."""
    forks.refuse("Cuda", "HIP")
    refuse_capture()


def handed_over(name: str, value: Any) -> Any:
    """Return an array of another library as NumPy's or CuPy's, by DLPack.

    It is one that `refuse_meaning` takes. CuPy passes its current stream to the other library, so
    that pending writes come first.
    """
    try:
        kind = int(value.__dlpack_device__()[0])
    except Exception as error:  # each library raises its own types
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
        if kind == CUDA_KIND and is_tensor(value) and _on_one_stream():
            return of_memory(value, xp, value.device.index)
        return xp.from_dlpack(value)
    except Exception as error:
        raise _not_handed(name, value, error) from error


def of_memory(value: Any, xp: ModuleType, device: int) -> Any:
    """Return an array in the memory of one on a device, whose stream is the current one.

    CuPy's own function asks the driver about the memory, and takes longer than a launch.
    """
    interface = value.__cuda_array_interface__
    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    if interface.get("strides") is not None or 0 in shape:
        return xp.asarray(value)
    size = math.prod(shape) * dtype.itemsize
    memory = xp.cuda.UnownedMemory(interface["data"][0], size, value, device)
    return xp.ndarray(shape, dtype, xp.cuda.MemoryPointer(memory, 0))


@kept
def _on_one_stream() -> bool:
    """Return whether PyTorch and CuPy work on one stream, so that nobody waits for the other."""
    torch, cupy = sys.modules["torch"], get_execution_space("GPU").array_module
    return bool(torch.cuda.current_stream().cuda_stream == cupy.cuda.get_current_stream().ptr)


def _not_handed(name: str, value: Any, error: Exception) -> ParkiTypeError:
    """Return the error for an array without DLPack: sharded, deleted, or of another type."""
    dtype = str(getattr(value, "dtype", "")).rpartition(".")[2]  # torch.bfloat16
    if dtype and not re.fullmatch(r"bool|(u?int|float|complex)\d+", dtype):
        convert = "double()" if is_tensor(value) else "astype(float)"
        return ParkiTypeError(
            f"{name} has dtype {dtype}; expected float32 or float64 (convert with {name}.{convert})"
        )
    return ParkiTypeError(
        f"{name} is a {type(value).__name__} that DLPack does not hand over ({error}); "
        "convert it to a NumPy or CuPy array"
    )
