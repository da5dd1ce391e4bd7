"""Whole sums: tables 9 and 10, and figure 9; stages of repeated applications, and one call."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import parki

from . import Case
from .record import Record, on_device
from .run import Run
from .show import DARK, STAGE_COLOURS, Table, count, figure, ms, number, precision, save, stacks

STAGES = ("P2P", "P2G", "FGC", "G2P")
SHOTS = 3


def published(*column: float) -> dict[str, float]:
    """Convert a column of the paper, in milliseconds, to parki's stages, in seconds."""
    near, spread, fft, cnv, ifft, gather, total = (1e-3 * value for value in column)
    return {"P2P": near, "P2G": spread, "FGC": fft + cnv + ifft, "G2P": gather, "total": total}


def whole(
    run: Run, trg: Any, src: Any, dens: Any, norms: Any, tolerance: float, periodicity: int = 1
) -> dict[str, Any]:
    """Return the seconds of a sum of both layers in the unit cube.

    ``one_shot`` is the public call (a plan and one application) with compiled kernels. ``stages``
    has medians of a plan's repeated applications, ``predicted`` the times of parki's cost model.
    """
    options = run.options(periodicity, tolerance)

    def call() -> Any:
        return parki.ewald.stokes_comb(trg, src, dens, norms, options)

    call()
    shots = [run.clock(call) for _ in range(1 if run.quick else SHOTS)]
    plan = parki.Plan("stokes_comb", trg, src, norms, options)
    stages = run.stages(plan, dens)
    chosen = plan.parameters
    if chosen is None:
        raise RuntimeError("an empty sum has nothing to time")
    return {
        "one_shot": statistics.median(shots),
        "stages": {stage: stages[stage] for stage in STAGES},
        "apply": sum(stages[stage] for stage in STAGES),
        "predicted": dict(chosen.seconds),
        "grid": list(plan.setup.mesh.padding.grid),
        "P": chosen.points,
        "cell_size": src.shape[1] * chosen.cutoff**3,
    }


def grid(row: dict[str, Any]) -> str:
    """Return the cell of a grid and its window."""
    return f"{' x '.join(map(str, row['grid']))}, P = {row['P']}"


def paper_cell(column: dict[str, float] | None) -> str:
    """Return the paper's cell; its one-shot sums are timed without the cell lists."""
    if column is None:
        return ""
    return f"{ms(column['total'])} ({' / '.join(ms(column[stage]) for stage in STAGES)})"


def with_paper(of: Callable[[Any], Any]) -> tuple[str, Callable[[Any], str]]:
    """Return the column of the paper's times."""
    return "paper, H200: total (stages)", lambda row: paper_cell(of(row))


TIMES: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("one-shot", lambda row: ms(row["one_shot"])),
    ("apply", lambda row: ms(row["apply"])),
    *((stage, lambda row, stage=stage: ms(row["stages"][stage])) for stage in STAGES),
)
COLUMNS = (*TIMES, ("grid", grid))


# --- table 9 --------------------------------------------------------------------------------------

TOLERANCE = 1e-4
# Maps sources and targets to milliseconds on one H200, 4e6 points.
PAPER = {
    "U/U": published(239.0, 47.6, 48.7, 20.0, 10.7, 36.7, 402.8),
    "N/N": published(351.4, 77.4, 48.7, 20.1, 10.7, 37.1, 545.4),
    "N/U": published(249.4, 76.3, 48.7, 20.2, 10.7, 36.6, 441.9),
    "S/S": published(901.8, 59.7, 48.8, 20.6, 10.8, 21.3, 1063.0),
    "S/U": published(268.9, 59.2, 48.8, 20.4, 10.8, 36.8, 444.8),
}
DEVIATION, RADIUS = 0.3, 0.5


