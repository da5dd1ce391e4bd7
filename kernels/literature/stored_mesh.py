"""Spreading as a sparse matrix, after Guo, Liu, Xu, Du and Chow: rows are mesh points.

Set-up counts each row's contributions and then collects them; in between the host sums the counts.
An entry is a particle and its weight. The variants differ in how rows are stored:

`single mesh` (GROUP = 1): rows are contiguous (CSR). `sum_rows`: a compute unit of LANES threads
takes a row, and sums by a reduction.

`group mesh`: rows are groups of GROUP mesh points, and an entry names its point of the group.
`sum_groups`: a team takes a group and adds by atomics.

`hybrid mesh` (HYBRID): the first entries of each row are stored column by column (ELL), the others
one by one (COO). `sum_columns` and `sum_others`.

`gather` (Harvey and De Fabritiis) stores no weights. `place_particles` puts a particle at the first
mesh point of its window, at most one at each. `gather_mesh` sums over the particles placed within a
window of each mesh point. The host spreads the other particles by `p2g_source`.

`list_windows` writes the transpose row by row: the mesh points and weights of each particle.
"""

from typing import List

import pykokkos as pk

from kernels.blocks.window import place, value

REAL = pk.double
COMPONENTS = 1
P = 8
PX = P  # points of the window along x: 1 where the grid has two dimensions, y and z
ROW = 8  # P, rounded up with zero columns so that rows fill vector registers
TERMS = 7  # polynomial terms of the window
GROUP = 1  # mesh points of a row
HYBRID = False
ROWS = 32  # mesh points of a team of sum_rows


@pk.function
def wrapped(g: int, n: int) -> int:
    """Return a mesh point of a window, wrapped at a periodic end."""
    if g >= n:
        return g - n
    return g


