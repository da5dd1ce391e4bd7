"""Launches: the overhead of a launch beyond the kernel's own work.

A kernel of ten arguments (eight arrays, an integer and a real) runs over a hundred indices.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.run import Run

from parki.runtime import get_execution_space, load

CPU_ALONE = True
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


def measure(run: Run) -> dict[str, Any]:
    """Return the mean and the median microseconds of a launch."""
    rows = []
    for space in ("Serial", "OpenMP"):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "overhead.py"
            file.write_text(KERNEL, encoding="utf-8")
            kernel = load(str(file), "add_eight", get_execution_space(space))
        ranks = {"a": 1, "b": 1, "c": 1, "d": 2, "e": 2, "f": 2, "g": 3}
        arrays = {name: np.ones((1,) * (rank - 1) + (COUNT,)) for name, rank in ranks.items()}
        arguments = dict(arrays, result=np.zeros(COUNT), shift=0, factor=0.5)
        clock = []
        for _ in range(100 if run.quick else 20_000):
            kernel(COUNT, **arguments)
            clock.append(time.perf_counter())
        times = 1e6 * np.diff(clock[50:])
        rows.append(
            {"space": space, "mean": float(times.mean()), "median": float(np.median(times))}
        )
    return {"Microseconds of a launch": rows}
