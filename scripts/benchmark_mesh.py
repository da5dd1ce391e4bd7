"""Time every variant of P2G and G2P, beside the published figures, in one run.

    python scripts/benchmark_mesh.py [--space Cuda] [--points 4000000] [--json FILE]
    python scripts/benchmark_mesh.py --space CPU --points 50000

Prints the counterparts of Tables 7 and 8 of Kosmacher, Du, Bagge and Biros (2026): uniform points
in a triply periodic cube, single and double layer together, double precision; points per
microsecond, how many times faster than the baseline a variant is, and by how much its result
differs from the default variant's, in units of the largest value times the unit roundoff. Times are
those of a repeated application, densities in the user's order. Beside them, the published figures:
that code spreads 12 components, parki 4 (with the window's gradient), so the same task has fewer
operations here, and the efficiencies, of a model of 12 components, are its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import parki
from parki.ewald.g2p import G2P, G2P_METHODS
from parki.ewald.mesh import Mesh
from parki.ewald.p2g import P2G, P2G_METHODS
from parki.ewald.padding import pad
from parki.ewald.window import KaiserBessel, default_degree
from parki.runtime import ExecutionSpace, get_execution_space

# Grid points along an edge that go with a window P at 4e6 points. The paper has 256 for P = 8;
# those for 4 and 14 follow from its cell sizes (160, 960 sources) and tolerances.
GRIDS = {4: 144, 6: 200, 8: 256, 10: 288, 12: 312, 14: 336}
# Tables 7 and 8 on one H200 with 4e6 points: points per microsecond, efficiency.
PAPER: dict[str, dict[int, dict[str, tuple[float, int]]]] = {
    "P2G": {
        4: {"base": (80.57, 5), "source": (54.17, 3), "grid": (82.52, 10), "hybrid": (178.23, 11)},
        8: {"base": (8.38, 3), "source": (11.3, 4), "grid": (16.28, 26), "hybrid": (101.28, 39)},
        14: {"base": (1.49, 2), "source": (2.52, 3), "grid": (3.39, 52), "hybrid": (24.05, 25)},
    },
    "G2P": {
        4: {"base": (523.13, 24), "target": (760.22, 35)},
        8: {"base": (63.68, 23), "target": (141.38, 52)},
    },
}
BETA = 2.3  # of the windows, per point
# Runs of a variant: at most so many, and no more once they have taken so many seconds.
RUNS, ENOUGH = 7, 1.5


class Case:
    """Points, densities and a grid for one window."""

    def __init__(self, space: ExecutionSpace, n: int, p: int) -> None:
        xp = space.array_module
        self.space, self.n, self.p = space, n, p
        self.grid = max(18, 2 * round(GRIDS.get(p, 24 * p) * (n / 4e6) ** (1 / 3) / 2))
        random = xp.random.RandomState(7)
        self.points = random.uniform(size=(3, n))
        self.norms = random.standard_normal(size=(3, n))
        self.dens = random.standard_normal(size=(6, n))
        self.buffer = xp.empty_like(self.dens)

    def mesh(self, spread: str, gather: str) -> Mesh:
        """Return the mesh with its variants."""
        box = np.ones(3)
        steps = box / self.grid
        return Mesh.build(
            self.space,
            np.dtype(np.float64),
            box,
            3,
            steps,
            pad(3, box, steps, self.p, 0.1, 1e-4),
            KaiserBessel(self.p, BETA * self.p),
            default_degree(self.p),
            spread,
            gather,
        )

    def spread(self, method: str) -> tuple[list[float], Any]:
        """Return the seconds of P2G, and the grid."""
        mesh = self.mesh(method, "auto")
        p2g = P2G("stokes_comb", mesh, self.points, self.norms, None)
        seconds, grid = self.time(lambda: p2g.apply(self.dens, self.buffer))
        return seconds, grid[..., : self.grid].copy()

    def gather(self, method: str) -> tuple[list[float], Any, str]:
        """Return the seconds of G2P, the potential, and the variant that ran."""
        xp = self.space.array_module
        mesh = self.mesh("auto", method)
        sources = P2G("stokes_comb", mesh, self.points, self.norms, None).sources
        field = xp.random.RandomState(8).standard_normal(size=(3, *mesh.stored))
        field[..., self.grid :] = field[..., : mesh.spill]
        pot = xp.zeros((3, self.n))
        g2p = G2P(mesh, self.points, sources, True, 3, ("u",), 1.0, None)
        g2p.apply(field, {"u": pot})
        first = pot.copy()
        return self.time(lambda: g2p.apply(field, {"u": pot}))[0], first, g2p.method

    def time(self, run: Any) -> tuple[list[float], Any]:
        """Return the seconds of runs after a first, and what the last returned."""
        run()
        begun, times = self.wait(), []
        while len(times) < RUNS and (not times or time.perf_counter() - begun < ENOUGH):
            start = self.wait()
            result = run()
            times.append(self.wait() - start)
        return times, result

    def wait(self) -> float:
        """Return the time once the device is idle."""
        if self.space.on_device:
            self.space.array_module.cuda.Device().synchronize()
        return time.perf_counter()


def measure(space: ExecutionSpace, n: int, windows: list[int]) -> list[dict[str, Any]]:
    """Return a row for each stage, window and variant; the default variants come first."""
    rows: list[dict[str, Any]] = []
    for p in windows:
        case = Case(space, n, p)
        for stage, methods in (("P2G", P2G_METHODS[1:]), ("G2P", G2P_METHODS[1:])):
            default = case.mesh("auto", "auto")
            first = default.spread if stage == "P2G" else default.gather
            reference: Any = None
            for method in sorted(methods, key=lambda name: name != first):
                if stage == "P2G":
                    seconds, result = case.spread(method)
                    ran = method
                else:
                    seconds, result, ran = case.gather(method)
                if reference is None:
                    reference = result
                scale = float(abs(reference).max()) * np.finfo(np.float64).eps
                row = {"stage": stage, "points": n, "P": p, "grid": case.grid, "method": method}
                row.update(ran=ran, seconds=statistics.median(seconds), runs=seconds)
                row["differs"] = float(abs(result - reference).max()) / scale
                rows.append(row)
                del result
    return rows


def table(rows: list[dict[str, Any]], stage: str) -> str:
    """Return one table, the published figures at the end of the lines."""
    lines = [
        f"{stage:>3s}  P {'method':10s}{'ms':>9s} {'N/us':>8s} {'speedup':>8s} {'differs':>8s}"
        f"   | {'N/us':>7s} {'speedup':>8s} {'eff':>4s}"
    ]
    baseline: dict[int, float] = {}
    for row in (row for row in rows if row["stage"] == stage):
        p, method = row["P"], row["method"]
        if p not in baseline:
            lines.append(f"{'':3s} {p:2d} grid {row['grid']}^3")
            of = (r for r in rows if (r["stage"], r["P"], r["method"]) == (stage, p, "base"))
            baseline[p] = next(of)["seconds"]
        line = f"{'':3s} {p:2d} {method:10s}{1e3 * row['seconds']:9.3f} "
        line += f"{1e-6 * row['points'] / row['seconds']:8.2f} "
        line += f"{baseline[p] / row['seconds']:7.2f}x {row['differs']:8.1f}   |"
        published = PAPER[stage].get(p, {})
        if method in published:
            rate, efficiency = published[method]
            line += f" {rate:7.2f} {rate / published['base'][0]:7.2f}x {efficiency:3d}%"
        if row["ran"] != method:
            line += f" ran as {row['ran']}"
        lines.append(line)
    return "\n".join(lines)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--space", default="Cuda")
    parser.add_argument("--points", type=int, default=4_000_000)
    parser.add_argument("--windows", type=int, nargs="+", default=[4, 8, 14], metavar="P")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    space = get_execution_space(args.space)
    begun = time.perf_counter()
    rows = measure(space, args.points, args.windows)
    print(f"parki {parki.__version__}, {space}, {args.points} points | published: H200, 4000000\n")
    print(table(rows, "P2G"), table(rows, "G2P"), sep="\n\n")
    print(f"\n{time.perf_counter() - begun:.0f} s in all")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
