"""P2G by rolling tiles: a team walks along x with a short stretch of the grid in scratch memory.

Components and windows as in `p2g.py`. A team owns a share of the sources of one column of
TILE1 x TILE2 grid steps, which are sorted by their grid cell along x. Scratch memory holds the
grid around it, over the PLANES cells that a batch of sources may span and what windows reach beyond
them: EXTENT0 planes, x in plane x mod EXTENT0. Planes that the walk leaves behind are added to the
grid and start again as zeros.

Thread (a, b, c) owns the grid points with x = a, y = b (mod P) and z = c (mod SPLIT): of the P
consecutive ones a source touches along x and y, each thread owns exactly one, so threads add
without atomics or idling, and without barriers between sources. Scratch memory may not hold all
components: a launch takes GROUP of them.

A warp's threads differ in c first, then in b, then in a. PITCH (an odd multiple of SPLIT), BLOCK
(of every P rows: a whole turn of the memory banks) and PLANE lay them side by side in the banks,
wherever a source begins.
"""

import pykokkos as pk

REAL = pk.double
SINGLE = True
DOUBLE = True
LAPLACE = False
P = 8
ROW = 8  # as in p2g.py; the columns beyond P are not used
TERMS = 7  # polynomial terms of the window
TILE1 = 8
TILE2 = 8
PLANES = 3
SPLIT = 2
STEPS = (P + SPLIT - 1) // SPLIT  # most points of a thread along z
BATCH = 16
FIRST = 0  # the team's components: FIRST to FIRST + GROUP - 1
GROUP = 4
HAS0 = FIRST == 0
HAS1 = FIRST <= 1 and FIRST + GROUP > 1
HAS2 = FIRST <= 2 and FIRST + GROUP > 2
HAS3 = FIRST <= 3 and FIRST + GROUP > 3
EXTENT0 = PLANES + P - 1
EXTENT1 = TILE1 + P - 1
EXTENT2 = TILE2 + P - 1
PITCH = EXTENT2 + 3  # from row to row
BLOCK = P * PITCH  # from row y to row y + P
PLANE = 2 * BLOCK  # from plane to plane


@pk.workunit
def p2g_tile(
    team: pk.TeamMember,
    work: pk.View2D[pk.int32],
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
    """Spread one share of one column's sources; ``work`` is (column, first, last + 1) by team.

    Sources of cell x of column i begin at ``starts[i tiles[0] + x]``.
    """
    local: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), GROUP, EXTENT0 * PLANE)
    weights: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, 6 * P)
    strength: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, 10)
    anchor: pk.ScratchView2D[pk.int32] = pk.ScratchView2D(team.team_scratch(0), BATCH, 8)
    share: int = team.league_rank()
    column: int = work[0][share]
    begin: int = work[1][share]
    end: int = work[2][share]
    base1: int = TILE1 * (column % tiles[1])
    base2: int = TILE2 * (column // tiles[1])
    first: int = column * tiles[0]
    # Scratch memory holds the planes from `low` on. The first batch finds none, and clears all.
    low: int = -EXTENT0
    batch: int = begin
    while batch <= end:
        # Once more after the last batch: without sources, for the planes that are left.
        now: int = low + EXTENT0
        count: int = 0
        if batch < end:
            # The cell list's rounding may differ in the last bit: its word counts.
            now = int(src[0][batch] * inverse_step[0]) - 1
            if now < low:
                now = low
            if now < 0:
                now = 0
            while starts[first + now + 1] <= batch:
                now = now + 1
            ahead: int = now + PLANES
            if ahead > tiles[0]:
                ahead = tiles[0]
            count = starts[first + ahead] - batch
            if count > end - batch:
                count = end - batch
            if count > BATCH:
                count = BATCH
        left: int = now - low
        if left > EXTENT0:
            left = EXTENT0

        def flush(v: int):
            z: int = v % EXTENT2
            y: int = v // EXTENT2 % EXTENT1
            k: int = v // (EXTENT2 * EXTENT1) % GROUP
            x: int = v // (EXTENT2 * EXTENT1 * GROUP)
            place: int = (low + EXTENT0 + x) % EXTENT0 * PLANE + y // P * BLOCK + y % P * PITCH + z
            if batch > begin:
                value: REAL = local[k][place]
                if value < 0.0 or value > 0.0:
                    g0: int = low + x
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
            local[k][place] = 0.0

        pk.parallel_for(pk.TeamThreadRange(team, left * GROUP * EXTENT1 * EXTENT2), flush)

        # A thread for each value of a window: all of a row would take a thread's registers.
        def prepare(v: int):
            p: int = v % P
            d: int = v // P % 3
            m: int = v // (3 * P)
            j: int = batch + m
            base: int = now
            last: int = PLANES
            if d == 1:
                base = base1
                last = TILE1
            if d == 2:
                base = base2
                last = TILE2
            t: REAL = src[d][j] * inverse_step[d]
            c: int = int(t)
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
                # Where the source begins, and the first residue of its points, along each axis.
                if d == 0:
                    anchor[m][0] = c % EXTENT0
                    anchor[m][3] = c % P
                if d == 1:
                    anchor[m][1] = (c - base) // P * BLOCK
                    anchor[m][4] = (c - base) % P
                if d == 2:
                    anchor[m][2] = c - base
                    anchor[m][5] = (c - base) % SPLIT
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
                i0: int = a - anchor[m][3]
                if i0 < 0:
                    i0 = i0 + P
                i1: int = b - anchor[m][4]
                row: int = anchor[m][1] + b * PITCH
                if i1 < 0:
                    i1 = i1 + P
                    row = row + BLOCK
                i2: int = c - anchor[m][5]
                if i2 < 0:
                    i2 = i2 + SPLIT
                plane: int = anchor[m][0] + i0
                if plane >= EXTENT0:
                    plane = plane - EXTENT0
                here: int = plane * PLANE + row + anchor[m][2]
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
                            local[0][here + i] += a0 * wz + b0 * dz
                        if HAS1:
                            local[1 - FIRST][here + i] += a1 * wz + b1 * dz
                        if HAS2:
                            local[2 - FIRST][here + i] += a2 * wz + b2 * dz
                        if HAS3:
                            local[3 - FIRST][here + i] += a3 * wz
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
                            local[0][here + i] += f0 * wz
                        if HAS1:
                            local[1 - FIRST][here + i] += f1 * wz
                        if HAS2:
                            local[2 - FIRST][here + i] += f2 * wz

        pk.parallel_for(pk.TeamThreadRange(team, P * P * SPLIT), spread)
        team.team_barrier()
        low = now
        batch = batch + count
        if count == 0:
            batch = batch + 1
