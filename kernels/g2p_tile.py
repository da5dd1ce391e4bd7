"""G2P by rolling tiles: a team walks along x with a short stretch of the field in scratch memory.

As in `g2p.py`, but a team owns a part of the targets of one column of TILE1 x TILE2 grid steps,
which are sorted by their grid cell along x. Scratch memory holds COMPONENTS of the field around the
column. It has the PLANES cells that a batch of targets may span, and what windows reach beyond
them: EXTENT0 planes, with x in plane x mod EXTENT0. Each plane is read once as the walk comes near,
and periodic ends are wrapped then, for all targets.

LANES threads share a target: thread (r, c) of the first BANDS * SPLIT gathers at the planes r (mod
BANDS) and heights c (mod SPLIT) of its window. Planes are SPLIT numbers apart in the memory banks,
so that the threads read neighbouring banks. Partial sums meet in scratch memory.
"""

from typing import List

import pykokkos as pk

from kernels.blocks.window import cell_within, halves

REAL = pk.double
COMPONENTS = 3
VALUES = True  # whether to add the field
GRADIENT = False  # whether to add its derivatives
P = 8
ROW = 8  # P, rounded up with zero columns so that rows fill vector registers
HALF = (P + 1) // 2
TERMS = 7
TILE1 = 8
TILE2 = 8
PLANES = 4
BANDS = 2  # threads of a target along x
SPLIT = 8  # threads of a target along z
STEPS = 1  # heights of a thread: SPLIT * STEPS is at least P
LANES = 16  # threads of a target, idle ones included
BATCH = 32  # targets prepared at a time
ROUNDS = (P + BANDS - 1) // BANDS  # most planes of a thread
PARTS = BANDS * SPLIT
EXTENT0 = PLANES + P - 1
EXTENT1 = TILE1 + P - 1
EXTENT2 = TILE2 + P - 1
PLANE = EXTENT1 * EXTENT2 + SPLIT * STEPS - P  # from plane to plane: room for idle heights
WEIGHTS = 3 * P + 3 * P * GRADIENT  # windows along x, y, z, then their slopes
SUMS = 1 + 3 * GRADIENT  # sums of a component: its value, its derivatives


