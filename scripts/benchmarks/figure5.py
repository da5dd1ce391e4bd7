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
    options = parki.EwaldOptions(
        periodicity=PERIODICITY, box=(1, 1, 1), tolerance=TOLERANCE, execution_space=run.space
    )
    plan = parki.Plan("stokes_comb", src, src, norms, options)
    chosen, mesh = plan.parameters, plan.setup.mesh
    if chosen is None:
        raise RuntimeError("an empty sum has no stages")
    flops = models.pair_flops("stokes_comb", chosen.degree, machine.root)
    size = found["cell_size"]
    near = Near(run, n, cell_size=size)
    launch = choose_launch(chosen.p2p, run.space)
    works = {
        "P2P": models.near(chosen.p2p, launch, n, near.pairs(), size, flops, run.space.on_device),
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
    rows = []
    for stage, work in found["stages"].items():
        intensity = work["flops"] / work["least"]
        reached = work["flops"] / work["seconds"]
        rows.append(
            [
                stage,
                ms(work["seconds"]),
                number(work["flops"] / 1e9),
                number(work["least"] / 1e9),
                number(intensity),
                number(reached / 1e9),
                f"{100 * reached / roof(found, intensity):.0f} %",
            ]
        )
    head = ("stage", "ms", "Gflop", "GB", "flop/byte", "GFLOP/s", "of the roof")
    return [
        Table(
            f"Stages under the roof: {count(found['points'])} points, 1-periodic, tolerance "
            f"{TOLERANCE:.0e}, double precision",
            head,
            rows,
            [
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
    names = {
        "ha": "right",
        "va": "bottom",
        "color": DARK,
        "fontsize": 10,
        "textcoords": "offset points",
    }
    axis.annotate(f"{top['flops'] / 1e9:,.0f} GFLOP/s", (high, y[-1]), (-4, 5), **names)
    start = math.sqrt(low * knee)
    axis.annotate(
        f"{top['bandwidth'] / 1e9:,.0f} GB/s",
        (start, start * top["bandwidth"] / 1e9),
        (-6, 6),
        **names,
    )
    for stage, (intensity, reached) in points.items():
        axis.plot(
            intensity,
            reached,
            "o",
            markersize=13,
            color=STAGE_COLOURS[stage],
            markeredgecolor="white",
        )
        axis.annotate(
            stage,
            (intensity, reached),
            (0, -19),
            textcoords="offset points",
            ha="center",
            color=STAGE_COLOURS[stage],
            fontweight="bold",
        )
    axis.set(
        title="Stages under the roof",
        xlabel="operations per byte that must move",
        ylabel="GFLOP/s",
        xlim=(low, high),
        ylim=(bottom, 2.2 * top["flops"] / 1e9),
    )
    axis.grid(which="major")
    save(made, file, f"{record['machine']['name']}, {count(found['points'])} points")
