"""P2P by cells: the near field as the literature computes it (Kosmacher, Du, Bagge, Biros 2026).

Sources and targets are sorted by cells about r_c wide. One team owns a part of one cell's targets.
It walks the cells within reach of it (27, if cells are not narrower than r_c) with all their pairs;
cells that follow each other along z are one contiguous run of sources. There are four variants:

    GM-1D   a thread for each target, sources read from global memory
    GM-2D   VECTORS lanes of a thread share the sources of its target, and their sums are added
    SM-1D   the team copies CHUNK sources at a time to scratch memory (STAGED), and all use them
    SM-2D   both

A lane keeps its sums in scratch memory between chunks. No other lane touches them before the end,
and then only lanes of the same thread. ``p2p.py`` explains the pair kernel.
"""

from typing import List

import pykokkos as pk

from kernels.blocks.radial import take_radial
from kernels.blocks.walk import clip, wrap
from kernels.pairs.spheres import interact

REAL = pk.double
CHARGES = 6  # rows of ``dens``
OUTPUTS = 3
NORMALS = True  # whether sources have normals
MARKS = False  # whether points have marks, as in p2p.py
PARTS = False  # whether parts of pairs have weights, as in p2p_labels.py
TABLES = 3  # radial functions that a pair takes
EVALUATOR = 0  # of the radial functions, as DEGREE: see p2p.py
DEGREE = 12
PERIODIC = 3  # the first PERIODIC axes repeat
STAGED = False
VECTORS = 1  # lanes that share the sources of a target
TARGETS = 64  # most targets of a team
CHUNK = 64  # sources staged at a time
MANY = 1  # densities
CUT = False  # pairs beyond the cut-off do not come to `interact`
ROWS = 3 + CHARGES + 3 * NORMALS  # of the stage: position, density, normal


