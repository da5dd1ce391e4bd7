"""P2G by tiles: a thread owns a column of the grid, whose values stay in registers.

Components and windows are as in `p2g.py`. A team owns a tile of TILE1 x TILE2 columns along x. It
walks through the sources that reach the tile, in the order of their grid cells along x, and stages
their windows in scratch memory. Each thread adds the sources in reach to P values of its column,
from the cell `now` on, in registers. Values that the walk leaves behind are added to the grid once.
If teams share a tile's sources, they also share P - 1 planes: hence the additions are atomic.

`reach` lists a tile's sources; a source that reaches several tiles is in all their lists. Sources
are sorted by columns of SIDE1 x SIDE2 grid cells, along x. A block of as many grid columns belongs
to the threads of a warp, which wait for each other: they have most sources in reach in common.
"""

from typing import List

import pykokkos as pk

from kernels.blocks.spread import add_to_grid
from kernels.blocks.window import cell_within, halves

REAL = pk.double
PLAIN = 3  # components that are spread by the window itself
LAYERS = True  # whether there are vectors with normals, too
TENSORS = 0  # rows of the sources' tensors, each of which is spread onto a component: 3 or 1
GRADIENT = LAYERS + (TENSORS > 0)  # whether the window's gradient spreads them
VECTORS = LAYERS + (TENSORS > 1)  # whether it spreads them onto three components
QUADRUPOLES = False  # as in p2g.py
TILTED = False  # as in p2g.py
P = 8
ROW = 8  # as in p2g.py; here tables have HALF columns
HALF = (P + 1) // 2
TERMS = 7  # polynomial terms of the window
SIDE1 = 4
SIDE2 = 8
TILE1 = 8
TILE2 = 8
# p2g_tile only:
BATCH = 42  # sources staged at a time
OWN = 1  # columns of a thread
# Windows along x, y, z, and their slopes; and behind these their curvatures.
WEIGHTS = 3 * P + 3 * P * GRADIENT + 3 * P * QUADRUPOLES
# Where ``strength`` has S_10, S_21, S_02: of S = S^T, those across.
BOTH = (PLAIN > 0) * (TENSORS > 1) * (1 - LAYERS)  # whether there are vectors and tensors
LOWER = (6 + 4 * TILTED) * LAYERS + 9 * BOTH
STRENGTHS = 10 + 3 * TILTED * LAYERS + 2 * BOTH
NOWHERE = 1000000  # a place out of every source's reach
SEVERAL = False  # whether there are grids side by side: a register that few can spare
# An entry of a list: a source, and its cell, as (x SPAN + y) SPAN + z with y and z counted from
# SHIFT steps before the tile's corner.
SPAN = 64
SHIFT = SPAN // 2
# reach only:
COUNTING = True
LISTING = 1 - COUNTING


@pk.function
def first_cell(base: int, image: int, cells: int) -> int:
    """Return the first cell whose window reaches a tile's part of an axis, from ``base`` on."""
    first: int = base - P + 1 + image * cells
    if first < 0:
        first = 0
    return first


@pk.function
def last_cell(base: int, edge: int, image: int, cells: int, shape: int) -> int:
    """Return the last cell whose window reaches it; -1 for the image of a free axis."""
    last: int = base + edge - 1
    if last > shape - 1:
        last = shape - 1
    last = last + image * cells
    if last > cells - 1:
        last = cells - 1
    if image == 1 and shape > cells:
        last = -1
    return last


