"""Trace: where each microsecond of a step is, on an NVIDIA GPU.

In each step a plan takes new points and sums a density. PyTorch's profiler (CUPTI) gives the times
of all kernels and copies, those inside of graphs included. The tables have the microseconds of a
step by kernel, how long the device was busy, and how long a step took without the trace, alone and
among others.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections import defaultdict
from typing import Any

from benchmarks import Case
from benchmarks.run import Run

FIRST, STEPS = 8, 36  # steps before the trace, and in it


def missing(on_device: bool) -> str:
    """Return what is missing, or ''."""
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    return "" if on_device else "it needs an NVIDIA GPU"


def busy(spans: list[tuple[float, float]]) -> float:
    """Return how long at least one of the spans lasted."""
    total, end = 0.0, float("-inf")
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total


def measure(run: Run) -> dict[str, Any]:
    """Trace the steps of a plan, and return where their time is."""
    from torch.profiler import ProfilerActivity, profile

    kernel, n = (run.kernel or ("stokes_sl",))[0], run.size(10_000, 10_000)
    dtype, periodicity = (run.dtype or ("f4",))[0], (run.periodicity or (3,))[0]
    step = run.steps(kernel, n, dtype, periodicity, (run.tolerance or (1e-3,))[0])

    def steps() -> None:
        for number in range(STEPS):
            step(number)

    for number in range(FIRST):
        step(number)
    alone = [run.clock(lambda number=number: step(number)) for number in range(STEPS)]
    together = run.clock(steps)
    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        run.clock(steps)
    spans, kernels = [], defaultdict(list)
    for event in trace.events():
        if event.device_type.name == "CUDA":
            spans.append((event.time_range.start, event.time_range.end))
            kernels[event.name].append(event.time_range.end - event.time_range.start)
    found = sorted(kernels.items(), key=lambda item: -sum(item[1]))
    rows = [
        {"us of a step": sum(times) / STEPS, "times": len(times) / STEPS, "kernel": name[:80]}
        for name, times in found
    ]
    whole = {
        "in all kernels": sum(row["us of a step"] for row in rows),
        "the device is busy": busy(spans) / STEPS,
        "a step alone": 1e6 * statistics.median(alone),
        "a step among others": 1e6 * together / STEPS,
    }
    return {f"Steps of {kernel}, {n:,} points": rows, "Microseconds of a step": [whole]}


CASES = {"trace": Case(__doc__, measure, missing=missing)}
