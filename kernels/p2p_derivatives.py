"""P2P's pressure and gradients: the near field's derivatives, over pairs closer than the cut-off.

`p2p_derivatives`: one team owns a tile of consecutive sorted targets of one column of cells, and
walks the cells that `p2p_staged` does. With y = r_c/r, e = (x - y)/r, r over r_c and
s = 2 r^2 - 1, the derivatives d_j u_i and the pressure p are

    single   (1/r_c^2) [ A f_i e_j + B (f.e) e_i e_j + C (e_i f_j + (f.e) d_ij) ]
             A = -y^2 - 2 r (R - X)      B = -3 y^2 + 2 r (R + 3 X)      C = y^2 - 2 r X
             p = (1/r_c^2) (f.e) (2 y^2 + 2 r R - 4 r X)
    double   (1/r_c^3) [ -2 W r^2 (h_i e_j) - 2 R ((q.n) d_ij + q_i n_j + n_i q_j)
                         + E (q.e)(n.e) e_i e_j + F (e_i g_j + (q.e)(n.e) d_ij) ]
             g = (n.e) q + (q.e) n       h = (q.n) e + g
             E = 30 y^3 + 4 W r^2 - 20 R - 60 X      F = -6 y^3 + 4 R + 12 X
             p = (1/r_c^3) [ (q.n) (4 y^3 + 4 R - 8 X)
                             + (q.e)(n.e) (-12 y^3 + 8 R + 24 X + 4 W r^2) ]
    Laplace  (1/r_c^2) (-y^2 + 2 r X) e_j
    dipole   (1/r_c^3) [ A D_ij + B D_ji + (C e.D e + B tr D) d_ij + (2 W r^2 - C) (D e)_i e_j
                         + C (D^T e)_i e_j + C e_i (D e + D^T e)_j
                         + (C tr D - (5 C + 2 W r^2) e.D e) e_i e_j ]
             A = y^3 + 2 R - 2 X     B = -y^3 + 2 X     C = 3 y^3 - 2 R - 6 X
             p = (1/r_c^3) [ (e.D e) (6 y^3 - 4 R - 12 X - 2 W r^2)
                             - (tr D) (2 y^3 + 2 R - 4 X) ]
    rotlet   (1/r_c^3) [ (-3 y^3 + 2 R + 6 X) (t x e)_i e_j + (y^3 - 2 X) eps_ikj t_k ], p = 0

with polynomials X, R, W in s (rows of ``radial``; W = R'/r). As in `p2p_staged`, y = 0 leaves the
smooth remainder of a coinciding pair.
"""

from typing import List

import pykokkos as pk

from kernels.blocks.walk import bound, clip, wrap

REAL = pk.double
SINGLE = True
DOUBLE = True
LAPLACE = False
ROTLET = False
DIPOLE = False
VECTOR = 1 - LAPLACE  # whether results are vectors
PRESSURE = True
GRADIENT = True
DEGREE = 12
PERIODIC = 3  # the first PERIODIC axes repeat
LOW = False  # positions have a second part, as in p2p.py
UNIT = 5.9604644775390625e-08  # of it


