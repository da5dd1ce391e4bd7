"""P2P: the near field, over pairs closer than the cut-off.

Sources are sorted by cells that are columns in x and y, cut finely along z, so that all sources of
one column between two heights are one contiguous run. `p2p_staged`: one team owns a tile of
consecutive sorted targets of one column and writes only their potentials. It copies the runs within
the cut-off of the tile's bounding box to scratch memory, CHUNK sources at a time: runs are short,
and one loop over many staged sources vectorises where many loops over few do not. ``p2p_tile.py``
walks the same columns on a device.

With y = r_c/r, e = (x - y)/r, s = 2 (r/r_c)^2 - 1 the pair kernel is (MATH B.1, B.4)

    single   (1/r_c)   [ (y - 2 S) f + (y - 2 X r^2) (f.e) e ]
    double   (1/r_c^2) [ -2 R r ((q.n) e + (n.e) q + (q.e) n)
                         + (-6 y^2 + (4 R + 12 X) r) (q.e)(n.e) e ]
    Laplace  (1/r_c)   (y - 2 L)
    rotlet   (1/r_c^2) (y^2 - 2 X r) t x e
    dipole   (1/r_c^2) [ (y^2 + 2 r (R - X)) D e - (y^2 - 2 r X) (D^T e + (tr D) e)
                         + (3 y^2 - 2 r (R + 3 X)) (e.D e) e ]

with polynomials S, X, R, L in s (rows of ``radial``). The polynomials are the smooth remainders of
the full kernels, so a coinciding pair needs only y = 0 to lose its singular part and keep the rest.

EVALUATOR 1 and 2 take Hasimoto's radial functions from their formulas instead. With z = xi r_c and
r in units of r_c: Q = z / sqrt(pi) exp(-(z r)^2), R = -2 z^2 Q, S = P + Q, X = (P - Q) / r^2 and
L = P, where

    1   P = erf(z r) / 2 r by the library
    2   P = N(r^2) / D(r^2), rows N and D of ``radial``

The difference P - Q loses digits at small r. But X is only met as X r^2 beside y: the singular part
loses these digits anyway.
"""

from typing import List

import pykokkos as pk

REAL = pk.double
SINGLE = True
DOUBLE = True
LAPLACE = False
ROTLET = False
DIPOLE = False
VECTOR = 1 - LAPLACE  # whether results are vectors
EVALUATOR = 0  # of the radial functions: 0 polynomials, 1 the library's erf and exp, 2 rational
DEGREE = 12  # of the polynomials: S, X, R, L, or N and D
PERIODIC = 3  # the first PERIODIC axes repeat
TILE = 4  # most targets of a tile
CHUNK = 256  # sources staged at a time, a multiple of LANES
LANES = 8  # sources are staged by whole vectors
CHARGES = 3 * SINGLE + 3 * DOUBLE + LAPLACE + 3 * ROTLET + 9 * DIPOLE  # rows of ``dens``
ROWS = 3 + PERIODIC + CHARGES + 3 * DOUBLE


