"""`parki bench`: the time of a sum on this machine, for some numbers of points.

Random points in a cube that are sources and targets, as `parki tune` times. Beside what was
measured stands what the cost model predicts, by which parameters are chosen.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import asdict, dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from parki import __version__
from parki.arguments import COMMON, add_common, add_json, command
from parki.ewald.choice import machines
from parki.runtime import ExecutionSpace, get_execution_space
from parki.terminal import Console, progress
from parki.tune import STAGES, Task, check, make
from parki.tune import run as run_stages

POINTS = (1_000, 10_000, 100_000)
# Applications that are timed at most, and seconds after which no more are.
RUNS, SECONDS = 7, 2.0

DESCRIPTION = """\
Time one sum on this machine, for each number of points: random points in a unit cube, which are
sources and targets, and a random density. Says, in milliseconds (JSON: in seconds),

  plan     what the geometry takes, once for many densities (kernels are compiled by then)
  P2P ...  the stages of one application of the plan: near field (P2P), spreading (P2G), Fourier
           transforms and multiplication (FGC), gathering (G2P)
  apply    one application as programs call it, without a look at the stages
  model    what an application was predicted to take, when parameters were chosen

and points/s, points over the time of an application. These times are medians of a few runs.
"""

EPILOG = """\
Where apply is far from the model for large numbers of points, 'parki tune' measures this machine,
and later plans choose better. Times on a busy machine are of little use. For example:

  parki bench --kernel stokes_sl --periodicity 1 --tolerance 1e-4 --points 100000 1000000
"""


@dataclass(frozen=True)
class Bench:
    """Seconds of one sum: of the plan, an application, its stages, and what was predicted."""

    points: int
    plan: float
    stages: dict[str, float]
    apply: float
    predicted: dict[str, float]

    @property
    def rate(self) -> float:
        """Points per second of an application."""
        return self.points / self.apply


def declare(commands: Any) -> None:
    """Add the command to the subparsers of the command line."""
    parser = command(commands, "bench", run, "time a sum on this machine", DESCRIPTION, EPILOG)
    task = {"kernel": "stokes_comb", "periodicity": 3, "tolerance": 1e-6, "dtype": "float64"}
    add_common(parser, **task, space="OpenMP")
    numbers = COMMON["points"] | {"help": f"numbers of points ({' '.join(map(str, POINTS))})"}
    parser.add_argument("--points", nargs="+", default=POINTS, **numbers)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Time the sums, print what they took, and return the exit code."""
    space = get_execution_space(arguments.space)
    task = arguments.kernel, arguments.periodicity, arguments.tolerance
    tasks = [Task(*task, points, arguments.dtype) for points in arguments.points]
    for each in tasks:
        check(each, space)
    with progress() as shown:
        sums = [bench(each, space) for each in shown.track(tasks, description="timing")]
    found = {
        "parki": __version__,
        "machine": machines.identity(space),
        "space": space.name,
        "kernel": arguments.kernel,
        "periodicity": arguments.periodicity,
        "tolerance": arguments.tolerance,
        "dtype": arguments.dtype,
        "model": machines.machine(space, arguments.dtype).name,
    }
    if arguments.json:
        rows = [{**asdict(each), "points_per_second": each.rate} for each in sums]
        print(json.dumps({**found, "sums": rows}, indent=2))
        return 0
    out = Console()
    out.print(
        f"{found['kernel']}, {found['periodicity']} periodic axes, tolerance "
        f"{found['tolerance']:g}, {found['dtype']}; {space}: {found['machine']}",
        soft_wrap=True,
        highlight=False,
    )
    out.print(report(sums))
    out.print(f"The model's numbers are {found['model']}.", soft_wrap=True, highlight=False)
    return 0


def bench(task: Task, space: ExecutionSpace) -> Bench:
    """Time a task's plan, an application and its stages."""
    timing = run_stages(task, space)  # compiles kernels, too
    plan, values = make(task, space)
    plan(values)  # touches memory for the first time
    times: list[float] = []
    while len(times) < RUNS and sum(times) < SECONDS:
        space.adapter.synchronize()
        begun = time.perf_counter()
        plan(values)
        space.adapter.synchronize()
        times.append(time.perf_counter() - begun)
    apply, predicted = statistics.median(times), timing.chosen.seconds
    return Bench(task.points, plan.seconds["plan"], timing.seconds, apply, predicted)


def report(sums: list[Bench]) -> Table:
    """Return the times as a table."""
    table = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for name in ("points", "plan", *STAGES, "apply", "model", "points/s"):
        table.add_column(name, justify="right")
    for each in sums:
        stages = [each.stages[name] for name in STAGES]
        seconds = [each.plan, *stages, each.apply, sum(each.predicted.values())]
        table.add_row(str(each.points), *map(_milliseconds, seconds), f"{each.rate:.2g}")
    return table


def _milliseconds(seconds: float) -> str:
    """Return milliseconds to three digits."""
    value = 1e3 * seconds
    return f"{value:.0f}" if value >= 99.5 else f"{value:#.3g}"
