"""Rossinelli, Conti and Koumoutsakos (2011): interpolation by M'4 in two dimensions, and its roof.

docs/papers.md says what is compared.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import Case
from benchmarks.ceilings import ceilings
from benchmarks.record import Record, on_device, pick
from benchmarks.run import Run, roundings
from benchmarks.show import DARK, MARKS, SERIES, Table, figure, ms, number, precision, save

from parki.mesh import Grid, InterpolatePlan, m4prime

COMPONENTS = 2
METHODS = {"base": "in order", "target": "sorted"}
SIZES = ((512, 256), (1024, 512), (2048, 1024), (4096, 2048))
# The paper's fractions of the attainable peak at 4096 x 2048 in per cent, from text and Figure 5.
PAPER = {"f4": {"CPU": 78, "GPU": 72}, "f8": {"CPU": 69, "GPU": 22}}


def work(n: int, dtype: str) -> tuple[float, float]:
    """Return operations and least bytes for n particles."""
    item = np.dtype(dtype).itemsize
    return float(n * (48 * COMPONENTS + 40)), float(n * item * (5 * COMPONENTS + 2))


def measure(run: Run) -> dict[str, Any]:
    """Return a row for each precision, size and method."""
    sizes = ((16, 8),) if run.quick else SIZES
    rows, roofs = [], {}
    for dtype in ("f4", "f8"):
        machine = ceilings(run, dtype)
        roofs[dtype] = vars(machine)
        for shape in sizes:
            n = shape[0] * shape[1]
            place = np.indices(shape).reshape(2, -1) + run.random.uniform(-2, 2, (2, n))
            points, grid = run.send(place, dtype), Grid(shape)
            field = run.normal((COMPONENTS, *shape), dtype)
            expected = None
            for method in METHODS:
                given = {"components": COMPONENTS, "execution_space": run.space}
                plan = InterpolatePlan(points, grid, m4prime(), method, **given)
                out = run.xp.empty((COMPONENTS, n), dtype=dtype)
                took = run.median(partial(plan, field, out=out), enough=1.0)
                expected = out.copy() if expected is None else expected
                if roundings(out, expected) > 100:
                    raise RuntimeError("the order of the particles changes the result")
                flops, least = work(n, dtype)
                roof = min(machine.flops, flops / least * machine.bandwidth)
                row = {"dtype": dtype, "shape": shape, "method": method, "seconds": took}
                row |= {"setup": plan.seconds, "flops": flops, "bytes": least}
                rows.append(row | {"share": flops / took / roof})
    return {"rows": rows, "ceilings": roofs}


def tables(record: Record) -> list[Table]:
    """Return a table of each precision."""
    found, made = record["results"], []
    place = "GPU" if on_device(record) else "CPU"
    for dtype in ("f4", "f8"):
        top = found["ceilings"][dtype]
        note = (
            f"Ceilings measured in the same run: {top['bandwidth'] / 1e9:.0f} GB/s, "
            f"{top['flops'] / 1e9:.0f} GFLOP/s. The paper's best {place} code reached "
            f"{PAPER[dtype][place]} % of its roof at 4096 x 2048."
        )
        made.append(
            Table.of(
                f"Interpolation by M'4, {precision(dtype)} precision",
                pick(found["rows"], dtype=dtype),
                ("particles", lambda row: " x ".join(map(str, row["shape"]))),
                ("order", lambda row: METHODS[row["method"]]),
                ("ms", lambda row: ms(row["seconds"])),
                ("GFLOP/s", lambda row: number(row["flops"] / row["seconds"] / 1e9)),
                ("GB/s", lambda row: number(row["bytes"] / row["seconds"] / 1e9)),
                ("of the roof", lambda row: f"{100 * row['share']:.0f} %"),
                ("set-up, ms", lambda row: ms(row["setup"])),
                notes=[note],
            )
        )
    return made


def draw(record: Record, file: Path) -> None:
    """Draw roofs, the largest size of each kind, and fractions by size (Figures 4 and 5)."""
    found = record["results"]
    made, (left, right) = figure(2, 4.2)
    for k, dtype in enumerate(("f4", "f8")):
        top, name = found["ceilings"][dtype], precision(dtype)
        x = np.geomspace(0.3, 100, 200)
        y = np.minimum(top["flops"], x * top["bandwidth"]) / 1e9
        left.loglog(x, y, color=SERIES[k], linewidth=1.6)
        for mark, method in zip(MARKS, METHODS, strict=False):
            of = pick(found["rows"], dtype=dtype, method=method)
            last = of[-1]
            style: dict[str, Any] = {"color": SERIES[k], "marker": mark, "markersize": 8}
            label = f"{name}, {METHODS[method]}"
            place = last["flops"] / last["bytes"], last["flops"] / last["seconds"] / 1e9
            left.loglog(*place, linestyle="", label=label, **style)
            particles = [r["shape"][0] * r["shape"][1] for r in of]
            right.semilogx(particles, [100 * r["share"] for r in of], **style)
    left.set(title="Under the roof", xlabel="operations per byte", ylabel="GFLOP/s")
    right.set(title="Per cent of the roof", xlabel="particles", ylim=(0, None))
    for panel in (left, right):
        panel.grid(which="major")
    left.legend(fontsize=8, labelcolor=DARK)
    save(made, file, record["machine"]["name"])


CASES = {"rossinelli": Case(__doc__, measure, tables, draw)}
