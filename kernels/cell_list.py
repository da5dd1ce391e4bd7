"""Cell lists: which cell each point is in, and the stable sort by cell.

`find_cells`, and `count_cells` on devices: one work item owns one point. `count_chunk` and
`place_chunk`: one work item owns a chunk of consecutive points and a row of the histogram, so that
the sort is stable, and equal input gives equal output whatever the number of threads.
`gather_rows`: one work item owns one column.
"""

from typing import List

import pykokkos as pk

REAL = pk.double
ROWS = 3  # rows of the array that gather_rows permutes


@pk.workunit
def find_cells(
    i: int,
    points: pk.View2D[REAL],
    wrapped: pk.View2D[REAL],
    cells: pk.View1D[pk.int32],
    origin: pk.View1D[REAL],
    length: pk.View1D[REAL],
    inverse_width: pk.View1D[REAL],
    shape: pk.View1D[pk.int32],
    periodic: pk.View1D[pk.int32],
    scale: REAL,
):
    """Scale a point, wrap it into the box and find its cell, from the same rounded coordinate."""
    cell: int = 0
    for d in range(3):
        x: REAL = points[d][i] * scale
        if periodic[d] == 1:
            images: REAL = pk.floor((x - origin[d]) / length[d])
            if images < 0.0 or images > 0.0:
                x = x - images * length[d]
            # Rounding, or underflow of the quotient, can leave the point on the far face, or one
            # ulp before the near one.
            if x < origin[d] or x - origin[d] >= length[d]:
                x = origin[d]
        wrapped[d][i] = x
        # Clamped before the conversion: far points of a free axis would overflow an int.
        place: REAL = pk.floor((x - origin[d]) * inverse_width[d])
        place = pk.fmin(pk.fmax(place, 0.0), REAL(shape[d] - 1))
        k: int = int(place)
        cell = cell * shape[d] + k
    cells[i] = cell


@pk.workunit
def count_cells(i: int, cells: pk.View1D[pk.int32], counts: pk.View1D[pk.int32]):
    """Count a point in its cell; ``counts`` are zero before."""
    pk.atomic_add(counts, [cells[i]], 1)


@pk.workunit
def count_chunk(
    c: int,
    cells: pk.View1D[pk.int32],
    histogram: pk.View2D[pk.int32],
    size: int,
    total: int,
):
    """Count the points of each cell in one chunk."""
    first: int = c * size
    last: int = first + size
    if last > total:
        last = total
    for i in range(first, last):
        histogram[c][cells[i]] += 1


@pk.workunit
def place_chunk(
    c: int,
    cells: pk.View1D[pk.int32],
    histogram: pk.View2D[pk.int32],
    order: pk.View1D[pk.int32],
    size: int,
    total: int,
):
    """Write each point's index to its place; the histogram holds the next free place."""
    first: int = c * size
    last: int = first + size
    if last > total:
        last = total
    for i in range(first, last):
        place: int = histogram[c][cells[i]]
        order[place] = i
        histogram[c][cells[i]] = place + 1


@pk.workunit
def gather_rows(
    i: int,
    rows: pk.View2D[REAL],
    order: pk.View1D[pk.int32],
    sorted_rows: pk.View2D[REAL],
):
    """Permute the columns of an array: column i of the result is column order[i]."""
    for c in range(ROWS):
        sorted_rows[c][i] = rows[c][order[i]]
