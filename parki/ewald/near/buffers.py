"""The arrays of the near field, declared for `P2P` and for predictions."""

from __future__ import annotations

import math

import numpy as np

from parki.cell_list import list_buffers, most_parts
from parki.ewald.near.sizes import Tile, copied_at_once, tile_of_slopes
from parki.ewald.task import Task
from parki.memory import Buffer, Buffers


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
            buffers |= {
                f"{name} {part}": Buffer((3, count + spare), real) for part in ("high", "low")
            }
    if task.pair.normals:
        ends = targets if task.transposed_pair else sources + spare
        buffers["norms"] = Buffer((3, ends), real)
    if task.sum.pair.marks is not None:
        buffers |= {
            "marks": Buffer((sources,), real),
            "numbered": Buffer((4, targets + spare), real),
        }
    columns = systems * shape[0] * shape[1]
    buffers["tiles"] = Buffer((3, most_parts(targets, tile.targets, columns)), np.int32)
    if space.on_device and method != "tile" and task.chosen_by[1] != ("u",):
        size = tile_of_slopes(method, tile).targets
        buffers["other tiles"] = Buffer((3, most_parts(targets, size, columns)), np.int32)
    return buffers


def label_buffers(task: Task, counts: tuple[int, int], labelled: tuple[int, int]) -> Buffers:
    """Return the arrays for labels of points, which `P2P` and `LabelledPairs` take.

    ``labelled`` are the numbers of targets and sources whose labels are common.
    """
    real, rows = task.dtype, 3 * task.sum.normals + task.sum.rows
    buffers: Buffers = {"ends": Buffer((2, labelled[0]), np.int32)}
    for name, count, common in zip(("trg", "src"), counts, labelled, strict=True):
        buffers |= {
            f"{name} numbered": Buffer((4, count), real),
            f"{name} labels": Buffer((count,), np.int32),
            f"{name} of labels": Buffer((3 * (1 + task.finer), common), real),
            f"{name} order": Buffer((common,), np.int32),
        }
    buffers["dens of labels"] = Buffer((rows, labelled[1]), real)
    return buffers


def contact_buffers(
    task: Task, tile: Tile, counts: tuple[int, int], same: bool, rows: int
) -> Buffers:
    """Return the arrays of what is added for pairs that may overlap, if there is any.

    With a density and ``rows`` of results. The cells are few, and are left out.
    """
    if not task.sum.contacts or task.transposed_pair:
        return {}
    buffers = near_buffers(task.of_contacts, "", tile, (1, 1, 1), counts, same)
    buffers["dens"] = Buffer((task.of_contacts.sum.near_rows, counts[1]), task.dtype)
    return buffers | {"results": Buffer((rows, counts[0]), task.dtype)}
