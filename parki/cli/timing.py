"""Times of the stages of sums of random points, for `parki tune`, `parki bench` and scripts.

`run` times one plan, and `refine` the neighbourhood of the parameters that it chose.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from parki.cli.arguments import check_count
from parki.errors import ParkiMemoryError, ParkiValueError, UnavailableError
from parki.ewald import EwaldOptions, Plan
from parki.ewald.choice.cost import near_name
from parki.ewald.choice.grids import POINTS
from parki.ewald.choice.method import MethodParameters
from parki.ewald.choice.times import far_counts, near_counts
from parki.ewald.options.expert import Expert
from parki.ewald.sums import SUMS
from parki.runtime import ExecutionSpace
from parki.typing import AnyKernel

# Smallest number of timed runs; and for short runs, the largest number and the time limit.
RUNS, MOST_RUNS, SHORT = 3, 25, 0.05
# Seconds after which one run is enough (a device, whose times scatter less, needs fewer).
LONG = {False: 0.4, True: 0.1}
# Cut-offs relative to the predicted best one.
FACTORS = (0.7, 0.84, 1.19, 1.41)
# Parki's own variants of each stage; one of them is a machine's usual one.
METHODS: dict[str, tuple[Any, ...]] = {
    "p2p": ("staged", "tile"),
    "p2g": ("owner", "tile"),
    "g2p": ("target", "tile"),
}
STAGES = ("P2P", "P2G", "FGC", "G2P")


class StageTime(NamedTuple):
    """Measured seconds of one stage: its variant, and the counts of `parki.ewald.choice.cost`."""

    variant: str
    counts: tuple[float, ...]
    seconds: float


@dataclass(frozen=True)
class TimedPlan:
    """One plan to time, with points in a cube that are sources and targets.

    Attributes
    ----------
    clustered : bool
        Whether half of the points are in eight clusters, where the others are uniform.
    repeated : bool
        Whether to time applications with kept lists of pairs, if the variant keeps any.
    """

    kernel: AnyKernel
    periodicity: int
    tolerance: float
    points: int
    dtype: str = "float64"
    cutoff: float | None = None
    window_points: int | None = None
    p2p: str = "auto"
    p2g: str = "auto"
    g2p: str = "auto"
    clustered: bool = False
    repeated: bool = True

    def __str__(self) -> str:
        methods = [m for m in (self.p2p, self.p2g, self.g2p) if m != "auto"]
        words = f"{self.kernel} {self.periodicity}P {self.tolerance:g} {self.dtype}"
        return " ".join([words, f"{self.points} points", *methods])


@dataclass(frozen=True)
class Timing:
    """Times of a task's stages.

    Attributes
    ----------
    chosen : MethodParameters
    seconds : dict
        Seconds of each stage.
    samples : list of StageTime
        One of each stage.
    """

    task: TimedPlan
    chosen: MethodParameters
    seconds: dict[str, float]
    samples: list[StageTime]

    @property
    def total(self) -> float:
        """Seconds of all stages."""
        return sum(self.seconds.values())


@lru_cache(maxsize=2)
def cloud(count: int, clustered: bool) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return points, shape (3, count), uniform or half of them in eight tight clusters."""
    rng = np.random.default_rng(1)
    points = rng.random((3, count))
    if clustered:
        half = count // 2
        centres = rng.random((3, 8))[:, rng.integers(0, 8, half)]
        points[:, :half] = np.clip(centres + 0.03 * rng.standard_normal((3, half)), 0, 1 - 1e-9)
    return points


