"""Single and double layer of Stokes flow, f and q, and both together, which share what pairs cost.

    u = (1/r_c)   [ (y - 2 S) f + (y - 2 X r^2) (f.e) e ]
      + (1/r_c^2) [ -2 R r ((q.n) e + (n.e) q + (q.e) n)
                    + (-6 y^2 + (4 R + 12 X) r) (q.e)(n.e) e ]

The derivatives d_j u_i and the pressure p are of f, over r_c^2, and of q, over r_c^3,

    f   A f_i e_j + B (f.e) e_i e_j + C (e_i f_j + (f.e) d_ij)
        A = -y^2 - 2 r (R - X)      B = -3 y^2 + 2 r (R + 3 X)      C = y^2 - 2 r X
        p = (f.e) (2 y^2 + 2 r R - 4 r X)
    q   -2 W r^2 (h_i e_j) - 2 R ((q.n) d_ij + q_i n_j + n_i q_j)
        + E (q.e)(n.e) e_i e_j + F (e_i g_j + (q.e)(n.e) d_ij)
        g = (n.e) q + (q.e) n       h = (q.n) e + g
        E = 30 y^3 + 4 W r^2 - 20 R - 60 X      F = -6 y^3 + 4 R + 12 X
        p = (q.n) (4 y^3 + 4 R - 8 X) + (q.e)(n.e) (-12 y^3 + 8 R + 24 X + 4 W r^2)

Minus the gradient of a tensor target's reading of f is the gradient of the dipole D contracted with
f, minus its strength s times the gradient of p. With A, B, C of ``dipole.py`` it is, over r_c^3,

    A D^T f + B D f + (C e.D e + B tr D - 2 s (y^3 + R - 2 X)) f + C (f.e) (D e + D^T e)
    + ((2 W r^2 - C) f.D e + C f.D^T e + (C tr D - (5 C + 2 W r^2) e.D e
       + 2 s (C - W r^2)) (f.e)) e
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import (
    direction,
    distance,
    first_function,
    more_functions,
    polynomial,
)
from kernels.blocks.slopes import add_gradient, begin_pair, begin_vector
from kernels.blocks.vector import take_vector

# The single layer has the first rows of a density, or of the results if TRANSPOSED_PAIR.
DOUBLE = NORMALS
SINGLE = CHARGES + OUTPUTS > 3 + 3 * DOUBLE
LAYER_ROW = 3 * SINGLE * (1 - TRANSPOSED_PAIR)
LAYER_OUT = 3 * SINGLE * TRANSPOSED_PAIR


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function()
    more_functions()
    direction()
    if EVALUATOR == 0:
        polynomial(b, p1)
    if DOUBLE:
        if TRANSPOSED_PAIR == 0:
            take_vector(n0, n1, n2, normal, first_normal, at)
        ne: REAL = n0 * e0 + n1 * e1 + n2 * e2
        if EVALUATOR == 0:
            polynomial(g, p2)
        if EVALUATOR > 0:
            g: REAL = (0.0 - 2.0 * decay) * psi
        distance(r)
        h: REAL = (4.0 * g + 12.0 * b) * r - 6.0 * y * y
        g = -2.0 * g * r
        cut(g)
        cut(h)
        gn: REAL = g * ne
        h = h * ne
    if SINGLE:
        a = y - 2.0 * a
        b = y - 2.0 * b * rr
        cut(a)
        cut(b)
    for d in range(MANY):
        along: REAL = 0.0
        if SINGLE:
            take_vector(f0, f1, f2, density, row + CHARGES * d, at)
            along = b * (f0 * e0 + f1 * e1 + f2 * e2)
            u[OUTPUTS * d] += a * f0
            u[OUTPUTS * d + 1] += a * f1
            u[OUTPUTS * d + 2] += a * f2
            if TRANSPOSED_PAIR:
                u[OUTPUTS * d] += along * e0
                u[OUTPUTS * d + 1] += along * e1
                u[OUTPUTS * d + 2] += along * e2
                along = 0.0
        if DOUBLE:
            take_vector(q0, q1, q2, density, row + CHARGES * d + LAYER_ROW, at)
            qe: REAL = q0 * e0 + q1 * e1 + q2 * e2
            qn: REAL = q0 * n0 + q1 * n1 + q2 * n2
            along = along + g * qn + h * qe
            qe = g * qe
            u[OUTPUTS * d + LAYER_OUT] += gn * q0
            u[OUTPUTS * d + LAYER_OUT] += qe * n0
            u[OUTPUTS * d + LAYER_OUT + 1] += gn * q1
            u[OUTPUTS * d + LAYER_OUT + 1] += qe * n1
            u[OUTPUTS * d + LAYER_OUT + 2] += gn * q2
            u[OUTPUTS * d + LAYER_OUT + 2] += qe * n2
        u[OUTPUTS * d + LAYER_OUT] += along * e0
        u[OUTPUTS * d + LAYER_OUT + 1] += along * e1
        u[OUTPUTS * d + LAYER_OUT + 2] += along * e2


def differentiate(density, row, normal, first_normal, at):
    """Add to the sums of derivatives what one source does."""
    begin_pair()
    if VALUES and SINGLE:
        polynomial(a, p3)
        a = y - 2.0 * a
    begin_vector()
    if SINGLE:
        take_vector(f0, f1, f2, density, row, at)
        fe: REAL = f0 * e0 + f1 * e1 + f2 * e2
        if VALUES:
            b: REAL = (y - 2.0 * px * rr) * fe
            u0 += a * f0 + b * e0
            u1 += a * f1 + b * e1
            u2 += a * f2 + b * e2
        if PRESSURE:
            p += fe * (2.0 * yy + (2.0 * pr - 4.0 * px) * r)
        if GRADIENT:
            ca: REAL = 2.0 * (px - pr) * r - yy
            cc: REAL = yy - 2.0 * px * r
            along = fe * (2.0 * (pr + 3.0 * px) * r - 3.0 * yy)
            level = fe * cc
            v0 = ca * f0
            v1 = ca * f1
            v2 = ca * f2
            z0 = cc * f0
            z1 = cc * f1
            z2 = cc * f2
    if TABLES > 2:
        polynomial(pw, p2)
    cube: REAL = yy * y
    if TENSORS:
        feel()
    if DOUBLE:
        pw = pw * rr
        take_vector(q0, q1, q2, density, row + LAYER_ROW, at)
        take_vector(n0, n1, n2, normal, first_normal, at)
        qe: REAL = q0 * e0 + q1 * e1 + q2 * e2
        ne: REAL = n0 * e0 + n1 * e1 + n2 * e2
        qn: REAL = q0 * n0 + q1 * n1 + q2 * n2
        both: REAL = qe * ne
        if VALUES:
            g: REAL = -2.0 * pr * r
            h: REAL = g * qn + ((4.0 * pr + 12.0 * px) * r - 6.0 * yy) * both
            u0 += g * (ne * q0 + qe * n0) + h * e0
            u1 += g * (ne * q1 + qe * n1) + h * e1
            u2 += g * (ne * q2 + qe * n2) + h * e2
        if PRESSURE:
            p += 4.0 * qn * (cube + pr - 2.0 * px)
            p += 4.0 * both * (2.0 * pr + 6.0 * px + pw - 3.0 * cube)
        if GRADIENT:
            ce: REAL = 30.0 * cube + 4.0 * pw - 20.0 * pr - 60.0 * px
            cf: REAL = 4.0 * pr + 12.0 * px - 6.0 * cube
            pw = -2.0 * pw
            pr = -2.0 * pr
            along = along + ce * both + pw * qn
            level = level + cf * both + pr * qn
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
    add_gradient()


def feel():
    """Add to pull0, pull1, pull2 the gradient of what the target reads of a source f0, f1, f2."""
    w: REAL = 2.0 * pw * rr
    ka: REAL = cube + 2.0 * pr - 2.0 * px
    kb: REAL = 2.0 * px - cube
    kc: REAL = 3.0 * cube - 2.0 * pr - 6.0 * px
    de0: REAL = d00 * e0 + d01 * e1 + d02 * e2
    de1: REAL = d10 * e0 + d11 * e1 + d12 * e2
    de2: REAL = d20 * e0 + d21 * e1 + d22 * e2
    te0: REAL = d00 * e0 + d10 * e1 + d20 * e2
    te1: REAL = d01 * e0 + d11 * e1 + d21 * e2
    te2: REAL = d02 * e0 + d12 * e1 + d22 * e2
    ede: REAL = de0 * e0 + de1 * e1 + de2 * e2
    fde: REAL = de0 * f0 + de1 * f1 + de2 * f2
    fte: REAL = te0 * f0 + te1 * f1 + te2 * f2
    of_e: REAL = (w - kc) * fde + kc * fte
    of_e += (kc * trace - (5.0 * kc + w) * ede + strength * (2.0 * kc - w)) * fe
    of_f: REAL = kc * ede + kb * trace - strength * (2.0 * cube + 2.0 * pr - 4.0 * px)
    kc = kc * fe
    pull0 -= of_e * e0 + of_f * f0 + kc * (de0 + te0)
    pull0 -= ka * (d00 * f0 + d10 * f1 + d20 * f2) + kb * (d00 * f0 + d01 * f1 + d02 * f2)
    pull1 -= of_e * e1 + of_f * f1 + kc * (de1 + te1)
    pull1 -= ka * (d01 * f0 + d11 * f1 + d21 * f2) + kb * (d10 * f0 + d11 * f1 + d12 * f2)
    pull2 -= of_e * e2 + of_f * f2 + kc * (de2 + te2)
    pull2 -= ka * (d02 * f0 + d12 * f1 + d22 * f2) + kb * (d20 * f0 + d21 * f1 + d22 * f2)
