"""Points of the near field: sorted into its cells, and as its kernels take them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from parki.cells.cell_grid import CellGrid, OwnBoxes
from parki.cells.sorted_points import SortedPoints
from parki.ewald.geometry.systems import Systems
from parki.ewald.lattice import Enclosed, Lattice
from parki.ewald.near.near_field import NearField, parts, reach, shifts
from parki.ewald.near.sizes import cells_of
from parki.ewald.solver_box import SolverBox
from parki.ewald.task import Task
from parki.runtime import ExecutionSpace
from parki.typing import AnyArray


def near_cells(
    near: NearField,
    solver_box: SolverBox,
    sources: int,
    *,
    stretch: tuple[float, float] | None,
    systems: Systems | None,
) -> CellGrid:
    """Return the cells of the near field; ``stretch`` is as for `P2P`."""
    lattice = solver_box.lattice
    box, periodic, corner = lattice.sides, [*lattice.periodic], lattice.corner.tolist()
    if stretch is not None:
        periodic[0] = False
        corner[0] = stretch[0]
        box = np.array([stretch[1] - stretch[0], box[1], box[2]])
    count = systems.count if systems else 1
    shape = cells_of(box, near.cutoff, sources, near.launch, near.task.space, count)
    return CellGrid(shape, tuple(box.tolist()), tuple(periodic), tuple(corner))


def sort_points(
    task: Task,
    solver_box: SolverBox,
    cells: CellGrid,
    trg: AnyArray,
    src: AnyArray,
    *,
    systems: Systems | None,
    spare: int,
) -> tuple[SortedPoints, SortedPoints]:
    """Return targets and sources in cells, the same object where they are one array."""
    tilts, own_boxes = None, None
    if task.in_boxes:
        corners, edges, inverse_widths, of_tilts = bricks(
            solver_box, cells.counts, task.space, trg.dtype
        )
        own_boxes = OwnBoxes(corners, edges, inverse_widths, of_tilts)
    elif task.tilted:
        tilts = solver_box.constant(
            task.space, "tilts", lambda solver_box: solver_box.lattice.tilts, trg.dtype
        )

    def sort(points: AnyArray, offsets: AnyArray) -> SortedPoints:
        return SortedPoints(
            points,
            cells,
            task.space,
            scale=solver_box.factor,
            spare=spare,
            offsets=offsets,
            tilts=tilts,
            boxes=own_boxes,
            executor=task.executor,
        )

    sources = sort(src, systems and systems.sources)
    return sources if trg is src else sort(trg, systems and systems.targets), sources


def longest_period(solver_box: SolverBox) -> float:
    """Return the longest periodic edge."""
    lattice = solver_box.lattice
    return float(lattice.sides[[*lattice.periodic]].max(initial=0.0))


def digit_of(task: Task, solver_box: SolverBox) -> float:
    """Return the unit of the first parts of positions, whose sums are exact.

    It is zero unless the box is tilted.
    """
    if not (task.tilted and task.finer):
        return 0.0
    return float(2.0 ** (math.frexp(longest_period(solver_box))[1] - 20))


def position_arguments(
    near: NearField,
    solver_box: SolverBox,
    cells: CellGrid,
    targets: SortedPoints,
    sources: SortedPoints,
    *,
    digit: float,
) -> dict[str, Any]:
    """Return the arguments of kernels that follow from the positions and the box."""
    task, cutoff, lattice = near.task, near.cutoff, solver_box.lattice
    space, dtype = task.space, task.dtype
    constant, box, shape = space.adapter.constant, np.array(cells.edges), cells.counts
    # Wrapping may round by this. Free axes are not wrapped, and equal points differ by zero.
    coincident = 1e-14 * longest_period(solver_box)
    src_high, src_low = parts(sources.points, dtype, digit)
    trg_high, trg_low = src_high, src_low
    if targets is not sources:
        trg_high, trg_low = parts(targets.points, dtype, digit)
    half, half_low = parts(box / 2, dtype)
    # Points stand for copies where there are none: no kernel reads these.
    copies, most = trg_high, 0
    if task.tilted:

        def copied(solver_box: SolverBox) -> Any:
            return shifts(solver_box.lattice.images(cutoff), dtype, digit)

        copies = solver_box.constant(space, ("copies", cutoff, digit), copied, dtype)
        most = copies.shape[1] // lattice.boxes
    width, origin = constant(box / np.array(shape), dtype), constant(cells.corner, dtype)
    if task.in_boxes:
        origin, width = bricks(solver_box, shape, space, dtype, ("corners", "widths"))
    return {
        "copies": copies,
        "trg": trg_high,
        "trg_low": trg_low,
        "order": targets.order,
        "src": src_high,
        "src_low": src_low,
        "starts": sources.starts,
        "shape": constant([*shape, most, task.in_boxes], np.int32),
        "width": width,
        "reach": constant(reach(box, shape, cutoff), np.int32),
        "origin": origin,
        "half": constant(half, dtype),
        "half_low": None if half_low is None else constant(half_low, dtype),
        "cutoff": cutoff,
        # Squares of shorter distances underflow.
        "coincident": max((coincident / cutoff) ** 2, float(np.finfo(dtype).tiny)),
    }


# Numbers of the bricks of systems that have boxes of their own, cut into cells.
BRICKS: dict[str, Callable[[Lattice, Enclosed, Any], Any]] = {
    "corners": lambda box, boxes, _: np.where(box.periodic, -boxes.sides / 2, box.origin),
    "edges": lambda _, boxes, __: boxes.sides,
    "inverse widths": lambda _, boxes, shape: shape / boxes.sides,
    "tilts": lambda _, boxes, __: boxes.tilts,
    "widths": lambda _, boxes, shape: boxes.sides / shape,
}


def bricks(
    solver_box: SolverBox,
    shape: tuple[int, ...],
    space: ExecutionSpace,
    dtype: DTypeLike,
    names: tuple[str, ...] = ("corners", "edges", "inverse widths", "tilts"),
) -> list[Any]:
    """Return numbers of all bricks, cut into cells of a ``shape``, three for each system."""

    def numbers(name: str) -> Any:
        def of(box: SolverBox) -> Any:
            boxes = cast(Enclosed, box.lattice.enclosed)
            return BRICKS[name](box.lattice, boxes, np.array(shape)).ravel()

        return solver_box.constant(space, ("bricks", name, shape), of, dtype)

    return [numbers(name) for name in names]
