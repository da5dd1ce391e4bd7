"""The bytes that a plan needs, predicted from its parameters, and whether they are free.

The stages declare their arrays (`near.buffers`, `far.buffers`), which are added up here part by
part. The work area of a device's transforms is not documented: it is counted as found on an H200
for most lengths; some lengths need none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from parki.errors import ParkiMemoryError, ParkiValueError
from parki.ewald.choice.method import MethodParameters
from parki.ewald.choice.parameters import select
from parki.ewald.choice.problem import Problem
from parki.ewald.far.buffers import (
    components_of,
    convolution_buffers,
    flux_buffers,
    grid_buffers,
    radii_buffers,
    source_buffers,
    stored_shape,
    target_buffers,
    transform_bytes,
)
from parki.ewald.far.padding import Padding
from parki.ewald.near.buffers import contact_buffers, label_buffers, near_buffers
from parki.ewald.near.sizes import cells_of, choose_launch, near_tile
from parki.ewald.options import MOST_POINTS, MOST_RECORDED
from parki.ewald.points import result_rows
from parki.ewald.task import Task
from parki.memory import in_words, size_in_bytes
from parki.runtime import ExecutionSpace
from parki.runtime.spaces import LITTLE, free_memory

# Larger cut-offs to propose where a plan does not fit: their grids are coarser.
LARGER = (1.25, 1.6, 2.0, 2.5)
# Most values of a component: the device's FFT library counts with 32 bits.
MOST_VALUES = 2**31 - 1


@dataclass(frozen=True)
class Memory:
    """Bytes, as predicted.

    Attributes
    ----------
    parts : dict
        Bytes of each part while the plan is applied, with the results, without the user's arrays.
    held : float
        Bytes in use when parameters are chosen: points in the box, and scaled normals.
    peak : float
        Most bytes in use at a time, while the plan is made or first applied.
    """

    parts: dict[str, float]
    held: float
    peak: float

    @property
    def largest(self) -> str:
        """The largest part and its size, in words."""
        name = max(self.parts, key=lambda part: self.parts[part])
        return f"{name} ({in_words(self.parts[name])})"

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {in_words(size)}" for name, size in self.parts.items() if size)
        return f"{in_words(self.peak)} at most: {parts}"


def summed_rows(task: Task) -> int:
    """Return the rows of all results that are summed."""
    return sum([result_rows(task.kernel, name) for name in task.want])


def other_rows(task: Task) -> int:
    """Return the rows of results that are not summed: of a stress wanted with the gradient."""
    return 9 * ({"grad_u", "stress"} <= {*task.names})


def copied_numbers(task: Task, targets: int, sources: int, same: bool) -> int:
    """Return how many numbers of points, of a density and of a result are copied.

    They are where the solver has the axes in another order.
    """
    if task.options.axes == (0, 1, 2):
        return 0
    kind = task.sum
    most = max([result_rows(task.kernel, name) for name in task.want])
    per_source = 3 + 3 * kind.normals + kind.rows
    return per_source * sources + (3 * (not same) + most) * targets


def kept_numbers(task: Task, targets: int, sources: int, problem: Problem) -> int:
    """Return how many numbers of points and normals a plan keeps as they were given."""
    per_source = 3 + 3 * task.sum.normals
    return (not problem.one_shot) * (per_source * sources + 3 * (not problem.same) * targets)


def predict(chosen: MethodParameters, task: Task) -> Memory:
    """Return the memory that a plan of a task needs with these parameters, for their problem."""
    kind, problem = task.sum, chosen.problem
    item, on_device = np.dtype(task.dtype).itemsize, task.space.on_device
    user_item, rows = task.array_dtype.itemsize, summed_rows(task)
    padding = chosen.padding
    held, near, far = points_bytes(chosen, task, padding)
    targets, sources = problem.systems * problem.targets, problem.systems * problem.sources
    results = (rows + other_rows(task)) * user_item * targets
    dens = kind.near_rows * item * sources
    dens += user_item * copied_numbers(task, targets, sources, problem.same)
    if task.mixed:  # the sums, before they become results
        dens += rows * item * targets
    if on_device and max(targets, sources) <= MOST_RECORDED:
        dens += kind.rows * user_item * sources + rows * user_item * targets
    sets, stored = problem.systems * kind.symbol.grids, stored_shape(task, padding, chosen.points)
    declared = grid_buffers(task, padding, stored, sets)
    declared |= convolution_buffers(task, padding, sets)
    sizes = {name: size_in_bytes({name: buffer}) for name, buffer in declared.items()}
    at_once = max(components_of(task))
    transforms = transform_bytes(task, padding, stored, sets, sizes["padded block"], at_once)
    parts = {
        "points": near + far + user_item * kept_numbers(task, targets, sources, problem),
        "densities and results": dens + results,
        **sizes,
        "transforms": transforms,
    }
    total = sum(parts.values())
    # Points are dropped once the plan is made; transforms and results do not exist before that.
    peak = max(total + (held if problem.one_shot else 0), total + held - results - transforms)
    return Memory(parts, held, peak)


def is_free(needed: Memory, space: ExecutionSpace) -> bool:
    """Return whether there is the memory for a plan whose points are in the box already."""
    return needed.peak <= LITTLE or needed.peak <= free_memory(space) + needed.held


def check_memory(
    chosen: MethodParameters, task: Task, length: float, release: Callable[[], None]
) -> Memory:
    """Return the memory that a plan needs; refuse it where that is not free.

    Parameters
    ----------
    chosen : MethodParameters
        With the problem that it is predicted for.
    task : Task
    length : float
        Cube root of the box's volume, in the user's unit.
    release : callable
        Frees what is kept for later sums; called where memory is short.

    Raises
    ------
    ParkiMemoryError
        If the memory is not free; the message says what would fit.
    ParkiValueError
        If the grid has more points than indices can count.
    """
    needed = predict(chosen, task)
    if not is_free(needed, task.space):
        release()
    if is_free(needed, task.space):
        _check_values(chosen, task)
        return needed
    free = free_memory(task.space) + needed.held
    proposals = list(fitting(chosen, task, free, length))
    where = "on the device" if task.space.on_device else "here"
    raise ParkiMemoryError(
        f"the plan needs {in_words(needed.peak)}, but {in_words(free)} are free {where}; most of "
        f"it is for its {needed.largest}. What would fit: "
        + ("; ".join(proposals) or "nothing near")
    )


def points_bytes(
    chosen: MethodParameters, task: Task, padding: Padding
) -> tuple[float, float, float]:
    """Return bytes of the wrapped points, and of the points sorted for near and far field."""
    problem, space, same = chosen.problem, task.space, chosen.problem.same
    systems = problem.systems
    counts = targets, sources = systems * problem.targets, systems * problem.sources
    rows = [result_rows(task.kernel, name) for name in task.want]
    launch = choose_launch(chosen.p2p, space)
    shape = cells_of(problem.lattice.edges, chosen.near, sources, launch, space, systems)
    tile = near_tile(space, chosen.p2p, targets, chosen.read, task.dtype)
    near = size_in_bytes(
        near_buffers(task, chosen.p2p, tile, shape, counts, same, systems),
        contact_buffers(task, tile, counts, same, sum(rows)),
        {} if problem.labels is None else label_buffers(task, counts, problem.labels),
    )
    methods, points = (chosen.p2g, chosen.g2p), chosen.points
    far = size_in_bytes(
        source_buffers(task, chosen.p2g, padding, points, sources, systems),
        target_buffers(task, methods, padding, points, targets, same, rows, systems),
        radii_buffers(task, counts),
        flux_buffers(task, counts),
    )
    held = 3 * np.dtype(task.dtype).itemsize
    held *= sources * (1 + task.sum.normals) + targets * (not same)
    return held, near, far


def _check_values(chosen: MethodParameters, task: Task) -> None:
    problem, padding = chosen.problem, chosen.padding
    _, y, z = stored_shape(task, padding, chosen.points)
    values = padding.local[0] * problem.systems * task.sum.symbol.grids * y * z
    if task.space.on_device and values > MOST_VALUES:
        raise ParkiValueError(
            f"the grid has {values} values with its padding along x; transforms on a device take "
            f"{MOST_VALUES}; raise the cut-off (cutoff, or sources_per_cell of Expert), "
            "or share the points out over ranks"
        )


def fitting(chosen: MethodParameters, task: Task, free: float, length: float) -> Iterator[str]:
    """Yield proposals that would fit, in words."""
    problem, seconds = chosen.problem, chosen.total

    def fits(changed: Problem, cutoff: float | None) -> MethodParameters | None:
        try:
            proposal = select(replace(changed, cutoff=cutoff))
        except ParkiValueError:
            return None
        return proposal if predict(proposal, task).peak <= free else None

    # Where the user asked for a cut-off, parki's own choice may be enough.
    usual = fits(problem, None)
    cutoffs = [ratio * chosen.cutoff for ratio in LARGER] + ([usual.cutoff] if usual else [])
    for cutoff in sorted(cutoffs):
        proposal = fits(problem, cutoff)
        if proposal is not None:
            ratio = proposal.total / seconds
            cost = f"takes {ratio:.2g} times as long" if ratio > 1 else "is faster, too"
            yield f"cutoff={proposal.cutoff * length:.4g}, which {cost}"
            break
    narrow = chosen.points <= MOST_POINTS[np.dtype(np.float32)]
    if task.dtype == np.float64 and problem.tolerance >= 1e-6 and narrow:
        single = predict(chosen, replace(task, dtype=np.dtype(np.float32)))
        if single.peak <= free:
            yield f"float32 ({in_words(single.peak)})"
    least, most = 0.0, 1.0
    for _ in range(8):
        part = (least + most) / 2
        fewer = replace(
            problem,
            targets=max(1, int(part * problem.targets)),
            sources=max(1, int(part * problem.sources)),
        )
        if fits(fewer, None) is None:
            most = part
        else:
            least = part
    # Propose fewer than fit: points with other clustering may take a larger grid.
    if least and usual is None:
        sources, targets = (_down(0.85 * least * n) for n in (problem.sources, problem.targets))
        yield f"about {sources:.2g} sources and {targets:.2g} targets"


def _down(number: float) -> float:
    """Return a number rounded down to two digits, since a proposal has to fit."""
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return math.floor(number / unit) * unit
