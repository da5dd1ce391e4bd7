"""Time the variants of the near field (P2P) in one run, beside the paper's table 6.

    python scripts/benchmark_p2p.py                                 # CPU, 50 000 points
    python scripts/benchmark_p2p.py --space Cuda --json p2p.json    # 4 million points

Sums `stokes_comb` over uniform points that are sources and targets: by parki's default variant, and
by those of Kosmacher, Du, Bagge and Biros (2026), with parki's polynomials in all of them; cells
are r_c wide as in the paper, and for two of them half as wide. On a device each variant first takes
the fastest of some blocks, as in the paper. Times are medians over rounds in which the variants
take turns; pairs are those closer than r_c, counted for some of the targets.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import parki
from parki.ewald.p2p import P2P
from parki.ewald.p2p_cells import CELL_METHODS, Launch, choose_launch

# Table 6, H200, 10^6 points: sources in r_c^3 -> block (threads, lanes), targets per microsecond
# and flop efficiency in per cent.
TABLE_6 = {
    256: {
        "gm1d": ((64, 1), 14.8, 71),
        "gm2d": ((1, 32), 11.8, 56),
        "sm1d": ((32, 1), 15.2, 72),
        "sm2d": ((64, 2), 12.4, 59),
    },
    512: {
        "gm1d": ((64, 1), 8.0, 76),
        "gm2d": ((2, 32), 6.7, 63),
        "sm1d": ((32, 1), 8.2, 78),
        "sm2d": ((128, 2), 6.6, 63),
    },
}
# Blocks that are tried on a device, from the paper's sets; its best ones are among them.
BLOCKS = {
    "gm1d": ((32, 1), (64, 1), (128, 1)),
    "gm2d": ((2, 32), (8, 32), (8, 8)),
    "sm1d": ((32, 1), (64, 1), (128, 1)),
    "sm2d": ((64, 2), (128, 2), (8, 8)),
}
NARROW = ("gm1d", "sm1d")  # measured with cells of r_c / 2 as well
HEAD = (
    "variant",
    "block",
    "cells",
    "ms",
    "targets/µs",
    "Gpairs/s",
    "time/default",
    "difference",
    "paper: block",
    "targets/µs",
    "flops",
)


class Case:
    """One system of points, and what P2P is told of it.

    Attributes
    ----------
    pairs : float
        Pairs closer than r_c.
    """

    def __init__(self, args: argparse.Namespace, cell_size: float) -> None:
        self.kernel, self.periodicity = args.kernel, args.periodicity
        self.space = parki.get_execution_space(args.space)
        xp = self.space.array_module
        rng = np.random.default_rng(7)
        n = args.points
        rows = {"laplace": 1, "stokes_comb": 6}.get(args.kernel, 3)
        self.points = xp.asarray(rng.random((3, n)).astype(args.dtype))
        self.dens = xp.asarray(rng.standard_normal((rows, n)).astype(args.dtype))
        normals = args.kernel in ("stokes_dl", "stokes_comb")
        self.norms = xp.asarray(rng.standard_normal((3, n)).astype(args.dtype)) if normals else None
        options = parki.EwaldOptions(
            periodicity=args.periodicity,
            box=(1, 1, 1),
            tolerance=args.tolerance,
            cell_size=cell_size,
            execution_space=args.space,
        )
        plan = parki.Plan(self.kernel, self.points, self.points, self.norms, options)
        chosen = plan.parameters
        assert chosen is not None
        assert plan.unit == 1  # P2P takes solver units: here they are ours
        self.cutoff, self.degree = chosen.cutoff, chosen.degree
        self.radial = chosen.split.radial_polynomials(chosen.cutoff, chosen.degree)
        self.buffer = xp.empty_like(self.dens)
        self.pairs = n * self._neighbours(min(n, 400))

    def _neighbours(self, sampled: int) -> float:
        """Return the mean number of sources within r_c of a target."""
        images = math.ceil(self.cutoff)
        ranges = [
            range(-images, images + 1) if axis < self.periodicity else range(1) for axis in range(3)
        ]
        shifts = self.space.array_module.asarray(list(itertools.product(*ranges)))
        found = 0
        for i in range(sampled):
            for shift in shifts:
                away = self.points - (self.points[:, i] + shift)[:, None]
                found += ((away**2).sum(axis=0) < self.cutoff**2).sum()
        return int(found) / sampled

    def near_field(self, method: str, launch: Launch | None = None) -> Callable[[], Any]:
        """Return what computes the near field by a variant, compiled and run once."""
        p2p = P2P(
            self.kernel,
            self.space,
            self.points,
            self.points,
            self.norms,
            np.ones(3),
            self.periodicity,
            self.cutoff,
            self.radial,
            1.0,
            ("u",),
            None,
            None,
            method,
            launch,
        )
        pot = self.space.array_module.empty_like(self.points[: 1 if len(self.dens) == 1 else 3])

        def run() -> Any:
            p2p.apply(self.dens, self.buffer, {"u": pot})
            return pot

        run()
        return run

    def seconds(self, run: Callable[[], Any]) -> float:
        """Return the seconds of one run."""
        start = self._now()
        run()
        return self._now() - start

    def _now(self) -> float:
        if self.space.on_device:
            self.space.array_module.cuda.Device().synchronize()
        return time.perf_counter()


def best_launch(case: Case, method: str) -> Launch:
    """Return the launch parameters: on a device, those of the fastest block."""
    chosen = choose_launch(method, case.space)
    assert chosen is not None
    if not case.space.on_device:
        return chosen
    times = {}
    for team, vectors in BLOCKS[method]:
        launch = chosen._replace(
            team=team, vectors=vectors, share=team, chunk=max(64, team * vectors)
        )
        run = case.near_field(method, launch)
        times[launch] = case.seconds(run)
        print(f"  {method} ({team}, {vectors}): {1e3 * times[launch]:.1f} ms", flush=True)
    return min(times, key=lambda launch: times[launch])


def measure(case: Case, launches: dict[str, Launch], rounds: int) -> list[dict[str, Any]]:
    """Return what was measured for the default variant and all others."""
    variants: list[tuple[str, Launch | None]] = [("auto", None), *launches.items()]
    variants += [(method, launches[method]._replace(width=0.5)) for method in NARROW]
    runs = [case.near_field(*variant) for variant in variants]
    times = [[case.seconds(run) for run in runs] for _ in range(rounds)]
    medians = [statistics.median(t) for t in zip(*times, strict=True)]
    default = runs[0]()
    rows = []
    for (method, launch), run, seconds, *every in zip(variants, runs, medians, *times, strict=True):
        rows.append(
            {
                "method": method,
                "launch": launch._asdict() if launch else None,
                "seconds": seconds,
                "all_seconds": every,
                "targets_per_microsecond": case.points.shape[1] / seconds / 1e6,
                "pairs_per_second": case.pairs / seconds,
                "ratio": seconds / medians[0],
                "difference": float(abs(run() - default).max() / abs(default).max()),
            }
        )
    return rows


def show(rows: list[dict[str, Any]], cell_size: float) -> None:
    """Print a table in Markdown."""
    print("\n| " + " | ".join(HEAD) + " |\n" + "| --- " * len(HEAD) + "|")
    for row in rows:
        name, block, cells, paper = "default", "", "", ("", "", "")
        if row["launch"]:
            launch = Launch(**row["launch"])
            name = f"{row['method'][:2]}-{row['method'][2:]}".upper()
            block, cells = f"({launch.team}, {launch.vectors})", f"{launch.width:g} r_c"
            if cell_size in TABLE_6 and launch.width == 1:
                shape, speed, flops = TABLE_6[cell_size][row["method"]]
                paper = (str(shape), str(speed), f"{flops} %")
        values = (
            name,
            block,
            cells,
            f"{1e3 * row['seconds']:.1f}",
            f"{row['targets_per_microsecond']:.3g}",
            f"{row['pairs_per_second'] / 1e9:.3g}",
            f"{row['ratio']:.2f}",
            f"{row['difference']:.0e}",
            *paper,
        )
        print("| " + " | ".join(values) + " |", flush=True)


def main() -> None:
    """Print a table for each cell size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--space", default="CPU")
    parser.add_argument("--points", type=int, help="default: 50000, or 4 million on a device")
    parser.add_argument("--kernel", default="stokes_comb")
    parser.add_argument("--dtype", default="f8", choices=("f8", "f4"))
    parser.add_argument("--periodicity", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument(
        "--cell-sizes",
        type=float,
        nargs="+",
        help="sources in r_c^3; default: 224, the paper's choice, and on a device those of table 6",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    space = parki.get_execution_space(args.space)
    args.points = args.points or (4_000_000 if space.on_device else 50_000)
    args.cell_sizes = args.cell_sizes or ([224, 256, 512] if space.on_device else [224])
    launches: dict[str, Launch] = {}
    report = []
    for cell_size in args.cell_sizes:
        case = Case(args, cell_size)
        print(
            f"\n{args.kernel}, {args.points} points, {args.periodicity}-periodic, {args.dtype}, "
            f"tolerance {args.tolerance:g}, {space}; {cell_size:g} sources in r_c^3, "
            f"r_c = {case.cutoff:.4f}, degree {case.degree}, {case.pairs:.3g} pairs",
            flush=True,
        )
        launches = launches or {method: best_launch(case, method) for method in CELL_METHODS}
        rows = measure(case, launches, args.rounds)
        show(rows, cell_size)
        report.append({"cell_size": cell_size, "pairs": case.pairs, "rows": rows})
    if args.json:
        settings = {k: v for k, v in vars(args).items() if k != "json"}
        args.json.write_text(json.dumps({"settings": settings, "cases": report}, indent=1))


if __name__ == "__main__":
    main()
