"""Cell lists: the cell of each point, and the stable sort by cell.

In `find_cells`, `find_tilted_cells`, `multiply`, `count_cells`, `list_cells` and `order_cells` one
work item owns one point. The last three sort on devices: a point takes a number in its cell, in any
order, and then its place, after all points of the cell that come earlier in the input. Few points
are sorted by `sort_few`, whose items own a point and a cell. CPUs sort by `count_chunk` and
`place_chunk`: one work item owns a chunk of consecutive points and a row of the histogram. All
sorts are stable, so that equal input gives equal output. In `gather_rows` one work item owns one
column. `count_parts` and `list_parts` cut columns of cells into parts: one work item owns a run of
cells, and then a part. `list_few` cuts few runs by itself.
"""

from typing import List

import pykokkos as pk

from kernels.blocks.systems import find_system

REAL = pk.double
ROWS = 3  # rows of the array that gather_rows permutes
BOXES = False  # whether each system has a box of its own


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
    strides: pk.View1D[pk.int32],
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
        cell = cell + int(place) * strides[d]
    cells[i] = cell


@pk.workunit
def find_tilted_cells(
    i: int,
    points: pk.View2D[REAL],
    wrapped: pk.View2D[REAL],
    cells: pk.View1D[pk.int32],
    origin: pk.View1D[REAL],
    length: pk.View1D[REAL],
    inverse_width: pk.View1D[REAL],
    shape: pk.View1D[pk.int32],
    strides: pk.View1D[pk.int32],
    periodic: pk.View1D[pk.int32],
    tilts: pk.View1D[REAL],
    scale: REAL,
    offsets: pk.View1D[pk.int32],
    systems: int,
):
    """Do the same in a box whose points fill a brick, as a tilted box.

    A period along y moves a point by ``tilts[0]`` along x, too, and one along z by ``tilts[1]`` and
    ``tilts[2]`` along x and y. With BOXES ``origin``, ``length``, ``inverse_width`` and ``tilts``
    have three numbers for each system, which `find_system` finds.
    """
    box: int = 0
    if BOXES:
        find_system(i)
        box = 3 * system
    x: List[REAL] = [0.0] * 3
    for d in range(3):
        x[d] = points[d][i] * scale
    cell: int = 0
    for c in range(3):
        d: int = 2 - c
        if periodic[d] == 1:
            first: REAL = origin[box + d]
            period: REAL = length[box + d]
            images: REAL = pk.floor((x[d] - first) / period)
            x[d] = x[d] - images * period
            if x[d] < first:
                x[d] = first
            if x[d] - first >= period:
                x[d] = first
                images = images + 1.0
            if d == 2:
                x[0] = x[0] - images * tilts[box + 1]
                x[1] = x[1] - images * tilts[box + 2]
            if d == 1:
                x[0] = x[0] - images * tilts[box]
    for d in range(3):
        wrapped[d][i] = x[d]
        place: REAL = pk.floor((x[d] - origin[box + d]) * inverse_width[box + d])
        place = pk.fmax(pk.fmin(place, REAL(shape[d] - 1)), 0.0)
        cell = cell + int(place) * strides[d]
    cells[i] = cell


@pk.workunit
def multiply(
    i: int,
    points: pk.View2D[REAL],
    matrix: pk.View2D[REAL],
    multiplied: pk.View2D[REAL],
    offsets: pk.View1D[pk.int32],
    systems: int,
):
    """Multiply a point by a matrix; with BOXES by the one of its system, below the others'."""
    row: int = 0
    if BOXES:
        find_system(i)
        row = 3 * system
    x: REAL = points[0][i]
    y: REAL = points[1][i]
    z: REAL = points[2][i]
    for d in range(3):
        product: REAL = matrix[row + d][0] * x + matrix[row + d][1] * y
        multiplied[d][i] = product + matrix[row + d][2] * z


@pk.workunit
def place_systems(
    i: int,
    cells: pk.View1D[pk.int32],
    offsets: pk.View1D[pk.int32],
    systems: int,
    each: int,
):
    """Move a point's cell to the cells of its system; each system has ``each`` cells."""
    find_system(i)
    cells[i] = cells[i] + system * each


@pk.workunit
def count_pairs(
    i: int,
    trg: pk.View1D[pk.int32],
    src: pk.View1D[pk.int32],
    gathered: pk.View1D[pk.int32],
    spread: pk.View1D[pk.int32],
    near: int,
    trg_far: int,
    src_far: int,
    items: int,
    pairs: pk.View1D[pk.double],
):
    """Add to a number the pairs that share a cell, of cells i, i + items, ...

    The first ``items`` count targets and sources in the near field's cells, the next ones targets
    in the far field's, and the last ones sources there.
    """
    sum: REAL = 0.0
    number: int = i // items
    cell: int = i % items
    if number == 0:
        while cell < near:
            sum += REAL(trg[cell]) * REAL(src[cell])
            cell = cell + items
    if number == 1:
        while cell < trg_far:
            sum += REAL(gathered[cell]) * REAL(gathered[cell])
            cell = cell + items
    if number == 2:
        while cell < src_far:
            sum += REAL(spread[cell]) * REAL(spread[cell])
            cell = cell + items
    pk.atomic_add(pairs, [number], sum)


