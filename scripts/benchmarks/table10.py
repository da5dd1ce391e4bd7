"""Table 10: whole sums in single and in double precision.

docs/benchmarks.md says what is compared.
"""

from __future__ import annotations

from typing import Any

from .record import Record
from .run import Run
from .show import Table, count, precision
from .whole import COLUMNS, published, whole, with_paper

TOLERANCES = (1e-1, 1e-4)
# Maps tolerance and precision to milliseconds on one H200, 4e6 points; the last is in table 9.
PAPER = {
    (1e-1, "f4"): published(92.67, 28.24, 4.8, 6.72, 1.27, 7.95, 141.65),
    (1e-1, "f8"): published(191.34, 36.69, 8.17, 11.72, 1.87, 17.51, 267.3),
    (1e-4, "f8"): published(239.0, 47.6, 48.7, 20.0, 10.7, 36.7, 402.8),
}


def measure(run: Run) -> dict[str, Any]:
    """Return the times of each tolerance and precision."""
    n = run.size(100_000, 4_000_000)
    rows = []
    for dtype in ("f4", "f8"):
        src, dens, norms = run.cloud("stokes_comb", n, dtype)
        trg = run.send(run.random.random((6, n))[3:], dtype)
        for tolerance in TOLERANCES[: 1 if run.quick else None]:
            found = whole(run, trg, src, dens, norms, tolerance)
            rows.append({"dtype": dtype, "tolerance": tolerance, **found})
    rows.sort(key=lambda row: -row["tolerance"])
    return {"points": n, "rows": rows}


def tables(record: Record) -> list[Table]:
    """Return one table with parki's times and the paper's."""
    n = count(record["results"]["points"])
    return [
        Table.of(
            f"Whole sums, milliseconds: {n} sources and targets, 1-periodic",
            record["results"]["rows"],
            ("tolerance", lambda row: f"{row['tolerance']:.0e}"),
            ("precision", lambda row: precision(row["dtype"])),
            *COLUMNS,
            with_paper(lambda row: PAPER.get((row["tolerance"], row["dtype"]))),
        )
    ]
