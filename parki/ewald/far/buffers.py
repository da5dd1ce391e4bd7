"""The arrays of the far field, declared for the stages that take them and for predictions.

What libraries take for their transforms is not documented: `transform_bytes` counts it as it was
found.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from parki.cells.runs import most_parts
from parki.cells.sorted_points import list_buffers
from parki.ewald.far.padding import Padding
from parki.ewald.far.sizes import (
    APART,
    AT_ONCE,
    IN_ORDER,
    LINES,
    PART,
    WIDTHS,
    along_z,
    entries_of,
    field_rows,
    g2p_part,
    p2g_part,
    part_cells,
    parts,
    scratch_before,
    sizes_of,
    spreading_tiles,
    workers,
)
from parki.ewald.task import Task
from parki.memory import Buffer, Buffers, declare
from parki.settings import thread_count

# On an H200, planes with edges longer than LONG take a work area of their own size, except these
# lengths (by the bytes of a number), which take none. Longer lines take twice their size.
LONG = 1024
LIGHT = {8: (2048,), 4: (1050, 1120, 1200, 1536, 1680, 2048, 2100, 2400)}


def complex_type(task: Task) -> np.dtype[Any]:
    """Return the dtype of modes."""
    return np.result_type(task.dtype, np.complex64)


def components_of(task: Task) -> tuple[int, int]:
    """Return the numbers of components that are spread, and that are transformed back."""
    return task.sum.components, field_rows(task.kernel, task.want)


def stored_shape(task: Task, padding: Padding, points: int) -> tuple[int, int, int]:
    """Return the shape of a component in memory, with the spill of windows of P ``points``."""
    x, y, z = padding.grid
    return x, y, z + along_z(points, task.dtype, padding.whole, task.space.on_device)[1]


def grid_buffers(
    task: Task, padding: Padding, stored: tuple[int, int, int], sets: int = 1
) -> Buffers:
    """Return the grids, side by side along the second axis, and the modes of `FGC`.

    Fields overwrite what was spread. On a CPU modes begin in real numbers before the grids, and go
    on into these.
    """
    components, (x, y, z) = max(components_of(task)), stored
    modes = (components, padding.modes[0], sets * padding.modes[1], padding.modes[2])
    transformed = Buffer(modes, complex_type(task))
    if not task.space.on_device:
        before = scratch_before(
            components,
            modes=2 * math.prod(modes[1:]),
            grid=sets * math.prod(padding.grid),
            item=np.dtype(task.dtype).itemsize,
        )
        transformed = Buffer((int(before),), task.dtype)
    return {"grid": Buffer((components, x, sets * y, z), task.dtype), "modes": transformed}


def by_many(task: Task) -> bool:
    """Return whether several threads of a CPU convolve, each some planes of its own."""
    return not task.space.on_device and task.executor != "pykokkos"


def planes_in_blocks(
    task: Task, padding: Padding, sets: int = 1, part: tuple[int, int] | None = None
) -> tuple[list[tuple[int, int, tuple[int, int, int], bool]], int]:
    """Return the blocks of planes whose multipliers are made at a time, and the threads for them.

    Parameters
    ----------
    sets : int
        Grids side by side.
    part : tuple of 2 ints, optional
        Range of modes along the first axis, from the first to the last + 1. Default: all.
    """
    components, on_device = sets * max(components_of(task)), task.space.on_device
    item = components * complex_type(task).itemsize
    blocks = padding.blocks(sizes_of(on_device).block // item, part)
    modes = sum([(last - first) * y * z for first, last, (_, y, z), _ in blocks])
    return blocks, workers(components * modes, thread_count()) if by_many(task) else 1


def convolution_buffers(
    task: Task, padding: Padding, sets: int = 1, part: tuple[int, int] | None = None
) -> Buffers:
    """Return the padded planes that are convolved at a time, and the multiplier.

    A device takes its largest block of planes; each thread of a CPU takes some planes of a block.
    Arguments are as for `planes_in_blocks`; with three periodic axes ``part`` is a range of
    modes along the second axis, and nothing is padded.
    """
    kind, fold = complex_type(task), 1 if task.tilted else 2  # folded along the second axis
    if padding.whole:
        x, y, z = padding.grid
        rows = y // fold + fold - 1 if part is None else part[1] - part[0]
        values, shape = x * rows * (z // 2 + 1), (0, 0)
    else:
        blocks, threads = planes_in_blocks(task, padding, sets, part)
        components, count, most, values = sets * max(components_of(task)), 0, 0, 0
        for first, last, (_, y, z), _ in blocks:
            planes, size = last - first, components * y * z
            cut = 1
            if by_many(task):
                cut = min(planes, parts(planes * size * kind.itemsize, threads))
            count, most = count + cut, max(most, -(-planes // cut) * size)
            values += planes * (y // fold + fold - 1) * (z // 2 + 1)
        shape = (min(threads, count), most)
    values *= sets if task.in_boxes else 1  # which is one of each system
    return {"padded block": Buffer(shape, kind), "multiplier": Buffer((values,), task.dtype)}


def source_buffers(
    task: Task, method: str, padding: Padding, points: int, sources: int, systems: int = 1
) -> Buffers:
    """Return the arrays of `P2G` without the grid: of ``sources`` in all systems, for P ``points``.

    ``method`` is the variant.
    """
    on_device, cells = task.space.on_device, padding.cells
    tiles = spreading_tiles(method, cells, points, padding.wraps)
    buffers = list_buffers(sources, systems * math.prod(tiles), task.dtype)
    if task.sum.normals:
        buffers |= declare(task.dtype, norms=(3, sources))
    if method == "tile":
        edges, entries = sizes_of(on_device).tile, entries_of(points, sources, on_device)
        columns = systems * -(-padding.grid[1] // edges[0]) * -(-padding.grid[2] // edges[1])
        work = most_parts(entries, p2g_part(entries), columns)
        places = 2, columns * cells[0] + 1  # what each has, and where it begins
        buffers |= declare(np.int32, entries=(2, entries), work=(3, work), places=places)
    return buffers


def target_buffers(
    task: Task,
    methods: tuple[str, str],
    padding: Padding,
    points: int,
    targets: int,
    same: bool,
    rows: list[int],
    systems: int = 1,
) -> Buffers:
    """Return the arrays of `G2P`: of ``targets`` in all systems, for P ``points``.

    Parameters
    ----------
    methods : tuple of 2 str
        Variants of P2G and G2P. Targets that are the sources, ``same``, may keep their order.
    rows : list of int
        Rows of each result.
    """
    (spread, gather), cells, real = methods, padding.cells, task.dtype
    buffers: Buffers = {}
    if gather == "tile":  # of the narrowest columns
        tiles = (cells[0], -(-cells[1] // WIDTHS[0]), -(-cells[2] // WIDTHS[0]))
        pieces = -(-cells[0] // part_cells(tiles, task.space.on_device))
        columns = systems * tiles[1] * tiles[2] * pieces
        buffers |= declare(np.int32, work=(3, most_parts(targets, g2p_part(targets), columns)))
    elif gather == "base" or spread != "base":
        method = "base" if gather == "base" else spread
        tiles = spreading_tiles(method, cells, points, padding.wraps)
    else:
        tiles = -(-cells[0] // points), -(-cells[1] // points), -(-cells[2] // points)
    if not (same and spread != "base" and gather == "target"):
        buffers |= list_buffers(targets, systems * math.prod(tiles), real)
    if not task.space.on_device and targets >= IN_ORDER:  # and the results are permuted
        buffers |= declare(np.int32, back=(targets,), places=(targets,))
        buffers |= declare(real, found=(sum(rows), targets))
    if any(task.sum.symbol.laplacians):
        # A second gathering, and the largest of its results times their factors.
        buffers |= declare(real, more=(sum(rows) + max(rows), targets))
    return buffers


def radii_buffers(task: Task, counts: tuple[int, int]) -> Buffers:
    """Return radii of targets and sources, and what multiplies Laplacians: `FaxenCorrections`."""
    if task.sum.pair.point_radii is None:
        return {}
    of_targets, of_sources = task.sum.symbol.laplacians
    rows = task.sum.rows if np.ndim(task.sum.faxen_factors) else 1
    trg = 1 + of_targets * len({"u", *task.want}), counts[0]
    return declare(task.dtype, trg=trg, src=(1 + of_sources * rows, counts[1]))


def flux_buffers(task: Task, counts: tuple[int, int]) -> Buffers:
    """Return points as given, normals and moments for the mean without flux: see `Constants`."""
    if not task.flux:
        return {}
    targets, sources = counts
    points = {"trg": (3, targets), "src": (3, sources), "norms": (3, sources)}
    return declare(np.float64, moments=(4, sources), **points)


def transform_bytes(
    task: Task,
    padding: Padding,
    stored: tuple[int, int, int],
    sets: int,
    padded: float,
    components: int = 1,
) -> float:
    """Return the bytes that the transforms of `FGC` take for themselves.

    Parameters
    ----------
    stored : tuple of 3 ints
        Shape of a component in memory; of a part of its lines along the first axis, on ranks.
    sets : int
        Grids side by side.
    padded : float
        Bytes of the padded planes.
    components : int
        How many are transformed at a time if they are small.
    """
    item, modes = int(np.dtype(task.dtype).itemsize), padding.modes
    x, y, _ = stored
    made, grid = 2.0 * item * sets * modes[0] * y * modes[2], item * sets * math.prod(stored)
    if not task.space.on_device:
        many = components if components * made <= APART else 1
        return host_work(many * made, x if padding.whole else sets * y, item)
    if padding.whole:
        return made * (components if sets == 1 and math.prod(stored) <= AT_ONCE else 1)
    # Lines of one component, padded: `DeviceTransforms.buffer`.
    longer = padding.local[0] / x
    lines = longer * grid if longer > 1 else 0.0
    return work_area(padding, max(lines, grid), padded, item) + lines


def work_area(padding: Padding, lines: float, padded: float, item: int) -> float:
    """Return the bytes of the work area that a device's transforms of lines and blocks share.

    ``lines`` are the bytes of all lines along x, ``padded`` the bytes of a block of planes.
    """
    lengths = {length for level in padding.levels for length in level.lengths[1:]}
    heavy = any(length > LONG and length not in LIGHT[item] for length in lengths)
    times = 2 if padding.local[0] > LONG else 1
    return max(times * min(lines, LINES), padded if heavy else 0.0)


def host_work(modes: float, rows: int, item: int) -> float:
    """Return the bytes that a CPU's threads hold while they transform ``modes`` bytes in rows.

    A thread holds a part: what SciPy returns, or DUCC's padded values.
    """
    threads = workers(modes / (2 * item), thread_count())
    return 2 * min(modes, threads * max(PART, modes / max(rows, 1)))
