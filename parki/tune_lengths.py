"""What transforms of each length cost on a device, for the choice of lengths.

Measured as FGC runs them: planes of complex modes, both axes of which have the length; lines of
real values along the first axis, for which cuFFT takes five times longer for some lengths than for
their neighbours; and three axes of real values. On CPUs lengths are not measured: SciPy's
transforms take about the same time per value for all that are considered, and a table gained 2 to
4 % of FGC.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Transform:
    """One to time: of ``length``, in the table ``kind``, ``run`` over so many ``values``."""

    kind: str
    length: int
    values: float
    run: Callable[[], None]


def load(space: ExecutionSpace, precision: str) -> None:
    """Run every transform once: cuFFT takes half a minute to load them all."""
    for transform in _transforms(space, precision, CANDIDATES, VALUES):
        transform.run()


def measure(
    space: ExecutionSpace,
    precision: str,
    candidates: Sequence[int] = CANDIDATES,
    values: int = VALUES,
) -> Tables:
    """Return lengths with their costs over the median one of planes."""
    seconds: dict[str, dict[int, float]] = {kind: {} for kind in Tables._fields}
    for transform in _transforms(space, precision, candidates, values):
        least = _least(space, transform.run)
        seconds[transform.kind][transform.length] = least / transform.values
    typical = statistics.median(seconds["planes"].values())
    return Tables(
        *(Lengths((n, t / typical) for n, t in times.items()) for times in seconds.values())
    )


def _transforms(
    space: ExecutionSpace, precision: str, candidates: Sequence[int], values: int
) -> Iterator[Transform]:
    """Yield the transforms, each to be run before the next."""
    xp = space.array_module
    dtype = np.dtype(precision)
    memory = xp.zeros(2 * values, dtype=dtype)
    if precision == "float32":
        candidates = [n for n in candidates if n <= LARGEST_SINGLE]
    for n in candidates:
        yield _planes(space, n, memory)
    # Longer lines cost about the same.
    for n in (n for n in candidates if n <= LARGEST["lines"]):
        edge = max(1, math.isqrt(memory.size // n))
        yield _real(space, memory[: n * edge**2].reshape(n, edge, edge), False)
        # The values, their modes and the library's workspace.
        if n <= LARGEST["boxes"] and 4 * n**3 * dtype.itemsize < free_memory(space):
            yield _real(space, xp.zeros((n, n, n), dtype=dtype), True)


def _planes(space: ExecutionSpace, n: int, memory: Any) -> Transform:
    """Return the transform of planes of length n along both axes.

    Of the transform there alone, as for real values: the way back takes as long.
    """
    complex_type = np.result_type(memory.dtype, np.complex64)
    planes = max(1, memory.size // (2 * n**2))
    modes = memory[: 2 * planes * n**2].view(complex_type).reshape(1, planes, n, n)
    make = transforms_of(space)
    transforms = make((n, n, n), n, False)
    # Real values of both parts, two axes.
    return Transform("planes", n, 4.0 * modes.size, lambda: transforms.planes(modes))


def _real(space: ExecutionSpace, values: Any, whole: bool) -> Transform:
    """Return the transform of real values along the first axis, or along all of them."""
    x, y, z = values.shape
    shape = (x, y, z // 2 + 1) if whole else (x // 2 + 1, y, z)
    modes = space.array_module.empty(shape, dtype=np.result_type(values.dtype, np.complex64))
    make = transforms_of(space)
    transforms = make((x, y, z), x, whole)
    kind, passes = ("boxes", 3.0) if whole else ("lines", 1.0)
    return Transform(
        kind, x, passes * values.size, lambda: transforms.real(values[None], modes[None])
    )


def _least(space: ExecutionSpace, action: Callable[[], None]) -> float:
    """Return the least seconds of a few runs, after one that makes plans."""
    times = []
    for _ in range(1 + RUNS):
        start = time.perf_counter()
        action()
        space.adapter.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:])
