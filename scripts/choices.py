"""Compare parki's own choices with the best setting found by trying.

    python scripts/choices.py [--space Cuda] [--seconds 300] [--output FILE]
    python scripts/choices.py --docs docs/results/choices-*.json      # write docs/choices.md

The tasks have many sizes, tolerances, periodicities and clouds (uniform, or half of the points in
eight tight clusters). For each task the script times the choice, and then cut-offs, window points
and variants around it, one direction after the other, as `parki tune --measure` does. The choice
and the best are then compared side by side, in up to five visits with all other tasks in between.
The results are the time of the choice over the best, and predicted over measured time for each of
its stages, for repeated applications of `stokes_comb` in double precision. FILE is continued.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import page as docs
from benchmarks import show
from rich.console import Console

from parki.cli import timing
from parki.errors import ParkiMemoryError
from parki.ewald.choice import machines
from parki.runtime import ExecutionSpace, get_execution_space

SIZES = {False: (1000, 10_000, 100_000, 1_000_000), True: (10_000, 100_000, 1_000_000, 16_000_000)}
TOLERANCES = (1e-2, 1e-4, 1e-6, 1e-9, 1e-12)
KERNEL = "stokes_comb"
FACTORS = ("points", "tolerance", "periodicity", "clustered")
SETTING = ("cutoff", "window_points", "p2p", "p2g", "g2p")
MODEST, SAME = 1.10, 1.02
# Limits in seconds and times of one comparison of a choice with the best, and number of visits to
# a task after all others, because shared machines have slow minutes.
SECONDS, MOST, VISITS = 1.0, 3, 5
BEST = """\
Parameters that parki chooses take at most {largest:.2f} times as long as the best found by trying,
in all {tasks} tasks. In {same} of them nothing was faster by more than two percent.
"""
HEAD = ("tolerance", "periodic, cloud", "r_c", "P", "variants", "ms", "over best", "best", "model")


def tasks(space: ExecutionSpace, seed: int) -> list[timing.TimedPlan]:
    """Return all tasks, ordered so that the first ones already cover every factor."""
    factors = (SIZES[space.on_device], TOLERANCES, (1, 3), (False, True))
    found = [
        timing.TimedPlan(KERNEL, p, tolerance, n, clustered=clustered)
        for n, tolerance, p, clustered in itertools.product(*factors)
    ]
    random.Random(seed).shuffle(found)
    return found


def explore(task: timing.TimedPlan, space: ExecutionSpace) -> dict[str, Any]:
    """Time a task's neighbourhood; return the choice, and the best of all."""
    timings = list(timing.refine(task, space))
    choice, best = timings[0], min(timings, key=lambda t: t.total)
    return {
        **{name: getattr(task, name) for name in FACTORS},
        "tried": len(timings),
        "choice": words(choice),
        "best": words(best),
        "setting": {name: getattr(best.task, name) for name in SETTING},
        "predicted": choice.chosen.seconds,
        "compared": [],
        "visits": 0,
    }


def visit(row: dict[str, Any], space: ExecutionSpace) -> None:
    """Compare the choice with the best, side by side, at most three times in a second.

    Both are timed at the same moments of the machine, and neither time is the least of many.
    """
    task = timing.TimedPlan(KERNEL, **{name: row[name] for name in FACTORS})
    others = None if row["choice"] == row["best"] else replace(task, **row["setting"])
    start = time.perf_counter()
    for _ in range(MOST):
        choice = timing.run(task, space)
        best = timing.run(others, space).total if others else choice.total
        row["compared"].append({"choice": choice.seconds, "best": best})
        if time.perf_counter() - start > SECONDS:
            break
    row["visits"] += 1


def medians(row: dict[str, Any]) -> dict[str, float]:
    """Return the choice's median seconds by stage and in all, and its ratio to the best."""
    compared = row["compared"]
    found = {s: statistics.median(c["choice"][s] for c in compared) for s in timing.STAGES}
    totals = [sum(c["choice"].values()) for c in compared]
    ratios = [t / c["best"] for t, c in zip(totals, compared, strict=True)]
    over = max(1.0, statistics.median(ratios))  # the best may change with time
    return {**found, "all": statistics.median(totals), "over": over}


def words(one: timing.Timing) -> str:
    """Return the settings in short."""
    p = one.chosen
    return f"r_c {p.cutoff:.4f}, P {p.points}, {p.p2p}, {p.p2g}, {p.g2p}"


def page(results: list[dict[str, Any]]) -> str:
    """Return the page of the docs."""
    over = [medians(row)["over"] for result in results for row in result["rows"]]
    same = sum(x <= SAME for x in over)
    best = BEST.format(largest=max(over), tasks=len(over), same=same)
    return docs.fill("choices", lambda name: best if name == "best" else sections(results))


def differing(choice: str, best: str) -> str:
    """Return the settings of the best that are not the choice's."""
    pairs = zip(choice.split(", "), best.split(", "), strict=True)
    return ", ".join(b for a, b in pairs if a != b)


