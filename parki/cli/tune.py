"""`parki tune`: one factor for each stage, by which this machine differs from the built-in one.

A few plans of both precisions are run. The factor of a stage is the median of its measured seconds
over those that the built-in costs predict. The result is a file in the cache directory, which
plans made afterwards read.

Plans are timed in rounds until two of them agree: a busy machine is refused. Others' load is seen
in two ways. Threads that only compute get less than all of their time; and the same sum takes
longer in one round than in another. The load that a hypervisor hides is seen in the second way
alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.progress import track
from rich.table import Table

from parki.cli import timing
from parki.cli.arguments import (
    Commands,
    Console,
    add_common,
    command,
    replacing,
)
from parki.cli.timing import TimedPlan, Timing
from parki.errors import UnavailableError
from parki.ewald.choice import machines
from parki.ewald.choice.cost import STAGES, Machine, stage_of
from parki.runtime import ExecutionSpace, cache, get_execution_space
from parki.settings import cache_directory

# Points of the larger plans, on a device, and for each thread of a CPU.
DEVICE_POINTS, CORE_POINTS = 2_000_000, 20_000
# Rounds over all plans on a CPU, at least and at most. Devices, whose times scatter less, take one.
LEAST, MOST = 2, 5
# The two shortest times of a plan agree up to this factor, in most plans.
AGREE, MOST_PLANS = 1.25, 0.9
# Part of its time that a thread gets at least; how often that is asked, and seconds between.
FREE, TRIES, PAUSE = 0.85, 5, 3.0
WORK = 0.1  # seconds of a thread that only computes
# Factors of stages that differ less than this move the total of a choice by about a percent.
ALIKE = 1.5
PRECISIONS = ("float64", "float32")
NAMES = {"kept": "P2P, kept lists", "all": "all"}  # what is no stage's name in capitals

DESCRIPTION = """\
Measure how much longer each stage of a sum takes on this machine than parki's built-in costs say:
one factor for each stage and precision, from a few plans of random points. This takes less than a
minute (more if kernels have to be compiled, or while others use the machine; if they keep it busy,
nothing is written). Plans made afterwards choose the cut-off, grid and window by these factors, and
predicted times are this machine's. The result is one file in the cache directory; delete it to go
back.
"""

EPILOG = """\
With --measure, also time one task of your own (--kernel, --points, ...; random points) with other
cut-offs and variants than the chosen ones, show these times, and count them in the factors.
"""


def declare(commands: Commands) -> None:
    """Add the command to the command line."""
    summary = "measure this machine, for better choices"
    parser = command(
        commands, "tune", answer, summary=summary, description=DESCRIPTION, epilog=EPILOG
    )
    add_common(parser, space="OpenMP")
    parser.add_argument("--measure", action="store_true", help="time one task's neighbourhood too")
    add_common(
        parser.add_argument_group("the task of --measure"),
        kernel="stokes_comb",
        points=100_000,
        periodicity=3,
        tolerance=1e-6,
        dtype="float64",
    )


def answer(arguments: argparse.Namespace) -> int:
    """Measure, and return the exit code."""
    space, task = get_execution_space(arguments.space), None
    if arguments.measure:
        task = TimedPlan(
            kernel=arguments.kernel,
            periodicity=arguments.periodicity,
            tolerance=arguments.tolerance,
            points=arguments.points,
            dtype=arguments.dtype,
        )
        timing.check_timed(task, space)
    show(space, task)
    return 0


def show(space: ExecutionSpace, task: TimedPlan | None) -> None:
    """Measure a space, and a task's neighbourhood; show progress, and write and show the result.

    Raises
    ------
    UnavailableError
        If the result cannot be written, or the machine is busy.
    """
    if reason := cache.why_unusable():
        raise UnavailableError(
            f"the cache folder {cache_directory()} cannot take the result ({reason}); set "
            "PARKI_CACHE_DIR to a folder that can be written"
        )
    console = Console()
    before = {name: machines.machine(space, name) for name in PRECISIONS}
    try:
        # Plans are chosen and predicted by the built-in costs, without an earlier file.
        machines.use(space, machines.built_in(space))
        built_in = {name: machines.machine(space, name) for name in PRECISIONS}
        timings = in_rounds(plans(space, space.threads), space, console)
        factors = {name: fit(timings, name, built_in[name]) for name in PRECISIONS}
        if task is not None:
            machines.use(space, machines.multiplied(machines.tuned(space, factors)))
            tried = timing.refine(task, space)
            shown = track(tried, "timing", total=None, console=console, transient=True)
            neighbours = list(shown)
            console.print(comparison(neighbours))
            timings += neighbours
            factors = {name: fit(timings, name, built_in[name]) for name in PRECISIONS}
    finally:
        machines.clear()
    path = save(space, factors)
    after = {name: machines.machine(space, name) for name in PRECISIONS}
    console.print(report(timings, factors, before, after))
    console.print(
        "'off' is the factor by which predicted seconds are wrong, up or down, in the mean. "
        + meaning(factors),
        soft_wrap=True,
    )
    console.print(f"written to {path}", soft_wrap=True)


def plans(space: ExecutionSpace, threads: int) -> list[TimedPlan]:
    """Return the plans that are timed: small and large, rough and tight, in both precisions."""
    n = DEVICE_POINTS if space.on_device else CORE_POINTS * threads
    few = n // 200 if space.on_device else 1000
    first = TimedPlan("stokes_comb", 1, 1e-4, n, repeated=False)
    double = [first, replace(first, points=n // 16), replace(first, points=few)]
    double.append(replace(first, periodicity=3, tolerance=1e-9))
    double.append(replace(first, periodicity=3, tolerance=1e-2, points=few))
    double.append(replace(first, kernel="laplace", periodicity=3, tolerance=1e-6))
    if not space.on_device:  # its grid is larger than a CPU's caches
        double.append(replace(first, points=10 * n))
    single = [replace(plan, dtype="float32") for plan in double[:3]]
    single.append(replace(single[0], periodicity=3, tolerance=1e-2))
    # Sums that keep lists of pairs, as they do on a device, have a factor for these.
    repeated = [replace(plan, repeated=True) for plan in (*double, *single) if space.on_device]
    return double + single + repeated


def in_rounds(todo: Sequence[TimedPlan], space: ExecutionSpace, console: Console) -> list[Timing]:
    """Return timings of all plans, on a CPU the two shortest ones of each.

    Raises
    ------
    UnavailableError
        If times of the same plan differ in each round.
    """
    timings: dict[TimedPlan, list[Timing]] = {plan: [] for plan in todo}
    for number in range(1, 2 if space.on_device else MOST + 1):
        require_free(space, console)
        for plan in track(todo, f"round {number}", console=console, transient=True):
            timings[plan].append(timing.run(plan, space))
        shortest = [sorted(ones, key=lambda one: one.total)[:LEAST] for ones in timings.values()]
        if space.on_device:
            break
        if number >= LEAST:
            apart = sorted(second.total / first.total for first, second in shortest)
            factor = apart[math.ceil(MOST_PLANS * len(apart)) - 1]
            if factor <= AGREE:
                break
            console.print(f"times of the same sum differ by a factor of {factor:.1f}")
    else:
        raise _busy(
            f"after {MOST} rounds, times of the same sum differ by a factor of {factor:.1f}"
        )
    return [one for ones in shortest for one in ones]


def require_free(space: ExecutionSpace, console: Console) -> None:
    """Wait while others take the cores of a CPU, and refuse to measure if they keep them.

    Raises
    ------
    UnavailableError
    """
    if space.on_device:
        return
    threads = space.threads
    for _ in range(TRIES):
        part = free_part(threads)
        if part >= FREE:
            return
        console.print(f"other programs take {100 * (1 - part):.0f} % of the cores; waiting")
        time.sleep(PAUSE)
    raise _busy(f"other programs take {100 * (1 - part):.0f} % of the cores")


def free_part(threads: int) -> float:
    """Return the part of their time that threads get which only compute, of the slowest one."""
    values = np.linspace(0, 1, 1 << 16)

    def compute(_: int) -> float:
        begin, begin_thread = time.perf_counter(), time.thread_time()
        while (spent := time.thread_time() - begin_thread) < WORK:
            np.sin(values)  # which lets other threads run
        return spent / (time.perf_counter() - begin)

    with ThreadPoolExecutor(threads) as pool:
        return min(pool.map(compute, range(threads)))


def _busy(why: str) -> UnavailableError:
    return UnavailableError(
        f"the machine is busy: {why}. Times taken now would be wrong, so that nothing was written; "
        "run 'parki tune' again when it is idle"
    )


def ratios(timings: Sequence[Timing], precision: str, machine: Machine) -> dict[str, list[float]]:
    """Return measured over predicted seconds of each of `STAGES` that was timed, and of "all"."""
    result: dict[str, list[float]] = {}
    for one in (one for one in timings if one.task.dtype == precision):
        predicted = [machine.time(s.variant, s.counts) for s in one.samples]
        for sample, seconds in zip(one.samples, predicted, strict=True):
            result.setdefault(stage_of(sample.variant), []).append(sample.seconds / seconds)
        result.setdefault("all", []).append(one.total / sum(predicted))
    return result


def fit(timings: Sequence[Timing], precision: str, built_in: Machine) -> dict[str, float]:
    """Return the factor of each stage; untimed lists take the factor of P2P."""
    measured = ratios(timings, precision, built_in)
    return {s: statistics.median(measured.get(s, measured["p2p"])) for s in STAGES}


def save(space: ExecutionSpace, factors: dict[str, dict[str, float]]) -> str:
    """Write the machine's file, and return its path."""
    path = cache.directory() / machines.path(space).name
    # By one renaming: a plan made meanwhile reads the old file or the new one.
    with replacing(path) as part:
        part.touch(mode=0o600)  # what others may write to is not read
        part.write_text(json.dumps(machines.tuned(space, factors), indent=1), encoding="utf-8")
    machines.clear()
    return str(path)