@pk.workunit
def p2p_staged(
    team: pk.TeamMember,
    tiles: pk.View2D[pk.int32],
    trg: pk.View2D[REAL],
    order: pk.View1D[pk.int32],
    src: pk.View2D[REAL],
    dens: pk.View2D[REAL],
    norms: pk.View2D[REAL],
    starts: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    width: pk.View1D[REAL],
    origin: pk.View1D[REAL],
    half: pk.View1D[REAL],
    radial: pk.View2D[REAL],
    xi_rc: REAL,
    cutoff: REAL,
    coincident: REAL,
    factor: REAL,
    pot: pk.View2D[REAL],
):
    """Near field of one tile (column, first, last + 1) of targets, over all images in reach.

    ``norms`` are the normals over r_c. ``coincident`` is the squared distance, over r_c, below
    which a pair counts as one point. ``xi_rc`` is z above, not used by polynomials. ``factor``
    multiplies the result. Rows of the stage: position, shift of the target (periodic axes),
    density, normal.

    Runs are copied by whole vectors: ``src``, ``dens`` and ``norms`` have LANES - 1 columns beyond
    the last source. What a vector copies beyond its run, the next run or the surplus overwrites.
    """
    stage: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), ROWS, CHUNK + LANES)
    total: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), 3, TILE)
    tile: int = team.league_rank()
    first: int = tiles[1][tile]
    last: int = tiles[2][tile]
    lo0: REAL = trg[0][first]
    hi0: REAL = lo0
    lo1: REAL = trg[1][first]
    hi1: REAL = lo1
    lo2: REAL = trg[2][first]
    hi2: REAL = lo2
    for t in range(first + 1, last):
        lo0 = pk.fmin(lo0, trg[0][t])
        hi0 = pk.fmax(hi0, trg[0][t])
        lo1 = pk.fmin(lo1, trg[1][t])
        hi1 = pk.fmax(hi1, trg[1][t])
        lo2 = pk.fmin(lo2, trg[2][t])
        hi2 = pk.fmax(hi2, trg[2][t])
    # The tile's bounding box relative to the cells' corner, which positions are not.
    lo0 = lo0 - origin[0]
    hi0 = hi0 - origin[0]
    lo1 = lo1 - origin[1]
    hi1 = hi1 - origin[1]
    lo2 = lo2 - origin[2]
    hi2 = hi2 - origin[2]
    inverse: REAL = 1.0 / cutoff
    first0: int = int(pk.floor((lo0 - cutoff) / width[0]))
    last0: int = int(pk.floor((hi0 + cutoff) / width[0]))
    if PERIODIC < 1:
        if first0 < 0:
            first0 = 0
        if last0 > shape[0] - 1:
            last0 = shape[0] - 1
    first1: int = int(pk.floor((lo1 - cutoff) / width[1]))
    last1: int = int(pk.floor((hi1 + cutoff) / width[1]))
    if PERIODIC < 2:
        if first1 < 0:
            first1 = 0
        if last1 > shape[1] - 1:
            last1 = shape[1] - 1
    p0: List[REAL] = [0.0] * (DEGREE + 1)
    p1: List[REAL] = [0.0] * (DEGREE + 1)
    p2: List[REAL] = [0.0] * (DEGREE + 1)
    if EVALUATOR != 1:
        for k in range(DEGREE + 1):
            p0[k] = radial[0][k]
            if SINGLE or DOUBLE or DIPOLE or EVALUATOR == 2:
                p1[k] = radial[1][k]
            if DOUBLE and EVALUATOR == 0:
                p2[k] = radial[2][k]
    if EVALUATOR > 0:
        peak: REAL = 0.5641895835477563 * xi_rc
        steep: REAL = xi_rc * xi_rc

    def clear(t: int):
        for d in range(3):
            total[d][t] = 0.0

    pk.parallel_for(pk.TeamThreadRange(team, last - first), clear)

    # Where the walk over columns and runs stands; it stops whenever the stage is full.
    c0: int = first0
    c1: int = first1 - 1
    below: int = 1
    above: int = 0
    j: int = 0
    end: int = 0
    column: int = 0
    s0: REAL = 0.0
    s1: REAL = 0.0
    s2: REAL = 0.0
    x0: REAL = 0.0
    x1: REAL = 0.0
    x2: REAL = 0.0
    more: int = 1
    while more == 1:
        filled: int = 0
        while more == 1 and filled < CHUNK:
            if j < end:
                count: int = end - j
                if count > CHUNK - filled:
                    count = CHUNK - filled

                def fill(v: int):
                    for lane in range(LANES):
                        m: int = v * LANES + lane
                        stage[0][filled + m] = src[0][j + m] + s0
                        stage[1][filled + m] = src[1][j + m] + s1
                        stage[2][filled + m] = src[2][j + m] + s2
                        if PERIODIC > 0:
                            stage[3][filled + m] = x0
                        if PERIODIC > 1:
                            stage[4][filled + m] = x1
                        if PERIODIC > 2:
                            stage[5][filled + m] = x2
                        for row in range(CHARGES):
                            stage[3 + PERIODIC + row][filled + m] = dens[row][j + m]
                        if DOUBLE:
                            for row in range(3):
                                stage[3 + PERIODIC + CHARGES + row][filled + m] = norms[row][j + m]

                pk.parallel_for(pk.TeamThreadRange(team, (count + LANES - 1) // LANES), fill)
                if LANES > 1:
                    # The next run overwrites what this one copied beyond its end.
                    team.team_barrier()
                filled = filled + count
                j = j + count
            elif below <= above:
                # The next run of cells, up to the top of the box; the rest is the next image.
                w2: int = below
                s2 = 0.0
                x2 = 0.0
                if PERIODIC > 2:
                    while w2 < 0:
                        w2 = w2 + shape[2]
                        s2 = s2 - half[2]
                        x2 = x2 + half[2]
                    while w2 >= shape[2]:
                        w2 = w2 - shape[2]
                        s2 = s2 + half[2]
                        x2 = x2 - half[2]
                run: int = above - below + 1
                if run > shape[2] - w2:
                    run = shape[2] - w2
                below = below + run
                j = starts[column + w2]
                end = starts[column + w2 + run]
            else:
                c1 = c1 + 1
                if c1 > last1:
                    c1 = first1
                    c0 = c0 + 1
                if c0 > last0:
                    more = 0
                else:
                    gap0: REAL = pk.fmax(REAL(c0) * width[0] - hi0, lo0 - REAL(c0 + 1) * width[0])
                    gap1: REAL = pk.fmax(REAL(c1) * width[1] - hi1, lo1 - REAL(c1 + 1) * width[1])
                    gap0 = pk.fmax(gap0, 0.0)
                    gap1 = pk.fmax(gap1, 0.0)
                    room: REAL = cutoff * cutoff - gap0 * gap0 - gap1 * gap1
                    if room > 0.0:
                        reach: REAL = pk.sqrt(room)
                        below = int(pk.floor((lo2 - reach) / width[2]))
                        above = int(pk.floor((hi2 + reach) / width[2]))
                        if PERIODIC < 3:
                            if below < 0:
                                below = 0
                            if above > shape[2] - 1:
                                above = shape[2] - 1
                        w0: int = c0
                        s0 = 0.0
                        x0 = 0.0
                        if PERIODIC > 0:
                            # Half of the shift on either side: at the faces both are exact.
                            while w0 < 0:
                                w0 = w0 + shape[0]
                                s0 = s0 - half[0]
                                x0 = x0 + half[0]
                            while w0 >= shape[0]:
                                w0 = w0 - shape[0]
                                s0 = s0 + half[0]
                                x0 = x0 - half[0]
                        w1: int = c1
                        s1 = 0.0
                        x1 = 0.0
                        if PERIODIC > 1:
                            while w1 < 0:
                                w1 = w1 + shape[1]
                                s1 = s1 - half[1]
                                x1 = x1 + half[1]
                            while w1 >= shape[1]:
                                w1 = w1 - shape[1]
                                s1 = s1 + half[1]
                                x1 = x1 - half[1]
                        column = (w0 * shape[1] + w1) * shape[2]
        staged: int = (filled + LANES - 1) // LANES * LANES

        def surplus(m: int):
            # Surplus sources, out of everything's reach.
            for row in range(ROWS):
                stage[row][filled + m] = 0.0
            stage[0][filled + m] = trg[0][first] - 4.0 * cutoff - 2.0 * half[0]

        pk.parallel_for(pk.TeamThreadRange(team, staged - filled), surplus)
        team.team_barrier()

        def target(t: int):
            y0: REAL = trg[0][first + t]
            y1: REAL = trg[1][first + t]
            y2: REAL = trg[2][first + t]
            u0: REAL = 0.0
            u1: REAL = 0.0
            u2: REAL = 0.0
            for m in range(staged):
                r0: REAL = y0 - stage[0][m]
                r1: REAL = y1 - stage[1][m]
                r2: REAL = y2 - stage[2][m]
                if PERIODIC > 0:
                    r0 = (y0 + stage[3][m]) - stage[0][m]
                if PERIODIC > 1:
                    r1 = (y1 + stage[4][m]) - stage[1][m]
                if PERIODIC > 2:
                    r2 = (y2 + stage[5][m]) - stage[2][m]
                r0 = r0 * inverse
                r1 = r1 * inverse
                r2 = r2 * inverse
                rr: REAL = r0 * r0 + r1 * r1 + r2 * r2
                y: REAL = 1.0 / pk.sqrt(rr)
                if rr <= coincident:
                    y = 0.0
                if rr < 1.0:
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
                        if VECTOR:
                            psi: REAL = peak * pk.exp(0.0 - steep * rr)
                            b: REAL = (a - psi) * y * y
                            a = a + psi
                            if ROTLET:
                                a = b
                    if LAPLACE:
                        u0 += (y - 2.0 * a) * stage[3 + PERIODIC][m]
                    if ROTLET:
                        e0: REAL = r0 * y
                        e1: REAL = r1 * y
                        e2: REAL = r2 * y
                        t0: REAL = stage[3 + PERIODIC][m]
                        t1: REAL = stage[4 + PERIODIC][m]
                        t2: REAL = stage[5 + PERIODIC][m]
                        a = y * y - 2.0 * a * rr * y
                        u0 += a * (t1 * e2 - t2 * e1)
                        u1 += a * (t2 * e0 - t0 * e2)
                        u2 += a * (t0 * e1 - t1 * e0)
                    if DIPOLE:
                        e0: REAL = r0 * y
                        e1: REAL = r1 * y
                        e2: REAL = r2 * y
                        if EVALUATOR == 0:
                            b: REAL = p1[0]
                            for k in range(DEGREE):
                                b = b * s + p1[k + 1]
                        if EVALUATOR > 0:
                            a = b
                            b = (0.0 - 2.0 * steep) * psi
                        r: REAL = rr * y
                        d00: REAL = stage[3 + PERIODIC + 0][m]
                        d01: REAL = stage[3 + PERIODIC + 1][m]
                        d02: REAL = stage[3 + PERIODIC + 2][m]
                        d10: REAL = stage[3 + PERIODIC + 3][m]
                        d11: REAL = stage[3 + PERIODIC + 4][m]
                        d12: REAL = stage[3 + PERIODIC + 5][m]
                        d20: REAL = stage[3 + PERIODIC + 6][m]
                        d21: REAL = stage[3 + PERIODIC + 7][m]
                        d22: REAL = stage[3 + PERIODIC + 8][m]
                        v0: REAL = d00 * e0 + d01 * e1 + d02 * e2
                        v1: REAL = d10 * e0 + d11 * e1 + d12 * e2
                        v2: REAL = d20 * e0 + d21 * e1 + d22 * e2
                        ca: REAL = y * y + 2.0 * (b - a) * r
                        cc: REAL = 2.0 * a * r - y * y
                        along: REAL = cc * (d00 + d11 + d22)
                        cb: REAL = 3.0 * y * y - 2.0 * (b + 3.0 * a) * r
                        along += cb * (v0 * e0 + v1 * e1 + v2 * e2)
                        u0 += ca * v0 + cc * (d00 * e0 + d10 * e1 + d20 * e2) + along * e0
                        u1 += ca * v1 + cc * (d01 * e0 + d11 * e1 + d21 * e2) + along * e1
                        u2 += ca * v2 + cc * (d02 * e0 + d12 * e1 + d22 * e2) + along * e2
                    if SINGLE or DOUBLE:
                        e0: REAL = r0 * y
                        e1: REAL = r1 * y
                        e2: REAL = r2 * y
                        if EVALUATOR == 0:
                            b: REAL = p1[0]
                            for k in range(DEGREE):
                                b = b * s + p1[k + 1]
                        along: REAL = 0.0
                        if SINGLE:
                            f0: REAL = stage[3 + PERIODIC][m]
                            f1: REAL = stage[4 + PERIODIC][m]
                            f2: REAL = stage[5 + PERIODIC][m]
                            a = y - 2.0 * a
                            along = (y - 2.0 * b * rr) * (f0 * e0 + f1 * e1 + f2 * e2)
                            u0 += a * f0
                            u1 += a * f1
                            u2 += a * f2
                        if DOUBLE:
                            q0: REAL = stage[3 + PERIODIC + 3 * SINGLE][m]
                            q1: REAL = stage[4 + PERIODIC + 3 * SINGLE][m]
                            q2: REAL = stage[5 + PERIODIC + 3 * SINGLE][m]
                            n0: REAL = stage[3 + PERIODIC + CHARGES][m]
                            n1: REAL = stage[4 + PERIODIC + CHARGES][m]
                            n2: REAL = stage[5 + PERIODIC + CHARGES][m]
                            if EVALUATOR == 0:
                                c: REAL = p2[0]
                                for k in range(DEGREE):
                                    c = c * s + p2[k + 1]
                            if EVALUATOR > 0:
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
                        u0 += along * e0
                        u1 += along * e1
                        u2 += along * e2
            total[0][t] += u0
            if VECTOR:
                total[1][t] += u1
                total[2][t] += u2

        pk.parallel_for(pk.TeamThreadRange(team, last - first), target)
        team.team_barrier()

    def store(t: int):
        out: int = order[first + t]
        scale: REAL = inverse * factor
        pot[0][out] = total[0][t] * scale
        if VECTOR:
            pot[1][out] = total[1][t] * scale
            pot[2][out] = total[2][t] * scale

    pk.parallel_for(pk.TeamThreadRange(team, last - first), store)
