"""Table 7: variants of spreading (P2G) by window.

The table compares the paper's four variants with parki's own two, for three widths of the window.
parki's usual variant is the fastest in all cases except one: the paper's hybrid is faster at P = 4
on the GPU. "Speedup" is over the baseline, and "T0 / T" is the paper's efficiency. "Differs" is the
distance from the usual variant's result, in units of its largest value times the roundoff.

The paper spreads 12 components and parki four, so the same task has fewer operations here. parki's
``owner`` is made for CPUs, and is left out on a GPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .ceilings import ceilings
from .mesh import baselines, efficiency, variants
from .record import Record
from .run import Run
from .show import Table, bars, count, figure, ms, number, save

STAGE = "P2G"
WINDOWS = (4, 8, 14)
# Points per microsecond and efficiency on one H200, 4e6 points.
PAPER: dict[int, dict[str, tuple[float, int]]] = {
    4: {"base": (80.57, 5), "source": (54.17, 3), "grid": (82.52, 10), "hybrid": (178.23, 11)},
    8: {"base": (8.38, 3), "source": (11.3, 4), "grid": (16.28, 26), "hybrid": (101.28, 39)},
    14: {"base": (1.49, 2), "source": (2.52, 3), "grid": (3.39, 52), "hybrid": (24.05, 25)},
}


def measure(run: Run) -> dict[str, Any]:
    """Return a row for each window and variant."""
    return measure_stage(run, STAGE, WINDOWS)


def tables(record: Record) -> list[Table]:
    """Return one table for each window."""
    return stage_tables(record, STAGE, PAPER)


def draw(record: Record, file: Path) -> None:
    """Draw a panel for each window."""
    draw_stage(record, file, STAGE, PAPER)


def measure_stage(run: Run, stage: str, windows: tuple[int, ...]) -> dict[str, Any]:
    """Return the ceilings and the rows of a stage."""
    machine = ceilings(run)
    n = run.size(20_000, 4_000_000)
    chosen = [4] if run.quick else list(windows)
    return {"ceilings": vars(machine), "points": n, "rows": variants(run, stage, n, chosen)}


def stage_tables(record: Record, stage: str, papers: dict[int, Any]) -> list[Table]:
    """Return one table for each window, with the published numbers in the last columns."""
    found, made = record["results"], []
    top = found["ceilings"]
    base = baselines(found["rows"])
    for p in base:
        rows = []
        grid = 0
        for row in (row for row in found["rows"] if row["P"] == p):
            grid = row["grid"]
            paper = papers.get(p, {}).get(row["method"])
            first = papers.get(p, {}).get("base")
            ran = "" if row["ran"] == row["method"] else f", ran as {row['ran']}"
            rows.append(
                [
                    row["method"] + ran,
                    ms(row["seconds"]),
                    number(row["points"] / row["seconds"] / 1e6),
                    f"{base[p] / row['seconds']:.2f}",
                    f"{100 * efficiency(row, top['bandwidth'], top['flops']):.0f} %",
                    f"{row['differs']:.1f}",
                    number(paper[0]) if paper else "",
                    f"{paper[0] / first[0]:.2f}" if paper else "",
                    f"{paper[1]} %" if paper else "",
                ]
            )
        head = ("variant", "ms", "points/µs", "speedup", "T0 / T", "differs")
        made.append(
            Table(
                f"{stage}, P = {p}, {count(found['points'])} points, grid {grid}³",
                (*head, "paper, H200, 4 million: points/µs", "speedup", "efficiency"),
                rows,
            )
        )
    return made


def draw_stage(record: Record, file: Path, stage: str, papers: dict[int, Any]) -> None:
    """Draw points per microsecond of the variants, a panel for each window."""
    found = record["results"]
    device = record["settings"]["space"] in ("Cuda", "HIP")
    windows = list(baselines(found["rows"]))
    height = 1.4 + 0.37 * len({row["method"] for row in found["rows"]})
    made, axes = figure(len(windows), height, 4 + 3 * len(windows))
    for axis, p in zip(axes, windows, strict=True):
        rows = sorted(
            (row for row in found["rows"] if row["P"] == p), key=lambda row: row["seconds"]
        )
        published = papers.get(p, {})
        marks = {}
        if device:
            marks["paper, H200"] = [published.get(row["method"], [None])[0] for row in rows]
        values = [row["points"] / row["seconds"] / 1e6 for row in rows]
        bars(axis, [row["method"] for row in rows], values, marks, "points per microsecond", True)
        axis.set_title(f"{stage}, P = {p}")
    if device:
        handles, labels = axes[0].get_legend_handles_labels()
        made.legend(handles, labels, loc="outside upper right", ncols=2)
    save(made, file, f"{record['machine']['name']}, {count(found['points'])} points")
