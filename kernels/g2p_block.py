"""G2P by wide windows on CPUs: a batch of targets reads a block of a plane that was copied once.

``g2p.py`` says what is gathered. A work item gathers for its targets batch by batch, plane by plane
along x. It copies what the windows of a batch reach in a plane to a block of scratch memory, which
the nearest cache holds. Rows of the block along z begin with a cache line of the field. A target's
window along z is kept from the beginning of such a line on, with zeros before and after, so that no
load crosses lines. Targets of a batch are sorted by the length of that window, in half lines, and
by the first plane of their windows, so that neighbours do the same work and a plane reads a few
runs of targets. The sum of a target does not depend on others of its batch.
"""

from typing import List

import pykokkos as pk

from kernels.blocks.gather import gather_rows
from kernels.blocks.window import grid_point, horner, place

REAL = pk.double
COMPONENTS = 3  # most components
P = 8
ROW = 8  # P, rounded up with zero columns so that rows fill vector registers
TERMS = 7  # polynomial terms of the window
BATCH = 512  # most targets of a batch
LANES = 8  # numbers of a cache line
HALF = LANES // 2
SHORT = (P + HALF - 1) // HALF * HALF  # length of a window along z that begins with a line
KINDS = (P + LANES - 2) // HALF - (P - 1) // HALF + 1  # lengths of windows: this and longer ones
LONG = (ROW + 2 * LANES - 2) // LANES * LANES
PLANES = 3 * P  # most planes in which windows of a batch begin
HIGH = 3 * P  # most rows of the block, for each component
DEEP = (P + 4 * LANES) // LANES * LANES  # most numbers of a row of the block


