"""P2G by the variants of Kosmacher, Du, Bagge and Biros (2026), section 3.2, for comparison.

They spread what `p2g.py` spreads, with its windows, onto grids without a spill.

`p2g_source` (their BASE and SOURCE, Algorithm 3): one work item owns one source and adds its whole
window to the grid by atomics. The two differ only in the order of the sources: BASE takes the order
given, SOURCE sorts by tiles of TILE steps.

`p2g_grid` (GRID, Algorithm 4): a team owns a cube of TILE x TILE x TILE grid points, each thread
some of them. A thread walks the sources of all tiles in reach, evaluates their windows at its
point, and writes without atomics.

`p2g_hybrid` (HYBRID, Algorithm 5): a team owns at most BATCH sources of one tile, and keeps their
windows and densities in scratch memory. Each thread owns some of the grid points in the tile's
reach. It sums all sources at its point, and then adds to the grid once, by an atomic.
"""

import pykokkos as pk

from kernels.blocks.spread import add_source, add_to_grid, stresslet, tile_ahead
from kernels.blocks.window import cell_within, grid_point, place, take_values, value

REAL = pk.double
PLAIN = 3  # components that are spread by the window itself
LAYERS = True  # whether there are vectors with normals, too
VECTORS = LAYERS  # whether the window's gradient spreads them
P = 8
PX = P  # points of the window along x: 1 where the grid has two dimensions, y and z
ROW = 8  # P, rounded up with zero columns so that rows fill vector registers
TERMS = 7  # polynomial terms of the window
TILE = 4  # grid steps along the edge of a tile
# p2g_hybrid only:
BATCH = 32  # most sources of a team
EXTENT = TILE + P - 1  # grid points along an edge of the tile's reach
DEPTH = 1 + (PX > 1) * (EXTENT - 1)  # along x
WEIGHTS = 3 * P + 3 * P * LAYERS  # windows along x, y, z, then their slopes


@pk.workunit
def p2g_source(
    j: int,
    src: pk.View2D[REAL],
    dens: pk.View2D[REAL],
    norms: pk.View2D[REAL],
    inverse_step: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    window: pk.View2D[REAL],
    slope: pk.View2D[REAL],
    grid: pk.View4D[REAL],
):
    """Spread source j."""
    place(src, j)
    take_values(window, wx, wy, wz)
    f0: REAL = 0.0
    f1: REAL = 0.0
    f2: REAL = 0.0
    if PLAIN > 0:
        f0 = dens[0][j]
    if PLAIN > 1:
        f1 = dens[1][j]
    if PLAIN > 2:
        f2 = dens[2][j]
    if LAYERS:
        take_values(slope, dx, dy, dz)
        stresslet(j)
    for a in range(PX):
        grid_point(g0, 0, c0 + a)
        for b in range(P):
            grid_point(g1, 1, c1 + b)
            ww: REAL = wy[b]
            if PX > 1:
                ww = wx[a] * wy[b]
            a0: REAL = f0 * ww
            a1: REAL = f1 * ww
            a2: REAL = f2 * ww
            if LAYERS:
                dw: REAL = dx[a] * wy[b] * inverse_step[0]
                wd: REAL = wx[a] * dy[b] * inverse_step[1]
                a0 += xx * dw + xy * wd
                a1 += xy * dw + yy * wd
                a2 += zx * dw + yz * wd
                vw: REAL = ww * inverse_step[2]
                a3: REAL = trace * ww
                b0: REAL = zx * vw
                b1: REAL = yz * vw
                b2: REAL = zz * vw
            for z in range(P):
                grid_point(g2, 2, c2 + z)
                if LAYERS:
                    u0: REAL = a0 * wz[z] + b0 * dz[z]
                    u1: REAL = a1 * wz[z] + b1 * dz[z]
                    u2: REAL = a2 * wz[z] + b2 * dz[z]
                    add_to_grid(u0, u1, u2, a3 * wz[z])
                else:
                    add_to_grid(a0 * wz[z], a1 * wz[z], a2 * wz[z], 0.0)


