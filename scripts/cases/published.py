"""Published: whole sums against the published code's times on two cores of a CPU.

The sums are `stokes_comb` in double precision, with sources = targets, uniform in the unit cube.
The published seconds are those of ParkiPy at c3c097f (two threads of an AMD EPYC with AVX-512,
kernels compiled, best of 2 to 3 runs). Yardsticks tell machines apart: on that one they took 0.103
s (SciPy), 0.51 s (NumPy), 0.029 and 0.043 s (FINUFFT). FINUFFT is timed before and after each row;
*as fast a machine* corrects the ratio for the machine's speed. ``--points`` is the largest number.
"""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import Any

import numpy as np
import scipy.fft
from benchmarks.run import TINY, Run
from benchmarks.whole import STAGES, whole

CPU_ALONE = True
# Published seconds by number of points; each for 3 and 1 periodic axes by 1e-4, and then by 1e-9.
PUBLISHED = {
    10_000: (0.31, 0.50, 1.24, 1.48),
    100_000: (4.32, 8.26, 11.2, 20.3),
    400_000: (18.8, 28.3, 44.1, 106.7),
    1_000_000: (59.3, 89.4, None, None),
}
FINUFFT = 0.029 + 0.043  # seconds of its two types on that machine


def measure(run: Run) -> dict[str, Any]:
    """Return the rows and the yardsticks."""
    rows: list[dict[str, Any]] = []
    for n, times in PUBLISHED.items():
        for place, published in enumerate(times):
            if published is None or n > (run.points or n) or (run.quick and rows):
                continue
            periodicity, tolerance = (3, 1)[place % 2], (1e-4, 1e-9)[place // 2]
            before = sum(finufft_types(run).values())
            points, dens, norms = run.cloud("stokes_comb", TINY if run.quick else n)
            found = whole(run, points, points, dens, norms, tolerance, periodicity)
            beside = (before + sum(finufft_types(run).values())) / 2
            faster = published / found["one_shot"]
            row = {"periodic": periodicity, "N": n, "tolerance": f"{tolerance:g}"}
            row |= {"published code": published, "one-shot": found["one_shot"]}
            row |= {"times faster": faster, "FINUFFT": beside}
            row |= {"as fast a machine": faster * beside / FINUFFT, "apply": found["apply"]}
            rows.append(row | {stage: found["stages"][stage] for stage in STAGES})
    return {"Seconds": rows, "Yardsticks, seconds": [yardsticks(run)]}


def finufft_types(run: Run) -> dict[str, float]:
    """Return the seconds of FINUFFT's two types; nothing if it is not installed."""
    if importlib.util.find_spec("finufft") is None:
        return {}
    import finufft

    rng = np.random.default_rng(0)
    x, n = 2 * np.pi * rng.random((3, 100_000)), (60, 60, 60)
    c, f = (rng.standard_normal((2, *shape)) + 0j for shape in ((100_000,), n))
    how: dict[str, Any] = {"eps": 1e-4, "nthreads": 2}
    return {
        "FINUFFT type 1, N=1e5, 60^3, 1e-4": run.median(
            partial(finufft.nufft3d1, *x, c, n, **how), enough=9
        ),
        "FINUFFT type 2, N=1e5, 60^3, 1e-4": run.median(
            partial(finufft.nufft3d2, *x, f, **how), enough=9
        ),
    }


def yardsticks(run: Run) -> dict[str, float]:
    """Return the seconds of programs by which times on different CPUs are compared."""
    rng = np.random.default_rng(0)
    values, matrix = rng.random((4, 192, 192, 192)), rng.random((3000, 3000))
    transform = partial(scipy.fft.rfftn, values, axes=(1, 2, 3), workers=2)
    return {
        "SciPy, rfftn 4 x 192^3, 2 workers": run.median(transform, enough=9),
        "NumPy, 3000^3 matrix product": run.median(lambda: matrix @ matrix, enough=9),
        **finufft_types(run),
    }
