"""Times of the stages relative to the least time of their operations and bytes.

    python scripts/floor.py --space Cuda --json docs/results/floor-h200.json
    python scripts/floor.py --json docs/results/floor-cpu.json       # 100 000 points
    python scripts/floor.py --docs docs/results/floor-*.json         # write docs/floor.md

The counts assume the operations of the method, with each input read once and each output written
once. A stage cannot be faster than the larger of operations over the rate of multiply-adds, and
bytes over the rate of memory; both rates are measured in the same run (`benchmarks/ceilings.py`).
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import record
from benchmarks.ceilings import Ceilings, ceilings
from benchmarks.run import Run

import parki
from parki.ewald.far.sizes import field_rows
from parki.ewald.sums import SUMS
from parki.runtime import get_execution_space

PAGE = Path(__file__).resolve().parent.parent / "docs" / "floor.md"
RUNS = 7
# Name, kernel, periodicity, tolerance, and whether points are on a sphere.
CASES = (
    ("combined, 1-periodic, 1e-4", "stokes_comb", 1, 1e-4, False),
    ("combined, 1-periodic, 1e-9", "stokes_comb", 1, 1e-9, False),
    ("single layer, 3-periodic, 1e-4", "stokes_sl", 3, 1e-4, False),
    ("combined on a sphere, 1-periodic, 1e-4", "stokes_comb", 1, 1e-4, True),
)
STAGES = ("P2P", "P2G", "FGC", "G2P")
HEAD = """\
# How far the stages are from their floors

FGC, which memory bounds, takes {FGC} times its least time, and P2P, P2G and G2P take {others}
times theirs. They do not reach their floors because lanes are without work, and because numbers are
fetched again.

A stage takes at least the time of its operations and of its bytes, each at the rate that the same
machine reaches when it does nothing else. The tables compare the measured time of a repeated
application with the larger of the two.

To repeat this, run `scripts/floor.py` as its first lines say.

| column | meaning |
| --- | --- |
| operations | pairs within the cut-off, the window's values times components, and transforms |
| bytes | each input once and each output once; in FGC each pass of a transform reads and writes |
| floor | the larger of the two times that operations and bytes take at the measured rates |

"""


def counts(plan: Any) -> dict[str, tuple[float, float]]:
    """Return operations and bytes of each stage of a plan that computes u."""
    kind, problem, chosen = SUMS[plan.kernel], plan.setup.problem, plan.parameters
    mesh, n, item = plan.setup.mesh, float(plan.n_sources), plan.dtype.itemsize
    polynomials, others = kind.pair.operations
    pair = others + 2 * polynomials * chosen.degree
    given = 3 + kind.rows + 3 * kind.normals
    grid = math.prod(mesh.padding.grid)
    window = chosen.points**3
    # Three components with the window's slope along x, and three for slopes along y and z.
    spread = kind.components + (3 if kind.gradient else 0)
    rows = field_rows(plan.kernel, ("u",))
    passes = mesh.padding.values()
    values = passes.boxes + passes.lines + passes.planes
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


def measure(run: Run, top: Ceilings) -> dict[str, Any]:
    """Return the stages of all cases."""
    n, rng = run.size(100_000, 4_000_000), run.random
    found = {}
    for name, kernel, periodicity, tolerance, sphere in CASES:
        points = rng.random((3, n))
        if sphere:
            points = rng.standard_normal((3, n))
            points = 0.5 + 0.4 * points / np.linalg.norm(points, axis=0)
        points, norms = run.send(points), run.send(rng.standard_normal((3, n)))
        dens = run.send(rng.standard_normal((SUMS[kernel].rows, n)))
        options = parki.EwaldOptions(periodicity, [1, 1, 1], tolerance, execution_space=run.space)
        norms = norms if SUMS[kernel].normals else None
        plan = parki.Plan(kernel, points, points, norms, options)
        for _ in range(3):
            plan(dens)
        times = [plan.timed(dens)[1] for _ in range(2 if run.quick else RUNS)]
        stages = {}
        for stage, (operations, size) in counts(plan).items():
            seconds = statistics.median(each[stage] for each in times)
            floor = max(operations / top.flops, size / top.bandwidth)
            bound = "operations" if operations / top.flops > size / top.bandwidth else "bytes"
            stages[stage] = {
                "operations": operations,
                "bytes": size,
                "seconds": seconds,
                "floor": floor,
                "bound": bound,
            }
        found[name] = {"points": n, "stages": stages}
        print(name, {s: f"{x['seconds'] / x['floor']:.1f}" for s, x in stages.items()}, flush=True)
    return found


def extremes(records: list[record.Record], *stages: str) -> str:
    """Return the least and the largest time over the floor of some stages, in words."""
    cases = [case for found in records for case in found["results"]["cases"].values()]
    over = [
        case["stages"][s]["seconds"] / case["stages"][s]["floor"] for case in cases for s in stages
    ]
    return f"{min(over):.2g} to {max(over):.2g}"


def page(records: list[record.Record]) -> str:
    """Return the page."""
    text = HEAD.format(FGC=extremes(records, "FGC"), others=extremes(records, "P2P", "P2G", "G2P"))
    for found in records:
        top = found["results"]["ceilings"]
        text += (
            f"## {found['machine']['name']}\n\nDouble precision, {top['flops'] / 1e12:.3g} Tflop/s "
            f"of multiply-adds, {top['bandwidth'] / 1e12:.3g} TB/s.\n\n"
        )
        for name, case in found["results"]["cases"].items():
            text += f"### {name[0].upper()}{name[1:]}, {case['points']:,} points\n\n"
            text += "| stage | Gflop | GB | milliseconds | Gflop/s | GB/s | floor, by | over it |\n"
            text += "| --- " * 8 + "|\n"
            for stage, x in case["stages"].items():
                seconds = x["seconds"]
                rates = f"{x['operations'] / seconds / 1e9:.3g} | {x['bytes'] / seconds / 1e9:.3g}"
                text += (
                    f"| {stage} | {x['operations'] / 1e9:.3g} | {x['bytes'] / 1e9:.3g} | "
                    f"{1e3 * seconds:.3g} | {rates} | {1e3 * x['floor']:.2g}, {x['bound']} | "
                    f"{seconds / x['floor']:.2g} |\n"
                )
            text += "\n"
        versions = ", ".join(f"{k} {v}" for k, v in found["versions"].items())
        text += f"- {versions}\n\n"
    return text.rstrip("\n") + "\n"


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--space", default="CPU")
    parser.add_argument("--points", type=int)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="few points: tests this script")
    parser.add_argument("--docs", type=Path, nargs="+", metavar="FILE", help="write the page")
    arguments = parser.parse_args()
    if arguments.docs:
        PAGE.write_text(page(record.read(arguments.docs)))
        print(f"wrote {PAGE.name}")
        return
    run = Run(get_execution_space(arguments.space), arguments.points, arguments.quick)
    start, top = time.perf_counter(), ceilings(run)
    results = {"ceilings": vars(top), "cases": measure(run, top)}
    found = record.record("floor", run, time.perf_counter() - start, results)
    if arguments.json:
        record.write(arguments.json, [found])


if __name__ == "__main__":
    main()
