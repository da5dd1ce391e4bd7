"""P2G of several components on CPUs: a batch of sources fills a plane's block, which is added once.

``p2g.py`` says what is spread, and how tiles own the grid. A work item spreads its sources batch by
batch, plane by plane along x. It fills a block that encloses the windows of the batch in a plane,
and then adds that to the grid. A vector of the block has GROUP components of SIDE rows y at one z.
It is as long as a cache line, and begins with one, where a row of the grid along z begins anywhere.
Windows along y are kept value by value for all components, with zeros before and after, so that
they fill vectors.
"""

from typing import List

import pykokkos as pk

from kernels.blocks.batch import begin_batch, reach, take_point
from kernels.blocks.spread import gradients
from kernels.blocks.window import evaluate

REAL = pk.double
PLAIN = 3  # components that are spread by the window itself
LAYERS = True  # whether there are vectors with normals, too
TENSORS = 0  # rows of the sources' tensors, each of which is spread onto a component
GRADIENT = LAYERS + (TENSORS > 0)  # whether the window's gradient spreads them
VECTORS = LAYERS + (TENSORS > 1)  # whether it spreads them onto three components
TILTED = False  # whether gradients are by axes that are not at right angles: ``basis`` times those
P = 8
PX = P  # points of the window along x: 1 where the grid has two dimensions, y and z
ROW = 8  # P, rounded up with zero columns so that rows fill vector registers
TERMS = 7  # polynomial terms of the window
BATCH = 256  # most sources that are spread together
LANES = 8  # numbers of a cache line
GROUP = 4  # components, rounded up to a power of two
SIDE = LANES // GROUP
LINES = (P + 2 * SIDE - 2) // SIDE  # vectors along y of a source
# Most vectors of the block: the sources of a tile in 17 cells along z take fewer.
MOST = (3 * P + 2 * SIDE) // SIDE * (P + 17)