@pk.workunit
def count_entries(
    i: int,
    src: pk.View2D[REAL],
    inverse_step: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    counts: pk.View1D[pk.int32],
):
    """Count the entries of each row: item i is a line of a particle's window, (particle, x, y)."""
    j: int = i // (PX * P)
    place(src, j)
    g0: int = wrapped(c0 + i // P % PX, shape[0])
    g1: int = wrapped(c1 + i % P, shape[1])
    for z in range(P):
        g: int = (g0 * shape[1] + g1) * shape[2] + wrapped(c2 + z, shape[2])
        pk.atomic_add(counts, [g // GROUP], 1)


@pk.workunit
def collect_entries(
    i: int,
    src: pk.View2D[REAL],
    inverse_step: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    window: pk.View2D[REAL],
    starts: pk.View1D[pk.int64],
    width: int,
    taken: pk.View1D[pk.int32],
    particles: pk.View1D[pk.int32],
    points: pk.View1D[pk.int32],
    weights: pk.View1D[REAL],
    columns: pk.View2D[pk.int32],
    factors: pk.View2D[REAL],
):
    """Write the entries of a line of a particle's window; ``taken`` counts the entries of each row.

    Row r begins at ``starts[r]``, for entries beyond the ``width`` that are stored by columns.
    ``points`` is the mesh point of an entry within its group, or within the mesh (COO).
    """
    j: int = i // (PX * P)
    a: int = i // P % PX
    b: int = i % P
    place(src, j)
    x: REAL = 1.0
    if PX > 1:
        value(window, a, z0, wx)
        x = wx
    value(window, b, z1, wy)
    x = x * wy
    g0: int = wrapped(c0 + a, shape[0])
    g1: int = wrapped(c1 + b, shape[1])
    for z in range(P):
        g: int = (g0 * shape[1] + g1) * shape[2] + wrapped(c2 + z, shape[2])
        row: int = g // GROUP
        slot: int = pk.atomic_fetch_add(taken, [row], 1)
        value(window, z, z2, wz)
        if HYBRID:
            if slot < width:
                columns[slot][row] = j
                factors[slot][row] = x * wz
        if slot >= width:
            at: pk.int64 = starts[row] + slot - width
            particles[at] = j
            weights[at] = x * wz
            if GROUP > 1:
                points[at] = g % GROUP
            if HYBRID:
                points[at] = g


@pk.workunit
def list_windows(
    i: int,
    src: pk.View2D[REAL],
    inverse_step: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    window: pk.View2D[REAL],
    points: pk.View1D[pk.int32],
    weights: pk.View1D[REAL],
):
    """Write a line of a particle's window: its mesh points, of ``shape`` in all, and weights."""
    j: int = i // (PX * P)
    a: int = i // P % PX
    b: int = i % P
    place(src, j)
    x: REAL = 1.0
    if PX > 1:
        value(window, a, z0, wx)
        x = wx
    value(window, b, z1, wy)
    x = x * wy
    g0: int = wrapped(c0 + a, shape[0])
    g1: int = wrapped(c1 + b, shape[1])
    for z in range(P):
        value(window, z, z2, wz)
        at: pk.int64 = i
        at = at * P + z
        points[at] = (g0 * shape[1] + g1) * shape[2] + wrapped(c2 + z, shape[2])
        weights[at] = x * wz


@pk.workunit
def sum_rows(
    team: pk.TeamMember,
    rows: int,
    starts: pk.View1D[pk.int64],
    particles: pk.View1D[pk.int32],
    weights: pk.View1D[REAL],
    dens: pk.View2D[REAL],
    flat: pk.View2D[REAL],
):
    """Sum the entries of ROWS rows, each by the lanes of a thread."""
    first: int = team.league_rank() * ROWS

    def sum_row(r: int):
        g: int = first + r
        if g < rows:
            begin: pk.int64 = starts[g]
            count: int = int(starts[g + 1] - begin)
            for c in range(COMPONENTS):

                def add(m: int, acc: pk.Acc[REAL]):
                    acc += weights[begin + m] * dens[c][particles[begin + m]]

                total: REAL = pk.parallel_reduce(pk.ThreadVectorRange(team, count), add)
                flat[c][g] = total

    pk.parallel_for(pk.TeamThreadRange(team, ROWS), sum_row)


@pk.workunit
def sum_groups(
    team: pk.TeamMember,
    starts: pk.View1D[pk.int64],
    particles: pk.View1D[pk.int32],
    points: pk.View1D[pk.int32],
    weights: pk.View1D[REAL],
    dens: pk.View2D[REAL],
    flat: pk.View2D[REAL],
):
    """Add the entries of one group to its mesh points."""
    group: int = team.league_rank()
    begin: pk.int64 = starts[group]
    count: int = int(starts[group + 1] - begin)

    def add(m: int):
        at: pk.int64 = begin + m
        g: int = group * GROUP + points[at]
        j: int = particles[at]
        w: REAL = weights[at]
        for c in range(COMPONENTS):
            pk.atomic_add(flat, [c, g], w * dens[c][j])

    pk.parallel_for(pk.TeamThreadRange(team, count), add)


@pk.workunit
def sum_columns(
    g: int,
    columns: pk.View2D[pk.int32],
    factors: pk.View2D[REAL],
    taken: pk.View1D[pk.int32],
    width: int,
    dens: pk.View2D[REAL],
    flat: pk.View2D[REAL],
):
    """Sum the entries of a row that are stored column by column."""
    count: int = taken[g]
    if count > width:
        count = width
    sums: List[REAL] = [0.0] * COMPONENTS
    for m in range(count):
        j: int = columns[m][g]
        w: REAL = factors[m][g]
        for c in range(COMPONENTS):
            sums[c] += w * dens[c][j]
    for c in range(COMPONENTS):
        flat[c][g] = sums[c]


@pk.workunit
def sum_others(
    e: int,
    particles: pk.View1D[pk.int32],
    points: pk.View1D[pk.int32],
    weights: pk.View1D[REAL],
    dens: pk.View2D[REAL],
    flat: pk.View2D[REAL],
):
    """Add an entry that is stored separately."""
    for c in range(COMPONENTS):
        pk.atomic_add(flat, [c, points[e]], weights[e] * dens[c][particles[e]])


@pk.workunit
def place_particles(
    j: int,
    src: pk.View2D[REAL],
    inverse_step: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    counts: pk.View1D[pk.int32],
    holder: pk.View1D[pk.int32],
    over: pk.View1D[pk.int32],
):
    """Put a particle at the first mesh point of its window, or mark it if that is taken."""
    place(src, j)
    g: int = (c0 * shape[1] + c1) * shape[2] + c2
    slot: int = pk.atomic_fetch_add(counts, [g], 1)
    over[j] = 1
    if slot == 0:
        holder[g] = j
        over[j] = 0


@pk.workunit
def gather_mesh(
    i: int,
    src: pk.View2D[REAL],
    dens: pk.View2D[REAL],
    inverse_step: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    window: pk.View2D[REAL],
    holder: pk.View1D[pk.int32],
    flat: pk.View2D[REAL],
):
    """Sum at mesh point i over the particles placed at most a window before it."""
    g2: int = i % shape[2]
    g1: int = i // shape[2] % shape[1]
    g0: int = i // shape[2] // shape[1]
    sums: List[REAL] = [0.0] * COMPONENTS
    for a in range(PX):
        h0: int = g0 - a
        if h0 < 0 and shape[0] == cells[0]:
            h0 = h0 + shape[0]
        for b in range(P):
            h1: int = g1 - b
            if h1 < 0 and shape[1] == cells[1]:
                h1 = h1 + shape[1]
            for z in range(P):
                h2: int = g2 - z
                if h2 < 0 and shape[2] == cells[2]:
                    h2 = h2 + shape[2]
                if h0 >= 0 and h1 >= 0 and h2 >= 0:
                    j: int = holder[(h0 * shape[1] + h1) * shape[2] + h2]
                    if j >= 0:
                        place(src, j)
                        value(window, b, z1, wy)
                        value(window, z, z2, wz)
                        w: REAL = wy * wz
                        if PX > 1:
                            value(window, a, z0, wx)
                            w = w * wx
                        for c in range(COMPONENTS):
                            sums[c] += w * dens[c][j]
    for c in range(COMPONENTS):
        flat[c][i] = sums[c]
