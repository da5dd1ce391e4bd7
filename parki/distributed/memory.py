"""Bytes that each rank of a plan needs, and whether they are free on its node or device.

The counts follow the allocations of a slab's stages, as `parki.ewald.choice.memory` follows those
in a plan. Needs of ranks on the same node, or on the same device, are added up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from parki.distributed import device
from parki.distributed.far import slab_grids
from parki.distributed.fgc import line_parts, mode_parts, slab_buffers
from parki.distributed.slabs import Slabs
from parki.distributed.team import Team
from parki.errors import ParkiMemoryError
from parki.ewald.choice import memory as single
from parki.ewald.choice.memory import Memory
from parki.ewald.choice.method import MethodParameters
from parki.ewald.far.buffers import (
    components_of,
    convolution_buffers,
    host_work,
    transform_bytes,
)
from parki.ewald.far.mesh import EwaldMesh
from parki.ewald.task import Task
from parki.memory import in_words, size_in_bytes
from parki.runtime.spaces import free_memory


@dataclass(frozen=True)
class RankShare:
    """A rank's part of a sum.

    Attributes
    ----------
    mesh : EwaldMesh
        The grid of the box; slabs divide its first axis.
    slabs : Slabs
    rank : int
    reach : int
        Grid cells within which a target has its sources.
    axes : list of 3 ints
        The problem's axes in the order of the mesh.
    caller_counts, slab_counts : tuple of 2 ints
        Numbers of targets and sources that the caller gave it, and in its slab.
    near : int
        Number of sources in its slab plus ghosts from others.
    """

    mesh: EwaldMesh
    slabs: Slabs
    rank: int
    reach: int
    axes: list[int]
    caller_counts: tuple[int, int]
    slab_counts: tuple[int, int]
    near: int


def predict(chosen: MethodParameters, task: Task, share: RankShare) -> Memory:
    """Return the memory a rank needs; ``chosen`` and its problem are of the sum over all ranks."""
    mesh, slabs, rank, reach = share.mesh, share.slabs, share.rank, share.reach
    kind, size, problem = task.sum, slabs.size, chosen.problem
    rows, user_item = single.summed_rows(task), task.array_dtype.itemsize
    item = np.dtype(task.dtype).itemsize
    (targets, sources), (caller_targets, caller_sources) = share.slab_counts, share.caller_counts
    cells = max(slabs.cells[rank + 1] - slabs.cells[rank], 1)

    sides = problem.lattice.sides[share.axes]
    stretch = slabs.stretch(rank, reach + 1)
    if stretch is not None and not problem.lattice.tilted:  # whose cells are the whole box's
        sides[0] *= (stretch[1] - stretch[0]) / slabs.cells[-1]
    stored, padding = (cells + chosen.points - 1, *mesh.stored[1:]), mesh.padding
    grid = stored[0], *padding.grid[1:]
    slab = replace(padding, cells=(cells, *padding.cells[1:]), grid=grid)

    def sort(targets: int, sources: int, same: bool = problem.same) -> tuple[float, float, float]:
        lattice = replace(problem.lattice, sides=sides)
        of_slab = replace(problem, lattice=lattice, targets=targets, sources=sources, same=same)
        return single.points_bytes(replace(chosen, problem=of_slab), task, slab)

    held, _, _ = sort(caller_targets, caller_sources)
    moved, _, far = sort(targets, sources)
    _, near, _ = sort(targets, share.near, same=False)
    routes = 8.0 * (caller_sources + (0 if problem.same else caller_targets) + share.near - sources)
    # Copies of a density: in the caller's order, in the slab's, with ghosts, and sorted.
    densities = kind.near_rows * (caller_sources + sources + 2 * share.near)
    results = rows * (targets + caller_targets)
    # In the dtype of what is given, which mixed precision rounds.
    copies = kind.near_rows * (caller_sources + sources)
    copies += (rows + single.other_rows(task)) * caller_targets
    copies += single.copied_numbers(task, caller_targets, caller_sources, problem.same)
    far_field, swaps = _convolve(task, mesh, slabs, rank)
    plane = kind.symbol.grids * max(components_of(task)) * math.prod(mesh.padding.grid[1:])
    # Exchanges of points, densities, results and halos all reuse the memory of the first swap.
    largest = max(
        swaps[0],
        item * 2 * (chosen.points - 1) * plane if size > 1 else 0,
        user_item * kind.rows * (caller_sources + sources),
        item * rows * (caller_targets + targets),
        user_item * 3 * (caller_sources + sources),
    )
    kept = single.kept_numbers(task, caller_targets, caller_sources, problem)
    parts = {
        "points": near + far + routes + user_item * kept,
        "densities and results": float(item * (densities + results) + user_item * copies),
        "grid": size_in_bytes(slab_grids(task, stored)),
        **far_field,
        "exchange": largest + sum(swaps[1:]),
    }
    total = sum(parts.values())
    # The slab's points, original and wrapped, are dropped once the plan is made.
    making = total - parts["densities and results"] - parts["transforms"] + 2 * moved
    return Memory(parts, held, max(total, making))


def _convolve(
    task: Task, mesh: EwaldMesh, slabs: Slabs, rank: int
) -> tuple[dict[str, float], list[float]]:
    """Return the bytes that `parki.distributed.fgc` needs, by part, and by swap for buffers."""
    item, padding, components = mesh.item, mesh.padding, max(components_of(task))
    x, y, z = padding.grid
    sets = task.sum.symbol.grids
    declared = slab_buffers(task, padding, slabs, rank)
    bounds = (line_parts if padding.whole else mode_parts)(padding, slabs.size)
    convolved = convolution_buffers(task, padding, sets, (bounds[rank], bounds[rank + 1]))
    padded, multiplier = (size_in_bytes({"": buffer}) for buffer in convolved.values())
    sizes = [size_in_bytes({"": buffer}) / components for buffer in declared.values()]
    if padding.whole:
        pairs, largest = [sum(sizes)], max(sizes)
        transforms = 2 * largest if task.space.on_device else host_work(largest, x, item)
    else:
        planes = item * sets * (slabs.planes[rank + 1] - slabs.planes[rank]) * y * z
        pairs = [planes + sizes[0], sum(sizes[1:])]
        rows = declared["lines"].shape[3]
        transforms = transform_bytes(task, padding, (x, rows, z), sets, padded)
    # Two components are on their way at a time, but not to this rank itself.
    away = min(components, 2) * (slabs.size - 1) / slabs.size
    taken = {
        "modes": size_in_bytes(declared),
        "padded block": padded,
        "multiplier": multiplier,
        "transforms": transforms,
    }
    return taken, [away * pair for pair in pairs]


def check_memory(
    team: Team, chosen: MethodParameters, task: Task, *, length: float, needed: Memory
) -> None:
    """Refuse a plan on all ranks if some rank lacks memory; ``needed`` is the need of this one.

    ``length`` is the cube root of the box's volume, in the user's unit. The message proposes
    options that would fit, assuming that a rank's memory scales as one plan of all points does.
    """
    told = team.allgather((device.node_and_device(task.space), needed, free_memory(task.space)))
    worst, words = 1.0, ""
    for here in dict.fromkeys(there for there, _, _ in told):
        ranks = [rank for rank, (there, _, _) in enumerate(told) if there == here]
        peak = sum(told[rank][1].peak for rank in ranks)
        free = min(told[rank][2] for rank in ranks) + sum(told[rank][1].held for rank in ranks)
        if peak > worst * free:
            worst = peak / free if free else math.inf
            most = max((told[rank][1] for rank in ranks), key=lambda memory: memory.peak)
            words = (
                f"the plan needs {in_words(peak)} on rank{'s' if len(ranks) > 1 else ''} "
                f"{', '.join(map(str, ranks))} of {team.size}, but {in_words(free)} are free "
                f"there; most of a rank's is for its {most.largest}. What would fit: "
            )
    if not words:
        return
    fitting: list[str] = []
    if team.rank == 0:
        free = single.predict(chosen, task).peak / worst
        fitting = list(single.fitting(chosen, task, free, length))
    raise ParkiMemoryError(words + ("; ".join(team.broadcast(fitting)) or "nothing near"))