@pk.workunit
def reach(
    i: int,
    tiles: pk.View1D[pk.int32],
    starts: pk.View1D[pk.int32],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    counts: pk.View1D[pk.int32],
    begins: pk.View1D[pk.int32],
    places: int,
    src: pk.View2D[REAL],
    inverse_step: pk.View1D[REAL],
    entries: pk.View2D[pk.int32],
):
    """Count the sources in a plane of cells that reach a tile, or write one entry of the lists.

    A place is a tile and a plane, (tile, plane) with the plane running fastest; the tiles of one
    system follow the tiles of another. When counting, item i is place i. Otherwise it is entry i,
    and the entries of place p begin at ``begins[p]``. ``tiles`` are the tiles along y and along z,
    and the sorted columns along y and along z.
    """
    place: int = i
    rest: int = 0
    if LISTING:
        if i >= begins[places]:  # the lists may be shorter than their memory
            return
        place = 0
        last: int = places
        while last - place > 1:
            middle: int = (place + last) // 2
            if begins[middle] <= i:
                place = middle
            else:
                last = middle
        rest = i - begins[place]
    plane: int = place % cells[0]
    tile: int = place // cells[0] % (tiles[0] * tiles[1])
    columns: int = place // cells[0] // (tiles[0] * tiles[1]) * tiles[2] * tiles[3]
    base1: int = tile // tiles[1] * TILE1
    base2: int = tile % tiles[1] * TILE2
    # Beyond the end of a periodic axis, a cell's image one period before it reaches the tile.
    for image1 in range(2):
        first1: int = first_cell(base1, image1, cells[1])
        last1: int = last_cell(base1, TILE1, image1, cells[1], shape[1])
        for image2 in range(2):
            first2: int = first_cell(base2, image2, cells[2])
            last2: int = last_cell(base2, TILE2, image2, cells[2], shape[2])
            if last1 >= first1 and last2 >= first2:
                for side2 in range(first2 // SIDE2, last2 // SIDE2 + 1):
                    for side1 in range(first1 // SIDE1, last1 // SIDE1 + 1):
                        at: int = (columns + side2 * tiles[2] + side1) * cells[0] + plane
                        here: int = starts[at + 1] - starts[at]
                        if LISTING:
                            if rest >= 0 and rest < here:
                                j: int = starts[at] + rest
                                cell_within(src, 1, j, side1 * SIDE1, SIDE1, t1, c1)
                                cell_within(src, 2, j, side2 * SIDE2, SIDE2, t2, c2)
                                c1 = c1 - image1 * cells[1] - base1 + SHIFT
                                c2 = c2 - image2 * cells[2] - base2 + SHIFT
                                entries[0][i] = j
                                entries[1][i] = (plane * SPAN + c1) * SPAN + c2
                        rest = rest - here
    if COUNTING:
        counts[i] = -rest


@pk.workunit
def p2g_tile(
    team: pk.TeamMember,
    work: pk.View2D[pk.int32],
    tiles: pk.View1D[pk.int32],
    spots: pk.View2D[pk.int32],
    entries: pk.View2D[pk.int32],
    src: pk.View2D[REAL],
    dens: pk.View2D[REAL],
    norms: pk.View2D[REAL],
    inverse_step: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    window: pk.View2D[REAL],
    slope: pk.View2D[REAL],
    curvature: pk.View2D[REAL],
    basis: pk.View2D[REAL],
    boxes: int,
    first: int,
    grid: pk.View4D[REAL],
):
    """Spread one part of a tile's list; ``work`` is (tile, first, last + 1) by team.

    Grids lie side by side along y: one for each system, from ``first`` on.

    ``spots`` are the y and z of the columns in a tile, by thread. ``window`` and ``slope`` have the
    first HALF columns of the tables: see `halves`.
    """
    weights: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, WEIGHTS)
    strength: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, STRENGTHS)
    anchor: pk.ScratchView2D[pk.int32] = pk.ScratchView2D(team.team_scratch(0), BATCH + 1, 4)
    part: int = team.league_rank()
    tile: int = work[0][part] % (tiles[0] * tiles[1])
    above: int = 0
    box: int = 0
    if TILTED:
        if boxes > 1:
            box = 3 * (work[0][part] // (tiles[0] * tiles[1]))
    if SEVERAL:
        above = (first + work[0][part] // (tiles[0] * tiles[1])) * shape[1]
    batch: int = work[1][part]
    end: int = work[2][part]
    base1: int = tile // tiles[1] * TILE1
    base2: int = tile % tiles[1] * TILE2
    # Threads without a column, and missing entries, are out of every source's reach.
    y: List[int] = [NOWHERE] * OWN
    z: List[int] = [NOWHERE] * OWN
    for o in range(OWN):
        v: int = team.team_rank() + team.team_size() * o
        if v < TILE1 * TILE2 and batch < end:
            y[o] = spots[0][v]
            z[o] = spots[1][v]
    sum0: List[REAL] = [0.0] * (OWN * P)
    sum1: List[REAL] = [0.0] * (OWN * P)
    sum2: List[REAL] = [0.0] * (OWN * P)
    sum3: List[REAL] = [0.0] * (OWN * P)
    now: int = entries[1][batch] // (SPAN * SPAN)
    while batch < end:
        count: int = end - batch
        if count > BATCH:
            count = BATCH

        def prepare(v: int):
            d: int = v % 3
            m: int = v // 3
            j: int = entries[0][batch + m]
            c: int = entries[1][batch + m]
            at: int = d * P
            if d == 0:
                c = c // (SPAN * SPAN)
                anchor[m][0] = c
            if d == 1:
                c = c // SPAN % SPAN - SHIFT
                anchor[m][1] = c
                c = c + base1
            if d == 2:
                c = c % SPAN - SHIFT
                anchor[m][2] = c
                c = c + base2
            if c < 0:
                c = c + cells[d]
            x: REAL = 2.0 * (src[d][j] * inverse_step[d] - REAL(c)) - 1.0
            if PLAIN > 0 and TENSORS != 1:
                if d < PLAIN:
                    strength[m][d] = dens[d][j]
            if QUADRUPOLES:
                # As for S: the diagonal of Q + Q^T, half of it, then those across.
                e: int = d + 1
                if e == 3:
                    e = 0
                strength[m][3 + d] = dens[4 + 4 * d][j]
                strength[m][6 + d] = dens[4 + 3 * d + e][j] + dens[4 + 3 * e + d][j]
            if PLAIN > 0 and TENSORS == 1:
                if d == 0:
                    strength[m][9] = dens[0][j]
            if LAYERS:
                q: REAL = dens[PLAIN + d][j]
                n: REAL = norms[d][j]
                # The tensor S: the diagonal in 3..5, then xy, yz, zx, and q.n.
                e: int = d + 1
                if e == 3:
                    e = 0
                if 1 - TILTED:
                    strength[m][3 + d] = 2.0 * q * n
                    strength[m][6 + d] = q * norms[e][j] + dens[PLAIN + e][j] * n
                if d == 0:
                    dot: REAL = q * n + dens[PLAIN + 1][j] * norms[1][j]
                    strength[m][9] = dot + dens[PLAIN + 2][j] * norms[2][j]
            if TILTED:
                # Column d of S times the transpose of basis.
                along: List[REAL] = [0.0] * 3
                for k in range(3):
                    if LAYERS:
                        for row in range(3):
                            both: REAL = dens[PLAIN + row][j] * norms[k][j]
                            both += norms[row][j] * dens[PLAIN + k][j]
                            along[row] += basis[box + d][k] * both
                    if TENSORS == 1:
                        along[0] -= basis[box + d][k] * dens[PLAIN + k][j]
                    if TENSORS > 1:
                        for row in range(3):
                            along[row] -= basis[box + d][k] * dens[PLAIN + 3 * row + k][j]
                if VECTORS:
                    before: int = (d + 2) % 3
                    strength[m][3 + d] = along[d]
                    strength[m][6 + before] = along[before]
                    strength[m][LOWER + d] = along[(d + 1) % 3]
                else:
                    strength[m][d] = along[0]
            if TENSORS == 1 and 1 - TILTED:
                strength[m][d] = -dens[PLAIN + d][j]
            if TENSORS > 1 and 1 - TILTED:
                e: int = d + 1
                if e == 3:
                    e = 0
                strength[m][3 + d] = -dens[PLAIN + 4 * d][j]
                strength[m][6 + d] = -dens[PLAIN + 3 * d + e][j]
                strength[m][LOWER + d] = -dens[PLAIN + 3 * e + d][j]
            xx: REAL = x * x
            if GRADIENT:
                rate: REAL = inverse_step[d]
                for p in range(HALF):
                    halves(window, p, x, xx, even, odd)
                    weights[m][2 * (at + p)] = even + odd
                    weights[m][2 * (at + P - 1 - p)] = even - odd
                    halves(slope, p, x, xx, even_slope, odd_slope)
                    weights[m][2 * (at + p) + 1] = rate * (odd_slope + even_slope)
                    weights[m][2 * (at + P - 1 - p) + 1] = rate * (odd_slope - even_slope)
                    if QUADRUPOLES:
                        halves(curvature, p, x, xx, even_bend, odd_bend)
                        weights[m][6 * P + at + p] = rate * rate * (even_bend + odd_bend)
                        mirror: int = 6 * P + at + P - 1 - p
                        weights[m][mirror] = rate * rate * (even_bend - odd_bend)
            else:
                for p in range(HALF):
                    halves(window, p, x, xx, even, odd)
                    weights[m][at + p] = even + odd
                    weights[m][at + P - 1 - p] = even - odd

        pk.parallel_for(pk.TeamThreadRange(team, 3 * count), prepare)
        team.team_barrier()
        # The next source's cell is read while this one is spread.
        next0: int = anchor[0][0]
        next1: int = anchor[0][1]
        next2: int = anchor[0][2]
        for m in range(count):
            plane: int = next0
            corner1: int = next1
            corner2: int = next2
            next0 = anchor[m + 1][0]
            next1 = anchor[m + 1][1]
            next2 = anchor[m + 1][2]
            if plane > now:
                # Values behind the source's cell are complete.
                gap: int = plane - now
                if gap > P:
                    gap = P
                for s in range(gap):
                    g0: int = now + s
                    # This never runs, but it keeps the compiler from unrolling the loop around it,
                    # which would take half as many registers again.
                    while g0 >= shape[0]:
                        g0 = g0 - shape[0]
                    for o in range(OWN):
                        g1: int = base1 + y[o]
                        g2: int = base2 + z[o]
                        at: int = o * P
                        if g1 < shape[1] and g2 < shape[2]:
                            if SEVERAL:
                                g1 = g1 + above
                            add_to_grid(sum0[at], sum1[at], sum2[at], sum3[at])
                        for x in range(P - 1):
                            sum0[at + x] = sum0[at + x + 1]
                            sum1[at + x] = sum1[at + x + 1]
                            sum2[at + x] = sum2[at + x + 1]
                            sum3[at + x] = sum3[at + x + 1]
                        sum0[at + P - 1] = 0.0
                        sum1[at + P - 1] = 0.0
                        sum2[at + P - 1] = 0.0
                        sum3[at + P - 1] = 0.0
                now = plane
            for o in range(OWN):
                i1: int = y[o] - corner1
                i2: int = z[o] - corner2
                if i1 >= 0 and i1 < P and i2 >= 0 and i2 < P:
                    if GRADIENT:
                        wy: REAL = weights[m][2 * (P + i1)]
                        dy: REAL = weights[m][2 * (P + i1) + 1]
                        wz: REAL = weights[m][2 * (2 * P + i2)]
                        dz: REAL = weights[m][2 * (2 * P + i2) + 1]
                        ww: REAL = wy * wz
                        dw: REAL = dy * wz
                        wd: REAL = wy * dz
                        if TENSORS == 1:
                            a0: REAL = strength[m][1] * dw + strength[m][2] * wd
                            b0: REAL = strength[m][0] * ww
                            if PLAIN > 0:
                                a0 += strength[m][9] * ww
                        if QUADRUPOLES:
                            a0 += strength[m][7] * dy * dz
                            a0 += strength[m][4] * weights[m][7 * P + i1] * wz
                            a0 += strength[m][5] * weights[m][8 * P + i2] * wy
                            b0 += strength[m][6] * dw + strength[m][8] * wd
                            c0: REAL = strength[m][3] * ww
                        if VECTORS:
                            a0: REAL = strength[m][6] * dw + strength[m][LOWER + 2] * wd
                            a1: REAL = strength[m][4] * dw + strength[m][7] * wd
                            a2: REAL = strength[m][LOWER + 1] * dw + strength[m][5] * wd
                        if PLAIN > 1:
                            a0 += strength[m][0] * ww
                            a1 += strength[m][1] * ww
                            a2 += strength[m][2] * ww
                        if VECTORS:
                            b0: REAL = strength[m][3] * ww
                            b1: REAL = strength[m][LOWER] * ww
                            b2: REAL = strength[m][8] * ww
                        if LAYERS:
                            a3: REAL = strength[m][9] * ww
                        for x in range(P):
                            wx: REAL = weights[m][2 * x]
                            dx: REAL = weights[m][2 * x + 1]
                            # Two statements: adding their sum at once takes one operation more.
                            sum0[o * P + x] += a0 * wx
                            sum0[o * P + x] += b0 * dx
                            if QUADRUPOLES:
                                sum0[o * P + x] += c0 * weights[m][6 * P + x]
                            if VECTORS:
                                sum1[o * P + x] += a1 * wx
                                sum1[o * P + x] += b1 * dx
                                sum2[o * P + x] += a2 * wx
                                sum2[o * P + x] += b2 * dx
                            if LAYERS:
                                sum3[o * P + x] += a3 * wx
                    else:
                        ww: REAL = weights[m][P + i1] * weights[m][2 * P + i2]
                        a0: REAL = strength[m][0] * ww
                        if PLAIN > 1:
                            a1: REAL = strength[m][1] * ww
                        if PLAIN > 2:
                            a2: REAL = strength[m][2] * ww
                        for x in range(P):
                            wx: REAL = weights[m][x]
                            sum0[o * P + x] += a0 * wx
                            if PLAIN > 1:
                                sum1[o * P + x] += a1 * wx
                            if PLAIN > 2:
                                sum2[o * P + x] += a2 * wx
        team.team_barrier()
        batch = batch + count
    for s in range(P):
        g0: int = now + s
        while g0 >= shape[0]:
            g0 = g0 - shape[0]
        for o in range(OWN):
            g1: int = base1 + y[o]
            g2: int = base2 + z[o]
            at: int = o * P + s
            if g1 < shape[1] and g2 < shape[2]:
                if SEVERAL:
                    g1 = g1 + above
                add_to_grid(sum0[at], sum1[at], sum2[at], sum3[at])
