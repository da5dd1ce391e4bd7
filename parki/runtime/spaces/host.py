"""The host: NumPy's arrays, the clock, and Linux' account of the memory that is free."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
NO_LIMIT = 2.0**60  # what version 1 of control groups has in the place of "max" is larger


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
def turn(_: Any) -> Iterator[Callable[[], Any]]:
    """Do nothing: what one thread has called has run when the call returns."""
    yield lambda: None


@contextmanager
def beside(work: Callable[[], None] | None) -> Iterator[None]:
    """Do ``work`` after the block."""
    yield
    if work is not None:
        work()


class Watch:
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
    return min(_available(), _of_groups())


def _available() -> float:
    """Return what the kernel says is available without swapping."""
    try:
        lines = (PROC / "meminfo").read_text(encoding="utf-8").splitlines()
        return 1024.0 * next(int(x.split()[1]) for x in lines if x.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return math.inf


def _of_groups() -> float:
    """Return the room under the limits of the process's control groups, as containers have."""
    try:
        lines = (PROC / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return math.inf
    room = math.inf
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # version 2
            room = min(room, _walk(GROUPS, path, "memory.max", "memory.current"))
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
            room = min(room, _walk(GROUPS / "memory", path, *names))
    return room


def _walk(root: Path, path: str, limit: str, usage: str) -> float:
    """Return the least room of a group and those it is in.

    A container often sees its own group as the root, whatever its path says.
    """
    room, folder = math.inf, root / path.lstrip("/")
    for group in (folder, *folder.parents):
        try:
            most = (group / limit).read_text(encoding="utf-8").strip()
            if most != "max" and float(most) < NO_LIMIT:
                room = min(room, float(most) - _used(group, usage))
        except (OSError, ValueError):
            pass
        if group == root:
            break
    return room


def _used(group: Path, usage: str) -> float:
    """Return the bytes that a group uses and cannot drop, as it can its files in memory."""
    used = float((group / usage).read_text(encoding="utf-8"))
    lines = (group / "memory.stat").read_text(encoding="utf-8").splitlines()
    stat = dict(line.split(maxsplit=1) for line in lines)
    files = stat.get("total_inactive_file", stat.get("inactive_file", "0"))
    return max(0.0, used - float(files))