@pk.workunit
def g2p_tile(
    team: pk.TeamMember,
    work: pk.View2D[pk.int32],
    tiles: pk.View1D[pk.int32],
    starts: pk.View1D[pk.int32],
    trg: pk.View2D[REAL],
    order: pk.View1D[pk.int32],
    inverse_step: pk.View1D[REAL],
    descent: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    window: pk.View2D[REAL],
    slope: pk.View2D[REAL],
    first: int,
    field: pk.View4D[REAL],
    pot: pk.View2D[REAL],
    gradient: pk.View2D[REAL],
):
    """Add the far field at one part of the sorted targets; ``work`` is (column, first, last + 1).

    Fields lie side by side along y: one for each system, from ``first`` on.

    Targets of cell x of column i begin at ``starts[i tiles[0] + x]``. Results go to the columns
    ``order`` of the potential and the gradient, as in `g2p_gradient`.
    """
    local: pk.ScratchView2D[REAL] = pk.ScratchView2D(
        team.team_scratch(0), COMPONENTS, EXTENT0 * PLANE
    )
    weights: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, WEIGHTS)
    partial: pk.ScratchView3D[REAL] = pk.ScratchView3D(
        team.team_scratch(0), BATCH, COMPONENTS * SUMS, PARTS
    )
    anchor: pk.ScratchView2D[pk.int32] = pk.ScratchView2D(team.team_scratch(0), BATCH, 4)
    part: int = team.league_rank()
    column: int = work[0][part]
    begin: int = work[1][part]
    end: int = work[2][part]
    base1: int = TILE1 * (column % tiles[1])
    base2: int = TILE2 * (column // tiles[1] % tiles[2])
    above: int = (first + column // tiles[1] // tiles[2]) * shape[1]
    cell: int = column * tiles[0]
    now: int = 0  # the cell along x where a batch begins
    staged: int = 0  # the plane after the last one that was read
    batch: int = begin
    while batch < end:
        # The cell list's rounding may differ in the last bit, and the list decides.
        near: int = int(trg[0][batch] * inverse_step[0]) - 1
        if near > now:
            now = near
        while starts[cell + now + 1] <= batch:
            now = now + 1
        ahead: int = now + PLANES
        if ahead > tiles[0]:
            ahead = tiles[0]
        count: int = starts[cell + ahead] - batch
        if count > end - batch:
            count = end - batch
        if count > BATCH:
            count = BATCH
        if staged < now:
            staged = now

        def stage(v: int):
            z: int = v % EXTENT2
            y: int = v // EXTENT2 % EXTENT1
            x: int = staged + v // (EXTENT2 * EXTENT1)
            place: int = x % EXTENT0 * PLANE + y * EXTENT2 + z
            g0: int = x
            g1: int = base1 + y
            g2: int = base2 + z
            # Small grids are shorter than a tile: wrap as often as needed. Along free axes this
            # reads values that no window touches.
            while g0 >= shape[0]:
                g0 = g0 - shape[0]
            while g1 >= shape[1]:
                g1 = g1 - shape[1]
            while g2 >= shape[2]:
                g2 = g2 - shape[2]
            g1 = g1 + above
            for k in range(COMPONENTS):
                local[k][place] = field[k][g0][g1][g2]

        pk.parallel_for(
            pk.TeamThreadRange(team, (now + EXTENT0 - staged) * EXTENT1 * EXTENT2), stage
        )

        # A thread takes two values of a window: all of a row would take a thread's registers.
        def prepare(v: int):
            p: int = v % HALF
            d: int = v // HALF % 3
            m: int = v // (3 * HALF)
            base: int = now
            edge: int = PLANES
            if d == 1:
                base = base1
                edge = TILE1
            if d == 2:
                base = base2
                edge = TILE2
            cell_within(trg, d, batch + m, base, edge, t, c)
            if p == 0:
                if d == 0:
                    anchor[m][0] = c % EXTENT0
                if d == 1:
                    anchor[m][1] = (c - base) * EXTENT2
                if d == 2:
                    anchor[m][2] = c - base
            x: REAL = 2.0 * (t - REAL(c)) - 1.0
            xx: REAL = x * x
            halves(window, p, x, xx, even, odd)
            weights[m][d * P + p] = even + odd
            weights[m][d * P + P - 1 - p] = even - odd
            if GRADIENT:
                halves(slope, p, x, xx, even_slope, odd_slope)
                weights[m][(3 + d) * P + p] = (odd_slope + even_slope) * descent[d]
                weights[m][(3 + d) * P + P - 1 - p] = (odd_slope - even_slope) * descent[d]

        pk.parallel_for(pk.TeamThreadRange(team, 3 * HALF * count), prepare)
        team.team_barrier()

        def gather(v: int):
            m: int = v // LANES
            c: int = v % LANES % SPLIT
            r: int = v % LANES // SPLIT
            if r < BANDS:
                plane: int = anchor[m][0] + r
                corner: int = anchor[m][1] + anchor[m][2] + c
                if GRADIENT:
                    # One component at a time: the sums of all would not fit into registers.
                    for k in range(COMPONENTS):
                        value: List[REAL] = [0.0] * STEPS
                        along0: List[REAL] = [0.0] * STEPS
                        along1: List[REAL] = [0.0] * STEPS
                        for t in range(ROUNDS):
                            a: int = r + BANDS * t
                            if BANDS * ROUNDS > P:
                                if a >= P:
                                    continue
                            slot: int = plane + BANDS * t
                            if slot >= EXTENT0:
                                slot = slot - EXTENT0
                            here: int = slot * PLANE + corner
                            wx: REAL = weights[m][a]
                            dx: REAL = weights[m][3 * P + a]
                            for b in range(P):
                                ww: REAL = wx * weights[m][P + b]
                                dw: REAL = dx * weights[m][P + b]
                                wd: REAL = wx * weights[m][4 * P + b]
                                for s in range(STEPS):
                                    value[s] += ww * local[k][here + EXTENT2 * b + SPLIT * s]
                                    along0[s] += dw * local[k][here + EXTENT2 * b + SPLIT * s]
                                    along1[s] += wd * local[k][here + EXTENT2 * b + SPLIT * s]
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
                        partial[m][SUMS * k][SPLIT * r + c] = u
                        partial[m][SUMS * k + 1][SPLIT * r + c] = u0
                        partial[m][SUMS * k + 2][SPLIT * r + c] = u1
                        partial[m][SUMS * k + 3][SPLIT * r + c] = u2
                else:
                    sum0: List[REAL] = [0.0] * STEPS
                    sum1: List[REAL] = [0.0] * STEPS
                    sum2: List[REAL] = [0.0] * STEPS
                    for t in range(ROUNDS):
                        a: int = r + BANDS * t
                        if BANDS * ROUNDS > P:
                            if a >= P:
                                continue
                        slot: int = plane + BANDS * t
                        if slot >= EXTENT0:
                            slot = slot - EXTENT0
                        here: int = slot * PLANE + corner
                        wx: REAL = weights[m][a]
                        for b in range(P):
                            ww: REAL = wx * weights[m][P + b]
                            for s in range(STEPS):
                                sum0[s] += ww * local[0][here + EXTENT2 * b + SPLIT * s]
                            if COMPONENTS > 1:
                                for s in range(STEPS):
                                    sum1[s] += ww * local[1][here + EXTENT2 * b + SPLIT * s]
                            if COMPONENTS > 2:
                                for s in range(STEPS):
                                    sum2[s] += ww * local[2][here + EXTENT2 * b + SPLIT * s]
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
                    partial[m][0][SPLIT * r + c] = u0
                    if COMPONENTS > 1:
                        partial[m][1][SPLIT * r + c] = u1
                    if COMPONENTS > 2:
                        partial[m][2][SPLIT * r + c] = u2

        pk.parallel_for(pk.TeamThreadRange(team, count * LANES), gather)
        team.team_barrier()

        def finish(v: int):
            r: int = v % (COMPONENTS * SUMS)
            m: int = v // (COMPONENTS * SUMS)
            u: REAL = 0.0
            for c in range(PARTS):
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
        staged = now + EXTENT0
