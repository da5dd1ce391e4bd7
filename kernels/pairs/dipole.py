"""Stokes flow of dipoles D of forces.

    u = (1/r_c^2) [ (y^2 + 2 r (R - X)) D e - (y^2 - 2 r X) (D^T e + (tr D) e)
                    + (3 y^2 - 2 r (R + 3 X)) (e.D e) e ]

The derivatives d_j u_i and the pressure p are, over r_c^3,

    A D_ij + B D_ji + (C e.D e + B tr D) d_ij + (2 W r^2 - C) (D e)_i e_j + C (D^T e)_i e_j
    + C e_i (D e + D^T e)_j + (C tr D - (5 C + 2 W r^2) e.D e) e_i e_j
    A = y^3 + 2 R - 2 X     B = -y^3 + 2 X     C = 3 y^3 - 2 R - 6 X
    p = (e.D e) (6 y^3 - 4 R - 12 X - 2 W r^2) - (tr D) (2 y^3 + 2 R - 4 X)
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
from kernels.blocks.vector import take_tensor


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function()
    more_functions()
    direction()
    if EVALUATOR == 0:
        polynomial(b, p1)
    if EVALUATOR > 0:
        a = b
        b = (0.0 - 2.0 * decay) * psi
    distance(r)
    ca: REAL = y * y + 2.0 * (b - a) * r
    cc: REAL = 2.0 * a * r - y * y
    cb: REAL = 3.0 * y * y - 2.0 * (b + 3.0 * a) * r
    cut(ca)
    cut(cb)
    cut(cc)
    for d in range(MANY):
        if TRANSPOSED_PAIR:
            f0: REAL = 0.0 - density[row + 3 * d][at]
            f1: REAL = 0.0 - density[row + 3 * d + 1][at]
            f2: REAL = 0.0 - density[row + 3 * d + 2][at]
            fe: REAL = f0 * e0 + f1 * e1 + f2 * e2
            along: REAL = cb * fe
            v0: REAL = ca * f0 + along * e0
            v1: REAL = ca * f1 + along * e1
            v2: REAL = ca * f2 + along * e2
            fe = cc * fe
            f0 = cc * f0
            f1 = cc * f1
            f2 = cc * f2
            u[9 * d] += v0 * e0 + e0 * f0 + fe
            u[9 * d + 1] += v0 * e1 + e0 * f1
            u[9 * d + 2] += v0 * e2 + e0 * f2
            u[9 * d + 3] += v1 * e0 + e1 * f0
            u[9 * d + 4] += v1 * e1 + e1 * f1 + fe
            u[9 * d + 5] += v1 * e2 + e1 * f2
            u[9 * d + 6] += v2 * e0 + e2 * f0
            u[9 * d + 7] += v2 * e1 + e2 * f1
            u[9 * d + 8] += v2 * e2 + e2 * f2 + fe
        else:
            take_tensor(density, row + CHARGES * d, at)
            v0: REAL = d00 * e0 + d01 * e1 + d02 * e2
            v1: REAL = d10 * e0 + d11 * e1 + d12 * e2
            v2: REAL = d20 * e0 + d21 * e1 + d22 * e2
            along: REAL = cc * (d00 + d11 + d22)
            along += cb * (v0 * e0 + v1 * e1 + v2 * e2)
            u[3 * d] += ca * v0 + along * e0
            u[3 * d] += cc * (d00 * e0 + d10 * e1 + d20 * e2)
            u[3 * d + 1] += ca * v1 + along * e1
            u[3 * d + 1] += cc * (d01 * e0 + d11 * e1 + d21 * e2)
            u[3 * d + 2] += ca * v2 + along * e2
            u[3 * d + 2] += cc * (d02 * e0 + d12 * e1 + d22 * e2)


def differentiate(density, row, normal, first_normal, at):
    """Add to the sums of derivatives what one source does."""
    begin_pair()
    begin_vector()
    polynomial(pw, p2)
    cube: REAL = yy * y
    take_tensor(density, row, at)
    pw = 2.0 * pw * rr
    v0 = d00 * e0 + d01 * e1 + d02 * e2
    v1 = d10 * e0 + d11 * e1 + d12 * e2
    v2 = d20 * e0 + d21 * e1 + d22 * e2
    z0 = d00 * e0 + d10 * e1 + d20 * e2
    z1 = d01 * e0 + d11 * e1 + d21 * e2
    z2 = d02 * e0 + d12 * e1 + d22 * e2
    both: REAL = v0 * e0 + v1 * e1 + v2 * e2
    trace: REAL = d00 + d11 + d22
    if VALUES:
        a: REAL = yy + 2.0 * (pr - px) * r
        b: REAL = 2.0 * px * r - yy
        h: REAL = b * trace + (3.0 * yy - 2.0 * (pr + 3.0 * px) * r) * both
        u0 += a * v0 + b * z0 + h * e0
        u1 += a * v1 + b * z1 + h * e1
        u2 += a * v2 + b * z2 + h * e2
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
        level = cf * both + cc * trace
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
    add_gradient()
