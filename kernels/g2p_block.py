"""G2P on CPUs: a batch of targets reads a block of a plane that was copied once.

``g2p.py`` and ``g2p_tensor.py`` say what is gathered: values, derivatives, or the gradient of what
tensor targets read. A work item gathers for its targets batch by batch, plane by plane
along x. It copies what the windows of a batch reach in a plane to a block of scratch memory, which
the nearest cache holds. Rows of the block along z begin with a cache line of the field. A target's
window along z is kept from the beginning of such a line on, with zeros before and after, so that no
load crosses lines. Targets of a batch are sorted by the length of that window, in half lines, and
by the first plane of their windows, so that neighbours do the same work and a plane reads a few
runs of targets. The sum of a target does not depend on others of its batch.
"""

from typing import List

import pykokkos as pk

from kernels.blocks.batch import begin_batch, reach, take_point
from kernels.blocks.gather import gather_rows, keep_window, total
from kernels.blocks.window import grid_point, place

REAL = pk.double
COMPONENTS = 3  # most components
VALUES = True  # whether to add the field
GRADIENT = False  # whether to add its derivatives
PRESSURE = False  # whether to add the pressure, the field's next component
TENSORS = False  # whether to add the gradients of what tensor targets read
SYSTEMS = False  # whether these are of several systems, each with a grid of its own
FIELDS = COMPONENTS + (PRESSURE + TENSORS > 0)
ORDERS = 1 + (GRADIENT + TENSORS > 0) + TENSORS  # the window and its derivatives
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
# Lines of a target's sums: values, derivatives, the pressure, and the gradient of the reading.
SLOPES = COMPONENTS * VALUES
LEVEL = SLOPES + 3 * COMPONENTS * GRADIENT
PULL = LEVEL + PRESSURE
SUMS = PULL + 3 * TENSORS


@pk.workunit
def g2p_block(
    team: pk.TeamMember,
    size: int,
    count: int,
    trg: pk.View2D[REAL],
    order: pk.View1D[pk.int32],
    inverse_step: pk.View1D[REAL],
    descent: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    window: pk.View2D[REAL],
    slope: pk.View2D[REAL],
    curvature: pk.View2D[REAL],
    first: int,
    grids: pk.View1D[pk.int32],
    field: pk.View4D[REAL],
    tensors: pk.View2D[REAL],
    pot: pk.View2D[REAL],
    gradient: pk.View2D[REAL],
    pressure: pk.View2D[REAL],
    pull: pk.View2D[REAL],
):
    """Add the far field at up to ``size`` sorted targets i to columns order[i] of the results.

    One thread of the team does all. Fields lie side by side along y, and arguments and results are
    as in `g2p_gradient` and `g2p_tensor`.
    """
    block: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), FIELDS * HIGH, DEEP)
    sums: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, SUMS * LANES)
    wz: pk.ScratchView3D[REAL] = pk.ScratchView3D(team.team_scratch(0), ORDERS, BATCH, LONG)
    wx: pk.ScratchView3D[REAL] = pk.ScratchView3D(team.team_scratch(0), ORDERS, BATCH, ROW)
    wy: pk.ScratchView3D[REAL] = pk.ScratchView3D(team.team_scratch(0), ORDERS, BATCH, ROW)
    # A tensor target's tensor and strength, in the unit of the grid.
    strengths: pk.ScratchView2D[REAL] = pk.ScratchView2D(
        team.team_scratch(0), BATCH * TENSORS + 1, 10
    )
    at: pk.ScratchView2D[pk.int32] = pk.ScratchView2D(team.team_scratch(0), 4, BATCH)
    ends: pk.ScratchView1D[pk.int32] = pk.ScratchView1D(team.team_scratch(0), KINDS * PLANES + 2)

    def gather(_: int):
        batch: int = team.league_rank() * size
        end: int = batch + size
        if end > count:
            end = count
        while batch < end:
            # Take targets while their windows fit into the block.
            begin_batch()
            above: int = first * shape[1]
            if SYSTEMS:
                above = above + grids[batch] * shape[1]
            taken: int = 0
            more: int = 1
            while more == 1:
                reach(trg, batch + taken)
                deep: int = h2 + P - l2 // LANES * LANES
                if h0 - l0 >= PLANES or h1 - l1 + P > HIGH or deep > DEEP:
                    more = 0
                else:
                    take_point()
                    at[0][taken] = c0
                    at[1][taken] = (c2 % LANES + P - 1) // HALF - (P - 1) // HALF
                    taken += 1
                    if taken == BATCH or batch + taken == end:
                        more = 0
                    elif SYSTEMS:
                        if grids[batch + taken] != grids[batch]:
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
                at[0][to] = c0
                at[1][to] = c1 - low1
                at[2][to] = c2 - shift - bottom
                at[3][to] = order[batch + k]
                keep_window(window, 0, to)
                if ORDERS > 1:
                    keep_window(slope, 1, to)
                if TENSORS:
                    keep_window(curvature, 2, to)
                    for c in range(3):
                        for d in range(3):
                            strengths[to][3 * c + d] = tensors[3 * c + d][at[3][to]] * descent[d]
                    strengths[to][9] = tensors[9][at[3][to]]
                for v in range(SUMS * LANES):
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
                        for c in range(FIELDS):
                            for v in range(LANES):
                                block[c * HIGH + row][q * LANES + v] = field[c][g0][g1][z + v]
                    for z in range(whole * LANES, lines * LANES):
                        grid_point(g2, 2, bottom + z)
                        if g2 >= shape[2]:  # where all windows are zero
                            g2 = 0
                        for c in range(FIELDS):
                            block[c * HIGH + row][z] = field[c][g0][g1][g2]
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
                u: REAL = 0.0
                for c in range(COMPONENTS):
                    if VALUES:
                        total(c)
                        pot[c][out] += u
                    if GRADIENT:
                        for d in range(3):
                            total(SLOPES + 3 * c + d)
                            gradient[3 * c + d][out] += u * descent[d]
                if PRESSURE:
                    total(LEVEL)
                    pressure[0][out] += u
                if TENSORS:
                    for d in range(3):
                        total(PULL + d)
                        pull[d][out] += u * descent[d]
            batch += taken

    pk.parallel_for(pk.TeamThreadRange(team, 1), gather)
