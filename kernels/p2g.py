"""P2G: spreads the sources onto the grid with the window.

Four components (MATH C): A_j = f_j w + (q_j n_m + n_j q_m) d_m w, j = 0..2, and D = (q.n) w; the
single layer alone has the first three without the gradient, Laplace the plain window. Row a of the
window tables is a polynomial in 2 frac - 1 for the a-th of the P grid points that a source touches,
from floor(x/h) on: the shift by half a window is the same in G2P and cancels.

`p2g_owner` (CPUs): sources are sorted by tiles; a tile's sources reach at most halfway into the
next tile but one, so tiles of one colour never touch the same grid point: each work item owns its
tile and writes without atomics. `p2g_tile` (GPUs): one team owns a share of one tile's sources,
adds them up in scratch memory and flushes once. Thread (a, b, c) owns the scratch columns with
x = a, y = b (mod P) and z = c (mod SPLIT): of the P consecutive columns a source touches, each
thread owns exactly one, so threads add without atomics or idling. Scratch memory may not hold all
components: a launch takes GROUP of them.
"""

from typing import List

import pykokkos as pk

REAL = pk.double
SINGLE = True
DOUBLE = True
LAPLACE = False
P = 8
ROW = 8  # P, rounded up with zero columns so that rows fill vector registers
TERMS = 7  # polynomial terms of the window
# p2g_tile only:
TILE0 = 8
TILE1 = 8
TILE2 = 8
SPLIT = 2
STEPS = (P + SPLIT - 1) // SPLIT  # most columns of a thread along z
BATCH = 16
FIRST = 0  # the team's components: FIRST to FIRST + GROUP - 1
GROUP = 4
HAS0 = FIRST == 0
HAS1 = FIRST <= 1 and FIRST + GROUP > 1
HAS2 = FIRST <= 2 and FIRST + GROUP > 2
HAS3 = FIRST <= 3 and FIRST + GROUP > 3
EXTENT0 = TILE0 + P - 1
EXTENT1 = TILE1 + P - 1
EXTENT2 = TILE2 + P - 1
PITCH = EXTENT2 + 3  # row pitch of the scratch grid: spreads a warp over the memory banks
VALUES = GROUP * EXTENT0 * EXTENT1 * EXTENT2


