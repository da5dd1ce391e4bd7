"""First sums: new processes, with nothing kept, and with the kernels of an earlier one.

Each process imports parki, makes a plan, sums twice, and makes a sum of a tolerance that is a tenth
of the first one. The caches of parki, CuPy and CUDA are in a folder of their own, which is empty
for the first process. There is a row for each process, in seconds. ``--kernel``, ``--periodicity``,
``--tolerance``, ``--dtype`` and ``--points`` choose the sum.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a new process imports parki by the clock
    from benchmarks.run import Run

CACHES = {"PARKI_CACHE_DIR": "parki", "CUPY_CACHE_DIR": "cupy", "CUDA_CACHE_PATH": "cuda"}
PARTS = ("imports", "first array", "plan", "sum", "second sum", "another tolerance")


def child(name: str, kernel: str, periodicity: int, tolerance: float, dtype: str, n: int) -> None:
    """Print the seconds of each part, in this process."""
    clock = [time.perf_counter()]

    def done(space: Any = None) -> None:
        if space is not None:
            space.adapter.synchronize()
        clock.append(time.perf_counter())

    import numpy as np

    import parki
    from parki.ewald.sums import SUMS

    space = parki.get_execution_space(name)
    xp = space.array_module  # which imports CuPy for a GPU
    done()
    rng = np.random.default_rng(0)
    shapes = [(3, n), SUMS[kernel].density_shape(n), *[(3, n)] * SUMS[kernel].normals]
    points, dens, *norms = (xp.asarray(rng.random(s), dtype=dtype) for s in shapes)
    done(space)

    def made(tolerance: float) -> parki.Plan[Any]:
        options = parki.EwaldOptions(periodicity, [1, 1, 1], tolerance)
        return parki.Plan(kernel, points, points, *norms, options)

    plan = made(tolerance)
    done(space)
    for _ in range(2):
        plan(dens)
        done(space)
    made(tolerance / 10)(dens)
    done(space)
    print(json.dumps([last - first for first, last in itertools.pairwise(clock)]))


def measure(run: Run) -> dict[str, Any]:
    """Start the processes, and return their times."""
    kernel, periodicity = (run.kernel or ("stokes_sl",))[0], (run.periodicity or (3,))[0]
    tolerance, dtype = (run.tolerance or (1e-3,))[0], (run.dtype or ("f4",))[0]
    size = run.size(10_000, 10_000)
    given = json.dumps([str(run.space), kernel, periodicity, tolerance, dtype, size])
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        own = {name: f"{folder}/{part}" for name, part in CACHES.items()}
        for caches in ("empty", "full", "full"):
            how: Any = {"env": {**os.environ, **own}, "stdout": subprocess.PIPE, "text": True}
            ran = subprocess.run([sys.executable, __file__, given], check=True, **how)
            seconds = json.loads(ran.stdout.splitlines()[-1])
            rows.append({"caches": caches, **dict(zip(PARTS, seconds, strict=True))})
    return {f"First sums of {kernel}, {size:,} points, seconds": rows}


if __name__ == "__main__":
    child(*json.loads(sys.argv[1]))
else:
    from benchmarks import Case

    CASES = {"first_sums": Case(__doc__, measure)}
