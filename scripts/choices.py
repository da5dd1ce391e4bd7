"""Compare what parki chooses by itself with the best setting found by trying.

    python scripts/choices.py [--space Cuda] [--seconds 300] [--output FILE]
    python scripts/choices.py --docs docs/results/choices-*.json      # write docs/choices.md

For tasks of many sizes, tolerances, periodicities and clouds (uniform, or half of the points in
eight tight clusters): times the choice, and then cut-offs, window points and variants around it,
one direction after the other, as `parki tune --measure` does. Reports the time of the choice over
the best, and predicted over measured time for each stage of the choice. Both are of a repeated
application of `stokes_comb` in double precision. Where FILE has tasks already, they are not timed
again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from parki import tune
from parki.errors import ParkiMemoryError
from parki.ewald import machines
from parki.runtime import ExecutionSpace, get_execution_space

SIZES = {False: (1000, 10_000, 100_000, 1_000_000), True: (10_000, 100_000, 1_000_000, 16_000_000)}
TOLERANCES = (1e-2, 1e-4, 1e-6, 1e-9, 1e-12)
FACTORS = ("points", "tolerance", "periodicity", "clustered")
MODEST = 1.10
# Seconds to compare a choice with the best for, three to nine times.
AGAIN = 3.0
PAGE = Path(__file__).resolve().parent.parent / "docs" / "choices.md"
HEAD = """\
# What parki chooses, and the best found by trying

Written by `python scripts/choices.py --docs docs/results/choices-*.json`: `stokes_comb`, sources =
targets, double precision; milliseconds of a repeated application. *Auto over best*: the time of
what parki chose, by the numbers named, over the least found by trying, in turn, cut-offs of 0.7 to
1.4 times the chosen one, a window point less and more, and the variants of each stage whose
predicted time could win. *Model*: predicted over measured time of each stage of the choice. Times
are medians of three to nine comparisons of the choice and the best, side by side.
Clustered clouds have half of their points in eight clusters of standard deviation 0.03.

"""


def tasks(space: ExecutionSpace, seed: int) -> list[tune.Task]:
    """Return all tasks, in an order such that the first ones already cover every factor."""
    factors = (SIZES[space.on_device], TOLERANCES, (1, 3), (False, True))
    found = [
        tune.Task("stokes_comb", p, tolerance, n, clustered=clustered)
        for n, tolerance, p, clustered in itertools.product(*factors)
    ]
    random.Random(seed).shuffle(found)
    return found


def measure(task: tune.Task, space: ExecutionSpace) -> dict[str, Any]:
    """Time a task's neighbourhood."""
    timings = list(tune.refine(task, space))
    choice, best = timings[0], min(timings, key=lambda t: t.total)
    # Again, side by side: both times are of the same moments of the machine, and neither is the
    # least of many.
    again: list[tuple[tune.Timing, tune.Timing]] = []
    start = time.perf_counter()
    while len(again) < 3 or (len(again) < 9 and time.perf_counter() - start < AGAIN):
        again.append((tune.run(choice.task, space), tune.run(best.task, space)))
    of_choice, of_best = (
        statistics.median(t.total for t in each) for each in zip(*again, strict=True)
    )
    measured = {
        stage: statistics.median(t.seconds[stage] for t, _ in again) for stage in tune.STAGES
    }
    predicted = choice.chosen.seconds
    return {
        "points": task.points,
        "tolerance": task.tolerance,
        "periodicity": task.periodicity,
        "clustered": task.clustered,
        "tried": len(timings),
        "seconds": of_choice,
        "over_best": 1.0 if words(choice) == words(best) else max(1.0, of_choice / of_best),
        "choice": words(choice),
        "best": words(best),
        "model": {stage: predicted[stage] / measured[stage] for stage in tune.STAGES},
        "share": {stage: measured[stage] / of_choice for stage in tune.STAGES},
    }