@pk.workunit
def p2g_block(
    team: pk.TeamMember,
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
    basis: pk.View2D[REAL],
    boxes: int,
    first: int,
    grid: pk.View4D[REAL],
):
    """Spread the sources of one column of tiles onto its part of the planes, as `p2g_owner` does.

    One thread of the team does all.
    """
    block: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), MOST, LANES)
    wy: pk.ScratchView3D[REAL] = pk.ScratchView3D(team.team_scratch(0), BATCH, LINES, LANES)
    dy: pk.ScratchView3D[REAL] = pk.ScratchView3D(team.team_scratch(0), BATCH, LINES, LANES)
    # What the window and its slopes along x, y and z multiply.
    whole: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, LANES)
    along0: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, LANES)
    along1: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, LANES)
    along2: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, LANES)
    wx: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, ROW)
    wz: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, ROW)
    dx: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, ROW)
    dz: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), BATCH, ROW)
    at: pk.ScratchView2D[pk.int32] = pk.ScratchView2D(team.team_scratch(0), 3, BATCH)
    i: int = team.league_rank()
    item: int = i % colour[2]
    own: int = i // colour[2] % colour[4]
    system: int = i // colour[2] // colour[4]
    tile0: int = colour[0] + 2 * (item // colour[3])
    tile1: int = colour[1] + 2 * (item % colour[3])
    column: int = ((system * tiles[0] + tile0) * tiles[1] + tile1) * tiles[2]
    above: int = (first + system) * shape[1]
    box: int = 0
    if TILTED:
        if boxes > 1:
            box = 3 * system
    end: int = starts[column + tiles[2]]

    def spread(_: int):
        batch: int = starts[column]
        while batch < end:
            # Take sources while their windows fit into the block.
            begin_batch()
            lines: int = 0
            depth: int = 0
            count: int = 0
            more: int = 1
            while more == 1:
                reach(src, batch + count)
                tall: int = (h1 + P - 1) // SIDE - l1 // SIDE + 1
                wide: int = h2 - l2 + P
                if tall * wide > MOST:
                    more = 0
                else:
                    take_point()
                    lines = tall
                    depth = wide
                    at[0][count] = c0
                    at[1][count] = c1
                    at[2][count] = c2
                    v0: List[REAL] = [0.0] * ROW
                    v1: List[REAL] = [0.0] * ROW
                    v2: List[REAL] = [0.0] * ROW
                    evaluate(window, v0, v1, v2)
                    for p in range(ROW):
                        wx[count][p] = v0[p]
                        wz[count][p] = v2[p]
                    for q in range(LINES):
                        for v in range(LANES):
                            wy[count][q][v] = 0.0
                    for p in range(P):
                        r: int = c1 % SIDE + p
                        for c in range(GROUP):
                            wy[count][r // SIDE][r % SIDE * GROUP + c] = v1[p]
                    if GRADIENT:
                        evaluate(slope, v0, v1, v2)
                        for p in range(ROW):
                            dx[count][p] = v0[p] * inverse_step[0]
                            v1[p] = v1[p] * inverse_step[1]
                            dz[count][p] = v2[p] * inverse_step[2]
                        for q in range(LINES):
                            for v in range(LANES):
                                dy[count][q][v] = 0.0
                        for p in range(P):
                            r: int = c1 % SIDE + p
                            for c in range(GROUP):
                                dy[count][r // SIDE][r % SIDE * GROUP + c] = v1[p]
                    for v in range(LANES):
                        whole[count][v] = 0.0
                        along0[count][v] = 0.0
                        along1[count][v] = 0.0
                        along2[count][v] = 0.0
                    if GRADIENT:
                        gradients(batch + count)
                    for r in range(SIDE):
                        for c in range(PLAIN):
                            whole[count][r * GROUP + c] = dens[c][batch + count]
                        if LAYERS:
                            whole[count][r * GROUP + 3] = trace
                        if VECTORS:
                            along0[count][r * GROUP] = xx
                            along0[count][r * GROUP + 1] = yx
                            along0[count][r * GROUP + 2] = zx
                            along1[count][r * GROUP] = xy
                            along1[count][r * GROUP + 1] = yy
                            along1[count][r * GROUP + 2] = zy
                            along2[count][r * GROUP] = xz
                            along2[count][r * GROUP + 1] = yz
                            along2[count][r * GROUP + 2] = zz
                    count += 1
                    if count == BATCH or batch + count == end:
                        more = 0
            bottom: int = low1 // SIDE
            for plane in range(low0, high0 + PX):
                g0: int = plane
                if g0 >= shape[0]:
                    g0 = g0 - shape[0]
                if g0 % colour[4] == own:
                    for m in range(lines * depth):
                        for v in range(LANES):
                            block[m][v] = 0.0
                    for k in range(count):
                        a: int = plane - at[0][k]
                        if a >= 0 and a < PX:
                            x: REAL = 1.0
                            if PX > 1:
                                x = wx[k][a]
                            f: List[REAL] = [0.0] * LANES
                            for v in range(LANES):
                                f[v] = whole[k][v] * x
                            v2: List[REAL] = [0.0] * P
                            for z in range(P):
                                v2[z] = wz[k][z]
                            if GRADIENT:
                                # What slopes along x multiply, then the others.
                                s: REAL = dx[k][a]
                                g: List[REAL] = [0.0] * LANES
                                h: List[REAL] = [0.0] * LANES
                                for v in range(LANES):
                                    f[v] += along0[k][v] * s
                                for v in range(LANES):
                                    g[v] = along1[k][v] * x
                                for v in range(LANES):
                                    h[v] = along2[k][v] * x
                                s2: List[REAL] = [0.0] * P
                                for z in range(P):
                                    s2[z] = dz[k][z]
                            row: int = at[1][k] // SIDE - bottom
                            to: int = row * depth + at[2][k] - low2
                            for q in range((at[1][k] % SIDE + P + SIDE - 1) // SIDE):
                                e: List[REAL] = [0.0] * LANES
                                for v in range(LANES):
                                    e[v] = f[v] * wy[k][q][v]
                                if GRADIENT:
                                    d: List[REAL] = [0.0] * LANES
                                    for v in range(LANES):
                                        e[v] += g[v] * dy[k][q][v]
                                    for v in range(LANES):
                                        d[v] = h[v] * wy[k][q][v]
                                    for z in range(P):
                                        for v in range(LANES):
                                            block[to + z][v] += e[v] * v2[z] + d[v] * s2[z]
                                else:
                                    for z in range(P):
                                        for v in range(LANES):
                                            block[to + z][v] += e[v] * v2[z]
                                to += depth
                    for y in range(low1, high1 + P):
                        g1: int = y
                        if g1 >= shape[1]:
                            g1 = g1 - shape[1]
                        g1 = g1 + above
                        from_: int = (y // SIDE - bottom) * depth
                        r: int = y % SIDE * GROUP
                        for z in range(depth):
                            grid[0][g0][g1][low2 + z] += block[from_ + z][r]
                            grid[1][g0][g1][low2 + z] += block[from_ + z][r + 1]
                            if PLAIN > 2 or VECTORS:
                                grid[2][g0][g1][low2 + z] += block[from_ + z][r + 2]
                            if LAYERS:
                                grid[3][g0][g1][low2 + z] += block[from_ + z][r + 3]
            batch += count

    pk.parallel_for(pk.TeamThreadRange(team, 1), spread)
