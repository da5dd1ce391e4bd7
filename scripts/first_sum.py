"""Time the first sums of new processes: with nothing kept, and with the kernels of an earlier one.

    python scripts/first_sum.py [--space Cuda] [--kernel stokes_sl] [--periodicity 3]
                                [--tolerance 1e-3] [--dtype float32] [--points 10000]

Each process imports parki, makes a plan, sums twice, and makes a sum of a tolerance that is a tenth
of the first one. The caches of parki, CuPy and CUDA are in a folder of their own, which is empty
for the first process. The output has the seconds of each part, in a row for each process.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

CACHES = {"PARKI_CACHE_DIR": "parki", "CUPY_CACHE_DIR": "cupy", "CUDA_CACHE_PATH": "cuda"}
PARTS = ("imports", "first array", "plan", "sum", "second sum", "another tolerance")


def parse() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--space", default="CPU")
    parser.add_argument("--kernel", default="stokes_sl")
    parser.add_argument("--periodicity", type=int, default=3)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(arguments: argparse.Namespace) -> list[float]:
    """Return the seconds of each part, in this process."""
    clock = [time.perf_counter()]

    def done(space: Any = None) -> None:
        if space is not None:
            space.adapter.synchronize()
        clock.append(time.perf_counter())

    import numpy as np

    import parki
    from parki.ewald.sums import SUMS

    space = parki.get_execution_space(arguments.space)
    xp = space.array_module  # which imports CuPy for a GPU
    done()
    kernel, n, rng = arguments.kernel, arguments.points, np.random.default_rng(0)
    shapes = [(3, n), SUMS[kernel].density_shape(n), *[(3, n)] * SUMS[kernel].normals]
    points, dens, *norms = (xp.asarray(rng.random(s), dtype=arguments.dtype) for s in shapes)
    done(space)

    def made(tolerance: float) -> parki.ewald.Plan[Any]:
        options = parki.EwaldOptions(arguments.periodicity, [1, 1, 1], tolerance)
        return parki.Plan(kernel, points, points, *norms, options)

    plan = made(arguments.tolerance)
    done(space)
    for _ in range(2):
        plan(dens)
        done(space)
    made(arguments.tolerance / 10)(dens)
    done(space)
    return [last - first for first, last in itertools.pairwise(clock)]


def main() -> None:
    """Start the processes, and print their times."""
    arguments = parse()
    if arguments.child:
        print(*measure(arguments))
        return
    print(f"{'caches':<8}", *(f"{part:>17}" for part in PARTS))
    with tempfile.TemporaryDirectory() as folder:
        own = {name: f"{folder}/{part}" for name, part in CACHES.items()}
        command = [sys.executable, __file__, *sys.argv[1:], "--child"]
        for caches in ("empty", "full", "full"):
            how: Any = {"env": {**os.environ, **own}, "stdout": subprocess.PIPE, "text": True}
            found = subprocess.run(command, check=True, **how).stdout.splitlines()[-1].split()
            print(f"{caches:<8}", *(f"{float(seconds):17.3f}" for seconds in found), flush=True)


if __name__ == "__main__":
    main()
