"""Table 5: models of spreading and gathering against measured times.

docs/benchmarks.md says what is compared.
"""

from __future__ import annotations

from typing import Any

from . import models
from .ceilings import ceilings
from .mesh import variants
from .record import Record
from .run import Run
from .show import Table, count, ms

# Milliseconds on one H200, 4e6 points, P = 8: the measurement, then the models.
PAPER = {
    ("P2G", "base"): (477, 88.9, 24.9, 12.0, 2.81),
    ("P2G", "source"): (354, 88.9, 24.9, 12.0, 2.81),
    ("P2G", "grid"): (246, 98.2, 34.2, 21.3, 12.2),
    ("P2G", "hybrid"): (39.5, 21.7, 13.4, 11.6, 2.81),
    ("G2P", "base"): (62.8, 12.8, 3.73, 1.88, 0.489),
    ("G2P", "target"): (28.3, 12.8, 3.73, 1.88, 0.489),
}
WINDOW = 8


def measure(run: Run) -> dict[str, Any]:
    """Return measured and modelled seconds of the variants."""
    machine = ceilings(run)
    n = run.size(20_000, 4_000_000)
    rows = []
    for stage in ("P2G", "G2P"):
        for row in variants(run, stage, n, [4 if run.quick else WINDOW]):
            seconds = models.Work(**row.pop("work")).seconds(machine)
            rows.append({**row, "stage": stage, "models": seconds})
    return {"points": n, "ceilings": vars(machine), "rows": rows}


def tables(record: Record) -> list[Table]:
    """Return a table of the variants' models with the paper's."""
    found = record["results"]
    top, points = found["ceilings"], count(found["points"])

    def paper(row: dict[str, Any]) -> Any:
        return PAPER.get((row["stage"], row["method"]), ())

    return [
        Table.of(
            f"P2G and G2P, milliseconds: {points} points, P = {found['rows'][0]['P']}",
            found["rows"],
            ("variant", lambda row: f"{row['stage']} {row['method']}"),
            ("T", lambda row: ms(row["seconds"])),
            *models.TIMES,
            ("T0 / T", lambda row: f"{100 * row['models']['T0'] / row['seconds']:.0f} %"),
            (
                "paper, H200: T / T0 / T∞ / T∞,L1 / Tf",
                lambda row: " / ".join(map(str, paper(row))),
            ),
            (
                "T0 / T",
                lambda row: f"{100 * paper(row)[1] / paper(row)[0]:.0f} %" if paper(row) else "",
            ),
            notes=[
                f"Ceilings measured in the same run: {top['bandwidth'] / 1e9:.0f} GB/s, "
                f"{top['flops'] / 1e9:.0f} GFLOP/s."
            ],
        ),
    ]
