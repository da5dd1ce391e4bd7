"""Trace the steps of a plan on an NVIDIA GPU: where each microsecond of a step is.

    python scripts/trace_steps.py [--kernel stokes_sl] [--periodicity 3] [--tolerance 1e-3]
                                  [--dtype float32] [--points 10000] [--steps 36]

In each step a plan takes new points and sums a density. PyTorch's profiler (CUPTI) gives the times
of all kernels and copies, those inside of graphs included. The output has the microseconds of a
step by kernel, how long the device was busy, and how long a step took with and without the trace.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

import parki
from parki.ewald.sums import SUMS

CLOUDS, FIRST = 4, 8  # clouds that follow each other; steps before the trace


def make(arguments: argparse.Namespace) -> Callable[[int], None]:
    """Return a step of a new plan, whose launches are recorded."""
    xp = parki.get_execution_space("Cuda").array_module
    dtype, n, kernel = np.dtype(arguments.dtype), arguments.points, arguments.kernel
    rng = np.random.default_rng(0)
    clouds = [xp.asarray(rng.random((3, n)), dtype=dtype) for _ in range(CLOUDS)]
    norms = None
    if SUMS[kernel].normals:
        norms = xp.asarray(rng.standard_normal((3, n)), dtype=dtype)
    dens = xp.asarray(rng.standard_normal(SUMS[kernel].density_shape(n)), dtype=dtype)
    options = parki.EwaldOptions(arguments.periodicity, [1, 1, 1], arguments.tolerance)
    plan = parki.Plan(kernel, clouds[0], clouds[0], norms, options)
    out = plan(dens)

    def step(number: int) -> None:
        points = clouds[number % CLOUDS]
        plan.update_points(points, points, norms)
        plan(dens, out=out)

    for number in range(FIRST):
        step(number)
    print(plan.describe())
    return step


def busy(spans: list[tuple[float, float]]) -> float:
    """Return how long at least one of the spans lasted."""
    total, end = 0.0, float("-inf")
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total


def main() -> None:
    """Trace the steps, and print where their time is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", default="stokes_sl")
    parser.add_argument("--periodicity", type=int, default=3)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=36)
    arguments = parser.parse_args()
    import torch
    from torch.profiler import ProfilerActivity, profile

    step = make(arguments)
    alone = []
    for number in range(arguments.steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step(number)
        torch.cuda.synchronize()
        alone.append(1e6 * (time.perf_counter() - start))
    start = time.perf_counter()
    for number in range(arguments.steps):
        step(number)
    torch.cuda.synchronize()
    together = 1e6 * (time.perf_counter() - start) / arguments.steps
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        for number in range(arguments.steps):
            step(number)
        torch.cuda.synchronize()
    spans, kernels = [], defaultdict(list)
    events: list[Any] = [e for e in trace.events() if e.device_type.name == "CUDA"]
    for event in events:
        spans.append((event.time_range.start, event.time_range.end))
        kernels[event.name].append(event.time_range.end - event.time_range.start)
    share = 1 / arguments.steps
    for name, times in sorted(kernels.items(), key=lambda item: -sum(item[1])):
        print(f"{share * sum(times):8.1f} us {share * len(times):6.1f} x  {name[:80]}")
    print(f"{share * sum(map(sum, kernels.values())):8.1f} us in all of them")
    print(f"{share * busy(spans):8.1f} us the device is busy")
    print(f"{statistics.median(alone):8.1f} us a step takes alone, {together:.1f} among others")


if __name__ == "__main__":
    main()
