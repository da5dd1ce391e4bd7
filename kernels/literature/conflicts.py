"""Spreading with four ways to handle conflicts, after Ljungkvist's finite elements.

Sources play the part of elements in his operator: sources near each other add to the same values of
the grid. A work item takes one source (EACH), or the sources of an item of a list.

`atomics` (ATOMIC, EACH): every addition is atomic.
`colouring`: items are tiles of one colour, which never touch the same grid point.
`private` (PRIVATE): items are the threads' parts of the sources. Each has its own grid, side by
side along y; `sum_buffers` sums the grids.
`unprotected` (EACH): contributions are lost, since nothing is protected; a bound for the time.
"""

import pykokkos as pk

from kernels.blocks.window import grid_point, place, take_values

REAL = pk.double
COMPONENTS = 1
P = 8
PX = P  # points of the window along x: 1 where the grid has two dimensions, y and z
ROW = 8  # P, rounded up with zero columns so that rows fill vector registers
TERMS = 7  # polynomial terms of the window
EACH = False
ATOMIC = False
PRIVATE = False


@pk.workunit
def spread_items(
    i: int,
    items: pk.View1D[pk.int32],
    starts: pk.View1D[pk.int32],
    src: pk.View2D[REAL],
    dens: pk.View2D[REAL],
    inverse_step: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    window: pk.View2D[REAL],
    grid: pk.View4D[REAL],
):
    """Spread the sources of one item: ``starts[items[i]]`` to ``starts[items[i] + 1]`` - 1."""
    first: int = i
    last: int = i + 1
    if EACH == 0:
        first = starts[items[i]]
        last = starts[items[i] + 1]
    above: int = 0
    if PRIVATE:
        above = i * shape[1]
    for j in range(first, last):
        place(src, j)
        take_values(window, wx, wy, wz)
        for a in range(PX):
            grid_point(g0, 0, c0 + a)
            for b in range(P):
                grid_point(g1, 1, c1 + b)
                g1 = g1 + above
                w: REAL = wy[b]
                if PX > 1:
                    w = w * wx[a]
                for c in range(COMPONENTS):
                    f: REAL = w * dens[c][j]
                    if ATOMIC:
                        for z in range(P):
                            grid_point(g2, 2, c2 + z)
                            pk.atomic_add(grid, [c, g0, g1, g2], f * wz[z])
                    else:
                        if c2 + P <= shape[2]:
                            for z in range(P):
                                grid[c][g0][g1][c2 + z] += f * wz[z]
                        else:
                            for z in range(P):
                                grid_point(g2, 2, c2 + z)
                                grid[c][g0][g1][g2] += f * wz[z]


@pk.workunit
def sum_buffers(
    i: int,
    buffers: int,
    shape: pk.View1D[pk.int32],
    parts: pk.View4D[REAL],
    grid: pk.View4D[REAL],
):
    """Sum the threads' grids along one row, (x, y)."""
    x: int = i // shape[1]
    y: int = i % shape[1]
    for c in range(COMPONENTS):
        for z in range(shape[2]):
            total: REAL = 0.0
            for t in range(buffers):
                total += parts[c][x][t * shape[1] + y][z]
            grid[c][x][y][z] = total