@pk.workunit
def sum_systems(
    i: int,
    rows: pk.View2D[REAL],
    offsets: pk.View1D[pk.int32],
    systems: int,
    sums: pk.View2D[REAL],
):
    """Sum one row over the points of one system: item i is (row, system)."""
    row: int = i // systems
    system: int = i % systems
    sum: REAL = 0.0
    for k in range(offsets[system], offsets[system + 1]):
        sum += rows[row][k]
    sums[row][system] = sum


@pk.workunit
def count_cells(
    i: int,
    cells: pk.View1D[pk.int32],
    counts: pk.View1D[pk.int32],
    numbers: pk.View1D[pk.int32],
):
    """Give a point a number in its cell, in any order; ``counts`` are zero before."""
    number: int = pk.atomic_fetch_add(counts, [cells[i]], 1)
    numbers[i] = number


@pk.workunit
def list_cells(
    i: int,
    cells: pk.View1D[pk.int32],
    numbers: pk.View1D[pk.int32],
    starts: pk.View1D[pk.int32],
    listed: pk.View1D[pk.int32],
):
    """Write a point into the list of its cell."""
    listed[starts[cells[i]] + numbers[i]] = i


@pk.workunit
def order_cells(
    i: int,
    cells: pk.View1D[pk.int32],
    starts: pk.View1D[pk.int32],
    listed: pk.View1D[pk.int32],
    order: pk.View1D[pk.int32],
):
    """Place the point that is number i of the lists, after the points of lower index in its cell.

    This reads fewer pairs than the near field, which computes with them.
    """
    point: int = listed[i]
    cell: int = cells[point]
    place: int = starts[cell]
    for k in range(starts[cell], starts[cell + 1]):
        if listed[k] < point:
            place += 1
    order[place] = point


@pk.workunit
def sort_few(
    i: int,
    cells: pk.View1D[pk.int32],
    counts: pk.View1D[pk.int32],
    starts: pk.View1D[pk.int32],
    order: pk.View1D[pk.int32],
    total: int,
    last: int,
):
    """Place point i, and count the points of cell i and of all cells before it; ``last`` is none.

    In one launch: every item reads all points, which takes less time than four more launches.
    """
    own: int = -1
    if i < total:
        own = cells[i]
    place: int = 0
    start: int = 0
    count: int = 0
    for k in range(total):
        cell: int = cells[k]
        if cell < own:
            place += 1
        if cell == own and k < i:
            place += 1
        if cell < i:
            start += 1
        if cell == i:
            count += 1
    if i < total:
        order[place] = i
    if i <= last:
        starts[i] = start
    if i < last:
        counts[i] = count


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


@pk.workunit
def add_rows(
    i: int,
    rows: pk.View2D[REAL],
    order: pk.View1D[pk.int32],
    sums: pk.View2D[REAL],
):
    """Add the column order[i] of an array to column i of the result."""
    for c in range(ROWS):
        sums[c][i] += rows[c][order[i]]


@pk.workunit
def count_parts(
    r: int,
    starts: pk.View1D[pk.int32],
    length: int,
    pieces: int,
    size: int,
    counts: pk.View1D[pk.int32],
):
    """Count the parts of at most ``size`` points that run r is cut into.

    A column of ``length`` cells is ``pieces`` runs; the points of cell c begin at ``starts[c]``.
    """
    column: int = r // pieces * length
    piece: int = r % pieces
    first: int = starts[column + piece * length // pieces]
    last: int = starts[column + (piece + 1) * length // pieces]
    counts[r] = (last - first + size - 1) // size


@pk.workunit
def list_parts(
    p: int,
    starts: pk.View1D[pk.int32],
    length: int,
    pieces: int,
    size: int,
    runs: int,
    begins: pk.View1D[pk.int32],
    parts: pk.View2D[pk.int32],
):
    """Write part p as (column, first point, last + 1); beyond the last part, write an empty one.

    Run r has the parts ``begins[r]`` to ``begins[r + 1] - 1``.
    """
    r: int = 0
    last: int = runs
    while last - r > 1:
        middle: int = (r + last) // 2
        if begins[middle] <= p:
            r = middle
        else:
            last = middle
    column: int = r // pieces
    piece: int = r % pieces
    first: int = starts[column * length + piece * length // pieces] + (p - begins[r]) * size
    end: int = starts[column * length + (piece + 1) * length // pieces]
    if end > first + size:
        end = first + size
    if p >= begins[runs]:
        first = 0
        end = 0
    parts[0][p] = column
    parts[1][p] = first
    parts[2][p] = end


@pk.workunit
def list_few(
    p: int,
    starts: pk.View1D[pk.int32],
    length: int,
    pieces: int,
    size: int,
    columns: int,
    parts: pk.View2D[pk.int32],
):
    """Do as `count_parts` and `list_parts`, where there are few runs: count all runs for part p."""
    own: int = columns - 1
    first: int = 0
    end: int = 0
    begin: int = 0
    for column in range(columns):
        for piece in range(pieces):
            low: int = starts[column * length + piece * length // pieces]
            high: int = starts[column * length + (piece + 1) * length // pieces]
            count: int = (high - low + size - 1) // size
            if begin <= p and p < begin + count:
                own = column
                first = low + (p - begin) * size
                end = high
            begin += count
    if end > first + size:
        end = first + size
    parts[0][p] = own
    parts[1][p] = first
    parts[2][p] = end
