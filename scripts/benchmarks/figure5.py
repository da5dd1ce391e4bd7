"""Figure 5: the stages under the roof of the machine.

The picture shows the operations per second that each stage of a whole sum reaches, over its
operations per byte of least traffic. The FGC comes nearest to its roof, which is the bandwidth of
the memory. The other stages reach a part of the arithmetic peak. The roof was measured in the same
run, by a triad and by multiply-adds.

The paper draws its kernels under the H200's nominal roof, and counts erfc and exp as operations.
parki has fewer operations, so that equal times lie lower here.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

import parki
from parki.ewald.near.sizes import choose_launch

from . import models
from .ceilings import ceilings
from .mesh import gather_work, spread_work
from .near import PERIODICITY, TOLERANCE, Near
from .record import Record
from .run import Run
from .show import DARK, STAGE_COLOURS, Table, count, figure, ms, number, save
from .whole import whole


def measure(run: Run) -> dict[str, Any]:
    """Return work and seconds of each stage."""
    machine = ceilings(run)
    n = run.size(100_000, 4_000_000)
    src, dens, norms = run.cloud("stokes_comb", n)
    found = whole(run, src, src, dens, norms, TOLERANCE)
    options = run.options(PERIODICITY, TOLERANCE)
    plan = parki.Plan("stokes_comb", src, src, norms, options)
    chosen, mesh = plan.parameters, plan.setup.mesh
    if chosen is None:
        raise RuntimeError("an empty sum has no stages")
    flops = models.pair_flops("stokes_comb", chosen.degree, machine.root)
    size = found["cell_size"]
    near = Near(run, n, cell_size=size)
    launch = choose_launch(chosen.p2p, run.space)
    works = {
        "P2P": models.near(chosen.p2p, launch, n, near.pairs(), size, flops, run.device),
        "P2G": spread_work(plan.pipeline.stages.p2g, mesh, n),
        "FGC": models.convolve(mesh),
        "G2P": gather_work(plan.pipeline.stages.g2p, mesh, n),
    }
    return {
        "points": n,
        "ceilings": vars(machine),
        "stages": {
            stage: {"seconds": found["stages"][stage], **vars(work)}
            for stage, work in works.items()
        },
    }


def roof(found: dict[str, Any], intensity: Any) -> Any:
    """Return the operations per second that the machine allows at an intensity."""
    top = found["ceilings"]
    return np.minimum(top["flops"], intensity * top["bandwidth"])


def tables(record: Record) -> list[Table]:
    """Return the points of the figure."""
    found = record["results"]
    top = found["ceilings"]
    rows = [
        (stage, work, work["flops"] / work["least"], work["flops"] / work["seconds"])
        for stage, work in found["stages"].items()
    ]
    return [
        Table.of(
            f"Stages under the roof: {count(found['points'])} points, 1-periodic, tolerance "
            f"{TOLERANCE:.0e}, double precision",
            rows,
            ("stage", lambda row: row[0]),
            ("ms", lambda row: ms(row[1]["seconds"])),
            ("Gflop", lambda row: number(row[1]["flops"] / 1e9)),
            ("GB", lambda row: number(row[1]["least"] / 1e9)),
            ("flop/byte", lambda row: number(row[2])),
            ("GFLOP/s", lambda row: number(row[3] / 1e9)),
            ("of the roof", lambda row: f"{100 * row[3] / roof(found, row[2]):.0f} %"),
            notes=[
                f"Roof, measured: {top['bandwidth'] / 1e9:.0f} GB/s (triad), "
                f"{top['flops'] / 1e9:.0f} GFLOP/s (multiply-adds); an inverse root takes the time "
                f"of {top['flops'] / top['roots']:.0f} operations."
            ],
        )
    ]


def draw(record: Record, file: Path) -> None:
    """Draw the roof and the stages."""
    found = record["results"]
    top = found["ceilings"]
    made, (axis,) = figure(1, 4.8, 7.5)
    points = {
        stage: (work["flops"] / work["least"], work["flops"] / work["seconds"] / 1e9)
        for stage, work in found["stages"].items()
    }
    knee = top["flops"] / top["bandwidth"]
    low = min(0.2, *(x for x, _ in points.values())) / 1.5
    high = max(10 * knee, *(x for x, _ in points.values())) * 1.5
    x = np.geomspace(low, high, 200)
    y = roof(found, x) / 1e9
    bottom = min(value for _, value in points.values()) / 4
    axis.fill_between(x, y, bottom, color="#f4f4f2", zorder=0)
    axis.loglog(x, y, color=DARK, linewidth=1.8)
    how: dict[str, Any] = {"textcoords": "offset points", "color": DARK, "fontsize": 10}
    how |= {"ha": "right", "va": "bottom"}
    axis.annotate(f"{top['flops'] / 1e9:,.0f} GFLOP/s", (high, y[-1]), (-4, 5), **how)
    start = math.sqrt(low * knee)
    place = (start, start * top["bandwidth"] / 1e9)
    axis.annotate(f"{top['bandwidth'] / 1e9:,.0f} GB/s", place, (-6, 6), **how)
    for stage, point in points.items():
        colour = STAGE_COLOURS[stage]
        axis.plot(*point, "o", markersize=13, color=colour, markeredgecolor="white")
        how |= {"ha": "center", "va": "baseline", "color": colour, "fontweight": "bold"}
        axis.annotate(stage, point, (0, -19), **how)
    axis.set(
        title="Stages under the roof",
        xlabel="operations per byte that must move",
        ylabel="GFLOP/s",
        xlim=(low, high),
        ylim=(bottom, 2.2 * top["flops"] / 1e9),
    )
    axis.grid(which="major")
    save(made, file, f"{record['machine']['name']}, {count(found['points'])} points")