@pk.workunit
def g2p_block(
    team: pk.TeamMember,
    size: int,
    count: int,
    trg: pk.View2D[REAL],
    order: pk.View1D[pk.int32],
    inverse_step: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    window: pk.View2D[REAL],
    first: int,
    field: pk.View4D[REAL],
    pot: pk.View2D[REAL],
):
    """Add the far field at up to ``size`` sorted targets i to columns order[i] of the potential.

    One thread of the team does all. Fields lie side by side along y; this one is number ``first``.
    """
    block: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), COMPONENTS * HIGH, DEEP)
    sums: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, COMPONENTS * LANES)
    wz: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, LONG)
    wx: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, ROW)
    wy: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, ROW)
    at: pk.ScratchView2D[pk.int32] = pk.ScratchView2D(team.team_scratch(0), 4, BATCH)
    ends: pk.ScratchView1D[pk.int32] = pk.ScratchView1D(team.team_scratch(0), KINDS * PLANES + 2)
    above: int = first * shape[1]

    def gather(_: int):
        batch: int = team.league_rank() * size
        end: int = batch + size
        if end > count:
            end = count
        while batch < end:
            # Take targets while their windows fit into the block.
            low0: int = cells[0]
            low1: int = cells[1]
            low2: int = cells[2]
            high0: int = 0
            high1: int = 0
            high2: int = 0
            taken: int = 0
            more: int = 1
            while more == 1:
                place(trg, batch + taken)
                l0: int = low0
                l1: int = low1
                l2: int = low2
                h0: int = high0
                h1: int = high1
                h2: int = high2
                if c0 < l0:
                    l0 = c0
                if c1 < l1:
                    l1 = c1
                if c2 < l2:
                    l2 = c2
                if c0 > h0:
                    h0 = c0
                if c1 > h1:
                    h1 = c1
                if c2 > h2:
                    h2 = c2
                deep: int = h2 + P - l2 // LANES * LANES
                if h0 - l0 >= PLANES or h1 - l1 + P > HIGH or deep > DEEP:
                    more = 0
                else:
                    low0 = l0
                    low1 = l1
                    low2 = l2
                    high0 = h0
                    high1 = h1
                    high2 = h2
                    at[0][taken] = c0
                    at[1][taken] = (c2 % LANES + P - 1) // HALF - (P - 1) // HALF
                    taken += 1
                    if taken == BATCH or batch + taken == end:
                        more = 0
            # Count the targets of each length and first plane.
            planes: int = high0 - low0 + 1
            for m in range(KINDS * planes + 2):
                ends[m] = 0
            for k in range(taken):
                ends[at[1][k] * planes + at[0][k] - low0 + 2] += 1
            for m in range(KINDS * planes):
                ends[m + 1] += ends[m]
            bottom: int = low2 // LANES * LANES
            for k in range(taken):
                place(trg, batch + k)
                shift: int = c2 % LANES
                kind: int = (shift + P - 1) // HALF - (P - 1) // HALF
                to: int = ends[kind * planes + c0 - low0 + 1]
                ends[kind * planes + c0 - low0 + 1] += 1
                v0: List[REAL] = [0.0] * ROW
                v1: List[REAL] = [0.0] * ROW
                v2: List[REAL] = [0.0] * ROW
                horner(window, TERMS - 1, v0, v1, v2)
                at[0][to] = c0
                at[1][to] = c1 - low1
                at[2][to] = c2 - shift - bottom
                at[3][to] = order[batch + k]
                for p in range(ROW):
                    wx[to][p] = v0[p] * z0 + window[TERMS - 1][p]
                for p in range(ROW):
                    wy[to][p] = v1[p] * z1 + window[TERMS - 1][p]
                for z in range(LONG):
                    wz[to][z] = 0.0
                for p in range(ROW):
                    wz[to][shift + p] = v2[p] * z2 + window[TERMS - 1][p]
                for v in range(COMPONENTS * LANES):
                    sums[to][v] = 0.0
            # From here on, targets of run m are those from ends[m] to ends[m + 1] - 1.
            lines: int = (high2 + P - bottom + LANES - 1) // LANES
            whole: int = (shape[2] - bottom) // LANES
            if whole > lines:
                whole = lines
            for plane in range(low0, high0 + P):
                grid_point(g0, 0, plane)
                for y in range(low1, high1 + P):
                    grid_point(g1, 1, y)
                    g1 = g1 + above
                    row: int = y - low1
                    for q in range(whole):
                        z: int = bottom + q * LANES
                        for v in range(LANES):
                            block[row][q * LANES + v] = field[0][g0][g1][z + v]
                        if COMPONENTS > 1:
                            for v in range(LANES):
                                block[HIGH + row][q * LANES + v] = field[1][g0][g1][z + v]
                        if COMPONENTS > 2:
                            for v in range(LANES):
                                block[2 * HIGH + row][q * LANES + v] = field[2][g0][g1][z + v]
                    for z in range(whole * LANES, lines * LANES):
                        grid_point(g2, 2, bottom + z)
                        if g2 >= shape[2]:  # where all windows are zero
                            g2 = 0
                        block[row][z] = field[0][g0][g1][g2]
                        if COMPONENTS > 1:
                            block[HIGH + row][z] = field[1][g0][g1][g2]
                        if COMPONENTS > 2:
                            block[2 * HIGH + row][z] = field[2][g0][g1][g2]
                since: int = 0
                if plane - low0 >= P:
                    since = plane - low0 - P + 1
                until: int = planes
                if plane < high0:
                    until = plane - low0 + 1
                for kind in range(KINDS):
                    begin: int = ends[kind * planes + since]
                    stop: int = ends[kind * planes + until]
                    if kind == 0:
                        for k in range(begin, stop):
                            gather_rows(SHORT)
                    elif kind == 1:
                        for k in range(begin, stop):
                            gather_rows(SHORT + HALF)
                    elif KINDS > 2:
                        for k in range(begin, stop):
                            gather_rows(SHORT + LANES)
            for k in range(taken):
                out: int = at[3][k]
                u0: REAL = 0.0
                u1: REAL = 0.0
                u2: REAL = 0.0
                for z in range(HALF):
                    u0 += sums[k][z] + sums[k][HALF + z]
                if COMPONENTS > 1:
                    for z in range(HALF):
                        u1 += sums[k][LANES + z] + sums[k][LANES + HALF + z]
                if COMPONENTS > 2:
                    for z in range(HALF):
                        u2 += sums[k][2 * LANES + z] + sums[k][2 * LANES + HALF + z]
                pot[0][out] += u0
                if COMPONENTS > 1:
                    pot[1][out] += u1
                if COMPONENTS > 2:
                    pot[2][out] += u2
            batch += taken

    pk.parallel_for(pk.TeamThreadRange(team, 1), gather)
