"""Compare the time of several densities or systems at once with one after the other.

    python scripts/many.py                      # on the CPU
    python scripts/many.py --space Cuda

The script prints median milliseconds of an application, and of steps of moving points.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import parki
from parki.runtime import ExecutionSpace, get_execution_space

RUNS, SECONDS = 20, 3.0


def seconds(space: ExecutionSpace, work: Callable[[], Any]) -> float:
    """Return the median time of repeated work, after a few first calls."""
    for _ in range(4):
        work()
    times: list[float] = []
    while len(times) < RUNS and sum(times) < SECONDS:
        space.adapter.synchronize()
        begun = time.perf_counter()
        work()
        space.adapter.synchronize()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def densities(space: ExecutionSpace, n: int) -> list[float]:
    """Time 1, 2, 4 and 8 densities of `stokes_comb`, 1-periodic, 1e-4, in double precision."""
    xp, rng = space.array_module, np.random.default_rng(0)
    options = parki.EwaldOptions(1, [1, 1, 1], 1e-4, execution_space=space)
    points, norms = xp.asarray(rng.random((3, n))), xp.asarray(rng.standard_normal((3, n)))
    plan = parki.Plan("stokes_comb", points, points, norms, options)
    dens = xp.asarray(rng.standard_normal((8, 6, n)))
    several = [seconds(space, lambda k=k: plan(dens[:k])) for k in (2, 4, 8)]
    return [seconds(space, lambda: plan(dens[0])), *several]


def systems(space: ExecutionSpace, count: int, n: int) -> tuple[float, float, float]:
    """Time ``count`` systems of ``n`` points, `stokes_sl`, 3-periodic, 1e-4.

    The seconds are of an application, a step, and separate applications one after the other.
    """
    xp, rng = space.array_module, np.random.default_rng(0)
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-4, execution_space=space)
    points, forces = (xp.asarray(a) for a in rng.random((2, 3, count * n)))
    offsets = np.arange(0, count * n + 1, n)
    plan = parki.Plan("stokes_sl", points, points, options, systems=offsets)

    def step() -> None:
        plan.update_points(points, points)
        plan(forces)

    alone, part = points[:, :n].copy(), forces[:, :n].copy()
    one = parki.Plan("stokes_sl", alone, alone, options)
    apply = seconds(space, lambda: plan(forces))
    return apply, seconds(space, step), count * seconds(space, lambda: one(part))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--space", default="CPU")
    parser.add_argument("--points", type=int, nargs="+", default=[1000, 10_000, 100_000])
    arguments = parser.parse_args()
    space = get_execution_space(arguments.space)
    print("| points | 1 density | 2 | 4 | 8 | 8 over 1 |\n|" + " --- |" * 6)
    for n in arguments.points:
        times = densities(space, n)
        print(f"| {n:,} | {_words(times)} | {times[-1] / times[0]:.2f} |", flush=True)
    print("\n| systems | points of each | apply | step | one after the other |\n|" + " --- |" * 5)
    for count, n in ((10, 1000), (100, 100), (1000, 100), (1000, 1000)):
        print(f"| {count:,} | {n:,} | {_words(systems(space, count, n))} |", flush=True)


def _words(times: Iterable[float]) -> str:
    return " | ".join(f"{1e3 * t:.3g}" for t in times)


if __name__ == "__main__":
    main()