def words(timing: tune.Timing) -> str:
    """Return what was set, in short."""
    p = timing.chosen
    return f"r_c {p.cutoff:.4f}, P {p.points}, {p.p2p}, {p.p2g}, {p.g2p}"


def page(results: list[dict[str, Any]]) -> str:
    """Return the page of the docs."""
    return HEAD + markdown(results)


def markdown(results: list[dict[str, Any]]) -> str:
    """Return the results as a table."""
    lines = []
    for result in results:
        rows = sorted(
            result["rows"],
            key=lambda r: (r["points"], -r["tolerance"], r["periodicity"], r["clustered"]),
        )
        over = [row["over_best"] for row in rows]
        modest = sum(x <= MODEST for x in over)
        lines += [
            f"{result['machine']}, numbers {result['numbers']}: {len(rows)} tasks, auto over best "
            f"{statistics.median(over):.2f} (median), {max(over):.2f} (most); within "
            f"{MODEST - 1:.0%} in {modest}.",
            "",
            "| points | tolerance | periodic | cloud | choice | ms | auto over best | best "
            "| model: P2P | P2G | FGC | G2P |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        for r in rows:
            cloud = "clustered" if r["clustered"] else "uniform"
            better = r["best"] if r["over_best"] > 1.02 else "the same"
            model = " | ".join(f"{r['model'][stage]:.2f}" for stage in tune.STAGES)
            lines.append(
                f"| {r['points']:,} | {r['tolerance']:g} | {r['periodicity']} | {cloud} "
                f"| {r['choice']} | {1e3 * r['seconds']:.3g} | {r['over_best']:.2f} | {better} "
                f"| {model} |"
            )
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Measure for a while, or print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--space", default="CPU")
    parser.add_argument("--seconds", type=float, default=300.0, help="when to stop (300)")
    parser.add_argument("--most", type=int, default=10**9, metavar="N", help="largest size")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--part", default="1/1", metavar="K/N", help="every N-th task, from the K-th"
    )
    parser.add_argument("--output", type=Path, help="write results as JSON")
    parser.add_argument("--docs", type=Path, nargs="+", metavar="FILE", help="write the page")
    args = parser.parse_args()
    if args.docs:
        PAGE.write_text(page([json.loads(path.read_text()) for path in args.docs]))
        print(f"wrote {PAGE}")
        return
    space, console = get_execution_space(args.space), Console()
    result: dict[str, Any] = {
        "machine": machines.identity(space),
        "numbers": machines.machine(space, "float64").name,
    }
    rows: list[dict[str, Any]] = []
    if args.output and args.output.exists():
        old = json.loads(args.output.read_text())
        if any(old[name] != value for name, value in result.items()):
            parser.error(f"{args.output} is of {old['machine']}, numbers {old['numbers']}")
        rows = old["rows"]
    known = {tuple(row[name] for name in FACTORS) for row in rows}
    start = time.perf_counter()
    first, parts = map(int, args.part.split("/"))
    todo = [task for task in tasks(space, args.seed) if task.points <= args.most][
        first - 1 :: parts
    ]
    for task in todo:
        if tuple(getattr(task, name) for name in FACTORS) in known:
            continue
        if time.perf_counter() - start > args.seconds:
            break
        try:
            r = measure(task, space)
        except ParkiMemoryError as error:
            console.print(f"{task} left out: {error}", soft_wrap=True, markup=False)
            continue
        rows.append(r)
        console.print(
            f"{task}{' clustered' if task.clustered else ''}: {r['over_best']:.2f}  [{r['choice']}]"
            f"{'' if r['over_best'] < 1.02 else '  best ' + r['best']}  {r['tried']} tried, model "
            + " ".join(f"{stage} {r['model'][stage]:.2f}" for stage in tune.STAGES),
            soft_wrap=True,
            markup=False,
        )
        if args.output:
            result.update(tasks=len(todo), rows=rows)
            args.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