def draw_points(letter: str, n: int, random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return points of a distribution, U, N or S, in the unit cube."""
    if letter == "U":
        return random.random((3, n))
    if letter == "N":
        values = random.normal(0.5, DEVIATION, (3, n))
        outside = (values < 0) | (values >= 1)
        while outside.any():
            values[outside] = random.normal(0.5, DEVIATION, int(outside.sum()))
            outside = (values < 0) | (values >= 1)
        return values
    away = random.standard_normal((3, n))
    # Slightly less than the radius, so that rounding does not leave the cube.
    return 0.5 + (1 - 1e-9) * RADIUS * away / np.linalg.norm(away, axis=0)


def measure_clouds(run: Run) -> dict[str, Any]:
    """Return the times of each pair of distributions."""
    n = run.size(100_000, 4_000_000)
    _, dens, norms = run.cloud("stokes_comb", n)
    random = run.random
    clouds = {letter: [draw_points(letter, n, random) for _ in range(2)] for letter in "UNS"}
    rows = []
    for name in list(PAPER)[: 2 if run.quick else None]:
        src, trg = run.send(clouds[name[0]][0]), run.send(clouds[name[2]][1])
        rows.append({"name": name, **whole(run, trg, src, dens, norms, TOLERANCE)})
    return {"points": n, "tolerance": TOLERANCE, "rows": rows}


def cloud_tables(record: Record) -> list[Table]:
    """Return one table with parki's times and the paper's."""
    found = record["results"]
    return [
        Table.of(
            f"Whole sums, milliseconds: {count(found['points'])} sources and targets, 1-periodic, "
            f"tolerance {found['tolerance']:.0e}, double precision",
            found["rows"],
            ("sources/targets", lambda row: row["name"]),
            *TIMES,
            ("sources in r_c³", lambda row: f"{row['cell_size']:.0f}"),
            COLUMNS[-1],
            with_paper(lambda row: PAPER[row["name"]]),
        )
    ]


def draw_clouds(record: Record, file: Path) -> None:
    """Draw the stages of repeated applications; on a device next to the paper's."""
    rows, device = record["results"]["rows"], on_device(record)
    made, axes = figure(2 if device else 1, 3.6, 11 if device else 7.5, sharex=True, sharey=True)
    names = [row["name"] for row in rows]
    columns = [[row["stages"] for row in rows]]
    if device:
        columns.append([{s: PAPER[name][s] for s in STAGES} for name in names])
    titles = ("parki, repeated application", "paper, H200, 4 million")
    for axis, stages, title in zip(axes, columns, titles, strict=False):
        stacks(axis, names, stages)
        axis.set_title(title)
    longest = max(sum(stages.values()) for column in columns for stages in column)
    axes[0].set_xlim(0, 1.03e3 * longest)
    made.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=4)
    save(made, file, f"{record['machine']['name']}, {count(record['results']['points'])} points")


# --- table 10 -------------------------------------------------------------------------------------

TOLERANCES = (1e-1, 1e-4)
# Maps tolerance and precision to milliseconds on one H200, 4e6 points; the last is in table 9.
PRECISIONS = {
    (1e-1, "f4"): published(92.67, 28.24, 4.8, 6.72, 1.27, 7.95, 141.65),
    (1e-1, "f8"): published(191.34, 36.69, 8.17, 11.72, 1.87, 17.51, 267.3),
    (1e-4, "f8"): published(239.0, 47.6, 48.7, 20.0, 10.7, 36.7, 402.8),
}


def measure_precisions(run: Run) -> dict[str, Any]:
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


def precision_tables(record: Record) -> list[Table]:
    """Return one table with parki's times and the paper's."""
    n = count(record["results"]["points"])
    return [
        Table.of(
            f"Whole sums, milliseconds: {n} sources and targets, 1-periodic",
            record["results"]["rows"],
            ("tolerance", lambda row: f"{row['tolerance']:.0e}"),
            ("precision", lambda row: precision(row["dtype"])),
            *COLUMNS,
            with_paper(lambda row: PRECISIONS.get((row["tolerance"], row["dtype"]))),
        )
    ]


# --- figure 9 -------------------------------------------------------------------------------------

HOST, DEVICE = (10_000, 30_000, 100_000), (250_000, 1_000_000, 4_000_000)
LARGEST = {4_000_000: PAPER["U/U"]}
# Seconds of a sum by the published code on two cores.
PUBLISHED_HOST = {10_000: 0.50, 100_000: 8.26, 400_000: 28.3, 1_000_000: 89.4}


def measure_sizes(run: Run) -> dict[str, Any]:
    """Return the times for each number of points."""
    sizes = DEVICE if run.device else HOST
    scale = run.size(HOST[-1], DEVICE[-1]) / sizes[-1]
    rows = []
    for n in (round(size * scale) for size in sizes):
        if n >= 100:
            src, dens, norms = run.cloud("stokes_comb", n)
            trg = run.send(run.random.random((6, n))[3:])
            rows.append({"points": n, **whole(run, trg, src, dens, norms, TOLERANCE)})
    return {"rows": rows}


def size_tables(record: Record) -> list[Table]:
    """Return the points of the figure."""
    last = with_paper(lambda row: LARGEST.get(row["points"]))
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


def draw_sizes(record: Record, file: Path) -> None:
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
            times = [1e3 * column[stage] for column in LARGEST.values()]
            axis.plot([*LARGEST], times, color=STAGE_COLOURS.get(stage, DARK), label=label, **mark)
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


CASES = {
    "table9": Case(
        "Table 9: whole sums for points that are uniform, normal, or on a sphere.",
        measure_clouds,
        cloud_tables,
        draw_clouds,
    ),
    "table10": Case(
        "Table 10: whole sums in single and in double precision.",
        measure_precisions,
        precision_tables,
    ),
    "figure9": Case(
        "Figure 9: the stages of a whole sum over the number of points.",
        measure_sizes,
        size_tables,
        draw_sizes,
    ),
}
