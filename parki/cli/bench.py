"""`parki bench`: the time of a sum on this machine, for a few numbers of points.

The points are random in a cube, and are sources and targets, as in `parki tune`. The measured
times are printed next to the prediction of the cost model that chooses the parameters. With
``--steps`` the points move, as in the time steps of a simulation, and a step is timed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from parki import __version__
from parki.cli.arguments import (
    COMMON,
    Commands,
    Console,
    add_common,
    add_json,
    command,
    progress,
)
from parki.cli.timing import STAGES, TimedPlan, check_timed, make
from parki.cli.timing import run as run_stages
from parki.ewald.choice import machines
from parki.ewald.pipeline.one_shot import sum_once
from parki.ewald.plan import Plan
from parki.runtime import ExecutionSpace, get_execution_space

POINTS = (1_000, 10_000, 100_000)
# Largest number of timed applications, and seconds after which no more are started.
RUNS, SECONDS = 7, 2.0
# Steps of moving points: untimed first steps, timed steps, and the largest displacement along
# each axis, relative to the cut-off of the near field.
WARM, STEPS, STRIDE = 4, 20, 0.1

DESCRIPTION = """\
Time one sum on this machine, for each number of points: random points in a unit cube, which are
sources and targets, and a random density. The output, in milliseconds (JSON: seconds), is

  plan     the set-up of the geometry, once for many densities (with compiled kernels)
  P2P ...  the stages of one application of the plan: near field (P2P), spreading (P2G), Fourier
           transforms and multiplication (FGC), gathering (G2P)
  apply    one application as programs call it, without timing the stages
  model    the predicted time of an application, by which parameters were chosen

and points/s, the points over the time of an application. Times are medians of a few runs.

With --steps, the points move by up to a tenth of the cut-off along each axis between sums:

  update   the plan is given the next points
  apply    the first application after it
  step     an update and an application together
  plan     a new plan for such points
  one-shot a sum in one call, such as stokes_sl
"""

EPILOG = """\
If apply is far from the model for large numbers of points, run 'parki tune' to measure this
machine, so that later plans choose better. Times on a busy machine are of little use. For example:

  parki bench --kernel stokes_sl --periodicity 1 --tolerance 1e-4 --points 100000 1000000
  parki bench --steps --points 1000 10000
