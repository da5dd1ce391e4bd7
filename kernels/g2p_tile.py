"""G2P by tiles: the field around a tile of the grid is staged in scratch memory.

As `g2p.py`, but a team owns a share of one tile's targets. Scratch memory holds COMPONENTS of the
field, over the tile and what windows reach beyond it; periodic ends are wrapped once, for all
targets. Thread (m, c) gathers for target m at the heights z = c (mod SPLIT) of its window:
neighbouring threads then read neighbouring values, where one thread for each target would make a
warp read from 32 places. Partial sums meet in scratch memory.
"""

from typing import List

import pykokkos as pk

REAL = pk.double
COMPONENTS = 3
VALUES = True  # adds the field
GRADIENT = False  # adds its derivatives
P = 8
ROW = 8  # P, rounded up with zero columns so that rows fill vector registers
TERMS = 7
TILE = 8  # grid steps along the edge of a tile
SPLIT = 8  # threads of a target
STEPS = 1  # heights of a thread: SPLIT * STEPS is at least P
BATCH = 32  # targets prepared at a time
EXTENT = TILE + P - 1
PITCH = EXTENT + 3 + SPLIT * STEPS - P  # of rows of the staged field: room for idle heights
WEIGHTS = 3 * P + 3 * P * GRADIENT  # windows along x, y, z, then their slopes
SUMS = 1 + 3 * GRADIENT  # of a component: its value, its derivatives


