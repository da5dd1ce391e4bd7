"""Stopwatches of a plan's stages: by the clock on hosts, by events on devices."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

Watch = Callable[[str], AbstractContextManager[Any]]

# Seconds that a device waits at most for what follows to be launched.
PATIENCE = 0.02


def unwatched(_: str) -> AbstractContextManager[Any]:
    """Time no stage."""
    return nullcontext()


class HostWatch:
    """Seconds of blocks by the clock."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time a block."""
        start = time.perf_counter()
        yield
        self.stages[stage] = time.perf_counter() - start

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each block."""
        return self.stages


class DeviceWatch:
    """Seconds of blocks by events on the current stream; read after the fact, without stalls.

    Parameters
    ----------
    xp : module
        CuPy.
    ahead : bool
        Have the device wait until the host has launched all blocks (for `PATIENCE` at most). Else
        those of little work take as long as their launches, which depends on what was before them.
    """

    def __init__(self, xp: Any, ahead: bool) -> None:
        self.cuda = xp.cuda
        self.events: dict[str, tuple[Any, Any]] = {}
        self.launched = threading.Event()
        # HIP takes no host functions on its default stream.
        self.ahead = ahead and not xp.cuda.runtime.is_hip

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time a block."""
        stream = self.cuda.get_current_stream()
        if self.ahead and not self.events:
            stream.launch_host_func(lambda _: self.launched.wait(PATIENCE), None)
        first, last = self.events[stage] = self.cuda.Event(), self.cuda.Event()
        first.record(stream)
        yield
        last.record(stream)

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each block, once the device has run them."""
        self.launched.set()
        found = {}
        for stage, (first, last) in self.events.items():
            last.synchronize()
            found[stage] = float(self.cuda.get_elapsed_time(first, last)) / 1e3
        return found
