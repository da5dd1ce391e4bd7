"""`parki tune`: measures the cost of the stages on this machine, for the choice of parameters.

Small plans of both precisions are run, and the seconds per count of `parki.ewald.choice.cost` are
fitted to the times of their stages. The variants of each stage are compared once, to choose the
usual ones. `refine` adds the neighbourhood of one task. The result is a file in the cache
directory, which plans made afterwards read.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np
from scipy.optimize import nnls

from parki.cli.arguments import check_count, replacing
from parki.errors import ParkiError, ParkiMemoryError, ParkiValueError, UnavailableError
from parki.ewald import EwaldOptions, Plan
from parki.ewald.choice import machines
from parki.ewald.choice.cost import USUAL, near_name
from parki.ewald.choice.grids import POINTS
from parki.ewald.choice.parameters import Parameters
from parki.ewald.far.padding import Tables
from parki.ewald.far.sizes import owner_tiles
from parki.ewald.options.expert import Expert
from parki.ewald.sums import SUMS
from parki.runtime import ExecutionSpace, cache
from parki.typing import AnyKernel

# Points of the larger runs, on a device, and for each thread of a CPU.
DEVICE_POINTS, CORE_POINTS = 2_000_000, 20_000
# Smallest number of timed runs; and for short runs, the largest number and the time limit.
RUNS, MOST_RUNS, SHORT = 3, 25, 0.05
# Seconds after which one run is enough (a device, whose times scatter less, needs fewer).
LONG = {False: 0.4, True: 0.1}
# Cut-offs relative to the predicted best one.
FACTORS = (0.7, 0.84, 1.19, 1.41)
# Weight of a variant's built-in ratios in the fit. At 1, a number of twice its built-in value costs
# as much as one time predicted twice too long. On shared machines, where times scatter, the weight
# grows with the scatter (`SCATTER` gives 1), or slow moments would make tight sums look expensive.
FIRMNESS, SCATTER = 0.1, 0.15
REFITS = 8
# Parki's own variants of each stage; one of them is a machine's usual one.
METHODS: dict[str, tuple[Any, ...]] = {
    "p2p": ("staged", "tile"),
    "p2g": ("owner", "tile"),
    "g2p": ("target", "tile"),
}
STAGES = ("P2P", "P2G", "FGC", "G2P")
Sample = tuple[str, tuple[float, ...], float]  # variant, counts, seconds


@dataclass(frozen=True)
class TimedPlan:
    """One plan to time, with uniform points in a cube that are sources and targets."""

    kernel: AnyKernel
    periodicity: int
    tolerance: float
    points: int
    dtype: str = "float64"
    cutoff: float | None = None
    cell_size: float | None = None
    window_points: int | None = None
    p2p: str = "auto"
    p2g: str = "auto"
    g2p: str = "auto"
    clustered: bool = False

    def __str__(self) -> str:
        methods = [m for m in (self.p2p, self.p2g, self.g2p) if m != "auto"]
        words = f"{self.kernel} {self.periodicity}P {self.tolerance:g} {self.dtype}"
        return " ".join([words, f"{self.points} points", *methods])


@dataclass(frozen=True)
class Timing:
    """Times of a task's stages.

    Attributes
    ----------
    chosen : Parameters
    seconds : dict
        Seconds of each stage.
    samples : list
        Variant, counts and seconds of each stage.
    """

    task: TimedPlan
    chosen: Parameters
    seconds: dict[str, float]
    samples: list[Sample]

    @property
    def total(self) -> float:
        """Seconds of all stages."""
        return sum(self.seconds.values())


def tasks(space: ExecutionSpace, threads: int) -> list[TimedPlan]:
    """Return the tasks of `parki tune`: many with the usual variants, two with the others too.

    Some tasks have other cut-offs than the best one, to separate the cost of a point from the costs
    of a pair and of a grid value.
    """
    n = DEVICE_POINTS if space.on_device else CORE_POINTS * threads
    p2p, p2g, g2p = USUAL[space.on_device]
    first = TimedPlan("stokes_comb", 1, 1e-4, n, p2p=p2p, p2g=p2g, g2p=g2p)
    # All tight sums of a device have one window, because its compiler is slow.
    wide = 15 if space.on_device else None
    tight = replace(first, periodicity=3, tolerance=1e-9, window_points=wide)
    tasks = [first, replace(first, points=n // 16), replace(first, points=n // 200)]
    tasks += [tight, replace(first, kernel="laplace", periodicity=3, tolerance=1e-6)]
    tasks += [replace(first, cell_size=20), replace(first, cell_size=150)]
    tasks.append(replace(tight, cell_size=200))
    # Sums of few points show the costs that do not grow with their number.
    few = replace(first, points=n // 200 if space.on_device else 1000)
    for axes, tolerance in ((3, 1e-2), (3, 1e-6), (3, 1e-12)):
        tasks.append(replace(few, periodicity=axes, tolerance=tolerance))
    tasks.append(replace(few, tolerance=1e-9, window_points=wide))
    if not space.on_device:  # grids larger than a CPU's caches
        tasks.append(replace(first, points=10 * n))
        tasks.append(replace(first, periodicity=3, tolerance=1e-2, points=5 * n, clustered=True))
    single = replace(first, dtype="float32")
    tasks += [single, replace(single, points=n // 16), replace(single, cell_size=20)]
    tasks.append(replace(single, tolerance=1e-2))
    others: dict[str, Any] = dict(zip(METHODS, USUAL[not space.on_device], strict=True))
    # P2G's other variant adds in any order on a CPU, and is far too slow on a device.
    for task in (replace(first, points=n // 8), replace(tight, points=n // 4)):
        tasks += [task, *(replace(task, **{stage: others[stage]}) for stage in ("p2p", "g2p"))]
    return tasks


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
    given = _numbers(task.points)
    dens, norms = (
        xp.asarray(rows, dtype=task.dtype) for rows in (given[: SUMS[task.kernel].rows], given[6:])
    )
    double = SUMS[task.kernel].normals
    plan = Plan(task.kernel, points, points, norms if double else None, _options(task, space))
    return plan, dens.reshape(SUMS[task.kernel].density_shape(task.points))


def check_timed(task: TimedPlan, space: ExecutionSpace) -> None:
    """Refuse a task that cannot be timed, before any task runs."""
    check_count(task.points)
    _options(task, space).check_dtype(np.dtype(task.dtype))


def _options(task: TimedPlan, space: ExecutionSpace) -> EwaldOptions:
    given: dict[str, Any] = {f"{stage}_method": getattr(task, stage) for stage in METHODS}
    expert = Expert(sources_per_cell=task.cell_size, window_points=task.window_points, **given)
    return EwaldOptions(
        task.periodicity,
        [1, 1, 1],
        task.tolerance,
        execution_space=space,
        cutoff=task.cutoff,
        expert=expert,
    )


def compile_ahead(todo: Sequence[TimedPlan], space: ExecutionSpace, number: int) -> None:
    """Compile the kernels of tasks on device ``number``, as far as known before the lengths are.

    A failure here is ignored: it will occur again, and be reported, when the task runs.
    """
    with space.array_module.cuda.Device(number):
        for task in todo:
            with suppress(ParkiError):
                make(task, space)


def run(task: TimedPlan, space: ExecutionSpace, repeated: bool = True) -> Timing:
    """Time a task's stages by the medians of a few applications.

    If ``repeated``, applications with kept lists of pairs are timed, if the variant keeps any.
    """
    if space.on_device:
        space.array_module.get_default_memory_pool().free_all_blocks()
    plan, values = make(task, space)
    lists = plan.pipeline.lists
    if lists is not None and not repeated:
        lists.keep = False
    # Index of the first counted run; earlier ones use other kernels, or load theirs.
    first = 3 if lists is not None and repeated else 1
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
    work, grid = plan.setup.problem.work, float(math.prod(padding.grid))
    wraps = [task.periodicity > 0, task.periodicity > 1]
    tiles = owner_tiles(padding.cells, chosen.points, wraps)
    near = near_name(chosen.p2p, lists is not None and lists.kept)
    counts = {
        near: work.near(chosen.p2p, chosen.pairs, chosen.degree),
        f"p2g_{chosen.p2g}": work.spread(chosen.p2g, chosen.points, grid, tiles),
        "fgc": work.far(padding.values(plan.setup.problem.machine.lengths)),
        f"g2p_{chosen.g2p}": work.gather(chosen.g2p, chosen.points, grid),
    }
    samples = [(v, c, seconds[stage]) for (v, c), stage in zip(counts.items(), STAGES, strict=True)]
    return Timing(task, chosen, seconds, samples)


def fit(
    samples: Sequence[Sample], built_in: dict[str, tuple[float, ...]]
) -> dict[str, list[float]]:
    """Return seconds per count for each variant, nowhere negative.

    The fit minimises squared relative errors, up and down equally. Where few times are known, the
    built-in numbers are scaled by one factor; where none is known, by the factor of all others.
    """
    predicted = (
        (t, sum(n * s for n, s in zip((1.0, *c), built_in[v], strict=True))) for v, c, t in samples
    )
    ratios = [t / seconds for t, seconds in predicted if seconds > 0]
    factor = statistics.median(ratios) if ratios else 1.0
    result = {}
    for variant, start in built_in.items():
        rows = [((1.0, *counts), t) for v, counts, t in samples if v == variant]
        if not rows:
            result[variant] = [factor * s for s in start]
            continue
        matrix = np.array([row for row, _ in rows]) / np.array([[t] for _, t in rows])
        ratio = np.array(start) / (np.median(matrix @ start) or 1.0)
        freely = _fit(matrix, ratio, 0.1 * FIRMNESS)
        scatter = float(np.std(np.log(np.maximum(matrix @ freely, 1e-3))))
        numbers = _fit(matrix, ratio, max(FIRMNESS, scatter / SCATTER))
        result[variant] = numbers.tolist()
    return result


def _fit(matrix: Any, start: Any, firmness: float) -> Any:
    """Return non-negative numbers near ``start``; the matrix times them is near 1."""
    # A number whose built-in value is almost zero may grow until it takes a tenth of the time.
    typical = [0.1 / np.median(each[each > 0]) if each.any() else 1.0 for each in matrix.T]
    scale = np.maximum(start, typical)
    numbers, goal = start, firmness * start / scale
    for _ in range(REFITS):
        # A time twice too long counts as much as one half as long.
        weights = np.maximum(matrix @ numbers, 1e-3) ** -0.5
        system = np.vstack([weights[:, None] * matrix * scale, firmness * np.eye(start.size)])
        numbers = nnls(system, np.concatenate([weights, goal]))[0] * scale
    return numbers


def save(
    space: ExecutionSpace,
    samples: dict[str, list[Sample]],
    lengths: dict[str, Tables],
    usual: dict[str, str],
) -> str:
    """Fit all samples, by precision, and write the machine's file; return its path."""
    start = machines.built_in(space)["seconds"]
    double, single = start["float64"], start["float32"]
    fitted = fit(samples["float64"], double)
    # Variants not timed in single precision keep the built-in ratio of single to double precision.
    ratios = {
        variant: tuple(
            n * s / d if d else n
            for n, s, d in zip(each, single[variant], double[variant], strict=True)
        )
        for variant, each in fitted.items()
    }
    seconds = {"float64": fitted, "float32": fit(samples["float32"], ratios)}
    content = {
        "machine": machines.identity(space),
        "counts": machines.VERSION,
        "seconds": seconds,
        "usual": dict.fromkeys(seconds, usual),
        "lengths": {
            name: {kind: sorted(each.costs.items()) for kind, each in tables._asdict().items()}
            for name, tables in lengths.items()
        },
        "samples": samples,
    }
    path = cache.directory() / machines.path(space).name
    # By one renaming: a plan made meanwhile reads the old file or the new one.
    with replacing(path) as part:
        part.touch(mode=0o600)  # what others may write to is not read
        part.write_text(json.dumps(content), encoding="utf-8")
    machines.clear()
    return str(path)


