"""Check errors against direct sums, and time the stages, on one device in one run.

    python scripts/check_device.py [--space Cuda] [--points 4000000] [--json FILE]
    python scripts/check_device.py --space CPU --points 100000 --yardsticks

The first table has error over promise for small sums of every kernel; the next ones have the
stages' times for a large one-shot sum and for repeated applications, in both precisions.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import parki
from parki.cli import check
from parki.ewald.sums import SUMS as KERNELS

TOLERANCES = {"float64": (1e-4, 1e-9, 1e-12), "float32": (1e-2, 1e-5)}
# Periodicity, tolerance and dtype of the timed sums.
ROWS = (
    (1, 1e-4, "f8"),
    (3, 1e-4, "f8"),
    (2, 1e-4, "f8"),
    (0, 1e-4, "f8"),
    (1, 1e-9, "f8"),
    (3, 1e-9, "f8"),
    (1, 1e-4, "f4"),
    (1, 1e-1, "f8"),
)


def accuracy(space: str, n: int) -> list[check.CheckedSum]:
    """Return the checked sums of `parki check`, at more tolerances."""
    found = parki.get_execution_space(space)
    rng = np.random.default_rng(5)
    return [
        check.check(found, kernel, periodicity, dtype, tolerance, rng, n)
        for periodicity in range(4)
        for kernel in KERNELS
        for dtype, tolerances in TOLERANCES.items()
        for tolerance in tolerances
    ]


def timing(space: str, n: int, periodicity: int, tolerance: float, dtype: str) -> dict[str, Any]:
    """Return the times of a one-shot sum, and of each stage of repeated applications."""
    xp = parki.get_execution_space(space).array_module
    rng = np.random.default_rng(1)
    options = parki.EwaldOptions(
        periodicity=periodicity, box=[1, 1, 1], tolerance=tolerance, execution_space=space
    )
    src, dens, norms = (
        xp.asarray(values.astype(dtype))
        for values in (
            rng.random((3, n)),
            rng.standard_normal((6, n)),
            rng.standard_normal((3, n)),
        )
    )

    def wait() -> float:
        if xp is not np:
            xp.cuda.Device().synchronize()
        return time.perf_counter()

    shots, plan, begun = [], None, wait()
    # Short sums run more often, because single times scatter on shared machines.
    while len(shots) < 4 or (len(shots) < 16 and wait() - begun < 1.0):
        plan = None
        start = wait()
        plan = parki.Plan("stokes_comb", src, src, norms, options)
        built = wait()
        plan(dens)
        shots.append((wait() - start, built - start))
    assert plan is not None
    pool = 0.0 if xp is np else xp.get_default_memory_pool().used_bytes() / 1e9
    stages = [plan.timed(dens)[1] for _ in range(5)]
    median = {s: statistics.median(t[s] for t in stages) for s in stages[0]}
    return {
        "n": n,
        "periodicity": periodicity,
        "tolerance": tolerance,
        "dtype": dtype,
        "first_one_shot": shots[0][0],
        "one_shot": statistics.median(t for t, _ in shots[1:]),
        "plan": statistics.median(t for _, t in shots[1:]),
        "apply": sum(median.values()),
        "stages": median,
        "device_gb": pool,
        "describe": plan.describe(),
    }


def median(run: Callable[[], object]) -> float:
    """Return the median seconds of five calls, after a first one."""
    run()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def finufft_types() -> dict[str, float]:
    """Return the seconds of FINUFFT's two types; nothing if it is not installed."""
    try:
        import finufft
    except ImportError:
        return {}
    rng = np.random.default_rng(0)
    x, n = 2 * np.pi * rng.random((3, 100_000)), (60, 60, 60)
    c, f = (rng.standard_normal((2, *shape)) + 0j for shape in ((100_000,), n))
    return {
        "FINUFFT type 1, N=1e5, 60^3, 1e-4": median(
            lambda: finufft.nufft3d1(*x, c, n, eps=1e-4, nthreads=2)
        ),
        "FINUFFT type 2, N=1e5, 60^3, 1e-4": median(
            lambda: finufft.nufft3d2(*x, f, eps=1e-4, nthreads=2)
        ),
    }


def yardsticks() -> dict[str, float]:
    """Return the seconds of programs by which times on different CPUs are compared."""
    import scipy.fft

    rng = np.random.default_rng(0)
    values, matrix = rng.random((4, 192, 192, 192)), rng.random((3000, 3000))
    return {
        "scipy rfftn 4 x 192^3, 2 workers": median(
            lambda: scipy.fft.rfftn(values, axes=(1, 2, 3), workers=2)
        ),
        "numpy 3000^3 matrix product": median(lambda: matrix @ matrix),
        **finufft_types(),
    }


def main() -> None:
    """Run the checks and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--space", default="Cuda")
    parser.add_argument("--points", type=int, default=4_000_000)
    parser.add_argument("--small", type=int, default=2000, help="points of the accuracy checks")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--yardsticks", action="store_true", help="time SciPy, NumPy and FINUFFT too"
    )
    args = parser.parse_args()
    errors = accuracy(args.space, args.small) if args.small else []
    for found in errors:
        print(
            f"{found.kernel:13s} {found.periodicity}P {found.dtype} {found.tolerance:.0e}  "
            f"error over promise and rounding {found.ratio:.3f}"
        )
    times = []
    for periodicity, tolerance, dtype in ROWS:
        row = timing(args.space, args.points, periodicity, tolerance, dtype)
        times.append(row)
        stages = "  ".join(f"{k} {1e3 * v:.1f}" for k, v in row["stages"].items())
        print(
            f"N={row['n']:.0f} {periodicity}P {tolerance:.0e} {dtype}: "
            f"one-shot {1e3 * row['one_shot']:.1f} ms "
            f"(plan {1e3 * row['plan']:.1f}, first {row['first_one_shot']:.1f} s), "
            f"apply {1e3 * row['apply']:.1f} ms: {stages}"
            + (f"  ({row['device_gb']:.1f} GB on the device)" if row["device_gb"] else "")
        )
        print(row["describe"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"peak memory of the process {peak:.2f} GB")
    sticks = yardsticks() if args.yardsticks else {}
    for name, seconds in sticks.items():
        print(f"{name}: {seconds:.3f} s")
    if args.json:
        report = {
            "errors": [asdict(found) for found in errors],
            "times": times,
            "peak_gb": peak,
            "yardsticks": sticks,
        }
        args.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
