"""Measure the overhead of a launch beyond the kernel's own work, in microseconds per call.

    python scripts/measure_overhead.py [--calls 20000]

The script launches a kernel of ten arguments (eight arrays, an integer and a real) over a hundred
indices, on the spaces Serial and OpenMP, and prints the mean and the median time of a call.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from parki.runtime import get_execution_space, load

KERNEL = """
import pykokkos as pk

REAL = pk.double


@pk.workunit
def add_eight(
    i: int,
    a: pk.View1D[REAL],
    b: pk.View1D[REAL],
    c: pk.View1D[REAL],
    d: pk.View2D[REAL],
    e: pk.View2D[REAL],
    f: pk.View2D[REAL],
    g: pk.View3D[REAL],
    result: pk.View1D[REAL],
    shift: int,
    factor: REAL,
):
    result[i + shift] = factor * (a[i] + b[i] + c[i] + d[0][i] + e[0][i] + f[0][i] + g[0][0][i])
"""


COUNT = 100


def microseconds(space: str, calls: int) -> tuple[float, float]:
    """Return the mean and the median time of one launch."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "overhead.py"
        file.write_text(KERNEL, encoding="utf-8")
        kernel = load(str(file), "add_eight", get_execution_space(space))
    ranks = {"a": 1, "b": 1, "c": 1, "d": 2, "e": 2, "f": 2, "g": 3}
    arrays = {name: np.ones((1,) * (rank - 1) + (COUNT,)) for name, rank in ranks.items()}
    arguments = dict(arrays, result=np.zeros(COUNT), shift=0, factor=0.5)
    for _ in range(100):
        kernel(COUNT, **arguments)
    clock = [time.perf_counter()]
    for _ in range(calls):
        kernel(COUNT, **arguments)
        clock.append(time.perf_counter())
    times = 1e6 * np.diff(clock)
    return float(times.mean()), float(np.median(times))


def main() -> None:
    """Print the time of a call for each space."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    args = parser.parse_args()
    for space in ("Serial", "OpenMP"):
        mean, median = microseconds(space, args.calls)
        print(f"{space:7s} {mean:6.1f} µs per call, median {median:.1f}")


if __name__ == "__main__":
    main()