def sections(results: list[dict[str, Any]]) -> str:
    """Return the results as tables."""
    parts = []
    for result in results:
        rows = sorted(result["rows"], key=order)
        over = [medians(row)["over"] for row in rows]
        modest = sum(x <= MODEST for x in over)
        visits = [row["visits"] for row in rows]
        often = ", ".join(f"{n} ({visits.count(n)} tasks)" for n in sorted(set(visits)))
        costs = result["numbers"].replace("those of", "built in for")
        parts.append(
            f"## {result['machine']}\n\n"
            f"{len(rows)} tasks, costs {costs}. Choice over best: median "
            f"{statistics.median(over):.2f}, largest {max(over):.2f}, within {MODEST - 1:.0%} in "
            f"{modest} tasks. Visits: {often}.\n"
        )
        for points, some in itertools.groupby(rows, lambda row: row["points"]):
            table = show.markdown(HEAD, map(cells, some))
            parts.append(f"### {points:,} points, on {result['machine']}\n\n{table}")
    return "\n".join(parts)


def order(row: dict[str, Any]) -> tuple[float, ...]:
    """Return what sorts the rows."""
    return row["points"], -row["tolerance"], row["periodicity"], row["clustered"]


def cells(row: dict[str, Any]) -> list[str]:
    """Return a row of a table."""
    times = medians(row)
    better = differing(row["choice"], row["best"]) if times["over"] > SAME else "the same"
    cutoff, window, variants = row["choice"].removeprefix("r_c ").split(", ", 2)
    return [
        f"{row['tolerance']:g}",
        f"{row['periodicity']}, {'clustered' if row['clustered'] else 'uniform'}",
        *(cutoff, window.removeprefix("P "), variants),
        *(f"{1e3 * times['all']:.3g}", f"{times['over']:.2f}", better),
        ", ".join(f"{row['predicted'][s] / times[s]:.2f}" for s in timing.STAGES),
    ]


def draw(results: list[dict[str, Any]], file: Path) -> None:
    """Draw the choice over the best, and the prediction over the measurement, of each task."""
    made, (left, right) = show.figure(2, 3.6, sharex=True)
    for result, colour in zip(results, (show.PARKI, show.PAPER), strict=False):
        times = [medians(row) for row in result["rows"]]
        points = [row["points"] for row in result["rows"]]
        predicted = [sum(row["predicted"].values()) for row in result["rows"]]
        model = [p / t["all"] for p, t in zip(predicted, times, strict=True)]
        for axis, values in ((left, [t["over"] for t in times]), (right, model)):
            axis.semilogx(points, values, "o", color=colour, alpha=0.5, label=result["machine"])
    left.set(title="choice over best", xlabel="points", ylim=(0.98, 1.2))
    right.set(title="predicted over measured", xlabel="points", ylim=(0.5, 1.5))
    right.axhline(1, color=show.DARK, linewidth=0.8)
    left.legend()
    show.save(made, file, "stokes_comb, double precision")


def main() -> None:
    """Measure for a given time, or print a table."""
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
        results = [json.loads(path.read_text()) for path in args.docs]
        docs.write("choices", page(results))
        draw(results, docs.DOCS / "images/choices.png")
        return
    space, console = get_execution_space(args.space), Console()
    result = {
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
    until: float = time.perf_counter() + args.seconds
    first, parts = map(int, args.part.split("/"))
    todo = [task for task in tasks(space, args.seed) if task.points <= args.most][
        first - 1 :: parts
    ]

    def keep(row: dict[str, Any]) -> None:
        """Visit a task once more, and write the results of all tasks."""
        visit(row, space)
        console.print(say(row), soft_wrap=True, markup=False)
        if args.output:
            write(args.output, {**result, "tasks": len(todo), "rows": rows})

    for task in todo:
        if time.perf_counter() > until or tuple(getattr(task, name) for name in FACTORS) in known:
            continue
        try:
            rows.append(explore(task, space))
        except ParkiMemoryError as error:
            console.print(f"{task} left out: {error}", soft_wrap=True, markup=False)
            continue
        keep(rows[-1])
    for visits in range(1, VISITS):
        for row in rows:
            if row["visits"] <= visits and time.perf_counter() < until:
                keep(row)


def write(file: Path, result: dict[str, Any]) -> None:
    """Write one task per line, because the files are kept in the repository."""
    rows = ",\n".join(json.dumps(row) for row in result["rows"])
    head = json.dumps({name: value for name, value in result.items() if name != "rows"})
    file.write_text(f'{head[:-1]}, "rows": [\n{rows}\n]}}\n', encoding="utf-8")


def say(row: dict[str, Any]) -> str:
    """Return the results of a task in one line."""
    times = medians(row)
    what = f"{row['points']} {row['tolerance']:g} {row['periodicity']}P"
    what += " clustered" if row["clustered"] else ""
    best = f"  best {row['best']}" if times["over"] > 1.02 else ""
    model = " ".join(f"{s} {row['predicted'][s] / times[s]:.2f}" for s in timing.STAGES)
    return (
        f"{what}: {times['over']:.2f} [{row['choice']}]{best} {row['tried']} tried, model {model}"
    )


if __name__ == "__main__":
    main()
