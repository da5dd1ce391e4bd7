"""`Run`: the request, the clocks, and clouds of points."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import parki
from parki.ewald.sums import SUMS
from parki.runtime import ExecutionSpace

# Largest number of runs of a case, and seconds after which there are no more.
ROUNDS, ENOUGH = 7, 1.5
TINY = 400  # points of --quick
CLOUDS = 4  # of points, among which steps move


@dataclass(frozen=True)
class Run:
    """The request.

    Attributes
    ----------
    points : int or None
        Number of sources and of targets; None takes a number that suits the case and the space.
    quick : bool
        Whether to use few points and cases, which tests the script and measures nothing.
    tolerance, periodicity, kernel, dtype : tuple
        What a case takes in place of its own values; empty for these.
    search : float, optional
        Seconds for which parameters of other libraries are searched, in place of the case's own.
    keep : callable
        Takes the results so far, so that a run which is stopped leaves them.
    comm : MPI communicator, optional
        Ranks that begin together; times are those of the slowest.
    """

    space: ExecutionSpace
    points: int | None = None
    quick: bool = False
    seed: int = 7
    tolerance: tuple[float, ...] = ()
    periodicity: tuple[int, ...] = ()
    kernel: tuple[str, ...] = ()
    dtype: tuple[str, ...] = ()
    search: float | None = None
    keep: Callable[[dict[str, Any]], None] = lambda results: None
    comm: Any = None

    @property
    def xp(self) -> Any:
        """The array module."""
        return self.space.array_module

    @property
    def device(self) -> bool:
        """Whether the space is a GPU."""
        return self.space.on_device

    @property
    def random(self) -> np.random.Generator:
        """Random numbers, the same in every run."""
        return np.random.default_rng(self.seed)

    def size(self, host: int, device: int) -> int:
        """Return the requested number of points, or one that suits the space."""
        if self.quick:
            return TINY
        return self.points or (device if self.device else host)

    def options(
        self, periodicity: int = 1, tolerance: float = 1e-4, box: Any = (1, 1, 1), **more: Any
    ) -> parki.EwaldOptions:
        """Return options of this space."""
        return parki.EwaldOptions(periodicity, box, tolerance, execution_space=self.space, **more)

    # --- clocks -----------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the time once the device is idle."""
        if self.device:
            self.xp.cuda.Device().synchronize()
        return time.perf_counter()

    def timed(self, work: Callable[[], Any]) -> tuple[float, Any]:
        """Return the seconds of work by the clock, and its result."""
        if self.comm is not None:
            self.now()
            self.comm.Barrier()
        begun = self.now()
        found = work()
        return self.slowest(self.now() - begun), found

    def slowest(self, seconds: float) -> float:
        """Return the seconds of the slowest rank."""
        return seconds if self.comm is None else max(self.comm.allgather(seconds))

    def clock(self, work: Callable[[], Any]) -> float:
        """Return the seconds of work by the clock."""
        return self.timed(work)[0]

    def seconds(self, call: Callable[[], Any]) -> float:
        """Return the seconds of one call; on a device by events, which exclude its launch."""
        if not self.device:
            return self.clock(call)
        start, end = self.xp.cuda.Event(), self.xp.cuda.Event()
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(self.xp.cuda.get_elapsed_time(start, end)) / 1e3

    def repeat(
        self, call: Callable[[], Any], rounds: int = ROUNDS, enough: float = ENOUGH
    ) -> list[float]:
        """Return the seconds of calls after a first one; slow calls are repeated less often."""
        call()
        begun = self.now()
        times = [self.seconds(call)]
        while len(times) < (2 if self.quick else rounds) and self.now() - begun < enough:
            times.append(self.seconds(call))
        return times

    def median(self, call: Callable[[], Any], rounds: int = 5, enough: float = 0.25) -> float:
        """Return the median seconds of calls after a first one."""
        return statistics.median(self.repeat(call, rounds, enough))

    def medians(
        self, calls: dict[str, Callable[[], Any]], rounds: int = 5, first: int = 1, by: Any = None
    ) -> dict[str, float]:
        """Return the median seconds of calls, which alternate because machines are shared.

        ``first`` calls of each come before, which compile kernels, keep lists and record launches.
        ``by`` takes the seconds of a call: `clock` counts the launch too.
        """
        for call in calls.values():
            for _ in range(first):
                call()
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(2 if self.quick else rounds):
            for name, call in calls.items():
                times[name].append((by or self.seconds)(call))
        return {name: statistics.median(found) for name, found in times.items()}

    def milliseconds(
        self, calls: dict[str, Callable[[], Any]], rounds: int = 5, first: int = 1
    ) -> dict[str, float]:
        """Return the same by the clock, in milliseconds."""
        found = self.medians(calls, rounds, first, self.clock)
        return {name: 1e3 * took for name, took in found.items()}

    def stages(
        self, plan: Any, dens: Any, rounds: int = 5, of: Callable[[Any], float] = statistics.median
    ) -> dict[str, float]:
        """Return the median seconds of a plan's stages; the third sum has lists of pairs."""
        for _ in range(3):
            plan(dens)
        found = [plan.timed(dens)[1] for _ in range(2 if self.quick else rounds)]
        return {stage: of([self.slowest(one[stage]) for one in found]) for stage in found[0]}

    # --- arrays -----------------------------------------------------------------------------------

    def send(self, values: Any, dtype: str = "f8") -> Any:
        """Return a host array in the memory of the space."""
        return self.xp.asarray(values.astype(dtype))

    def cloud(
        self, kernel: str, n: int, dtype: str = "f8", points: Any = None, random: Any = None
    ) -> Any:
        """Return points, uniform in the unit cube if not given, a density, and normals if needed.

        Returns
        -------
        tuple of arrays, shape (3, n), that of a density, and (3, n), or None for the last
        """
        random, kind = random or self.random, SUMS[kernel]
        points = self.send(random.random((3, n)) if points is None else points, dtype)
        dens = self.send(random.standard_normal(kind.density_shape(n)), dtype)
        norms = self.send(random.standard_normal((3, n)), dtype) if kind.normals else None
        return points, dens, norms

    def steps(
        self, kernel: str, n: int, dtype: str, periodicity: int, tolerance: float
    ) -> Callable[[int], None]:
        """Return a function of a number that moves a plan's points, and sums a density."""
        random, options = self.random, self.options(periodicity, tolerance)
        (points, dens, norms), *others = (
            self.cloud(kernel, n, dtype, random=random) for _ in range(CLOUDS)
        )
        clouds = [points, *(other[0] for other in others)]
        plan = parki.Plan(kernel, points, points, norms, options)
        out = plan(dens)

        def step(number: int) -> None:
            points = clouds[number % CLOUDS]
            plan.update_points(points, points, norms)
            plan(dens, out=out)

        return step

    def uniform(self, dimensions: int, n: int, dtype: str = "f8") -> Any:
        """Return uniform points in [0, 1)."""
        return self.send(self.random.random((dimensions, n)) * (1 - 1e-6), dtype)

    def normal(self, shape: tuple[int, ...], dtype: str = "f8") -> Any:
        """Return normal random numbers."""
        return self.send(np.random.default_rng(8).standard_normal(shape), dtype)

    def free(self) -> None:
        """Free a device's unused memory."""
        if self.device:
            self.xp.get_default_memory_pool().free_all_blocks()