@pk.workunit
def p2p_cells(
    team: pk.TeamMember,
    tiles: pk.View2D[pk.int32],
    trg: pk.View2D[REAL],
    order: pk.View1D[pk.int32],
    src: pk.View2D[REAL],
    dens: pk.View2D[REAL],
    norms: pk.View2D[REAL],
    starts: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    reach: pk.View1D[pk.int32],
    half: pk.View1D[REAL],
    radial: pk.View2D[REAL],
    xi_rc: REAL,
    cutoff: REAL,
    coincident: REAL,
    factor: REAL,
    pot: pk.View2D[REAL],
):
    """Near field of one part (cell, first, last + 1) of targets, over all images in reach.

    ``reach`` is the number of cells in r_c along each axis. The others are as for p2p_staged.
    """
    partial: pk.ScratchView3D[REAL] = pk.ScratchView3D(
        team.team_scratch(0), OUTPUTS, TARGETS, VECTORS
    )
    if STAGED:
        stage: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), ROWS, CHUNK)
    tile: int = team.league_rank()
    cell: int = tiles[0][tile]
    first: int = tiles[1][tile]
    targets: int = tiles[2][tile] - first
    first2: int = cell % shape[2] - reach[2]
    last2: int = first2 + 2 * reach[2]
    clip(2, first2, last2)
    first1: int = cell // shape[2] % shape[1] - reach[1]
    last1: int = first1 + 2 * reach[1]
    clip(1, first1, last1)
    first0: int = cell // shape[2] // shape[1] - reach[0]
    last0: int = first0 + 2 * reach[0]
    clip(0, first0, last0)
    if targets == 0:
        last0 = first0 - 1
    inverse: REAL = 1.0 / cutoff
    take_radial(radial, xi_rc)

    def clear(t: int):
        def clear_lane(v: int):
            for d in range(OUTPUTS):
                partial[d][t][v] = 0.0

        pk.parallel_for(pk.ThreadVectorRange(team, VECTORS), clear_lane)

    pk.parallel_for(pk.TeamThreadRange(team, targets), clear)

    for c0 in range(first0, last0 + 1):
        # Each side takes half of the shift, which is exact at the faces.
        w0: int = c0
        image0: int = 0
        s0: REAL = 0.0
        x0: REAL = 0.0
        wrap(0, w0, image0, s0, x0)
        for c1 in range(first1, last1 + 1):
            w1: int = c1
            image1: int = 0
            s1: REAL = 0.0
            x1: REAL = 0.0
            wrap(1, w1, image1, s1, x1)
            column: int = (w0 * shape[1] + w1) * shape[2]
            c2: int = first2
            while c2 <= last2:
                # One run of cells, up to the top of the box; the next image has the rest.
                w2: int = c2
                image2: int = 0
                s2: REAL = 0.0
                x2: REAL = 0.0
                wrap(2, w2, image2, s2, x2)
                run: int = last2 - c2 + 1
                if run > shape[2] - w2:
                    run = shape[2] - w2
                c2 = c2 + run
                j: int = starts[column + w2]
                end: int = starts[column + w2 + run]
                while j < end:
                    count: int = end - j
                    if STAGED:
                        if count > CHUNK:
                            count = CHUNK

                        # All lanes of all threads copy: a thread copies VECTORS sources at once.
                        def fill(row: int):
                            def fill_lane(v: int):
                                m: int = row * VECTORS + v
                                if m < count:
                                    stage[0][m] = src[0][j + m] + s0
                                    stage[1][m] = src[1][j + m] + s1
                                    stage[2][m] = src[2][j + m] + s2
                                    for d in range(CHARGES):
                                        stage[3 + d][m] = dens[d][j + m]
                                    if NORMALS:
                                        for d in range(3):
                                            stage[3 + CHARGES + d][m] = norms[d][j + m]

                            pk.parallel_for(pk.ThreadVectorRange(team, VECTORS), fill_lane)

                        rows: int = (count + VECTORS - 1) // VECTORS
                        pk.parallel_for(pk.TeamThreadRange(team, rows), fill)
                        team.team_barrier()

                    def target(t: int):
                        y0: REAL = trg[0][first + t] + x0
                        y1: REAL = trg[1][first + t] + x1
                        y2: REAL = trg[2][first + t] + x2
                        if MARKS:
                            mark: REAL = trg[3][first + t]

                        def lane(v: int):
                            u: List[REAL] = [0.0] * OUTPUTS
                            for m in range(v, count, VECTORS):
                                if STAGED:
                                    r0: REAL = (y0 - stage[0][m]) * inverse
                                    r1: REAL = (y1 - stage[1][m]) * inverse
                                    r2: REAL = (y2 - stage[2][m]) * inverse
                                else:
                                    r0: REAL = (y0 - (src[0][j + m] + s0)) * inverse
                                    r1: REAL = (y1 - (src[1][j + m] + s1)) * inverse
                                    r2: REAL = (y2 - (src[2][j + m] + s2)) * inverse
                                rr: REAL = r0 * r0 + r1 * r1 + r2 * r2
                                if rr < 1.0:
                                    y: REAL = 1.0 / pk.sqrt(rr)
                                    if rr <= coincident:
                                        y = 0.0
                                    if STAGED:
                                        interact(stage, 3, stage, 3 + CHARGES, m)
                                    else:
                                        interact(dens, 0, norms, 0, j + m)
                            for d in range(OUTPUTS):
                                partial[d][t][v] += u[d]

                        pk.parallel_for(pk.ThreadVectorRange(team, VECTORS), lane)

                    pk.parallel_for(pk.TeamThreadRange(team, targets), target)
                    j = j + count
                    if STAGED:
                        team.team_barrier()

    def store(t: int):
        out: int = order[first + t]
        for d in range(OUTPUTS):

            def add(v: int, acc: pk.Acc[REAL]):
                acc += partial[d][t][v]

            total: REAL = pk.parallel_reduce(pk.ThreadVectorRange(team, VECTORS), add)
            pot[d][out] = total * inverse * factor

    pk.parallel_for(pk.TeamThreadRange(team, targets), store)
