"""Memory that work needs: refused where it is not free; what ran out is a `ParkiMemoryError`.

A stage declares its arrays by name, from the numbers that it is made of. What allocates them and
what predicts the memory of a plan read the same declaration.
"""

from __future__ import annotations

import errno
import functools
import math
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike

from parki.errors import ParkiMemoryError
from parki.runtime.spaces import LITTLE, ExecutionSpace, free_memory

Call = TypeVar("Call", bound=Callable[..., Any])


class Buffer(NamedTuple):
    """The shape and the dtype of an array, in the order of ``xp.empty(*buffer)``.

    Lists whose lengths are not known before they are made have expected ones.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
    """

    shape: tuple[int, ...]
    dtype: Any


Buffers = dict[str, Buffer]


def declare(dtype: DTypeLike, **shapes: tuple[int, ...]) -> Buffers:
    """Return arrays of one dtype, by name."""
    return {name: Buffer(shape, dtype) for name, shape in shapes.items()}


def size_in_bytes(*declared: Buffers) -> int:
    """Return the bytes of all arrays that stages declare."""
    buffers = [buffer for stage in declared for buffer in stage.values()]
    return sum([math.prod(shape) * int(np.dtype(dtype).itemsize) for shape, dtype in buffers])


def in_words(size: float) -> str:
    """Return a number of bytes in a readable unit."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def require(space: ExecutionSpace, needed: float, what: str, remedy: str) -> None:
    """Refuse work that needs more memory than is free.

    Parameters
    ----------
    space : ExecutionSpace
    needed : float
        Bytes, beyond those in use.
    what : str
        What needs it, in the plural.
    remedy : str
        What to do.

    Raises
    ------
    ParkiMemoryError
    """
    if needed <= LITTLE or space.adapter.capturing():  # then nothing may be asked of a device
        return
    if needed > (free := free_memory(space)):
        where = "on the device" if space.on_device else "here"
        raise ParkiMemoryError(
            f"{what} need {in_words(needed)}, but {in_words(free)} are free {where}; {remedy}"
        )


_KINDS = MemoryError, OSError, ImportError, RuntimeError, SystemError


class _Told:
    """See `told`."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, _KINDS) and _of_memory(error):
            raise _out(error) from error


_told = _Told()


def told() -> _Told:
    """Raise, within it, a `ParkiMemoryError` where memory runs out that was predicted to be free.

    All calls that take large arrays do their work in it, or are `telling`: NumPy, CuPy, Python and
    the system each have an error of their own.
    """
    return _told


def _out(error: Exception) -> ParkiMemoryError:
    return ParkiMemoryError(
        f"memory ran out ({str(error) or type(error).__name__}); free some, raise the limit of "
        "the process (ulimit -v), or sum fewer points or densities at a time"
    )


def _of_memory(error: Exception) -> bool:
    """Return whether memory ran out: libraries and threads that find none say it in words alone."""
    if isinstance(error, ParkiMemoryError):  # which was told
        return False
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    return any(words in str(error).lower() for words in _WORDS)


# The loader of Linux, the system, Python where a thread finds no stack, and Python where a C
# function fails without room for an exception say these.
_WORDS = (
    "error return without exception set",
    "failed to map segment",
    "cannot allocate memory",
    "can't start new thread",
    "resource temporarily unavailable",
)


def telling(call: Call) -> Call:
    """Return a call that does its work in `told`, by a frame of parki's own: see `parki.errors`.

    A class has them in its public methods, and where it is made and called.
    """
    if isinstance(call, type):
        for name, method in [*vars(call).items()]:
            if name.startswith("_") and name not in ("__init__", "__call__"):
                continue
            if isinstance(method, FunctionType):
                setattr(call, name, telling(method))
            elif isinstance(method, (classmethod, staticmethod)):
                setattr(call, name, type(method)(telling(method.__func__)))
        return call

    @functools.wraps(call)
    def within(*arguments: Any, **named: Any) -> Any:
        try:
            return call(*arguments, **named)
        except _KINDS as error:
            if not _of_memory(error):
                raise
            raise _out(error) from error

    return cast(Call, within)
