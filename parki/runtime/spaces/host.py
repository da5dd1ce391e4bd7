"""Adapter for the host: NumPy's arrays, the clock, and free memory as the system reports it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from parki import settings
from parki.errors import ParkiMemoryError


def array_module() -> ModuleType:
    """Return NumPy."""
    return np


constant = np.ascontiguousarray  # numbers, in a dtype, as a contiguous array


def device() -> None:
    """Return None, because all arrays are in one memory."""


def choose(_: None) -> None:
    """Do nothing; see `device`."""


def synchronize() -> None:
    """Do nothing, because a call returns when its work is done."""


def exclusive(_: Any) -> None:
    """Return None, because a thread's calls return when their work is done."""


@contextmanager
def beside(work: Callable[[], None] | None) -> Iterator[None]:
    """Run ``work`` after the block."""
    yield
    if work is not None:
        work()


class HostWatch:
    """Times blocks by the clock."""

    def __init__(self, _: bool = False) -> None:
        self.stages: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time a block; several blocks of a stage add up."""
        start = time.perf_counter()
        yield
        self.stages[stage] = self.stages.get(stage, 0.0) + time.perf_counter() - start

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each stage."""
        return self.stages


watch = HostWatch


class HostReport:
    """A few numbers that are made in one place and read in another: see the devices' adapter."""

    def __init__(self, count: int) -> None:
        self.numbers = np.zeros(count)

    def send(self) -> None:
        """Do nothing, because all memory is the host's."""

    def read(self) -> list[float]:
        """Return the numbers."""
        return list(self.numbers.tolist())


report = HostReport


def copy(out: Any, values: Any) -> None:
    """Copy an array to another one of its shape."""
    out[...] = values


upload = copy


def records() -> bool:
    """Return False, because launches cannot be recorded."""
    return False


def capturing() -> bool:
    """Return False, for the same reason."""
    return False


def linear_operator() -> Any:
    """Return SciPy's class of linear operators."""
    from scipy.sparse.linalg import LinearOperator

    return LinearOperator


def sparse() -> Any:
    """Return SciPy's sparse matrices."""
    import scipy.sparse

    return scipy.sparse


def special() -> Any:
    """Return SciPy's special functions."""
    import scipy.special

    return scipy.special


def free_memory() -> float:
    """Return the bytes that can be allocated without swapping; infinity if unknown."""
    try:
        free = float(_psutil().virtual_memory().available)
    except OSError:  # Linux without /proc
        free = math.inf
    return min(free, settings.memory_left(), limited())


def limited() -> float:
    """Return the bytes until a limit on the address space (``ulimit -v``); infinity without one."""
    try:
        import resource
    except ImportError:  # Windows has none
        return math.inf
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return math.inf
    return max(0.0, float(limit - _psutil().Process().memory_info().vms))


def _psutil() -> Any:
    """Return psutil, which is imported when it is needed."""
    try:
        import psutil
    except (ImportError, MemoryError) as error:  # without address space for its library
        raise ParkiMemoryError(
            f"memory ran out before it could be asked how much is free ({error}); free some, or "
            "raise the limit of the process (ulimit -v)"
        ) from error
    return psutil
