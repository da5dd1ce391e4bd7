"""Floors: how far the stages are from the least time of their work.

docs/floor.md says what is compared.
"""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import Case
from benchmarks.ceilings import ceilings
from benchmarks.record import Record
from benchmarks.run import Run
from benchmarks.show import DARK, STAGE_COLOURS, Table, figure, save
from benchmarks.whole import STAGES

import parki
from parki.ewald.far.sizes import field_rows
from parki.ewald.sums import SUMS

# Name, kernel, periodicity, tolerance, and whether points are on a sphere.
PLANS = (
    ("combined, 1-periodic, 1e-4", "stokes_comb", 1, 1e-4, False),
    ("combined, 1-periodic, 1e-9", "stokes_comb", 1, 1e-9, False),
    ("single layer, 3-periodic, 1e-4", "stokes_sl", 3, 1e-4, False),
    ("combined on a sphere, 1-periodic, 1e-4", "stokes_comb", 1, 1e-4, True),
)


def counts(plan: Any) -> dict[str, tuple[float, float]]:
    """Return operations and bytes of each stage of a plan that computes u."""
    kind, problem, chosen = SUMS[plan.kernel], plan.parameters.problem, plan.parameters
    mesh, n, item = plan.setup.mesh, float(plan.n_sources), plan.dtype.itemsize
    polynomials, others = kind.pair.operations
    pair = others + 2 * polynomials * chosen.degree
    given = 3 + kind.rows + 3 * kind.normals
    grid = math.prod(mesh.padding.grid)
    window = chosen.points**3
    # Three components with the window's slope along x, and three for slopes along y and z.
    spread = kind.components + (3 if kind.gradient else 0)
    rows = field_rows(plan.kernel, ("u",))
    values = sum(mesh.padding.values())
    both = kind.components + rows
    lengths = [n for n in mesh.padding.plain if n > 1]
    butterflies = 2.5 * sum(math.log2(n) for n in lengths) / len(lengths)
    padded = both / 2 * values / 3  # convolved modes
    return {
        "P2P": (problem.pairs(chosen.cutoff) * pair, n * (given + 6) * item),
        "P2G": (2 * spread * window * n, n * given * item + kind.components * grid * item),
        "FGC": (both * values * butterflies + 30 * padded, 2 * item * (both * values + padded)),
        "G2P": (2 * rows * window * n, rows * grid * item + n * (3 + 2 * rows) * item),
    }


def measure(run: Run) -> dict[str, Any]:
    """Return the ceilings, and the stages of all cases."""
    top, n, found = ceilings(run), run.size(100_000, 4_000_000), {}
    # Of a CPU that others use, too, the least times are the machine's, as ceilings are.
    rounds, of = (7, statistics.median) if run.device else (25, min)
    for name, kernel, periodicity, tolerance, sphere in PLANS:
        points = run.random.standard_normal((3, n))
        points = 0.5 + 0.4 * points / np.linalg.norm(points, axis=0)
        points, dens, norms = run.cloud(kernel, n, points=points if sphere else None)
        plan = parki.Plan(kernel, points, points, norms, run.options(periodicity, tolerance))
        seconds, work = run.stages(plan, dens, rounds, of), counts(plan)
        top = top if run.device else top.best(ceilings(run))
        found[name] = {"points": n, "stages": {}}
        for stage, (operations, size) in work.items():
            row = {"operations": operations, "bytes": size, "seconds": seconds[stage]}
            found[name]["stages"][stage] = row
    for case in found.values():
        for row in case["stages"].values():
            times = {"operations": row["operations"] / top.flops}
            times["bytes"] = row["bytes"] / top.bandwidth
            bound = max(times, key=lambda name: times[name])
            row |= {"floor": times[bound], "bound": bound}
    return {"ceilings": vars(top), "cases": found}


def tables(record: Record) -> list[Table]:
    """Return a table for each case."""
    made, top = [], record["results"]["ceilings"]
    for name, case in record["results"]["cases"].items():
        made.append(
            Table.of(
                f"{name[0].upper()}{name[1:]}, {case['points']:,} points",
                [(stage, case["stages"][stage]) for stage in STAGES],
                ("stage", lambda row: row[0]),
                ("Gflop", lambda row: f"{row[1]['operations'] / 1e9:.3g}"),
                ("GB", lambda row: f"{row[1]['bytes'] / 1e9:.3g}"),
                ("milliseconds", lambda row: f"{1e3 * row[1]['seconds']:.3g}"),
                ("Gflop/s", lambda row: f"{row[1]['operations'] / row[1]['seconds'] / 1e9:.3g}"),
                ("GB/s", lambda row: f"{row[1]['bytes'] / row[1]['seconds'] / 1e9:.3g}"),
                ("floor, by", lambda row: f"{1e3 * row[1]['floor']:.2g}, {row[1]['bound']}"),
                ("over it", lambda row: f"{row[1]['seconds'] / row[1]['floor']:.2g}"),
            )
        )
    made[0].notes.append(
        f"Measured rates: {top['flops'] / 1e12:.3g} Tflop/s of multiply-adds, "
        f"{top['bandwidth'] / 1e12:.3g} TB/s."
    )
    return made


def draw(record: Record, file: Path) -> None:
    """Draw the roof and the stages."""
    top = record["results"]["ceilings"]
    made, (axis,) = figure(1, 4.8, 7.5)
    flops, bandwidth = top["flops"] / 1e9, top["bandwidth"] / 1e9
    x = np.geomspace(0.1, max(1000.0, 20 * flops / bandwidth), 200)
    roof = np.minimum(flops, x * bandwidth)
    axis.loglog(x, roof, color=DARK, linewidth=1.8)
    how: dict[str, Any] = {"color": DARK, "textcoords": "offset points", "ha": "right"}
    axis.annotate(f"{flops:,.0f} GFLOP/s", (x[-1], roof[-1]), (-4, 5), **how)
    start = 0.4 * flops / bandwidth
    axis.annotate(f"{bandwidth:,.0f} GB/s", (start, start * bandwidth), (-6, 6), **how)
    for number, case in enumerate(record["results"]["cases"].values()):
        for stage, found in case["stages"].items():
            place = found["operations"] / found["bytes"], found["operations"] / found["seconds"]
            colour, size = STAGE_COLOURS[stage], 6 if number else 13
            axis.plot(place[0], place[1] / 1e9, "o", color=colour, markersize=size, mec="white")
            if number == 0:
                how |= {"color": colour, "ha": "center", "fontweight": "bold"}
                axis.annotate(stage, (place[0], place[1] / 1e9), (0, -19), **how)
    axis.set(title="Stages under the roof", xlabel="operations per byte that must move")
    axis.set(ylabel="GFLOP/s", xlim=(x[0], x[-1]))
    axis.grid(which="major")
    save(made, file, record["machine"]["name"])


CASES = {"floor": Case(__doc__, measure, tables, draw)}
