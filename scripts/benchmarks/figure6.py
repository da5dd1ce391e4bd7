"""Figure 6: workloads of the near field: Laplace (Poisson), single layer, both layers.

docs/benchmarks.md says what is compared.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from . import models, table6
from .ceilings import ceilings
from .near import NAMES, Near, own_variants
from .record import Record, on_device
from .run import ENOUGH, ROUNDS, Run
from .show import MARKS, SERIES, Table, count, figure, number, save

KERNELS = {"laplace": "Laplace", "stokes_sl": "single layer", "stokes_comb": "both layers"}
SIZES = (64, 128, 256, 512)
SHARES = {"laplace": 60, "stokes_comb": 76}  # per cent of the H200's peak at 512 sources


def paper_pairs(size: float) -> float | None:
    """Return the paper's pairs per second for GM-1D with both layers, or None."""
    if size not in table6.PAPER:
        return None
    return 1e6 * table6.PAPER[int(size)]["gm1d"][1] * 4 / 3 * math.pi * size


def measure(run: Run) -> dict[str, Any]:
    """Return a row for each kernel, variant and number of sources in r_c^3."""
    machine = ceilings(run)
    n = run.size(20_000, 1_000_000)
    sizes = (30,) if run.quick else SIZES
    rows = []
    for kernel in KERNELS:
        case = Near(run, n, kernel, cell_size=sizes[-1] / 2)
        flops = models.pair_flops(kernel, case.degree, machine.root)
        for size in sizes:
            case.resize(size)
            pairs = case.pairs()
            for method in (own_variants(run)[0], "gm1d"):
                seconds = run.median(case.near_field(method), ROUNDS, ENOUGH)
                rows.append(
                    {
                        "kernel": kernel,
                        "cell_size": size,
                        "method": method,
                        "seconds": seconds,
                        "pairs_per_second": pairs / seconds,
                        "targets_per_microsecond": n / seconds / 1e6,
                        "share": pairs * flops / seconds / machine.flops,
                    }
                )
    return {"points": n, "ceilings": vars(machine), "rows": rows}


def tables(record: Record) -> list[Table]:
    """Return the points of the figure."""
    found = record["results"]

    def pairs(row: dict[str, Any]) -> str:
        full = row["kernel"] == "stokes_comb" and row["method"] == "gm1d"
        known = paper_pairs(row["cell_size"]) if full else None
        return number(known / 1e9) if known else ""

    def share(row: dict[str, Any]) -> str:
        known = row["method"] == "gm1d" and row["cell_size"] == 512 and SHARES.get(row["kernel"])
        return f"{known} %" if known else ""

    return [
        Table.of(
            f"P2P by workload: {count(found['points'])} points",
            found["rows"],
            ("workload", lambda row: KERNELS[row["kernel"]]),
            ("variant", lambda row: NAMES[row["method"]]),
            ("sources in r_c³", lambda row: number(row["cell_size"])),
            ("targets/µs", lambda row: number(row["targets_per_microsecond"])),
            ("Gpairs/s", lambda row: number(row["pairs_per_second"] / 1e9)),
            ("of the peak", lambda row: f"{100 * row['share']:.0f} %"),
            ("paper, H200, 1 million: Gpairs/s", pairs),
            ("of the peak, its count", share),
        )
    ]


def draw(record: Record, file: Path) -> None:
    """Draw pairs per second and fractions of the peak."""
    found = record["results"]
    made, (left, right) = figure(2, 4.4)
    for k, (kernel, name) in enumerate(KERNELS.items()):
        for own in (True, False):
            rows = [
                row
                for row in found["rows"]
                if row["kernel"] == kernel and (row["method"] != "gm1d") == own
            ]
            style = {
                "color": SERIES[k],
                "marker": MARKS[k + 1],
                "linestyle": "-" if own else ":",
                "markerfacecolor": SERIES[k] if own else "white",
                "label": name + ("" if own else ", GM-1D"),
            }
            sizes = [row["cell_size"] for row in rows]
            left.plot(sizes, [row["pairs_per_second"] / 1e9 for row in rows], **style)
            right.plot(sizes, [100 * row["share"] for row in rows], **style)
    if on_device(record):
        known = [(size, paper_pairs(size)) for size in SIZES]
        points = [(size, pairs / 1e9) for size, pairs in known if pairs]
        style = {"linestyle": "", "marker": "X", "markersize": 10, "color": SERIES[2]}
        left.plot(*zip(*points, strict=True), label="both layers, paper, H200", **style)
    for axis, title in (
        (left, "Pairs within $r_c$, 10⁹ per second"),
        (right, "Per cent of the peak"),
    ):
        axis.set_xscale("log", base=2)
        sizes = sorted({row["cell_size"] for row in found["rows"]})
        axis.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axis.set(title=title, xlabel="sources in $r_c^3$", ylim=(0, None))
        axis.grid()
    handles, labels = left.get_legend_handles_labels()
    made.legend(handles, labels, loc="outside right center")
    save(made, file, f"{record['machine']['name']}, {count(found['points'])} points")
