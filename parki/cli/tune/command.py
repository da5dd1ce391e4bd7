"""Output of `parki tune`: progress, a task's neighbourhood, and the quality of the fit."""

from __future__ import annotations

import argparse
import statistics
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.progress import track
from rich.table import Table

from parki.cli.arguments import add_common, command
from parki.cli.terminal import Console
from parki.cli.tune import measure as tune
from parki.cli.tune import rounds
from parki.cli.tune.lengths import load, measure
from parki.errors import UnavailableError
from parki.ewald.choice import machines
from parki.runtime import ExecutionSpace, cache, get_execution_space
from parki.settings import cache_directory, thread_count

ASKED = ("kernel", "periodicity", "tolerance", "points", "dtype")  # arguments that define a task


DESCRIPTION = """\
Measure the cost of each stage of a sum on this machine, and find the fastest variants. This takes
less than a minute (more if kernels have to be compiled, or while others use the machine; if they
keep it busy, nothing is written). Plans made afterwards choose the cut-off,
grid, window and variants by these measurements, in place of the built-in ones of another machine.
The result is one file in the cache directory; delete it to go back.
"""

EPILOG = """\
With --measure, also time one task of your own (--kernel, --points, ...; random points) with other
cut-offs and variants than the chosen ones, and include these times in the fit.
"""


def declare(commands: Any) -> None:
    """Add the command to the command line."""
    summary = "measure this machine, for better choices"
    parser = command(commands, "tune", answer, summary, DESCRIPTION, EPILOG)
    add_common(parser, space="OpenMP")
    parser.add_argument("--measure", action="store_true", help="time one task's neighbourhood too")
    task = {"kernel": "stokes_comb", "points": 100_000, "periodicity": 3, "tolerance": 1e-6}
    add_common(parser.add_argument_group("the task of --measure"), **task, dtype="float64")


def answer(arguments: argparse.Namespace) -> int:
    """Measure, and return the exit code."""
    space, task = get_execution_space(arguments.space), None
    if arguments.measure:
        task = tune.TimedPlan(**{name: getattr(arguments, name) for name in ASKED})
        tune.check_timed(task, space)
    show(space, task)
    return 0


def show(space: ExecutionSpace, task: tune.TimedPlan | None) -> None:
    """Measure a space, or refine the measurement for ``task``; show progress and the result."""
    if reason := cache.why_unusable():
        raise UnavailableError(
            f"the cache folder {cache_directory()} cannot take the result ({reason}); set "
            "PARKI_CACHE_DIR to a folder that can be written"
        )
    console = Console()
    samples = tune.load_samples(space)
    if task is None:
        samples = {name: [] for name in samples}
    usual = dict(zip(tune.METHODS, machines.machine(space, "float64").usual, strict=True))
    lengths = {name: machines.machine(space, name).lengths for name in samples}
    if not any(samples.values()):
        todo = tune.tasks(space, thread_count() if space.name == "OpenMP" else 1)
        if space.on_device:
            # Both keep the host busy, not the device, and end before anything is timed.
            here = int(space.array_module.cuda.Device().id)
            with ThreadPoolExecutor(1) as pool:
                ahead = pool.submit(tune.compile_ahead, todo, space, here)
                for name in track(samples, "loading transforms", console=console, transient=True):
                    load(space, name)
                ahead.result()
            names = track(samples, "measuring transforms", console=console, transient=True)
            lengths = {name: measure(space, name) for name in names}
        machines.use(
            space, {**machines.built_in(space), "lengths": lengths}
        )  # from here on with these lengths, and without an earlier file
        timings = rounds.timings(
            todo,
            space,
            lambda each: tune.run(each, space, repeated=False),
            lambda tasks: track([*tasks], "measuring", console=console, transient=True),
            console.print,
        )
        for timing in timings:
            samples[timing.task.dtype] += timing.samples
        usual = tune.usual_of(space, timings)
    if task is not None:
        rounds.require_free(space, console.print)
        timings = list(
            track(tune.refine(task, space), "timing", total=None, console=console, transient=True)
        )
        for timing in timings:
            samples[task.dtype] += timing.samples
        console.print(comparison(timings))
    path = tune.save(space, samples, lengths, usual)
    console.print(fits(space, samples))
    console.print("usual variants: " + ", ".join(f"{k} {v}" for k, v in usual.items()))
    console.print(f"written to {path}", soft_wrap=True)


def comparison(timings: list[tune.Timing]) -> Table:
    """Return the timings of a task's neighbourhood as a table."""
    table = Table(title=f"{timings[0].task}: milliseconds", title_justify="left", box=SIMPLE_HEAD)
    for name in ("r_c", "P", "variants", *tune.STAGES, "all", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    best = min(t.total for t in timings)
    for timing in timings:
        p = timing.chosen
        cells = [f"{p.cutoff:.4f}", str(p.points), f"{p.p2p}/{p.p2g}/{p.g2p}"]
        cells += [_milliseconds(timing.seconds[stage]) for stage in tune.STAGES]
        cells += [_milliseconds(timing.total), f"{timing.total / timings[0].total:.2f}"]
        table.add_row(*cells, style="bold" if timing.total == best else None)
    return table


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}" if seconds >= 1e-3 else f"{1e3 * seconds:.2f}"


def fits(space: ExecutionSpace, samples: dict[str, list[tune.Sample]]) -> Table:
    """Return in words how well the current cost constants predict the samples."""
    table = Table(title="predicted over measured time", title_justify="left", box=SIMPLE_HEAD)
    for name in ("precision", "variant", "times", "least", "median", "most"):
        table.add_column(name, justify="right" if name not in ("precision", "variant") else "left")
    for precision, of_precision in samples.items():
        machine = machines.machine(space, precision)
        for variant in machine.seconds:
            ratios = [machine.time(v, c) / t for v, c, t in of_precision if v == variant]
            if ratios:
                each = (min(ratios), statistics.median(ratios), max(ratios))
                table.add_row(precision, variant, str(len(ratios)), *(f"{r:.2f}" for r in each))
    return table
