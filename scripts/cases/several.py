"""Several: densities or systems at once, and one after the other.

Densities are of `stokes_comb`, 1-periodic, and systems of `stokes_sl`, 3-periodic, with tolerance
1e-4 in double precision. A step moves the points and sums.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from benchmarks.run import Run

import parki

SIZES, SYSTEMS = (1000, 10_000, 100_000), ((10, 1000), (100, 100), (1000, 100), (1000, 1000))


def measure(run: Run) -> dict[str, Any]:
    """Return milliseconds of 1, 2, 4 and 8 densities, and of many systems."""
    sizes = [run.size(0, 0)] if run.quick or run.points else SIZES
    systems = SYSTEMS[:1] if run.quick else SYSTEMS
    return {
        "Several densities, ms": [densities(run, n) for n in sizes],
        "Many systems, ms": [many(run, count, n) for count, n in systems],
    }


def times(run: Run, **calls: Any) -> dict[str, float]:
    """Return milliseconds, with the launches."""
    found = run.medians(calls, 20, first=4, by=run.clock)
    return {name.replace("_", " ").strip(): 1e3 * took for name, took in found.items()}


def densities(run: Run, n: int) -> dict[str, Any]:
    """Time 1, 2, 4 and 8 densities."""
    points, _, norms = run.cloud("stokes_comb", n)
    plan = parki.Plan("stokes_comb", points, points, norms, run.options())
    dens = run.normal((8, 6, n))
    calls = {f"_{k}": partial(plan, dens[:k]) for k in (2, 4, 8)}
    found = times(run, _1=lambda: plan(dens[0]), **calls)
    return {"points": n, **found, "8 over 1": found["8"] / found["1"]}


def many(run: Run, count: int, n: int) -> dict[str, Any]:
    """Time ``count`` systems of ``n`` points together, and one of them that many times."""
    points, forces, _ = run.cloud("stokes_sl", count * n)
    options = run.options(3)
    offsets = np.arange(0, count * n + 1, n)
    plan = parki.Plan("stokes_sl", points, points, options, systems=offsets)

    def step() -> None:
        plan.update_points(points, points)
        plan(forces)

    alone, part = points[:, :n].copy(), forces[:, :n].copy()
    one = partial(parki.Plan("stokes_sl", alone, alone, options), part)
    found = times(run, apply=lambda: plan(forces), step=step, one_after_the_other=one)
    found["one after the other"] *= count
    return {"systems": count, "points of each": n, **found}
