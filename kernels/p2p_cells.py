"""P2P by cells: the near field as the literature computes it (Kosmacher, Du, Bagge, Biros 2026).

Sources and targets are sorted by cells about r_c wide. One team owns a share of one cell's targets,
and walks the cells within reach of it (27, if cells are not narrower than r_c) with every pair that
they hold; cells that follow each other along z are one contiguous run of sources. Four variants:

    GM-1D   a thread for each target, sources read from global memory
    GM-2D   VECTORS lanes of a thread share the sources of its target, and add up at the end
    SM-1D   the team copies CHUNK sources at a time to scratch memory (STAGED), and all use them
    SM-2D   both

A lane keeps its sums in scratch memory between chunks; nobody else touches them before the end, and
then only the lanes of the same thread. The pair kernel is that of ``p2p.py``, which explains it.
"""

from typing import List

import pykokkos as pk

REAL = pk.double
SINGLE = True
DOUBLE = True
LAPLACE = False
ROTLET = False
EVALUATOR = 0  # of the radial functions, as DEGREE: see p2p.py
DEGREE = 12
PERIODIC = 3  # the first PERIODIC axes repeat
STAGED = False
VECTORS = 1  # lanes that share the sources of a target
SHARE = 64  # most targets of a team
CHUNK = 64  # sources staged at a time
OUTPUTS = 3 - 2 * LAPLACE
CHARGES = 3 * SINGLE + 3 * DOUBLE + LAPLACE + 3 * ROTLET  # rows of ``dens``
ROWS = 3 + CHARGES + 3 * DOUBLE  # of the stage: position, density, normal


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
    """Near field of one share (cell, first, last + 1) of targets, over all images in reach.

    ``reach`` is how many cells r_c spans along each axis. The others are as for p2p_staged.
    """
    partial: pk.ScratchView3D[REAL] = pk.ScratchView3D(
        team.team_scratch(0), OUTPUTS, SHARE, VECTORS
    )
    if STAGED:
        stage: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), ROWS, CHUNK)
    tile: int = team.league_rank()
    cell: int = tiles[0][tile]
    first: int = tiles[1][tile]
    targets: int = tiles[2][tile] - first
    first2: int = cell % shape[2] - reach[2]
    last2: int = first2 + 2 * reach[2]
    if PERIODIC < 3:
        if first2 < 0:
            first2 = 0
        if last2 > shape[2] - 1:
            last2 = shape[2] - 1
    first1: int = cell // shape[2] % shape[1] - reach[1]
    last1: int = first1 + 2 * reach[1]
    if PERIODIC < 2:
        if first1 < 0:
            first1 = 0
        if last1 > shape[1] - 1:
            last1 = shape[1] - 1
    first0: int = cell // shape[2] // shape[1] - reach[0]
    last0: int = first0 + 2 * reach[0]
    if PERIODIC < 1:
        if first0 < 0:
            first0 = 0
        if last0 > shape[0] - 1:
            last0 = shape[0] - 1
    inverse: REAL = 1.0 / cutoff
    p0: List[REAL] = [0.0] * (DEGREE + 1)
    p1: List[REAL] = [0.0] * (DEGREE + 1)
    p2: List[REAL] = [0.0] * (DEGREE + 1)
    if EVALUATOR != 1:
        for k in range(DEGREE + 1):
            p0[k] = radial[0][k]
            if SINGLE or DOUBLE or EVALUATOR == 2:
                p1[k] = radial[1][k]
            if DOUBLE and EVALUATOR == 0:
                p2[k] = radial[2][k]
    if EVALUATOR > 0:
        peak: REAL = 0.5641895835477563 * xi_rc
        steep: REAL = xi_rc * xi_rc

    def clear(t: int):
        def clear_lane(v: int):
            for d in range(OUTPUTS):
                partial[d][t][v] = 0.0

        pk.parallel_for(pk.ThreadVectorRange(team, VECTORS), clear_lane)

    pk.parallel_for(pk.TeamThreadRange(team, targets), clear)

    for c0 in range(first0, last0 + 1):
        # Half of the shift on either side: at the faces both are exact.
        w0: int = c0
        s0: REAL = 0.0
        x0: REAL = 0.0
        if PERIODIC > 0:
            while w0 < 0:
                w0 = w0 + shape[0]
                s0 = s0 - half[0]
                x0 = x0 + half[0]
            while w0 >= shape[0]:
                w0 = w0 - shape[0]
                s0 = s0 + half[0]
                x0 = x0 - half[0]
        for c1 in range(first1, last1 + 1):
            w1: int = c1
            s1: REAL = 0.0
            x1: REAL = 0.0
            if PERIODIC > 1:
                while w1 < 0:
                    w1 = w1 + shape[1]
                    s1 = s1 - half[1]
                    x1 = x1 + half[1]
                while w1 >= shape[1]:
                    w1 = w1 - shape[1]
                    s1 = s1 + half[1]
                    x1 = x1 - half[1]
            column: int = (w0 * shape[1] + w1) * shape[2]
            c2: int = first2
            while c2 <= last2:
                # One run of cells, up to the top of the box; the rest is the next image.
                w2: int = c2
                s2: REAL = 0.0
                x2: REAL = 0.0
                if PERIODIC > 2:
                    while w2 < 0:
                        w2 = w2 + shape[2]
                        s2 = s2 - half[2]
                        x2 = x2 + half[2]
                    while w2 >= shape[2]:
                        w2 = w2 - shape[2]
                        s2 = s2 + half[2]
                        x2 = x2 - half[2]
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

                        # All lanes of all threads copy, a row of VECTORS sources by each thread.
                        def fill(row: int):
                            def fill_lane(v: int):
                                m: int = row * VECTORS + v
                                if m < count:
                                    stage[0][m] = src[0][j + m] + s0
                                    stage[1][m] = src[1][j + m] + s1
                                    stage[2][m] = src[2][j + m] + s2
                                    for d in range(CHARGES):
                                        stage[3 + d][m] = dens[d][j + m]
                                    if DOUBLE:
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

                        def lane(v: int):
                            u0: REAL = 0.0
                            u1: REAL = 0.0
                            u2: REAL = 0.0
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
                                    if EVALUATOR == 0:
                                        s: REAL = 2.0 * rr - 1.0
                                        a: REAL = p0[0]
                                        for k in range(DEGREE):
                                            a = a * s + p0[k + 1]
                                    if EVALUATOR == 1:
                                        a: REAL = 0.5 * y * pk.erf(xi_rc * rr * y)
                                        if rr <= coincident:
                                            a = peak
                                    if EVALUATOR == 2:
                                        a: REAL = p0[0]
                                        divisor: REAL = p1[0]
                                        for k in range(DEGREE):
                                            a = a * rr + p0[k + 1]
                                            divisor = divisor * rr + p1[k + 1]
                                        a = a / divisor
                                    if EVALUATOR > 0:
                                        if SINGLE or DOUBLE or ROTLET:
                                            psi: REAL = peak * pk.exp(0.0 - steep * rr)
                                            b: REAL = (a - psi) * y * y
                                            a = a + psi
                                            if ROTLET:
                                                a = b
                                    if STAGED:
                                        f0: REAL = stage[3][m]
                                    else:
                                        f0: REAL = dens[0][j + m]
                                    if LAPLACE:
                                        u0 += (y - 2.0 * a) * f0
                                    else:
                                        if STAGED:
                                            f1: REAL = stage[4][m]
                                            f2: REAL = stage[5][m]
                                        else:
                                            f1: REAL = dens[1][j + m]
                                            f2: REAL = dens[2][j + m]
                                        e0: REAL = r0 * y
                                        e1: REAL = r1 * y
                                        e2: REAL = r2 * y
                                    if ROTLET:
                                        a = y * y - 2.0 * a * rr * y
                                        u0 += a * (f1 * e2 - f2 * e1)
                                        u1 += a * (f2 * e0 - f0 * e2)
                                        u2 += a * (f0 * e1 - f1 * e0)
                                    if SINGLE or DOUBLE:
                                        if EVALUATOR == 0:
                                            b: REAL = p1[0]
                                            for k in range(DEGREE):
                                                b = b * s + p1[k + 1]
                                        along: REAL = 0.0
                                    if SINGLE:
                                        a = y - 2.0 * a
                                        along = (y - 2.0 * b * rr) * (f0 * e0 + f1 * e1 + f2 * e2)
                                        u0 += a * f0
                                        u1 += a * f1
                                        u2 += a * f2
                                    if DOUBLE:
                                        if STAGED:
                                            q0: REAL = stage[3 + 3 * SINGLE][m]
                                            q1: REAL = stage[4 + 3 * SINGLE][m]
                                            q2: REAL = stage[5 + 3 * SINGLE][m]
                                            n0: REAL = stage[3 + CHARGES][m]
                                            n1: REAL = stage[4 + CHARGES][m]
                                            n2: REAL = stage[5 + CHARGES][m]
                                        else:
                                            q0: REAL = dens[3 * SINGLE][j + m]
                                            q1: REAL = dens[3 * SINGLE + 1][j + m]
                                            q2: REAL = dens[3 * SINGLE + 2][j + m]
                                            n0: REAL = norms[0][j + m]
                                            n1: REAL = norms[1][j + m]
                                            n2: REAL = norms[2][j + m]
                                        if EVALUATOR == 0:
                                            c: REAL = p2[0]
                                            for k in range(DEGREE):
                                                c = c * s + p2[k + 1]
                                        else:
                                            c: REAL = (0.0 - 2.0 * steep) * psi
                                        r: REAL = rr * y
                                        qe: REAL = q0 * e0 + q1 * e1 + q2 * e2
                                        ne: REAL = n0 * e0 + n1 * e1 + n2 * e2
                                        qn: REAL = q0 * n0 + q1 * n1 + q2 * n2
                                        d: REAL = (4.0 * c + 12.0 * b) * r - 6.0 * y * y
                                        c = -2.0 * c * r
                                        along = along + c * qn + d * qe * ne
                                        qe = c * qe
                                        ne = c * ne
                                        u0 += ne * q0 + qe * n0
                                        u1 += ne * q1 + qe * n1
                                        u2 += ne * q2 + qe * n2
                                    if SINGLE or DOUBLE:
                                        u0 += along * e0
                                        u1 += along * e1
                                        u2 += along * e2
                            partial[0][t][v] += u0
                            if OUTPUTS > 1:
                                partial[1][t][v] += u1
                                partial[2][t][v] += u2

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
