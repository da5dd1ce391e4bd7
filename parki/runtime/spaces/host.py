"""The host: NumPy's arrays, the clock, and Linux' account of the memory that is free."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from parki import groups


def array_module() -> ModuleType:
    """Return NumPy."""
    return np


def constant(values: Any, dtype: Any) -> Any:
    """Return numbers as a contiguous array."""
    return np.ascontiguousarray(values, dtype=dtype)


def device() -> None:
    """Return None: all arrays are in one memory."""


def choose(_: None) -> None:
    """Do nothing: see `device`."""


def synchronize() -> None:
    """Do nothing: no work is left when a call returns."""


@contextmanager
def exclusive(_: Any) -> Iterator[Callable[[], Any]]:
    """Do nothing: what one thread has called has run when the call returns."""
    yield lambda: None


@contextmanager
def beside(work: Callable[[], None] | None) -> Iterator[None]:
    """Do ``work`` after the block."""
    yield
    if work is not None:
        work()


class HostWatch:
    """Seconds of blocks by the clock."""

    def __init__(self, _: bool = False) -> None:
        self.stages: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time a block, in addition to others of the stage."""
        start = time.perf_counter()
        yield
        self.stages[stage] = self.stages.get(stage, 0.0) + time.perf_counter() - start

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each block."""
        return self.stages


watch = HostWatch


def records() -> bool:
    """Return False: launches cannot be recorded."""
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
    """Return the bytes that can be taken; infinity where nobody says."""
    return min(_available(), groups.memory_left())


def _available() -> float:
    """Return what the kernel says is available without swapping."""
    try:
        lines = (groups.PROC / "meminfo").read_text(encoding="utf-8").splitlines()
        return 1024.0 * next(int(x.split()[1]) for x in lines if x.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return math.inf