"""


@dataclass(frozen=True)
class Bench:
    """Seconds of one sum: its plan, an application, the stages, and the prediction."""

    points: int
    plan: float
    stages: dict[str, float]
    apply: float
    predicted: dict[str, float]

    @property
    def rate(self) -> float:
        """Points per second of an application."""
        return self.points / self.apply


@dataclass(frozen=True)
class Steps:
    """Seconds of a step of moving points, and of sums that reuse nothing of the step before."""

    points: int
    update: float
    apply: float
    step: float
    plan: float
    one_shot: float


def declare(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = command(
        commands,
        "bench",
        run,
        summary="time a sum on this machine",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    add_common(
        parser,
        kernel="stokes_comb",
        periodicity=3,
        tolerance=1e-6,
        dtype="float64",
        space="OpenMP",
    )
    numbers = COMMON["points"] | {"help": f"numbers of points ({' '.join(map(str, POINTS))})"}
    parser.add_argument("--points", nargs="+", default=POINTS, **numbers)
    parser.add_argument("--steps", action="store_true", help="time steps of points that move")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Time the sums, print the times, and return the exit code."""
    space = get_execution_space(arguments.space)
    tasks = [
        TimedPlan(
            kernel=arguments.kernel,
            periodicity=arguments.periodicity,
            tolerance=arguments.tolerance,
            points=points,
            dtype=arguments.dtype,
        )
        for points in arguments.points
    ]
    for task in tasks:
        check_timed(task, space)
    with progress() as shown:
        timed = shown.track(tasks, description="timing")
        moving = [steps(measured, space) for measured in timed] if arguments.steps else []
        sums = [] if arguments.steps else [bench(measured, space) for measured in timed]
    times = {
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
        rows = [{**asdict(measured), "points_per_second": measured.rate} for measured in sums]
        rows += [asdict(measured) for measured in moving]
        print(json.dumps({**times, "steps" if moving else "sums": rows}, indent=2))
        return 0
    out = Console()
    out.print(
        f"{times['kernel']}, {times['periodicity']} periodic axes, tolerance "
        f"{times['tolerance']:g}, {times['dtype']}; {space}: {times['machine']}",
        soft_wrap=True,
        highlight=False,
    )
    if moving:
        out.print(report_steps(moving))
        return 0
    out.print(report(sums))
    out.print(f"The model's numbers are {times['model']}.", soft_wrap=True, highlight=False)
    return 0


def bench(task: TimedPlan, space: ExecutionSpace) -> Bench:
    """Time a task's plan, an application and its stages."""
    timing = run_stages(task, space)  # compiles kernels, too
    plan, values = make(task, space)
    plan(values)  # touches memory for the first time
    times: list[float] = []
    while len(times) < RUNS and sum(times) < SECONDS:
        times.append(_seconds(space, lambda: plan(values)))
    apply, predicted = statistics.median(times), timing.chosen.seconds
    return Bench(task.points, plan.seconds["plan"], timing.seconds, apply, predicted)


def steps(task: TimedPlan, space: ExecutionSpace) -> Steps:
    """Time a task's steps with moving points, and new plans and one-shot sums of them."""
    plan, values = make(task, space)
    arrays, xp, rng = plan.points.arrays, space.array_module, np.random.default_rng(0)
    points, norms = arrays["trg"], arrays.get("norms")
    far = STRIDE * plan.parameters.cutoff if plan.parameters else 0.0
    times: dict[str, list[float]] = {}

    def update() -> None:
        plan.update_points(points, points, norms)

    def step() -> None:
        update()
        plan(values)

    def new() -> None:
        Plan(task.kernel, points, points, norms, plan.options)

    def once() -> None:
        sum_once(task.kernel, points, points, values, norms, plan.options, want=plan.want)

    works: dict[str, Callable[[], Any]] = {"update": update, "apply": lambda: plan(values)}
    works |= {"step": step, "plan": new, "one_shot": once}
    for round_ in range(WARM + STEPS):
        for name, work in works.items():
            if name != "apply":
                move = xp.asarray(rng.uniform(-far, far, points.shape), dtype=points.dtype)
                points = (points + move) % 1
            seconds = _seconds(space, work)
            if round_ >= WARM:
                times.setdefault(name, []).append(seconds)
    return Steps(
        points=task.points,
        update=statistics.median(times["update"]),
        apply=statistics.median(times["apply"]),
        step=statistics.median(times["step"]),
        plan=statistics.median(times["plan"]),
        one_shot=statistics.median(times["one_shot"]),
    )


def _seconds(space: ExecutionSpace, work: Callable[[], Any]) -> float:
    """Return the seconds of ``work``, until the device is done."""
    space.adapter.synchronize()
    begun = time.perf_counter()
    work()
    space.adapter.synchronize()
    return time.perf_counter() - begun


def _table(columns: Sequence[str]) -> Table:
    """Return an empty table with columns of numbers."""
    table = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right")
    return table


def report_steps(moving: list[Steps]) -> Table:
    """Return the times of steps as a table."""
    table = _table(("points", "update", "apply", "step", "plan", "one-shot"))
    for one in moving:
        seconds = one.update, one.apply, one.step, one.plan, one.one_shot
        table.add_row(str(one.points), *map(_milliseconds, seconds))
    return table


def report(sums: list[Bench]) -> Table:
    """Return the times as a table."""
    table = _table(("points", "plan", *STAGES, "apply", "model", "points/s"))
    for one in sums:
        stages = [one.stages[name] for name in STAGES]
        seconds = [one.plan, *stages, one.apply, sum(one.predicted.values())]
        table.add_row(str(one.points), *map(_milliseconds, seconds), f"{one.rate:.2g}")
    return table


def _milliseconds(seconds: float) -> str:
    """Return milliseconds to three digits."""
    value = 1e3 * seconds
    return f"{value:.0f}" if value >= 99.5 else f"{value:#.3g}"
