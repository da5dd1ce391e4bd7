"""What transforms of each length cost on a device, for the choice of lengths.

Measured as FGC runs them: planes of complex modes, both axes of which have the length. On hosts
lengths are not measured: SciPy's transforms take about the same time per value for all that are
considered, and a table gained 2 to 4 % of FGC.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from parki.ewald.lengths import SMOOTH, Lengths
from parki.ewald.transforms import DeviceTransforms, HostTransforms
from parki.runtime import ExecutionSpace

# Below, launches take most of the time.
CANDIDATES = [n for n in SMOOTH if 128 <= n <= 2048]
# Complex values of one transform: enough for a device, and little of its memory.
VALUES = 1 << 24
RUNS = 3


def measure(
    space: ExecutionSpace,
    precision: str,
    candidates: Sequence[int] = CANDIDATES,
    values: int = VALUES,
) -> Lengths:
    """Return lengths with their costs over the median one."""
    xp = space.array_module
    dtype = np.dtype(precision)
    memory = xp.zeros(2 * values, dtype=dtype)
    seconds = {n: _seconds(space, n, memory) for n in candidates}
    typical = statistics.median(seconds.values())
    return Lengths((n, t / typical) for n, t in seconds.items())


def _seconds(space: ExecutionSpace, n: int, memory: Any) -> float:
    """Return the seconds per complex value of planes of length n along both axes, and back."""
    complex_type = np.result_type(memory.dtype, np.complex64)
    planes = max(1, memory.size // (2 * n**2))
    modes = memory[: 2 * planes * n**2].view(complex_type).reshape(1, planes, n, n)
    make = DeviceTransforms if space.on_device else HostTransforms
    transforms = make((n, n, n), n, False)

    def both() -> None:
        transforms.planes(modes)
        transforms.planes_inverse(modes)

    return _least(space, both) / float(modes.size)


def _least(space: ExecutionSpace, action: Callable[[], None]) -> float:
    """Return the least seconds of a few runs, after one that makes plans."""
    times = []
    for _ in range(1 + RUNS):
        start = time.perf_counter()
        action()
        if space.on_device:
            space.array_module.cuda.Device().synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:])
