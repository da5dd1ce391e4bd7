"""Output of `parki tune`: progress, a task's neighbourhood, and the quality of the fit.

There are rounds of timings, until two of them agree: a busy machine is refused. Others' load is
seen in two ways. Threads that only compute get less than all of their time; and the same sum takes
longer in one round than in another. The load that a hypervisor hides is seen in the second way
alone.

On a device transforms of each length are timed as FGC runs them: planes of complex modes with this
length along both axes; lines of real values along the first axis, whose cost jumps from length to
length; and cubes of real values. SciPy's take about the same time per value for all lengths.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.progress import track
from rich.table import Table

from parki.cli.arguments import Console, add_common, command
from parki.cli.tune import measure as tune
from parki.cli.tune.measure import TimedPlan, Timing
from parki.errors import UnavailableError
from parki.ewald.choice import machines
from parki.ewald.far.padding import SMOOTH, Lengths, Tables
from parki.ewald.far.transforms import transforms_of
from parki.runtime import ExecutionSpace, cache, get_execution_space
from parki.runtime.spaces import free_memory
from parki.settings import cache_directory, thread_count

# Rounds over all tasks on a CPU, at least and at most. Devices, whose times scatter less, take one.
LEAST, MOST = 2, 5
# The two shortest times of a sum agree up to this factor, in most tasks.
AGREE, MOST_TASKS = 1.25, 0.9
# Part of its time that a thread gets at least; how often that is asked, and seconds between.
FREE, TRIES, PAUSE = 0.85, 5, 3.0
WORK = 0.1  # seconds of a thread that only computes


def require_free(space: ExecutionSpace, say: Callable[[str], None]) -> None:
    """Wait while others take the cores of a CPU, and refuse to measure if they keep them.

    Raises
    ------
    UnavailableError
    """
    if space.on_device:
        return
    threads = thread_count() if space.name == "OpenMP" else 1
    for _ in range(TRIES):
        part = free_part(threads)
        if part >= FREE:
            return
        say(f"other programs take {100 * (1 - part):.0f} % of the cores; waiting")
        time.sleep(PAUSE)
    raise _busy(f"other programs take {100 * (1 - part):.0f} % of the cores")


def free_part(threads: int) -> float:
    """Return the part of their time that threads get which only compute, of the slowest one."""
    values = np.linspace(0, 1, 1 << 16)

    def compute(_: int) -> float:
        begin, own = time.perf_counter(), time.thread_time()
        while (spent := time.thread_time() - own) < WORK:
            np.sin(values)  # which lets other threads run
        return spent / (time.perf_counter() - begin)

    with ThreadPoolExecutor(threads) as pool:
        return min(pool.map(compute, range(threads)))


def in_rounds(
    todo: Sequence[TimedPlan],
    space: ExecutionSpace,
    take: Callable[[TimedPlan], Timing],
    shown: Callable[[Iterable[TimedPlan]], Iterable[TimedPlan]],
    say: Callable[[str], None],
) -> list[Timing]:
    """Return timings of all tasks, on a CPU the two shortest ones of each.

    Parameters
    ----------
    take : callable
        Times one task.
    shown : callable
        Shows the progress of a round.
    say : callable
        Tells why it takes longer.

    Raises
    ------
    UnavailableError
        If times of the same task differ in each round.
    """
    measured: dict[TimedPlan, list[Timing]] = {task: [] for task in todo}
    for number in range(1, 2 if space.on_device else MOST + 1):
        require_free(space, say)
        for task in shown(todo):
            measured[task].append(take(task))
        if space.on_device or (number >= LEAST and (apart := scatter(measured)) <= AGREE):
            return [each for own in measured.values() for each in _shortest(own)]
        if number >= LEAST:
            say(f"times of the same sum differ by a factor of {apart:.1f}; another round")
    raise _busy(f"after {MOST} rounds, times of the same sum differ by a factor of {apart:.1f}")


def scatter(found: dict[TimedPlan, list[Timing]]) -> float:
    """Return the factor within which the two shortest times of most tasks agree."""
    factors = []
    for own in found.values():
        first, second = _shortest(own)
        factors.append(second.total / first.total)
    return statistics.quantiles([*factors, *factors], n=100)[round(100 * MOST_TASKS) - 1]


def _shortest(timings: list[Timing]) -> list[Timing]:
    return sorted(timings, key=lambda each: each.total)[:LEAST]


def _busy(why: str) -> UnavailableError:
    return UnavailableError(
        f"the machine is busy: {why}. Times taken now would be wrong, so that nothing was written; "
        "run 'parki tune' again when it is idle"
    )


# Shorter transforms spend most time in launches; long ones with a factor 49 are never cheapest.
CANDIDATES = [n for n in SMOOTH if 192 <= n <= 2048 and (n <= 512 or n % 49)]
# Complex values in the timed planes: enough to fill a device, and a small part of its memory.
VALUES = 1 << 24
LARGEST = {"lines": 1024, "boxes": 768}
# Tolerances that single precision reaches need no finer grids.
LARGEST_SINGLE = 1024
RUNS = 2


def load(space: ExecutionSpace, precision: str) -> None:
    """Run every transform once; cuFFT takes half a minute to load them all."""
    for *_, run in _transforms(space, precision, CANDIDATES, VALUES):
        run()


def measure(
    space: ExecutionSpace,
    precision: str,
    candidates: Sequence[int] = CANDIDATES,
    values: int = VALUES,
) -> Tables:
    """Return the cost of each length, relative to the median cost of planes."""
    seconds: dict[str, dict[int, float]] = {kind: {} for kind in Tables._fields}
    for kind, length, each, run in _transforms(space, precision, candidates, values):
        seconds[kind][length] = _least(space, run) / each
    typical = statistics.median(seconds["planes"].values())
    return Tables(
        *(Lengths((n, t / typical) for n, t in times.items()) for times in seconds.values())
    )


def _transforms(
    space: ExecutionSpace, precision: str, candidates: Sequence[int], values: int
) -> Iterator[tuple[str, int, float, Callable[[], None]]]:
    """Yield table, length, number of values and function of one transform at a time."""
    xp, make = space.array_module, transforms_of(space)
    dtype = np.dtype(precision)
    complex_type = np.result_type(dtype, np.complex64)
    memory = xp.zeros(2 * values, dtype=dtype)
    if precision == "float32":
        candidates = [n for n in candidates if n <= LARGEST_SINGLE]
    for n in candidates:
        planes = max(1, values // n**2)
        modes = memory[: 2 * planes * n**2].view(complex_type).reshape(1, planes, n, n)
        # Counts real values of both parts, over two axes; the inverse takes as long.
        yield "planes", n, 4.0 * modes.size, partial(make((n, n, n), n, False).planes, modes)

    def real(grid: Any, whole: bool) -> Callable[[], None]:
        x, y, z = grid.shape
        shape = (x, y, z // 2 + 1) if whole else (x // 2 + 1, y, z)
        hat = xp.empty(shape, dtype=complex_type)
        return partial(make((x, y, z), x, whole).real, grid[None], hat[None])

    # Longer lines cost about the same.
    for n in (n for n in candidates if n <= LARGEST["lines"]):
        edge = max(1, math.isqrt(memory.size // n))
        lines = memory[: n * edge**2].reshape(n, edge, edge)
        yield "lines", n, 1.0 * lines.size, real(lines, False)
        # Memory of the values, their modes and the library's workspace.
        if n <= LARGEST["boxes"] and 4 * n**3 * dtype.itemsize < free_memory(space):
            yield "boxes", n, 3.0 * n**3, real(xp.zeros((n, n, n), dtype=dtype), True)


def _least(space: ExecutionSpace, action: Callable[[], None]) -> float:
    """Return the least seconds of a few runs, after one run that makes the library's plans."""
    times = []
    for _ in range(1 + RUNS):
        start = time.perf_counter()
        action()
        space.adapter.synchronize()
        times.append(time.perf_counter() - start)
    return min(times[1:])


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
        # From here on with these lengths, and without an earlier file.
        machines.use(space, {**machines.built_in(space), "lengths": lengths})
        timings = in_rounds(
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
        require_free(space, console.print)
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
