"""Timers of a plan's stages: by the clock on hosts, by events on devices."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class HostTimer:
    """Seconds of a block by the clock."""

    def __init__(self, _: Any, stages: dict[str, Callable[[], float]], stage: str) -> None:
        self.stages, self.stage = stages, stage

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        seconds = time.perf_counter() - self.start
        self.stages[self.stage] = lambda: seconds


class DeviceTimer:
    """Seconds of a block by events on the current stream; read after the fact, without stalls."""

    def __init__(self, xp: Any, stages: dict[str, Callable[[], float]], stage: str) -> None:
        self.events = (xp.cuda.Event(), xp.cuda.Event())
        self.elapsed = xp.cuda.get_elapsed_time
        self.stages, self.stage = stages, stage

    def __enter__(self) -> None:
        self.events[0].record()

    def __exit__(self, *_: object) -> None:
        self.events[1].record()

        def read() -> float:
            self.events[1].synchronize()
            return float(self.elapsed(*self.events)) / 1e3

        self.stages[self.stage] = read