@pk.workunit
def g2p_tile(
    team: pk.TeamMember,
    work: pk.View2D[pk.int32],
    tiles: pk.View1D[pk.int32],
    trg: pk.View2D[REAL],
    order: pk.View1D[pk.int32],
    inverse_step: pk.View1D[REAL],
    descent: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    window: pk.View2D[REAL],
    slope: pk.View2D[REAL],
    field: pk.View4D[REAL],
    pot: pk.View2D[REAL],
    gradient: pk.View2D[REAL],
):
    """Add the far field at one share of sorted targets; ``work`` is (tile, first, last + 1).

    Results go to the columns ``order`` of the potential and the gradient, as in `g2p_gradient`.
    """
    local: pk.ScratchView4D[REAL] = pk.ScratchView4D(
        team.team_scratch(0), COMPONENTS, EXTENT, EXTENT, PITCH
    )
    weights: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, WEIGHTS)
    partial: pk.ScratchView3D[REAL] = pk.ScratchView3D(
        team.team_scratch(0), BATCH, COMPONENTS * SUMS, SPLIT
    )
    anchor: pk.ScratchView2D[pk.int32] = pk.ScratchView2D(team.team_scratch(0), BATCH, 3)
    share: int = team.league_rank()
    tile: int = work[0][share]
    begin: int = work[1][share]
    end: int = work[2][share]
    base2: int = TILE * (tile % tiles[2])
    base1: int = TILE * (tile // tiles[2] % tiles[1])
    base0: int = TILE * (tile // tiles[2] // tiles[1])

    def stage(v: int):
        z: int = v % EXTENT
        y: int = v // EXTENT % EXTENT
        x: int = v // (EXTENT * EXTENT)
        g0: int = base0 + x
        g1: int = base1 + y
        g2: int = base2 + z
        # Small grids are shorter than a tile: wrap as often as needed. Along free axes this brings
        # values that no window touches.
        while g0 >= shape[0]:
            g0 = g0 - shape[0]
        while g1 >= shape[1]:
            g1 = g1 - shape[1]
        while g2 >= shape[2]:
            g2 = g2 - shape[2]
        for k in range(COMPONENTS):
            local[k][x][y][z] = field[k][g0][g1][g2]

    pk.parallel_for(pk.TeamThreadRange(team, EXTENT * EXTENT * EXTENT), stage)
    batch: int = begin
    while batch < end:
        count: int = BATCH
        if count > end - batch:
            count = end - batch

        # A thread for each value of a window: all of a row would take a thread's registers.
        def prepare(v: int):
            p: int = v % P
            d: int = v // P % 3
            m: int = v // (3 * P)
            base: int = base2
            if d == 0:
                base = base0
            if d == 1:
                base = base1
            t: REAL = trg[d][batch + m] * inverse_step[d]
            c: int = int(t)
            # The tile comes from the cell list, whose rounding may differ in the last bit.
            if c < base:
                c = base
            if c > base + TILE - 1:
                c = base + TILE - 1
            if c > cells[d] - 1:
                c = cells[d] - 1
            if p == 0:
                anchor[m][d] = c - base
            x: REAL = 2.0 * (t - REAL(c)) - 1.0
            w: REAL = window[0][p]
            for k in range(1, TERMS):
                w = w * x + window[k][p]
            weights[m][d * P + p] = w
            if GRADIENT:
                g: REAL = slope[0][p]
                for k in range(1, TERMS):
                    g = g * x + slope[k][p]
                weights[m][(3 + d) * P + p] = g * descent[d]

        pk.parallel_for(pk.TeamThreadRange(team, 3 * P * count), prepare)
        team.team_barrier()

        def gather(v: int):
            m: int = v // SPLIT
            c: int = v % SPLIT
            l0: int = anchor[m][0]
            l1: int = anchor[m][1]
            l2: int = anchor[m][2] + c
            if GRADIENT:
                # One component after the other: the sums of all would not fit into registers.
                for k in range(COMPONENTS):
                    value: List[REAL] = [0.0] * STEPS
                    along0: List[REAL] = [0.0] * STEPS
                    along1: List[REAL] = [0.0] * STEPS
                    for a in range(P):
                        wx: REAL = weights[m][a]
                        dx: REAL = weights[m][3 * P + a]
                        for b in range(P):
                            ww: REAL = wx * weights[m][P + b]
                            dw: REAL = dx * weights[m][P + b]
                            wd: REAL = wx * weights[m][4 * P + b]
                            for s in range(STEPS):
                                value[s] += ww * local[k][l0 + a][l1 + b][l2 + SPLIT * s]
                                along0[s] += dw * local[k][l0 + a][l1 + b][l2 + SPLIT * s]
                                along1[s] += wd * local[k][l0 + a][l1 + b][l2 + SPLIT * s]
                    u: REAL = 0.0
                    u0: REAL = 0.0
                    u1: REAL = 0.0
                    u2: REAL = 0.0
                    for s in range(STEPS):
                        if c + SPLIT * s < P:
                            wz: REAL = weights[m][2 * P + c + SPLIT * s]
                            u += value[s] * wz
                            u0 += along0[s] * wz
                            u1 += along1[s] * wz
                            u2 += value[s] * weights[m][5 * P + c + SPLIT * s]
                    partial[m][SUMS * k][c] = u
                    partial[m][SUMS * k + 1][c] = u0
                    partial[m][SUMS * k + 2][c] = u1
                    partial[m][SUMS * k + 3][c] = u2
            else:
                sum0: List[REAL] = [0.0] * STEPS
                sum1: List[REAL] = [0.0] * STEPS
                sum2: List[REAL] = [0.0] * STEPS
                for a in range(P):
                    wx: REAL = weights[m][a]
                    for b in range(P):
                        ww: REAL = wx * weights[m][P + b]
                        for s in range(STEPS):
                            sum0[s] += ww * local[0][l0 + a][l1 + b][l2 + SPLIT * s]
                        if COMPONENTS > 1:
                            for s in range(STEPS):
                                sum1[s] += ww * local[1][l0 + a][l1 + b][l2 + SPLIT * s]
                        if COMPONENTS > 2:
                            for s in range(STEPS):
                                sum2[s] += ww * local[2][l0 + a][l1 + b][l2 + SPLIT * s]
                u0: REAL = 0.0
                u1: REAL = 0.0
                u2: REAL = 0.0
                for s in range(STEPS):
                    if c + SPLIT * s < P:
                        wz: REAL = weights[m][2 * P + c + SPLIT * s]
                        u0 += sum0[s] * wz
                        if COMPONENTS > 1:
                            u1 += sum1[s] * wz
                        if COMPONENTS > 2:
                            u2 += sum2[s] * wz
                partial[m][0][c] = u0
                if COMPONENTS > 1:
                    partial[m][1][c] = u1
                if COMPONENTS > 2:
                    partial[m][2][c] = u2

        pk.parallel_for(pk.TeamThreadRange(team, count * SPLIT), gather)
        team.team_barrier()

        def finish(v: int):
            r: int = v % (COMPONENTS * SUMS)
            m: int = v // (COMPONENTS * SUMS)
            u: REAL = 0.0
            for c in range(SPLIT):
                u += partial[m][r][c]
            out: int = order[batch + m]
            if GRADIENT:
                d: int = r % SUMS
                if d > 0:
                    gradient[3 * (r // SUMS) + d - 1][out] += u
                else:
                    if VALUES:
                        pot[r // SUMS][out] += u
            else:
                pot[r][out] += u

        pk.parallel_for(pk.TeamThreadRange(team, count * COMPONENTS * SUMS), finish)
        batch = batch + count