def usual_of(space: ExecutionSpace, timings: Sequence[Timing]) -> dict[str, str]:
    """Return the usual variants: the built-in ones, unless another was faster in every task."""
    variants: dict[str, Any] = {}

    def least(task: TimedPlan, name: str) -> float:
        return min(each.seconds[name] for each in timings if each.task == task)

    built_in, others = USUAL[space.on_device], USUAL[not space.on_device]
    for stage, usual, other in zip(METHODS, built_in, others, strict=True):
        name, changes = stage.upper(), cast(dict[str, Any], {stage: usual})
        ratios = [
            least(task, name) / least(replace(task, **changes), name)
            for task in {each.task for each in timings}
            if getattr(task, stage) not in ("auto", usual)
        ]
        variants[stage] = other if ratios and max(ratios) < 1 else usual
    return variants


def load_samples(space: ExecutionSpace) -> dict[str, list[Sample]]:
    """Return the samples of earlier runs on this machine, by precision."""
    tuned = machines.read(space)
    samples_of: dict[str, list[Sample]] = {name: [] for name in machines.built_in(space)["seconds"]}
    for name, samples in (tuned or {}).get("samples", {}).items():
        samples_of[name] = [
            (variant, tuple(counts), seconds) for variant, counts, seconds in samples
        ]
    return samples_of


def refine(task: TimedPlan, space: ExecutionSpace) -> Iterator[Timing]:
    """Time the neighbourhood of a task's chosen parameters, one direction after the other.

    The order is cut-offs, numbers of window points next to the chosen one, then the other variant
    of each stage, each with the best of the earlier ones. The first timing is of the choice itself.
    """
    best = run(task, space)
    yield best
    chosen = best.chosen

    def attempt(**changes: Any) -> Iterator[Timing]:
        nonlocal best
        try:
            timing = run(replace(best.task, **changes), space)
        # No grid, no memory or no compiler for these parameters.
        except (ParkiValueError, ParkiMemoryError, UnavailableError):
            return
        best = min(best, timing, key=lambda t: t.total)
        yield timing

    for factor in FACTORS:
        yield from attempt(cutoff=factor * chosen.cutoff)
    cutoff, points = best.chosen.cutoff, best.chosen.points
    for p in (points - 1, points + 1):
        if POINTS[0] <= p <= POINTS[-1]:
            yield from attempt(cutoff=cutoff, window_points=p)
    for stage, variants in METHODS.items():
        for variant in variants:
            if variant != getattr(chosen, stage):
                yield from attempt(cutoff=cutoff, **{stage: variant})
