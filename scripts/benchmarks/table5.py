"""Table 5: models of spreading and gathering against measured times.

The first table compares the measured time of each variant at P = 8 with the models of table 3. The
second one compares parki's own model of costs, by which plans choose their parameters, with the
stages of whole sums. Most predictions are within a fifth of the measurement.

The counts differ from the paper's, because it spreads 12 components. parki spreads four, whose
windows have gradients too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import models
from .ceilings import ceilings
from .mesh import variants
from .record import Record
from .run import Run
from .show import Table, bars, count, figure, ms, save
from .whole import STAGES, whole

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
TOLERANCES = (1e-1, 1e-4, 1e-9)


def measure(run: Run) -> dict[str, Any]:
    """Return measured and modelled seconds of the variants and of whole sums' stages."""
    machine = ceilings(run)
    n = run.size(20_000, 4_000_000)
    rows = []
    for stage in ("P2G", "G2P"):
        for row in variants(run, stage, n, [4 if run.quick else WINDOW]):
            seconds = models.Work(**row.pop("work")).seconds(machine)
            rows.append({**row, "stage": stage, "models": seconds})
    points, dens, norms = run.cloud("stokes_comb", n)
    sums = {
        tolerance: whole(run, points, points, dens, norms, tolerance)
        for tolerance in (TOLERANCES[:1] if run.quick else TOLERANCES)
    }
    return {
        "points": n,
        "ceilings": vars(machine),
        "rows": rows,
        "sums": [{"tolerance": tolerance, **found} for tolerance, found in sums.items()],
    }


def tables(record: Record) -> list[Table]:
    """Return tables of the variants' models with the paper's, and of the model of whole sums."""
    found = record["results"]
    top = found["ceilings"]
    rows = []
    for row in found["rows"]:
        paper = PAPER.get((row["stage"], row["method"]))
        times = [row["seconds"], *row["models"].values()]
        rows.append(
            [
                f"{row['stage']} {row['method']}",
                *map(ms, times),
                f"{100 * row['models']['T0'] / row['seconds']:.0f} %",
                " / ".join(map(str, paper)) if paper else "",
                f"{100 * paper[1] / paper[0]:.0f} %" if paper else "",
            ]
        )
    head = ("variant", "T", *models.MODELS, "T0 / T")
    first = Table(
        f"P2G and G2P, milliseconds: {count(found['points'])} points, P = {found['rows'][0]['P']}",
        (*head, "paper, H200: T / T0 / T∞ / T∞,L1 / Tf", "T0 / T"),
        rows,
        [
            f"Ceilings measured in the same run: {top['bandwidth'] / 1e9:.0f} GB/s, "
            f"{top['flops'] / 1e9:.0f} GFLOP/s."
        ],
    )
    rows = []
    for whole_sum in found["sums"]:
        for stage in STAGES:
            expected, took = whole_sum["predicted"][stage], whole_sum["stages"][stage]
            words = [f"{whole_sum['tolerance']:.0e}", stage, ms(expected), ms(took)]
            rows.append([*words, f"{expected / took:.2f}"])
    second = Table(
        f"parki's model of costs, milliseconds: {count(found['points'])} points, 1-periodic",
        ("tolerance", "stage", "predicted", "measured", "ratio"),
        rows,
    )
    return [first, second]


def draw(record: Record, file: Path) -> None:
    """Draw measured times of the variants, with two of the models as marks."""
    found = record["results"]
    made, axes = figure(2, 4.2, 11)
    for axis, stage in zip(axes, ("P2G", "G2P"), strict=True):
        rows = sorted(
            (row for row in found["rows"] if row["stage"] == stage),
            key=lambda row: row["seconds"],
        )
        marks = {
            f"model {models.LABELS[model]}": [1e3 * row["models"][model] for row in rows]
            for model in ("T0", "T∞,L1", "Tf")
        }
        values = [1e3 * row["seconds"] for row in rows]
        bars(axis, [row["method"] for row in rows], values, marks, "milliseconds", True, 6)
        axis.set_title(f"{stage} against its models, P = {rows[0]['P']}")
    handles, labels = axes[0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside upper right", ncols=4)
    save(made, file, f"{record['machine']['name']}, {count(found['points'])} points")