@pk.workunit
def p2g_owner(
    i: int,
    colour: pk.View1D[pk.int32],
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
    """Spread the sources of one column of tiles.

    ``colour`` is (first x, first y, step x, step y, tiles per row).
    """
    tile0: int = colour[0] + colour[2] * (i // colour[4])
    tile1: int = colour[1] + colour[3] * (i % colour[4])
    column: int = (tile0 * tiles[1] + tile1) * tiles[2]
    begin: int = starts[column]
    end: int = starts[column + tiles[2]]
    for j in range(begin, end):
        t0: REAL = src[0][j] * inverse_step[0]
        t1: REAL = src[1][j] * inverse_step[1]
        t2: REAL = src[2][j] * inverse_step[2]
        c0: int = int(t0)
        c1: int = int(t1)
        c2: int = int(t2)
        if c0 > cells[0] - 1:
            c0 = cells[0] - 1
        if c1 > cells[1] - 1:
            c1 = cells[1] - 1
        if c2 > cells[2] - 1:
            c2 = cells[2] - 1
        z0: REAL = 2.0 * (t0 - REAL(c0)) - 1.0
        z1: REAL = 2.0 * (t1 - REAL(c1)) - 1.0
        z2: REAL = 2.0 * (t2 - REAL(c2)) - 1.0
        wx: List[REAL] = [0.0] * ROW
        wy: List[REAL] = [0.0] * ROW
        wz: List[REAL] = [0.0] * ROW
        for p in range(ROW):
            wx[p] = window[0][p]
            wy[p] = window[0][p]
            wz[p] = window[0][p]
        for k in range(1, TERMS):
            for p in range(ROW):
                wx[p] = wx[p] * z0 + window[k][p]
                wy[p] = wy[p] * z1 + window[k][p]
                wz[p] = wz[p] * z2 + window[k][p]
        f0: REAL = 0.0
        f1: REAL = 0.0
        f2: REAL = 0.0
        if SINGLE or LAPLACE:
            f0 = dens[0][j]
        if SINGLE:
            f1 = dens[1][j]
            f2 = dens[2][j]
        if DOUBLE:
            dx: List[REAL] = [0.0] * ROW
            dy: List[REAL] = [0.0] * ROW
            dz: List[REAL] = [0.0] * ROW
            for p in range(ROW):
                dx[p] = slope[0][p]
                dy[p] = slope[0][p]
                dz[p] = slope[0][p]
            for k in range(1, TERMS):
                for p in range(ROW):
                    dx[p] = dx[p] * z0 + slope[k][p]
                    dy[p] = dy[p] * z1 + slope[k][p]
                    dz[p] = dz[p] * z2 + slope[k][p]
            q0: REAL = dens[3 * SINGLE][j]
            q1: REAL = dens[3 * SINGLE + 1][j]
            q2: REAL = dens[3 * SINGLE + 2][j]
            n0: REAL = norms[0][j]
            n1: REAL = norms[1][j]
            n2: REAL = norms[2][j]
            s00: REAL = 2.0 * q0 * n0 * inverse_step[0]
            s01: REAL = (q0 * n1 + q1 * n0) * inverse_step[1]
            s02: REAL = (q0 * n2 + q2 * n0) * inverse_step[2]
            s10: REAL = (q0 * n1 + q1 * n0) * inverse_step[0]
            s11: REAL = 2.0 * q1 * n1 * inverse_step[1]
            s12: REAL = (q1 * n2 + q2 * n1) * inverse_step[2]
            s20: REAL = (q0 * n2 + q2 * n0) * inverse_step[0]
            s21: REAL = (q1 * n2 + q2 * n1) * inverse_step[1]
            s22: REAL = 2.0 * q2 * n2 * inverse_step[2]
            trace: REAL = q0 * n0 + q1 * n1 + q2 * n2
        for a in range(P):
            g0: int = c0 + a
            if g0 >= shape[0]:
                g0 = g0 - shape[0]
            for b in range(P):
                g1: int = c1 + b
                if g1 >= shape[1]:
                    g1 = g1 - shape[1]
                ww: REAL = wx[a] * wy[b]
                if DOUBLE:
                    dw: REAL = dx[a] * wy[b]
                    wd: REAL = wx[a] * dy[b]
                    a0: REAL = f0 * ww + s00 * dw + s01 * wd
                    a1: REAL = f1 * ww + s10 * dw + s11 * wd
                    a2: REAL = f2 * ww + s20 * dw + s21 * wd
                    b0: REAL = s02 * ww
                    b1: REAL = s12 * ww
                    b2: REAL = s22 * ww
                    a3: REAL = trace * ww
                    for z in range(ROW):
                        grid[0][g0][g1][c2 + z] += a0 * wz[z] + b0 * dz[z]
                    for z in range(ROW):
                        grid[1][g0][g1][c2 + z] += a1 * wz[z] + b1 * dz[z]
                    for z in range(ROW):
                        grid[2][g0][g1][c2 + z] += a2 * wz[z] + b2 * dz[z]
                    for z in range(ROW):
                        grid[3][g0][g1][c2 + z] += a3 * wz[z]
                else:
                    a0: REAL = f0 * ww
                    for z in range(ROW):
                        grid[0][g0][g1][c2 + z] += a0 * wz[z]
                    if SINGLE:
                        a1: REAL = f1 * ww
                        a2: REAL = f2 * ww
                        for z in range(ROW):
                            grid[1][g0][g1][c2 + z] += a1 * wz[z]
                        for z in range(ROW):
                            grid[2][g0][g1][c2 + z] += a2 * wz[z]


@pk.workunit
def p2g_tile(
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
    """Spread one share of one tile's sources; ``work`` is (tile, first, last) by team."""
    local: pk.ScratchView4D[REAL] = pk.ScratchView4D(
        team.team_scratch(0), GROUP, EXTENT0, EXTENT1, PITCH
    )
    weights: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, 6 * P)
    strength: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, 10)
    anchor: pk.ScratchView2D[pk.int32] = pk.ScratchView2D(team.team_scratch(0), BATCH, 4)
    share: int = team.league_rank()
    tile: int = work[0][share]
    begin: int = work[1][share]
    end: int = work[2][share]
    base2: int = TILE2 * (tile % tiles[2])
    base1: int = TILE1 * (tile // tiles[2] % tiles[1])
    base0: int = TILE0 * (tile // tiles[2] // tiles[1])

    def clear(v: int):
        x: int = v // (EXTENT1 * EXTENT2)
        local[x // EXTENT0][x % EXTENT0][v // EXTENT2 % EXTENT1][v % EXTENT2] = 0.0

    pk.parallel_for(pk.TeamThreadRange(team, VALUES), clear)
    batch: int = begin
    while batch < end:
        count: int = BATCH
        if count > end - batch:
            count = end - batch
        team.team_barrier()

        # A thread for each value of a window: all of a row would take a thread's registers.
        def prepare(v: int):
            p: int = v % P
            d: int = v // P % 3
            m: int = v // (3 * P)
            j: int = batch + m
            base: int = base2
            last: int = TILE2
            if d == 0:
                base = base0
                last = TILE0
            if d == 1:
                base = base1
                last = TILE1
            t: REAL = src[d][j] * inverse_step[d]
            c: int = int(t)
            # The tile comes from the cell list, whose rounding may differ in the last bit.
            if c < base:
                c = base
            if c > base + last - 1:
                c = base + last - 1
            if c > cells[d] - 1:
                c = cells[d] - 1
            x: REAL = 2.0 * (t - REAL(c)) - 1.0
            w: REAL = window[0][p]
            for k in range(1, TERMS):
                w = w * x + window[k][p]
            weights[m][d * P + p] = w
            if DOUBLE:
                g: REAL = slope[0][p]
                for k in range(1, TERMS):
                    g = g * x + slope[k][p]
                weights[m][(3 + d) * P + p] = g * inverse_step[d]
            if p == 0:
                anchor[m][d] = c - base
                if SINGLE:
                    strength[m][d] = dens[d][j]
                if LAPLACE:
                    if d == 0:
                        strength[m][0] = dens[0][j]
                if DOUBLE:
                    q: REAL = dens[3 * SINGLE + d][j]
                    n: REAL = norms[d][j]
                    # The symmetric tensor q n + n q: the diagonal in 3..5, then xy, yz, zx.
                    e: int = d + 1
                    if e == 3:
                        e = 0
                    strength[m][3 + d] = 2.0 * q * n
                    strength[m][6 + d] = q * norms[e][j] + dens[3 * SINGLE + e][j] * n

        pk.parallel_for(pk.TeamThreadRange(team, 3 * P * count), prepare)
        team.team_barrier()

        def spread(v: int):
            c: int = v % SPLIT
            b: int = v // SPLIT % P
            a: int = v // (SPLIT * P)
            for m in range(count):
                l0: int = anchor[m][0]
                l1: int = anchor[m][1]
                l2: int = anchor[m][2]
                i0: int = (a - l0 % P + P) % P
                i1: int = (b - l1 % P + P) % P
                i2: int = (c - l2 % SPLIT + SPLIT) % SPLIT
                g0: int = l0 + i0
                g1: int = l1 + i1
                wx: REAL = weights[m][i0]
                wy: REAL = weights[m][P + i1]
                ww: REAL = wx * wy
                if DOUBLE:
                    dw: REAL = weights[m][3 * P + i0] * wy
                    wd: REAL = wx * weights[m][4 * P + i1]
                    xx: REAL = strength[m][3]
                    yy: REAL = strength[m][4]
                    zz: REAL = strength[m][5]
                    xy: REAL = strength[m][6]
                    yz: REAL = strength[m][7]
                    zx: REAL = strength[m][8]
                    a0: REAL = xx * dw + xy * wd
                    a1: REAL = xy * dw + yy * wd
                    a2: REAL = zx * dw + yz * wd
                    if SINGLE:
                        a0 += strength[m][0] * ww
                        a1 += strength[m][1] * ww
                        a2 += strength[m][2] * ww
                    b0: REAL = zx * ww
                    b1: REAL = yz * ww
                    b2: REAL = zz * ww
                    a3: REAL = 0.5 * (xx + yy + zz) * ww
                    for z in range(STEPS):
                        i: int = i2 + SPLIT * z
                        if SPLIT * STEPS > P:
                            if i >= P:
                                continue
                        wz: REAL = weights[m][2 * P + i]
                        dz: REAL = weights[m][5 * P + i]
                        if HAS0:
                            local[0][g0][g1][l2 + i] += a0 * wz + b0 * dz
                        if HAS1:
                            local[1 - FIRST][g0][g1][l2 + i] += a1 * wz + b1 * dz
                        if HAS2:
                            local[2 - FIRST][g0][g1][l2 + i] += a2 * wz + b2 * dz
                        if HAS3:
                            local[3 - FIRST][g0][g1][l2 + i] += a3 * wz
                else:
                    f0: REAL = strength[m][0] * ww
                    f1: REAL = 0.0
                    f2: REAL = 0.0
                    if SINGLE:
                        f1 = strength[m][1] * ww
                        f2 = strength[m][2] * ww
                    for z in range(STEPS):
                        i: int = i2 + SPLIT * z
                        if SPLIT * STEPS > P:
                            if i >= P:
                                continue
                        wz: REAL = weights[m][2 * P + i]
                        if HAS0:
                            local[0][g0][g1][l2 + i] += f0 * wz
                        if HAS1:
                            local[1 - FIRST][g0][g1][l2 + i] += f1 * wz
                        if HAS2:
                            local[2 - FIRST][g0][g1][l2 + i] += f2 * wz

        pk.parallel_for(pk.TeamThreadRange(team, P * P * SPLIT), spread)
        batch = batch + count
    team.team_barrier()

    def flush(v: int):
        z: int = v % EXTENT2
        y: int = v // EXTENT2 % EXTENT1
        x: int = v // (EXTENT1 * EXTENT2) % EXTENT0
        k: int = v // (EXTENT0 * EXTENT1 * EXTENT2)
        value: REAL = local[k][x][y][z]
        if value < 0.0 or value > 0.0:
            g0: int = base0 + x
            g1: int = base1 + y
            g2: int = base2 + z
            # Small grids are shorter than a tile: wrap as often as needed.
            while g0 >= shape[0]:
                g0 = g0 - shape[0]
            while g1 >= shape[1]:
                g1 = g1 - shape[1]
            while g2 >= shape[2]:
                g2 = g2 - shape[2]
            pk.atomic_add(grid, [FIRST + k, g0, g1, g2], value)

    pk.parallel_for(pk.TeamThreadRange(team, VALUES), flush)