@pk.workunit
def p2p_derivatives(
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
    cutoff: REAL,
    coincident: REAL,
    scale: REAL,
    trg_low: pk.View2D[REAL],
    src_low: pk.View2D[REAL],
    pressure: pk.View2D[REAL],
    gradient: pk.View2D[REAL],
):
    """Derivatives of the near field of one tile (column, first, last + 1) of targets.

    ``norms`` are the normals over r_c. ``coincident`` is the squared distance, over r_c, below
    which a pair counts as one point. ``scale`` multiplies the result: the powers of r_c, and what
    turns solver units into the user's. Row 3 i + j of ``gradient`` is d_j u_i, row j for Laplace.
    """
    tile: int = team.league_rank()
    system: int = tiles[0][tile] // (shape[0] * shape[1]) * (shape[0] * shape[1])
    first: int = tiles[1][tile]
    last: int = tiles[2][tile]
    bound(first, last)
    inverse: REAL = 1.0 / cutoff
    first0: int = int(pk.floor((lo0 - cutoff) / width[0]))
    last0: int = int(pk.floor((hi0 + cutoff) / width[0]))
    clip(0, first0, last0)
    first1: int = int(pk.floor((lo1 - cutoff) / width[1]))
    last1: int = int(pk.floor((hi1 + cutoff) / width[1]))
    clip(1, first1, last1)
    p0: List[REAL] = [0.0] * (DEGREE + 1)
    p1: List[REAL] = [0.0] * (DEGREE + 1)
    p2: List[REAL] = [0.0] * (DEGREE + 1)
    for k in range(DEGREE + 1):
        p0[k] = radial[0][k]
        if VECTOR:
            p1[k] = radial[1][k]
        if DOUBLE or DIPOLE:
            p2[k] = radial[2][k]

    def target(t: int):
        i: int = first + t
        p: REAL = 0.0
        g00: REAL = 0.0
        g01: REAL = 0.0
        g02: REAL = 0.0
        g10: REAL = 0.0
        g11: REAL = 0.0
        g12: REAL = 0.0
        g20: REAL = 0.0
        g21: REAL = 0.0
        g22: REAL = 0.0
        for c0 in range(first0, last0 + 1):
            gap0: REAL = pk.fmax(REAL(c0) * width[0] - hi0, lo0 - REAL(c0 + 1) * width[0])
            gap0 = pk.fmax(gap0, 0.0)
            w0: int = c0
            x0: REAL = trg[0][i]
            s0: REAL = 0.0
            wrap(0, w0, s0, x0)
            for c1 in range(first1, last1 + 1):
                gap1: REAL = pk.fmax(REAL(c1) * width[1] - hi1, lo1 - REAL(c1 + 1) * width[1])
                gap1 = pk.fmax(gap1, 0.0)
                room: REAL = cutoff * cutoff - gap0 * gap0 - gap1 * gap1
                if room <= 0.0:
                    continue
                w1: int = c1
                x1: REAL = trg[1][i]
                s1: REAL = 0.0
                wrap(1, w1, s1, x1)
                reach: REAL = pk.sqrt(room)
                below: int = int(pk.floor((lo2 - reach) / width[2]))
                above: int = int(pk.floor((hi2 + reach) / width[2]))
                clip(2, below, above)
                column: int = (system + w0 * shape[1] + w1) * shape[2]
                while below <= above:
                    # One run of cells, up to the top of the box; the rest is the next image.
                    w2: int = below
                    x2: REAL = trg[2][i]
                    s2: REAL = 0.0
                    wrap(2, w2, s2, x2)
                    run: int = above - below + 1
                    if run > shape[2] - w2:
                        run = shape[2] - w2
                    below = below + run
                    begin: int = starts[column + w2]
                    end: int = starts[column + w2 + run]
                    for j in range(begin, end):
                        r0: REAL = (x0 - (src[0][j] + s0)) * inverse
                        r1: REAL = (x1 - (src[1][j] + s1)) * inverse
                        r2: REAL = (x2 - (src[2][j] + s2)) * inverse
                        if LOW:
                            r0 += (trg_low[0][i] - src_low[0][j]) * (inverse * UNIT)
                            r1 += (trg_low[1][i] - src_low[1][j]) * (inverse * UNIT)
                            r2 += (trg_low[2][i] - src_low[2][j]) * (inverse * UNIT)
                        rr: REAL = r0 * r0 + r1 * r1 + r2 * r2
                        if rr < 1.0:
                            y: REAL = 1.0 / pk.sqrt(rr)
                            if rr <= coincident:
                                y = 0.0
                            s: REAL = 2.0 * rr - 1.0
                            r: REAL = rr * y
                            yy: REAL = y * y
                            e0: REAL = r0 * y
                            e1: REAL = r1 * y
                            e2: REAL = r2 * y
                            px: REAL = p0[0]
                            for k in range(DEGREE):
                                px = px * s + p0[k + 1]
                            if LAPLACE:
                                px = (2.0 * px * r - yy) * dens[0][j]
                                g00 += px * e0
                                g01 += px * e1
                                g02 += px * e2
                            if VECTOR:
                                pr: REAL = p1[0]
                                for k in range(DEGREE):
                                    pr = pr * s + p1[k + 1]
                                # The gradient is v e^T + e z^T + m I, and what some kernels add.
                                v0: REAL = 0.0
                                v1: REAL = 0.0
                                v2: REAL = 0.0
                                z0: REAL = 0.0
                                z1: REAL = 0.0
                                z2: REAL = 0.0
                                along: REAL = 0.0
                                m: REAL = 0.0
                                if SINGLE:
                                    f0: REAL = dens[0][j]
                                    f1: REAL = dens[1][j]
                                    f2: REAL = dens[2][j]
                                    fe: REAL = f0 * e0 + f1 * e1 + f2 * e2
                                    if PRESSURE:
                                        p += fe * (2.0 * yy + (2.0 * pr - 4.0 * px) * r)
                                    if GRADIENT:
                                        ca: REAL = 2.0 * (px - pr) * r - yy
                                        cc: REAL = yy - 2.0 * px * r
                                        along = fe * (2.0 * (pr + 3.0 * px) * r - 3.0 * yy)
                                        m = fe * cc
                                        v0 = ca * f0
                                        v1 = ca * f1
                                        v2 = ca * f2
                                        z0 = cc * f0
                                        z1 = cc * f1
                                        z2 = cc * f2
                                if DOUBLE or DIPOLE:
                                    pw: REAL = p2[0]
                                    for k in range(DEGREE):
                                        pw = pw * s + p2[k + 1]
                                cube: REAL = yy * y
                                if DOUBLE:
                                    pw = pw * rr
                                    q0: REAL = dens[3 * SINGLE][j]
                                    q1: REAL = dens[3 * SINGLE + 1][j]
                                    q2: REAL = dens[3 * SINGLE + 2][j]
                                    n0: REAL = norms[0][j]
                                    n1: REAL = norms[1][j]
                                    n2: REAL = norms[2][j]
                                    qe: REAL = q0 * e0 + q1 * e1 + q2 * e2
                                    ne: REAL = n0 * e0 + n1 * e1 + n2 * e2
                                    qn: REAL = q0 * n0 + q1 * n1 + q2 * n2
                                    both: REAL = qe * ne
                                    if PRESSURE:
                                        p += 4.0 * qn * (cube + pr - 2.0 * px)
                                        p += 4.0 * both * (2.0 * pr + 6.0 * px + pw - 3.0 * cube)
                                    if GRADIENT:
                                        ce: REAL = 30.0 * cube + 4.0 * pw - 20.0 * pr - 60.0 * px
                                        cf: REAL = 4.0 * pr + 12.0 * px - 6.0 * cube
                                        pw = -2.0 * pw
                                        pr = -2.0 * pr
                                        along = along + ce * both + pw * qn
                                        m = m + cf * both + pr * qn
                                        h0: REAL = ne * q0 + qe * n0
                                        h1: REAL = ne * q1 + qe * n1
                                        h2: REAL = ne * q2 + qe * n2
                                        v0 = v0 + pw * h0
                                        v1 = v1 + pw * h1
                                        v2 = v2 + pw * h2
                                        z0 = z0 + cf * h0
                                        z1 = z1 + cf * h1
                                        z2 = z2 + cf * h2
                                        q01: REAL = pr * (q0 * n1 + q1 * n0)
                                        q12: REAL = pr * (q1 * n2 + q2 * n1)
                                        q20: REAL = pr * (q2 * n0 + q0 * n2)
                                        g00 += 2.0 * pr * q0 * n0
                                        g01 += q01
                                        g02 += q20
                                        g10 += q01
                                        g11 += 2.0 * pr * q1 * n1
                                        g12 += q12
                                        g20 += q20
                                        g21 += q12
                                        g22 += 2.0 * pr * q2 * n2
                                if DIPOLE:
                                    d00: REAL = dens[0][j]
                                    d01: REAL = dens[1][j]
                                    d02: REAL = dens[2][j]
                                    d10: REAL = dens[3][j]
                                    d11: REAL = dens[4][j]
                                    d12: REAL = dens[5][j]
                                    d20: REAL = dens[6][j]
                                    d21: REAL = dens[7][j]
                                    d22: REAL = dens[8][j]
                                    pw = 2.0 * pw * rr
                                    v0 = d00 * e0 + d01 * e1 + d02 * e2
                                    v1 = d10 * e0 + d11 * e1 + d12 * e2
                                    v2 = d20 * e0 + d21 * e1 + d22 * e2
                                    z0 = d00 * e0 + d10 * e1 + d20 * e2
                                    z1 = d01 * e0 + d11 * e1 + d21 * e2
                                    z2 = d02 * e0 + d12 * e1 + d22 * e2
                                    both: REAL = v0 * e0 + v1 * e1 + v2 * e2
                                    trace: REAL = d00 + d11 + d22
                                    cf: REAL = 3.0 * cube - 2.0 * pr - 6.0 * px
                                    if PRESSURE:
                                        p += both * (2.0 * cf - pw)
                                        p -= trace * (2.0 * cube + 2.0 * pr - 4.0 * px)
                                    if GRADIENT:
                                        ca: REAL = cube + 2.0 * pr - 2.0 * px
                                        cc: REAL = 2.0 * px - cube
                                        g00 += (ca + cc) * d00
                                        g01 += ca * d01 + cc * d10
                                        g02 += ca * d02 + cc * d20
                                        g10 += ca * d10 + cc * d01
                                        g11 += (ca + cc) * d11
                                        g12 += ca * d12 + cc * d21
                                        g20 += ca * d20 + cc * d02
                                        g21 += ca * d21 + cc * d12
                                        g22 += (ca + cc) * d22
                                        m = cf * both + cc * trace
                                        along = cf * trace - (5.0 * cf + pw) * both
                                        pw = pw - cf
                                        f0: REAL = cf * (v0 + z0)
                                        f1: REAL = cf * (v1 + z1)
                                        f2: REAL = cf * (v2 + z2)
                                        v0 = pw * v0 + cf * z0
                                        v1 = pw * v1 + cf * z1
                                        v2 = pw * v2 + cf * z2
                                        z0 = f0
                                        z1 = f1
                                        z2 = f2
                                if ROTLET:
                                    t0: REAL = dens[0][j]
                                    t1: REAL = dens[1][j]
                                    t2: REAL = dens[2][j]
                                    pr = 2.0 * pr + 6.0 * px - 3.0 * cube
                                    px = cube - 2.0 * px
                                    v0 = pr * (t1 * e2 - t2 * e1)
                                    v1 = pr * (t2 * e0 - t0 * e2)
                                    v2 = pr * (t0 * e1 - t1 * e0)
                                    g01 -= px * t2
                                    g02 += px * t1
                                    g10 += px * t2
                                    g12 -= px * t0
                                    g20 -= px * t1
                                    g21 += px * t0
                                if GRADIENT:
                                    v0 = v0 + along * e0
                                    v1 = v1 + along * e1
                                    v2 = v2 + along * e2
                                    g00 += v0 * e0 + e0 * z0 + m
                                    g01 += v0 * e1 + e0 * z1
                                    g02 += v0 * e2 + e0 * z2
                                    g10 += v1 * e0 + e1 * z0
                                    g11 += v1 * e1 + e1 * z1 + m
                                    g12 += v1 * e2 + e1 * z2
                                    g20 += v2 * e0 + e2 * z0
                                    g21 += v2 * e1 + e2 * z1
                                    g22 += v2 * e2 + e2 * z2 + m
        out: int = order[i]
        if PRESSURE:
            pressure[0][out] = p * scale
        if GRADIENT:
            gradient[0][out] = g00 * scale
            gradient[1][out] = g01 * scale
            gradient[2][out] = g02 * scale
            if VECTOR:
                gradient[3][out] = g10 * scale
                gradient[4][out] = g11 * scale
                gradient[5][out] = g12 * scale
                gradient[6][out] = g20 * scale
                gradient[7][out] = g21 * scale
                gradient[8][out] = g22 * scale

    pk.parallel_for(pk.TeamThreadRange(team, last - first), target)
