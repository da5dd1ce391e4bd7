"""Cost of transforms of each length on a device, for the choice of grid lengths.

The transforms are timed as FGC runs them: planes of complex modes with this length along both
axes; lines of real values along the first axis, whose cost jumps from length to length; and cubes
of real values. CPUs are not measured, because SciPy's transforms take about the same time per
value for all lengths considered.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from parki.ewald.far.padding import SMOOTH, Lengths, Tables
from parki.ewald.far.transforms import transforms_of
from parki.runtime import ExecutionSpace
from parki.runtime.spaces import free_memory

# Shorter transforms spend most time in launches; long ones with a factor 49 are never cheapest.
CANDIDATES = [n for n in SMOOTH if 192 <= n <= 2048 and (n <= 512 or n % 49)]
# Complex values in the timed planes: enough to fill a device, and a small part of its memory.
VALUES = 1 << 24
LARGEST = {"lines": 1024, "boxes": 768}
# Tolerances that single precision reaches need no finer grids.
LARGEST_SINGLE = 1024
RUNS = 2


def load(space: ExecutionSpace, precision: str) -> None:
    """Run every transform once; cuFFT takes half a minute to load them all."""
    for *_, run in _transforms(space, precision, CANDIDATES, VALUES):
        run()


def measure(
    space: ExecutionSpace,
    precision: str,
    candidates: Sequence[int] = CANDIDATES,
    values: int = VALUES,
) -> Tables:
    """Return the cost of each length, relative to the median cost of planes."""
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
    """Yield table, length, number of values and function of one transform at a time."""
    xp, make = space.array_module, transforms_of(space)
    dtype = np.dtype(precision)
    complex_type = np.result_type(dtype, np.complex64)
    memory = xp.zeros(2 * values, dtype=dtype)
    if precision == "float32":
        candidates = [n for n in candidates if n <= LARGEST_SINGLE]
    for n in candidates:
        planes = max(1, values // n**2)
        modes = memory[: 2 * planes * n**2].view(complex_type).reshape(1, planes, n, n)
        # Counts real values of both parts, over two axes; the inverse takes as long.
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
        # Memory of the values, their modes and the library's workspace.
        if n <= LARGEST["boxes"] and 4 * n**3 * dtype.itemsize < free_memory(space):
            yield "boxes", n, 3.0 * n**3, real(xp.zeros((n, n, n), dtype=dtype), True)


def _least(space: ExecutionSpace, action: Callable[[], None]) -> float:
    """Return the least seconds of a few runs, after one run that makes the library's plans."""
    times = []
    for _ in range(1 + RUNS):
        start = time.perf_counter()
        action()
        space.adapter.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:])
