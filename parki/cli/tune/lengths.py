"""What transforms of each length cost on a device, for the choice of lengths.

Measured as FGC runs them: planes of complex modes, both axes of which have the length; lines of
real values along the first axis, whose costs jump from length to length; and three axes of real
values. On CPUs lengths are not measured: SciPy's transforms take about the same time per value for
all that are considered.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from parki.ewald.far.lengths import SMOOTH, Lengths, Tables
from parki.ewald.far.transforms import transforms_of
from parki.runtime import ExecutionSpace
from parki.runtime.spaces import free_memory

# Below, launches take most of the time. Long ones with 49 as a factor are never the cheapest.
CANDIDATES = [n for n in SMOOTH if 192 <= n <= 2048 and (n <= 512 or n % 49)]
# Complex values of planes that are transformed: enough for a device, and little of its memory.
VALUES = 1 << 24
LARGEST = {"lines": 1024, "boxes": 768}
# What single precision reaches takes no finer grids.
LARGEST_SINGLE = 1024
RUNS = 2


def load(space: ExecutionSpace, precision: str) -> None:
    """Run every transform once: cuFFT takes half a minute to load them all."""
    for *_, run in _transforms(space, precision, CANDIDATES, VALUES):
        run()


def measure(
    space: ExecutionSpace,
    precision: str,
    candidates: Sequence[int] = CANDIDATES,
    values: int = VALUES,
) -> Tables:
    """Return lengths with their costs over the median one of planes."""
    seconds: dict[str, dict[int, float]] = {kind: {} for kind in Tables._fields}
    for kind, length, each, run in _transforms(space, precision, candidates, values):
        seconds[kind][length] = _least(space, run) / each
    typical = statistics.median(seconds["planes"].values())
    return Tables(
        *(Lengths((n, t / typical) for n, t in times.items()) for times in seconds.values())
    )


def _transforms(
    space: ExecutionSpace, precision: str, candidates: Sequence[int], values: int
) -> Iterator[tuple[str, int, float, Callable[[], None]]]:
    """Yield transforms: table, length, values and what runs it, each before the next."""
    xp, make = space.array_module, transforms_of(space)
    dtype = np.dtype(precision)
    complex_type = np.result_type(dtype, np.complex64)
    memory = xp.zeros(2 * values, dtype=dtype)
    if precision == "float32":
        candidates = [n for n in candidates if n <= LARGEST_SINGLE]
    for n in candidates:
        planes = max(1, values // n**2)
        modes = memory[: 2 * planes * n**2].view(complex_type).reshape(1, planes, n, n)
        # The way back takes as long. Real values of both parts, two axes.
        yield "planes", n, 4.0 * modes.size, partial(make((n, n, n), n, False).planes, modes)

    def real(grid: Any, whole: bool) -> Callable[[], None]:
        x, y, z = grid.shape
        shape = (x, y, z // 2 + 1) if whole else (x // 2 + 1, y, z)
        hat = xp.empty(shape, dtype=complex_type)
        return partial(make((x, y, z), x, whole).real, grid[None], hat[None])

    # Longer lines cost about the same.
    for n in (n for n in candidates if n <= LARGEST["lines"]):
        edge = max(1, math.isqrt(memory.size // n))
        lines = memory[: n * edge**2].reshape(n, edge, edge)
        yield "lines", n, 1.0 * lines.size, real(lines, False)
        # The values, their modes and the library's workspace.
        if n <= LARGEST["boxes"] and 4 * n**3 * dtype.itemsize < free_memory(space):
            yield "boxes", n, 3.0 * n**3, real(xp.zeros((n, n, n), dtype=dtype), True)


def _least(space: ExecutionSpace, action: Callable[[], None]) -> float:
    """Return the least seconds of a few runs, after one that makes plans."""
    times = []
    for _ in range(1 + RUNS):
        start = time.perf_counter()
        action()
        space.adapter.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:])
