"""`runs`: columns of cells, cut into parts of bounded size."""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.cells.cell_grid import most_threads
from parki.runtime import ExecutionSpace, Kernel, load_all
from parki.typing import AnyArray

# Runs that a device cuts in one launch. A launch takes the host as long as these take the device.
CUT_AT_ONCE = 128


def runs(
    space: ExecutionSpace,
    starts: AnyArray,
    size: int,
    total: int,
    *,
    length: int = 1,
    pieces: int = 1,
    executor: str | None = None,
) -> Any:
    """Cut columns of cells into parts of at most ``size`` sorted points.

    Parameters
    ----------
    space : ExecutionSpace
    starts : array, shape (columns * length + 1,), int32
        Cell c holds the points ``starts[c]`` to ``starts[c + 1] - 1``.
    size : int
        Largest number of points in a part.
    total : int
        Upper bound of the number of points.
    length, pieces : int
        Cells in a column, and number of pieces into which each column is cut first.

    Returns
    -------
    array, shape (3, parts), int32
        Column, first point and last point + 1 of each part, in order. On a device, which the host
        does not wait for, the number of parts is an upper bound, and the last ones are empty.
    """
    xp, columns = space.array_module, (starts.size - 1) // length
    count, write, *few = parts_kernels(space, executor)
    most = most_parts(total, size, columns * pieces)
    if few and columns * pieces <= CUT_AT_ONCE:
        parts = xp.empty((3, most), dtype=np.int32)
        list_few = few[0]
        list_few(
            most,
            columns=columns,
            parts=parts,
            starts=starts,
            length=length,
            pieces=pieces,
            size=size,
        )
        return parts
    cells = columns * pieces
    counts = xp.zeros(cells + 1, dtype=np.int32)
    count(
        cells,
        most_threads(cells),
        counts=counts[1:],
        starts=starts,
        length=length,
        pieces=pieces,
        size=size,
    )
    begins = xp.cumsum(counts, dtype=np.int32)
    parts = xp.empty((3, most if space.on_device else int(begins[-1])), dtype=np.int32)
    write(
        parts.shape[1],
        most_threads(parts.shape[1]),
        runs=cells,
        begins=begins,
        parts=parts,
        starts=starts,
        length=length,
        pieces=pieces,
        size=size,
    )
    return parts


def most_parts(points: int, size: int, columns: int) -> int:
    """Return the most parts of at most ``size`` points into which `runs` cuts columns."""
    return points // size + min(points, columns)


def parts_kernels(space: ExecutionSpace, executor: str | None = None) -> tuple[Kernel, ...]:
    """Return the kernels of `runs`."""
    names = ("count_parts", "list_parts", "list_few")
    return load_all("cell_list", names[: 2 + space.on_device], space, executor=executor)
