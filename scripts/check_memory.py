"""Compare the predicted memory of plans with the memory that they use.

    python scripts/check_memory.py [--space CPU] [--points 500000] [--only 3]

Each plan is made and applied once in a separate process. On a device, CuPy's pool reports the
memory in use at each allocation (it holds more, but returns that before it fails). On a host, the
resident memory without files is read every millisecond. Then a plan that does not fit must be
refused at once. The exit code is 1 if a prediction is off by more than 25 %, or below 0.85.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import parki
from parki.ewald.pipeline.one_device import SERIAL
from parki.ewald.pipeline.one_shot import place_and_sum
from parki.ewald.points import take_cloud
from parki.ewald.sums import SUMS

# Kernel, periodicity, tolerance, dtype, wanted fields, whether plan and sum are one call, and
# number of points relative to --points.
CASES: tuple[tuple[str, int, float, str, str, bool, float], ...] = (
    ("stokes_comb", 0, 1e-4, "f8", "u", False, 0.2),
    ("stokes_comb", 1, 1e-4, "f8", "u", False, 1.0),
    ("stokes_comb", 2, 1e-4, "f8", "u", False, 1.0),
    ("stokes_comb", 3, 1e-4, "f8", "u", False, 1.0),
    ("stokes_comb", 1, 1e-4, "f4", "u", False, 1.0),
    ("stokes_comb", 1, 1e-9, "f8", "u", False, 0.5),
    ("stokes_comb", 3, 1e-9, "f8", "u", False, 0.5),
    ("stokes_comb", 3, 1e-4, "f8", "u", True, 1.0),
    ("stokes_sl", 0, 1e-9, "f8", "u", True, 0.2),
    ("stokes_dl", 2, 1e-9, "f8", "grad_u", False, 0.2),
    ("laplace", 3, 1e-4, "f4", "u", False, 2.0),
)
LARGEST, LEAST = 1.25, 0.85


def measure(space: str, number: int, points: int) -> tuple[float, float]:
    """Return the predicted bytes, and the bytes that a plan of this process used."""
    kernel, periodicity, tolerance, dtype, want, once, part = CASES[number]
    xp = parki.get_execution_space(space).array_module
    rng = np.random.default_rng(1)
    options = parki.EwaldOptions(periodicity, [1, 1, 1], tolerance, execution_space=space)

    def run(n: int) -> tuple[float, float]:
        """Make a plan and apply it; the points are in the memory of the space before."""
        src, normals = (xp.asarray(rng.random((3, n)).astype(dtype)) for _ in range(2))
        dens = xp.asarray(rng.random(SUMS[kernel].density_shape(n)).astype(dtype))
        norms = normals if SUMS[kernel].normals else None
        with Watch(xp) as watch:
            given = kernel, src, src, norms, options
            if once:
                cloud = take_cloud(*given)
                placed, result = place_and_sum(SERIAL.engine(), kernel, cloud, dens, want)
                memory = placed.pipeline.memory
            else:
                plan = parki.Plan(*given, want=want)
                result, memory = plan(dens), plan.memory
        assert bool(xp.isfinite(result[..., :100]).all())
        assert memory is not None
        return memory.peak, watch.growth

    run(1000)  # imports, threads, and the libraries' own memory
    return run(int(part * points))


class Watch:
    """Largest growth of the process's memory while the block runs, in bytes."""

    def __init__(self, xp: Any) -> None:
        self.xp, self.growth = xp, 0.0
        self.over = threading.Event()
        self.looking: Any = threading.Thread(target=self.look)
        if xp is not np:
            self.pool, self.looking = xp.get_default_memory_pool(), self.hook()

    def __enter__(self) -> Watch:
        """Record the memory in use."""
        self.before = self.used()
        if self.xp is np:
            self.looking.start()
        else:
            self.looking.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop recording."""
        if self.xp is np:
            self.over.set()
            self.looking.join()
        else:
            self.looking.__exit__()
        self.note()

    def look(self) -> None:
        """Record the memory in use every millisecond."""
        while not self.over.wait(1e-3):
            self.note()

    def hook(self) -> Any:
        """Return a hook that records the memory in use at each allocation on a device."""
        watch = self

        class Hook(self.xp.cuda.MemoryHook):  # type: ignore[misc, name-defined]
            name = "Watch"

            def malloc_postprocess(self, **_: object) -> None:
                watch.note()

        return Hook()

    def note(self) -> None:
        """Record the largest growth."""
        self.growth = max(self.growth, self.used() - self.before)

    def used(self) -> float:
        """Return the bytes in use: of the pool, or resident without files."""
        if self.xp is not np:
            return float(self.pool.used_bytes())
        return resident()


def resident() -> float:
    """Return the resident bytes that are no file's: the system may drop pages of files."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


def refused(space: str) -> bool:
    """Make a plan that does not fit; return whether it was refused within a second."""
    points = parki.get_execution_space(space).array_module.asarray(
        np.random.default_rng(0).random((3, 1000))
    )
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-9, cutoff=0.002, execution_space=space)
    start = time.perf_counter()
    try:
        parki.Plan("stokes_sl", points, points, options)
    except parki.ParkiMemoryError as error:
        seconds = time.perf_counter() - start
        print(f"refused in {seconds:.2f} s: {error}")
        return seconds < 1
    print("not refused")
    return False


def main() -> None:
    """Print predicted over measured for each plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--space", default="CPU")
    parser.add_argument("--points", type=int)
    parser.add_argument("--only", type=int, help="one case, in this process; prints JSON")
    args = parser.parse_args()
    points = args.points or (4_000_000 if args.space.lower() in ("cuda", "gpu", "hip") else 500_000)
    if args.only is not None:
        print(json.dumps(measure(args.space, args.only, points)))
        return
    good = True
    for number, case in enumerate(CASES):
        words = ["--space", args.space, "--points", str(points), "--only", str(number)]
        run = subprocess.run(
            [sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True, check=True
        )
        predicted, measured = json.loads(run.stdout)
        kernel, periodicity, tolerance, dtype, want, once, part = case
        good = good and LEAST <= predicted / measured <= LARGEST
        print(
            f"{kernel:11s} {periodicity}P {tolerance:.0e} {dtype} {want:6s} N = {part * points:.2g}"
            f"{' one-shot' if once else '':9s}  predicted {predicted / 1e9:6.3f} GB, measured "
            f"{measured / 1e9:6.3f}, ratio {predicted / measured:.2f}",
            flush=True,
        )
    good = refused(args.space) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
