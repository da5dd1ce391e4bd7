"""`Run`: the request, the clocks, and clouds of points."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from parki.ewald.sums import SUMS
from parki.runtime import ExecutionSpace

# Largest number of runs of a case, and seconds after which there are no more.
ROUNDS, ENOUGH = 7, 1.5
TINY = 400  # points of --quick


@dataclass(frozen=True)
class Run:
    """The request.

    Attributes
    ----------
    points : int or None
        Number of sources and of targets; None takes a number that suits the table and the space.
    quick : bool
        Whether to use few points and cases, which tests the script and measures nothing.
    """

    space: ExecutionSpace
    points: int | None = None
    quick: bool = False
    seed: int = 7

    @property
    def xp(self) -> Any:
        """The array module."""
        return self.space.array_module

    @property
    def random(self) -> np.random.Generator:
        """Random numbers, the same in every run."""
        return np.random.default_rng(self.seed)

    def size(self, host: int, device: int) -> int:
        """Return the requested number of points, or one that suits the space."""
        if self.quick:
            return TINY
        return self.points or (device if self.space.on_device else host)

    def now(self) -> float:
        """Return the time once the device is idle."""
        if self.space.on_device:
            self.xp.cuda.Device().synchronize()
        return time.perf_counter()

    def seconds(self, call: Callable[[], Any]) -> float:
        """Return the seconds of one call; on a device by events, which exclude its launch."""
        if not self.space.on_device:
            start = self.now()
            call()
            return self.now() - start
        start, end = self.xp.cuda.Event(), self.xp.cuda.Event()
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(self.xp.cuda.get_elapsed_time(start, end)) / 1e3

    def repeat(self, call: Callable[[], Any]) -> list[float]:
        """Return the seconds of calls after a first one; slow calls are repeated less often."""
        call()
        begun = self.now()
        times = [self.seconds(call)]
        while len(times) < (2 if self.quick else ROUNDS) and self.now() - begun < ENOUGH:
            times.append(self.seconds(call))
        return times

    def cloud(self, kernel: str, n: int, dtype: str = "f8") -> tuple[Any, Any, Any]:
        """Return uniform points in the unit cube, a random density, and normals if needed.

        Returns
        -------
        tuple of arrays, shape (3, n), (rows, n) and (3, n), or None for the last
        """
        random = self.random
        rows = SUMS[kernel].rows
        points = self.send(random.random((3, n)), dtype)
        dens = self.send(random.standard_normal((rows, n)), dtype)
        if not SUMS[kernel].normals:
            return points, dens, None
        return points, dens, self.send(random.standard_normal((3, n)), dtype)

    def send(self, values: Any, dtype: str = "f8") -> Any:
        """Return a host array in the memory of the space."""
        return self.xp.asarray(values.astype(dtype))


def apart(difference: Any, reference: Any) -> float:
    """Return the largest difference over the largest value, as a Python number."""
    return float(abs(difference).max() / abs(reference).max())
