"""Pair functions: the time of P2P for each sum, its results and both precisions.

The points are uniform, sources and targets at once, in a box that repeats along three axes. Times
are medians of P2P alone. Two commits compare if both run on one machine, one after the other.
"""

from __future__ import annotations

from typing import Any

from benchmarks.run import Run

import parki
from parki.ewald.sums import SUMS

TOLERANCES = {"f8": 1e-9, "f4": 1e-4}
WANTED = (("u",), ("grad_u",), ("u", "p", "grad_u"))


def measure(run: Run) -> dict[str, Any]:
    """Return a row for each sum and precision."""
    n, rows = run.size(20_000, 1_000_000), []
    for kernel in run.kernel or SUMS:
        for dtype in run.dtype or ("f8", "f4"):
            points, dens, norms = run.cloud(kernel, n, dtype)
            row: dict[str, Any] = {"sum": kernel, "precision": dtype}
            for wanted in WANTED:
                want = tuple(name for name in wanted if SUMS[kernel].terms.get(name))
                options = run.options(3, TOLERANCES[dtype])
                plan = parki.Plan(kernel, points, points, norms, options, want=want)
                seconds = run.stages(plan, dens, 15)
                row[f"{' and '.join(wanted)}, ms"] = 1e3 * seconds["P2P"]
            rows.append(row)
    return {f"P2P, {n:,} targets and sources": rows}
