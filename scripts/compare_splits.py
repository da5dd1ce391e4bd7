"""Compare the time of whole sums by the prolate split and by Hasimoto's, in one run.

    python scripts/compare_splits.py [--space CPU] [--points 100000] [--periodicities 1 3]
    python scripts/compare_splits.py --space Cuda --points 4000000

The sums are `stokes_comb` over uniform points that are sources and targets. The script prints a
table in Markdown with the seconds of a repeated application and of a one-shot sum (plan and one
application, kernels compiled), by tolerance, as medians over alternating runs of both splits, with
their ratios. For equal cut-offs theory predicts 2.6 to 4.4 times fewer grid points ("Near and far"
of docs/theory.md). If each split chooses its cut-off, time improves by about half of that.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np

import parki

SPLITS = ("hasimoto", "prolate")


def sums(space: Any, arrays: list[Any], options: dict[str, parki.EwaldOptions], runs: int) -> Any:
    """Return each split's plan, and its median seconds of one-shot and repeated sums."""
    xp = space.array_module
    points, dens, norms = arrays

    def now() -> float:
        if space.on_device:
            xp.cuda.Device().synchronize()
        return time.perf_counter()

    shots: dict[str, list[float]] = {split: [] for split in SPLITS}
    applications: dict[str, list[float]] = {split: [] for split in SPLITS}
    text = {}
    for run in range(runs + 1):  # the first one compiles
        for split in SPLITS:
            start = now()
            plan = parki.Plan("stokes_comb", points, points, norms, options[split])
            pot = plan(dens)
            middle = now()
            plan(dens, out=pot)
            end = now()
            if run > 0:
                shots[split].append(middle - start)
                applications[split].append(end - middle)
            grid, chosen = plan.setup.mesh.padding.grid, plan.parameters
            assert chosen is not None
            near = round(chosen.cutoff**3 * points.shape[1])
            text[split] = f"{grid[0]} x {grid[1]} x {grid[2]}, P {chosen.points}, {near} per r_c³"
            del plan, pot
    return {s: (statistics.median(shots[s]), statistics.median(applications[s])) for s in SPLITS}, (
        text
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--space", default="CPU")
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--periodicities", type=int, nargs="+", default=[1, 3])
    parser.add_argument(
        "--tolerances", type=float, nargs="+", default=[1e-3, 1e-4, 1e-6, 1e-9, 1e-12]
    )
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    space = parki.get_execution_space(args.space)
    rng = np.random.default_rng(0)
    n = args.points
    arrays = [
        space.array_module.asarray(a)
        for a in (rng.random((3, n)), rng.standard_normal((6, n)), rng.standard_normal((3, n)))
    ]
    print(
        "| periodic | tolerance | Hasimoto: one-shot, apply (s) | prolate: one-shot, apply (s) "
        "| ratio one-shot | ratio apply | grid Hasimoto | grid prolate |"
    )
    print("| --- " * 8 + "|")
    for periodicity in args.periodicities:
        for tolerance in args.tolerances:
            options = {
                split: parki.EwaldOptions(
                    periodicity=periodicity,
                    box=(1, 1, 1),
                    tolerance=tolerance,
                    split=split,
                    execution_space=args.space,
                )
                for split in SPLITS
            }
            seconds, text = sums(space, arrays, options, args.runs)
            (old_shot, old), (shot, new) = seconds["hasimoto"], seconds["prolate"]
            print(
                f"| {periodicity} | {tolerance:.0e} | {old_shot:.3f}, {old:.3f} "
                f"| {shot:.3f}, {new:.3f} | {old_shot / shot:.2f} | {old / new:.2f} "
                f"| {text['hasimoto']} | {text['prolate']} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
