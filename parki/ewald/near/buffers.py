"""The arrays of the near field, declared for `P2P` and for predictions."""

from __future__ import annotations

import math

import numpy as np

from parki.cells.runs import most_parts
from parki.cells.sorted_points import list_buffers
from parki.ewald.near.sizes import Tile, copied_at_once, tile_of_slopes
from parki.ewald.task import Task
from parki.memory import Buffer, Buffers, declare


def near_buffers(
    task: Task,
    method: str,
    tile: Tile,
    shape: tuple[int, int, int],
    counts: tuple[int, int],
    same: bool,
    systems: int = 1,
) -> Buffers:
    """Return the arrays of `P2P`, without lists of pairs, which are kept where memory is free.

    Parameters
    ----------
    task : Task
    method : str
        The variant.
    tile : Tile
    shape : tuple of 3 ints
        Cells of a system along each axis.
    counts : tuple of 2 ints
        Targets and sources of all systems.
    same : bool
        Whether the targets are the sources.
    systems : int
    """
    space, real, cells = task.space, task.dtype, systems * math.prod(shape)
    exact = np.dtype(np.float64) if task.finer else real
    spare, (targets, sources) = copied_at_once(space, real) - 1, counts
    buffers: Buffers = {}
    for name, count in (("src", sources), ("trg", targets))[: 2 - same]:
        buffers |= {f"{name} {n}": b for n, b in list_buffers(count, cells, exact, spare).items()}
        if task.finer:  # positions in two parts
            buffers[f"{name} parts"] = Buffer((6, count + spare), real)
    if task.sum.normals:
        ends = sources + spare
        buffers |= declare(real, norms=(3, ends))
    if task.sum.pair.point_radii is not None:
        buffers |= declare(real, point_radii=(sources,), numbered=(4, targets + spare))
    columns = systems * shape[0] * shape[1]
    buffers |= declare(np.int32, tiles=(3, most_parts(targets, tile.targets, columns)))
    if space.on_device and method != "tile" and task.want != ("u",):
        size = tile_of_slopes(method, tile).targets
        buffers |= declare(np.int32, others=(3, most_parts(targets, size, columns)))
    return buffers


def label_buffers(task: Task, counts: tuple[int, int], labelled: tuple[int, int]) -> Buffers:
    """Return the arrays for labels of points, which `P2P` and `LabelledPairs` take.

    ``labelled`` are the numbers of targets and sources whose labels are common.
    """
    count, (targets, sources) = sum(counts), labelled
    numbers = declare(np.int32, labels=(count,), order=(targets + sources,), ends=(2, targets))
    return numbers | declare(
        task.dtype,
        numbered=(4, count),
        points=(3 * (1 + task.finer), targets + sources),
        dens=(3 * task.sum.normals + task.sum.rows, sources),
    )


def contact_buffers(
    task: Task, tile: Tile, counts: tuple[int, int], same: bool, rows: int
) -> Buffers:
    """Return the arrays of what is added for pairs that may overlap, if there is any.

    With a density and ``rows`` of results. The cells are few, and are left out.
    """
    if not task.sum.overlap_correction:
        return {}
    buffers = near_buffers(task.of_overlap, "", tile, (1, 1, 1), counts, same)
    dens = task.of_overlap.sum.near_rows, counts[1]
    return buffers | declare(task.dtype, dens=dens, results=(rows, counts[0]))
