"""Figure 9: the stages of a whole sum over the number of points.

The picture shows the time of a 1-periodic sum of both layers at tolerance 1e-4. A repeated sum
takes a time that grows as the number of points. A one-shot sum of few points on a GPU spends most
of its time on the plan. The published code was timed on another CPU of the same kind, with its best
cell size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import table9
from .record import Record
from .run import Run
from .show import DARK, STAGE_COLOURS, Table, count, figure, ms, number, save
from .whole import HEAD, PAPER_HEAD, STAGES, cells, paper_cell, whole

HOST, DEVICE = (10_000, 30_000, 100_000), (250_000, 1_000_000, 4_000_000)
PAPER = {4_000_000: table9.PAPER["U/U"]}
# Seconds of a sum by the published code on two cores.
PUBLISHED_HOST = {10_000: 0.50, 100_000: 8.26, 400_000: 28.3, 1_000_000: 89.4}


def measure(run: Run) -> dict[str, Any]:
    """Return the times for each number of points."""
    largest = run.size(HOST[-1], DEVICE[-1])
    scale = largest / DEVICE[-1] if run.space.on_device else largest / HOST[-1]
    rows = []
    for size in DEVICE if run.space.on_device else HOST:
        n = round(size * scale)
        if n < 100:
            continue
        src, dens, norms = run.cloud("stokes_comb", n)
        trg = run.send(run.random.random((6, n))[3:])
        rows.append({"points": n, **whole(run, trg, src, dens, norms, table9.TOLERANCE)})
    return {"rows": rows}


def tables(record: Record) -> list[Table]:
    """Return the points of the figure."""
    device = record["settings"]["space"] in ("Cuda", "HIP")
    rows = []
    for row in record["results"]["rows"]:
        n = row["points"]
        last = paper_cell(PAPER.get(n)) if device else ms(PUBLISHED_HOST.get(n))
        rows.append([count(n), *cells(row), number(n / row["one_shot"] / 1e6), last])
    other = PAPER_HEAD if device else "published code, two other cores: total"
    return [
        Table(
            "Whole sums by number of points, milliseconds: 1-periodic, tolerance 1e-04, double "
            "precision",
            ("points", *HEAD, "million points/s, one-shot", other),
            rows,
        )
    ]


def draw(record: Record, file: Path) -> None:
    """Draw one line for each stage and one for the whole sum."""
    rows = record["results"]["rows"]
    device = record["settings"]["space"] in ("Cuda", "HIP")
    sizes = [row["points"] for row in rows]
    made, (axis,) = figure(1, 4.8, 7.5)
    style = {"marker": "o", "markersize": 6, "linewidth": 1.8}
    axis.loglog(
        sizes,
        [1e3 * row["one_shot"] for row in rows],
        color=DARK,
        label="one-shot, with the plan",
        **style,
    )
    axis.loglog(
        sizes,
        [1e3 * row["apply"] for row in rows],
        color=DARK,
        linestyle="--",
        markerfacecolor="white",
        label="repeated application",
        **style,
    )
    for stage, colour in STAGE_COLOURS.items():
        axis.loglog(
            sizes, [1e3 * row["stages"][stage] for row in rows], color=colour, label=stage, **style
        )
    mark = {"linestyle": "", "marker": "X", "markersize": 10, "zorder": 3}
    if device:
        for stage in ("total", *STAGES):
            colour = STAGE_COLOURS.get(stage, DARK)
            label = "paper, H200" if stage == "total" else None
            axis.plot(*_points(PAPER, stage), color=colour, label=label, **mark)
    else:
        known = {n: s for n, s in PUBLISHED_HOST.items() if n in sizes}
        if known:
            times = [1e3 * s for s in known.values()]
            axis.plot(list(known), times, color=DARK, label="published code, other CPU", **mark)
    axis.set(title="Whole sums, 1-periodic, tolerance 1e-4", ylabel="milliseconds")
    axis.set_xticks(sizes, [count(n) for n in sizes])
    axis.minorticks_off()
    axis.set_xlabel("points")
    axis.grid()
    made.legend(loc="outside right center")
    save(made, file, record["machine"]["name"])


def _points(papers: dict[int, dict[str, float]], stage: str) -> tuple[list[int], list[float]]:
    return list(papers), [1e3 * column[stage] for column in papers.values()]
