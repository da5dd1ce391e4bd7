"""Splits: the prolate split against Hasimoto's.

Sums are `stokes_comb` over uniform points that are sources and targets. Times are medians over
alternating runs of both splits, of a one-shot sum (plan and one application) and of a repeated
application. For equal cut-offs theory predicts 2.6 to 4.4 times fewer grid points ("Near and far"
of docs/theory.md). If each split chooses its cut-off, time improves by about half of that.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

from benchmarks.run import Run

import parki

SPLITS = ("hasimoto", "prolate")


def measure(run: Run) -> dict[str, Any]:
    """Return the seconds of both splits by periodicity and tolerance."""
    n = run.size(100_000, 4_000_000)
    points, dens, norms = run.cloud("stokes_comb", n)
    rows = []
    for periodicity, tolerance in itertools.product(
        run.periodicity or (1, 3), run.tolerance or (1e-3, 1e-4, 1e-6, 1e-9, 1e-12)
    ):
        row: dict[str, Any] = {"periodic": periodicity, "tolerance": f"{tolerance:g}"}
        plans: dict[str, Any] = {}

        def shoot(split: str, options: parki.EwaldOptions, plans: Any = plans) -> None:
            plans[split] = parki.Plan("stokes_comb", points, points, norms, options)
            plans[split](dens)

        options = {
            s: run.options(periodicity, tolerance, expert=parki.Expert(split=s)) for s in SPLITS
        }
        calls = {s: partial(shoot, s, given) for s, given in options.items()}
        shots = run.medians(calls, 3, by=run.clock)
        applied = run.medians({s: partial(plans[s], dens) for s in SPLITS}, 3, by=run.clock)
        for split, plan in plans.items():
            row |= {f"{split}: one-shot, s": shots[split], f"{split}: apply, s": applied[split]}
            grid = " x ".join(map(str, plan.setup.mesh.padding.grid))
            near = round(plan.parameters.cutoff**3 * n)
            row[f"{split}: grid"] = f"{grid}, P {plan.parameters.points}, {near} per r_c³"
        for name, times in (("one-shot", shots), ("apply", applied)):
            row[f"ratio {name}"] = times["hasimoto"] / times["prolate"]
        rows.append(row)
    return {f"Splits, {n:,} points": rows}
