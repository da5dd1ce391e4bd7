"""Rounds of timings, until two of them agree: a busy machine is refused, as its times are wrong.

Others' load is seen in two ways. Threads that only compute get less than all of their time; and the
same sum takes longer in one round than in another. The load that a hypervisor hides is seen in the
second way alone.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from parki.cli.tune.measure import TimedPlan, Timing
from parki.errors import UnavailableError
from parki.runtime import ExecutionSpace
from parki.settings import thread_count

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


def timings(
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