@lru_cache(maxsize=4)
def _numbers(points: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return densities and normals, shape (9, points); a million take a tenth of a second."""
    return np.random.default_rng(2).standard_normal((9, points))


def make(task: TimedPlan, space: ExecutionSpace) -> tuple[Plan, Any]:
    """Return a task's plan, and a density for it."""
    xp = space.array_module
    points = xp.asarray(cloud(task.points, task.clustered), dtype=task.dtype)
    numbers, record = _numbers(task.points), SUMS[task.kernel]
    dens = xp.asarray(numbers[: record.rows], dtype=task.dtype)
    norms = xp.asarray(numbers[6:], dtype=task.dtype) if record.normals else None
    plan = Plan(task.kernel, points, points, norms, _options(task, space))
    return plan, dens.reshape(record.density_shape(task.points))


def check_timed(task: TimedPlan, space: ExecutionSpace) -> None:
    """Refuse a task that cannot be timed, before any task runs."""
    check_count(task.points)
    _options(task, space).check_dtype(np.dtype(task.dtype))


def _options(task: TimedPlan, space: ExecutionSpace) -> EwaldOptions:
    methods: dict[str, Any] = {f"{stage}_method": getattr(task, stage) for stage in METHODS}
    expert = Expert(window_points=task.window_points, **methods)
    return EwaldOptions(
        task.periodicity,
        [1, 1, 1],
        task.tolerance,
        execution_space=space,
        cutoff=task.cutoff,
        expert=expert,
    )


def run(task: TimedPlan, space: ExecutionSpace) -> Timing:
    """Time a task's stages by the medians of a few applications."""
    if space.on_device:
        space.array_module.get_default_memory_pool().free_all_blocks()
    plan, values = make(task, space)
    lists = plan.pipeline.lists
    if lists is not None and not task.repeated:
        lists.keep = False
    # Index of the first counted run; earlier ones use other kernels, or load theirs.
    first = 3 if lists is not None and task.repeated else 1
    times: list[dict[str, float]] = []
    spent = 0.0
    while len(times) < first + RUNS or (spent < SHORT and len(times) < first + MOST_RUNS):
        times.append(plan.timed(values)[1])
        last = sum(times[-1].values())
        if len(times) > first:
            spent += last
        # The first time of a long sum with kept lists may include the loading of kernels.
        if len(times) >= max(first, 2) and last > LONG[space.on_device]:
            break
    counted = times[min(first, len(times) - 1) :]
    seconds = {stage: statistics.median(t[stage] for t in counted) for stage in STAGES}
    if plan.setup is None:
        raise ParkiValueError(f"{task} has no points to time")
    chosen, padding = plan.setup.parameters, plan.setup.mesh.padding
    problem = chosen.problem.rounded()  # as its parameters were chosen
    near = near_name(chosen.p2p, lists is not None and lists.kept)
    counts = {near: near_counts(problem, chosen.p2p, chosen.near, chosen.degree)}
    values = padding.values(problem.machine.lengths)
    counts |= far_counts(problem, chosen.points, padding, values)
    samples = [
        StageTime(variant, numbers, seconds[stage])
        for (variant, numbers), stage in zip(counts.items(), STAGES, strict=True)
    ]
    return Timing(task, chosen, seconds, samples)


def refine(task: TimedPlan, space: ExecutionSpace) -> Iterator[Timing]:
    """Time the neighbourhood of a task's chosen parameters, one direction after the other.

    The order is cut-offs, numbers of window points next to the chosen one, then the other variant
    of each stage, each with the best of the earlier ones. The first timing is of the choice itself.
    """
    best = run(task, space)
    yield best
    chosen = best.chosen

    def attempt(task: TimedPlan) -> Iterator[Timing]:
        nonlocal best
        try:
            timing = run(task, space)
        # No grid, no memory or no compiler for these parameters.
        except (ParkiValueError, ParkiMemoryError, UnavailableError):
            return
        best = min(best, timing, key=lambda t: t.total)
        yield timing

    for factor in FACTORS:
        yield from attempt(replace(best.task, cutoff=factor * chosen.cutoff))
    cutoff, points = best.chosen.cutoff, best.chosen.points
    for p in (points - 1, points + 1):
        if POINTS[0] <= p <= POINTS[-1]:
            yield from attempt(replace(best.task, cutoff=cutoff, window_points=p))
    for stage, variants in METHODS.items():
        for variant in variants:
            if variant != getattr(chosen, stage):
                yield from attempt(replace(best.task, cutoff=cutoff, **{stage: variant}))