@pk.workunit
def p2g_grid(
    team: pk.TeamMember,
    cubes: pk.View1D[pk.int32],
    tiles: pk.View1D[pk.int32],
    starts: pk.View1D[pk.int32],
    src: pk.View2D[REAL],
    dens: pk.View2D[REAL],
    norms: pk.View2D[REAL],
    inverse_step: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    window: pk.View2D[REAL],
    slope: pk.View2D[REAL],
    grid: pk.View4D[REAL],
):
    """Sum at the points of one cube of the grid; ``cubes`` are their numbers along each axis."""
    cube: int = team.league_rank()
    base2: int = TILE * (cube % cubes[2])
    base1: int = TILE * (cube // cubes[2] % cubes[1])
    base0: int = TILE * (cube // cubes[2] // cubes[1])

    def point(v: int):
        g0: int = base0 + v // (TILE * TILE)
        g1: int = base1 + v // TILE % TILE
        g2: int = base2 + v % TILE
        if g0 < shape[0] and g1 < shape[1] and g2 < shape[2]:
            s0: REAL = 0.0
            s1: REAL = 0.0
            s2: REAL = 0.0
            s3: REAL = 0.0
            # Cells from P - 1 before the cube to its last one have sources that reach the points.
            # They are walked tile by tile; cells before the first are images' (or none).
            at0: int = base0 - P + 1
            if shape[0] > cells[0] and at0 < 0:
                at0 = 0
            while at0 < base0 + TILE and at0 < cells[0]:
                tile_ahead(0, at0, first0, image0, tile0, last0)
                at1: int = base1 - P + 1
                if shape[1] > cells[1] and at1 < 0:
                    at1 = 0
                while at1 < base1 + TILE and at1 < cells[1]:
                    tile_ahead(1, at1, first1, image1, tile1, last1)
                    at2: int = base2 - P + 1
                    if shape[2] > cells[2] and at2 < 0:
                        at2 = 0
                    while at2 < base2 + TILE and at2 < cells[2]:
                        tile_ahead(2, at2, first2, image2, tile2, last2)
                        tile: int = (tile0 * tiles[1] + tile1) * tiles[2] + tile2
                        for j in range(starts[tile], starts[tile + 1]):
                            cell_within(src, 0, j, first0, TILE, t0, c0)
                            cell_within(src, 1, j, first1, TILE, t1, c1)
                            cell_within(src, 2, j, first2, TILE, t2, c2)
                            i0: int = g0 - image0 - c0
                            i1: int = g1 - image1 - c1
                            i2: int = g2 - image2 - c2
                            if i0 >= 0 and i0 < P and i1 >= 0 and i1 < P and i2 >= 0 and i2 < P:
                                z0: REAL = 2.0 * (t0 - REAL(c0)) - 1.0
                                z1: REAL = 2.0 * (t1 - REAL(c1)) - 1.0
                                z2: REAL = 2.0 * (t2 - REAL(c2)) - 1.0
                                value(window, i0, z0, wx)
                                value(window, i1, z1, wy)
                                value(window, i2, z2, wz)
                                if LAYERS:
                                    value(slope, i0, z0, dx)
                                    value(slope, i1, z1, dy)
                                    value(slope, i2, z2, dz)
                                    dx = dx * inverse_step[0]
                                    dy = dy * inverse_step[1]
                                    dz = dz * inverse_step[2]
                                add_source(dens, norms, 0, j)
            grid[0][g0][g1][g2] = s0
            if PLAIN > 1 or LAYERS:
                grid[1][g0][g1][g2] = s1
            if PLAIN > 2 or LAYERS:
                grid[2][g0][g1][g2] = s2
            if LAYERS:
                grid[3][g0][g1][g2] = s3

    pk.parallel_for(pk.TeamThreadRange(team, TILE * TILE * TILE), point)


@pk.workunit
def p2g_hybrid(
    team: pk.TeamMember,
    work: pk.View2D[pk.int32],
    tiles: pk.View1D[pk.int32],
    src: pk.View2D[REAL],
    dens: pk.View2D[REAL],
    norms: pk.View2D[REAL],
    inverse_step: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    window: pk.View2D[REAL],
    slope: pk.View2D[REAL],
    grid: pk.View4D[REAL],
):
    """Spread at most BATCH sources of one tile; ``work`` is (tile, first, last + 1) by team."""
    weights: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, WEIGHTS)
    strength: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), 9, BATCH)
    anchor: pk.ScratchView2D[pk.int32] = pk.ScratchView2D(team.team_scratch(0), BATCH, 3)
    part: int = team.league_rank()
    tile: int = work[0][part]
    begin: int = work[1][part]
    count: int = work[2][part] - begin
    base2: int = TILE * (tile % tiles[2])
    base1: int = TILE * (tile // tiles[2] % tiles[1])
    base0: int = TILE * (tile // tiles[2] // tiles[1])

    # A thread takes each value of a window: all of a row would take a thread's registers.
    def prepare(v: int):
        p: int = v % P
        d: int = v // P % 3
        m: int = v // (3 * P)
        j: int = begin + m
        base: int = base2
        if d == 0:
            base = base0
        if d == 1:
            base = base1
        cell_within(src, d, j, base, TILE, t, c)
        x: REAL = 2.0 * (t - REAL(c)) - 1.0
        value(window, p, x, w)
        if PX == 1:
            if d == 0:
                w = 1.0
        weights[m][d * P + p] = w
        if LAYERS:
            value(slope, p, x, g)
            weights[m][(3 + d) * P + p] = g * inverse_step[d]
        if p == 0:
            anchor[m][d] = c - base
            if LAYERS:
                strength[d][m] = dens[d][j]
                strength[6 + d][m] = norms[d][j]
            else:
                if d < PLAIN:
                    strength[d][m] = dens[d][j]
            if LAYERS and PLAIN > 0:
                strength[3 + d][m] = dens[3 + d][j]

    pk.parallel_for(pk.TeamThreadRange(team, 3 * P * count), prepare)
    team.team_barrier()

    def point(v: int):
        x: int = v // (EXTENT * EXTENT)
        y: int = v // EXTENT % EXTENT
        z: int = v % EXTENT
        hits: int = 0
        s0: REAL = 0.0
        s1: REAL = 0.0
        s2: REAL = 0.0
        s3: REAL = 0.0
        for m in range(count):
            i0: int = x - anchor[m][0]
            i1: int = y - anchor[m][1]
            i2: int = z - anchor[m][2]
            if i0 >= 0 and i0 < P and i1 >= 0 and i1 < P and i2 >= 0 and i2 < P:
                hits += 1
                wx: REAL = weights[m][i0]
                wy: REAL = weights[m][P + i1]
                wz: REAL = weights[m][2 * P + i2]
                if LAYERS:
                    dx: REAL = weights[m][3 * P + i0]
                    dy: REAL = weights[m][4 * P + i1]
                    dz: REAL = weights[m][5 * P + i2]
                add_source(strength, strength, 6, m)
        if hits > 0:
            # No source reaches the grid's end by more than a window, and no axis is shorter.
            grid_point(g0, 0, base0 + x)
            grid_point(g1, 1, base1 + y)
            grid_point(g2, 2, base2 + z)
            add_to_grid(s0, s1, s2, s3)

    pk.parallel_for(pk.TeamThreadRange(team, DEPTH * EXTENT * EXTENT), point)