def basic_parser(text: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that make a request."""
    how = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(description=text, formatter_class=how)
    made.add_argument("--space", default="CPU", help="CPU, Cuda, ...")
    made.add_argument("--points", type=int, help="default: a number that suits what is measured")
    made.add_argument("--quick", action="store_true", help="few points: tests the script")
    return made


def asked(given: argparse.Namespace, **more: Any) -> Run:
    """Return the request of such options."""
    return Run(parki.get_execution_space(given.space), given.points, given.quick, **more)


def reach(
    aim: float, tolerance: float, error_of: Callable[[float], float], safe: float, tries: int
) -> tuple[float, float]:
    """Return the first of ever smaller tolerances whose error is the aim at most, and the error.

    An error is taken to fall as the tolerance does, and ``safe`` is a factor of the next one.
    """
    for _ in range(tries):
        tried, error = tolerance, error_of(tolerance)
        if error <= aim:
            break
        tolerance *= safe * min(aim / error, 1.0)
    return tried, error


def apart(found: Any, expected: Any) -> float:
    """Return the largest difference over the largest value, as a Python number."""
    return float(abs(found - expected).max() / abs(expected).max())


def roundings(found: Any, expected: Any) -> float:
    """Return the same in units of rounding."""
    return apart(found, expected) / float(np.finfo(expected.dtype).eps)