def report(
    timings: Sequence[Timing],
    factors: Mapping[str, Mapping[str, float]],
    before: Mapping[str, Machine],
    after: Mapping[str, Machine],
) -> Table:
    """Return the factors, and how far off predictions were before and are after, as a table."""
    table = Table(title="measured over built-in seconds", title_justify="left", box=SIMPLE_HEAD)
    for name in ("precision", "stage", "times", "factor", "off before", "off now"):
        table.add_column(name, justify="left" if name in ("precision", "stage") else "right")
    for precision, machine in after.items():
        earlier = ratios(timings, precision, before[precision])
        now = ratios(timings, precision, machine)
        for stage in (stage for stage in (*STAGES, "all") if stage in now):
            name, times = NAMES.get(stage, stage.upper()), str(len(now[stage]))
            factor = "" if stage == "all" else f"{factors[precision][stage]:.2f}"
            wrong = (f"{off(values[stage]):.2f}" for values in (earlier, now))
            table.add_row(precision, name, times, factor, *wrong)
    return table


def off(values: Sequence[float]) -> float:
    """Return the factor by which ratios differ from 1, up or down, in the geometric mean."""
    return math.exp(statistics.fmean(abs(math.log(value)) for value in values))


def meaning(factors: Mapping[str, Mapping[str, float]]) -> str:
    """Return the meaning of the factors for plans, in words."""
    apart, most, least = max(
        (values[a] / values[b], a.upper(), b.upper())
        for values in factors.values()
        for a, b in itertools.permutations([s for s in STAGES if s not in NAMES], 2)
    )
    if apart < ALIKE:
        return (
            "All stages differ from the built-in costs by about the same factor: plans choose "
            "nearly what they would choose without, and predict this machine's seconds."
        )
    return (
        f"{most} takes {apart:.1f} times as long as built in, relative to {least}: plans choose "
        "other cut-offs and grids from now on, and predict this machine's seconds. Results keep "
        "their tolerance."
    )


def comparison(timings: Sequence[Timing]) -> Table:
    """Return the timings of a task's neighbourhood as a table."""
    title = f"{timings[0].task}: milliseconds"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for name in ("r_c", "P", "variants", *timing.STAGES, "all", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    best = min(one.total for one in timings)
    for one in timings:
        p = one.chosen
        cells = [f"{p.cutoff:.4f}", str(p.points), f"{p.p2p}/{p.p2g}/{p.g2p}"]
        cells += [_milliseconds(one.seconds[stage]) for stage in timing.STAGES]
        cells += [_milliseconds(one.total), f"{one.total / timings[0].total:.2f}"]
        table.add_row(*cells, style="bold" if one.total == best else None)
    return table


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}" if seconds >= 1e-3 else f"{1e3 * seconds:.2f}"
