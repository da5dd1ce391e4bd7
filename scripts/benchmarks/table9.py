"""Table 9: whole sums for points that are uniform, normal, or on a sphere.

docs/benchmarks.md says what is compared.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .record import Record, on_device
from .run import Run
from .show import Table, count, figure, save, stacks
from .whole import COLUMNS, STAGES, TIMES, published, whole, with_paper

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


def measure(run: Run) -> dict[str, Any]:
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


def tables(record: Record) -> list[Table]:
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


def draw(record: Record, file: Path) -> None:
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
