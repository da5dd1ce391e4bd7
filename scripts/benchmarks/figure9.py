"""Figure 9: the stages of a whole sum over the number of points.

docs/benchmarks.md says what is compared.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import table9
from .record import Record, on_device
from .run import Run
from .show import DARK, STAGE_COLOURS, Table, count, figure, ms, number, save
from .whole import STAGES, TIMES, whole, with_paper

HOST, DEVICE = (10_000, 30_000, 100_000), (250_000, 1_000_000, 4_000_000)
PAPER = {4_000_000: table9.PAPER["U/U"]}
# Seconds of a sum by the published code on two cores.
PUBLISHED_HOST = {10_000: 0.50, 100_000: 8.26, 400_000: 28.3, 1_000_000: 89.4}


def measure(run: Run) -> dict[str, Any]:
    """Return the times for each number of points."""
    sizes = DEVICE if run.device else HOST
    scale = run.size(HOST[-1], DEVICE[-1]) / sizes[-1]
    rows = []
    for n in (round(size * scale) for size in sizes):
        if n >= 100:
            src, dens, norms = run.cloud("stokes_comb", n)
            trg = run.send(run.random.random((6, n))[3:])
            rows.append({"points": n, **whole(run, trg, src, dens, norms, table9.TOLERANCE)})
    return {"rows": rows}


def tables(record: Record) -> list[Table]:
    """Return the points of the figure."""
    last = with_paper(lambda row: PAPER.get(row["points"]))
    if not on_device(record):
        last = (
            "published code, two other cores: total",
            lambda row: ms(PUBLISHED_HOST.get(row["points"])),
        )
    return [
        Table.of(
            "Whole sums by number of points, milliseconds: 1-periodic, tolerance 1e-04, double "
            "precision",
            record["results"]["rows"],
            ("points", lambda row: count(row["points"])),
            *TIMES,
            (
                "million points/s, one-shot",
                lambda row: number(row["points"] / row["one_shot"] / 1e6),
            ),
            last,
        )
    ]


def draw(record: Record, file: Path) -> None:
    """Draw one line for each stage and one for the whole sum."""
    rows = record["results"]["rows"]
    sizes = [row["points"] for row in rows]
    made, (axis,) = figure(1, 4.8, 7.5)
    dashed = {"linestyle": "--", "markerfacecolor": "white"}
    lines: list[tuple[str, str, list[float], dict[str, Any]]] = [
        ("one-shot, with the plan", DARK, [row["one_shot"] for row in rows], {}),
        ("repeated application", DARK, [row["apply"] for row in rows], dashed),
    ]
    for stage, colour in STAGE_COLOURS.items():
        lines.append((stage, colour, [row["stages"][stage] for row in rows], {}))
    for label, colour, seconds, style in lines:
        style |= {"marker": "o", "markersize": 6, "linewidth": 1.8, "color": colour}
        axis.loglog(sizes, [1e3 * s for s in seconds], label=label, **style)
    mark = {"linestyle": "", "marker": "X", "markersize": 10, "zorder": 3}
    if on_device(record):
        for stage in ("total", *STAGES):
            label = "paper, H200" if stage == "total" else None
            times = [1e3 * column[stage] for column in PAPER.values()]
            axis.plot([*PAPER], times, color=STAGE_COLOURS.get(stage, DARK), label=label, **mark)
    elif known := {n: 1e3 * s for n, s in PUBLISHED_HOST.items() if n in sizes}:
        axis.plot(
            [*known], [*known.values()], color=DARK, label="published code, other CPU", **mark
        )
    axis.set(title="Whole sums, 1-periodic, tolerance 1e-4", ylabel="milliseconds")
    axis.set_xticks(sizes, [count(n) for n in sizes])
    axis.minorticks_off()
    axis.set_xlabel("points")
    axis.grid()
    made.legend(loc="outside right center")
    save(made, file, record["machine"]["name"])
