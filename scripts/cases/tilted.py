"""Tilted: sums in tilted boxes, and steps in boxes that deform.

Each line compares a cube with a box of the same volume whose tilts are one half: the median time of
a sum by a plan, and of the predicted work. A step of points that move is an update and a sum, in
the same box and in a box whose tilt changes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from benchmarks.run import Run

import parki

TILTS = {"xy": (0.5, 0, 0), "xy, xz, yz": (0.5, 0.5, 0.5)}
KERNELS = ("stokes_sl", "stokes_comb", "laplace")
TIMES = 15


def measure(run: Run) -> dict[str, Any]:
    """Return the times of sums in tilted boxes over those in a cube, and of steps."""
    n, tolerance = run.size(20_000, 1_000_000), (run.tolerance or (1e-4,))[0]

    def made(kernel: str, box: Any) -> Any:
        points, dens, norms = run.cloud(kernel, n)
        points = run.xp.ascontiguousarray(run.send(box.T) @ points)
        return parki.Plan(kernel, points, points, norms, run.options(3, tolerance, box)), dens

    rows: list[dict[str, Any]] = []
    for kernel in run.kernel or KERNELS:
        for name, tilts in TILTS.items():
            boxes = {"cube": np.eye(3), "tilted": parki.lattice(1, 1, 1, *tilts)}
            plans = {which: made(kernel, box) for which, box in boxes.items()}
            calls = {which: partial(*each) for which, each in plans.items()}
            seconds = run.medians(calls, TIMES, by=run.clock)
            work = {which: plan.parameters.total for which, (plan, _) in plans.items()}
            rows.append({"sum": kernel, "tilts": name})
            rows[-1] |= {f"{which}, ms": 1e3 * took for which, took in seconds.items()}
            rows[-1]["ratio"] = seconds["tilted"] / seconds["cube"]
            rows[-1]["predicted"] = work["tilted"] / work["cube"]
    return {f"{n:,} points": rows, "Steps": [steps(run, *made("stokes_sl", lattice(0.01)))]}


def lattice(tilt: float) -> Any:
    """Return a cube that is tilted along one axis."""
    return parki.lattice(1, 1, 1, tilt)


def steps(run: Run, plan: Any, dens: Any) -> dict[str, float]:
    """Return milliseconds of steps in a box that deforms, and in one that does not."""
    points = run.xp.asarray(run.random.random((3, plan.n_sources)))
    plan.update_points(points, points, box=lattice(0.02))
    tilt = iter(np.linspace(0.02, 0.5, TIMES + 1))

    def same() -> None:
        plan.update_points(points, points)
        plan(dens)

    def other() -> None:
        plan.update_points(points, points, box=lattice(next(tilt)))
        plan(dens)

    found = run.medians({"same box, ms": same, "new box, ms": other}, TIMES, by=run.clock)
    ratio = found["new box, ms"] / found["same box, ms"]
    return {**{name: 1e3 * took for name, took in found.items()}, "ratio": ratio}
