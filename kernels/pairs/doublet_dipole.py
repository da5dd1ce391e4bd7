"""Potential flow of dipoles D of source doublets, with Y = (3 X + R) / r^2.

    u = (1/r_c^4) [ -A ((tr D) e + D e + D^T e) - B (e.D e) e - 2 W r D e ]
        A = 3 y^4 - 2 Y r     B = -15 y^4 - 2 (W - 5 Y) r

The derivatives d_j u_i are, over r_c^5,

    -a (D_ij + D_ji + (tr D) d_ij) - b ((e.D e) d_ij + (tr D) e_i e_j + v_i e_j + e_i v_j)
    -c (e.D e) e_i e_j - 2 W D_ij - 2 V r^2 (D e)_i e_j,     v = D e + D^T e
        a = 3 y^5 - 2 Y     b = -15 y^5 - 2 (W - 5 Y)     c = 105 y^5 - 2 V r^2 + 14 (W - 5 Y)
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import direction, distance, first_function, polynomial
from kernels.blocks.slopes import add_gradient, begin_pair, begin_vector
from kernels.blocks.vector import take_tensor


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function()
    direction()
    polynomial(b, p1)
    distance(r)
    fourth: REAL = y * y * y * y
    ca: REAL = 2.0 * a * r - 3.0 * fourth
    cb: REAL = 15.0 * fourth + 2.0 * (b - 5.0 * a) * r
    cc: REAL = 2.0 * b * r
    cut(ca)
    cut(cb)
    cut(cc)
    for d in range(MANY):
        take_tensor(density, row + CHARGES * d, at)
        v0: REAL = d00 * e0 + d01 * e1 + d02 * e2
        v1: REAL = d10 * e0 + d11 * e1 + d12 * e2
        v2: REAL = d20 * e0 + d21 * e1 + d22 * e2
        along: REAL = ca * (d00 + d11 + d22)
        along += cb * (v0 * e0 + v1 * e1 + v2 * e2)
        u[3 * d] += (ca - cc) * v0 + along * e0
        u[3 * d] += ca * (d00 * e0 + d10 * e1 + d20 * e2)
        u[3 * d + 1] += (ca - cc) * v1 + along * e1
        u[3 * d + 1] += ca * (d01 * e0 + d11 * e1 + d21 * e2)
        u[3 * d + 2] += (ca - cc) * v2 + along * e2
        u[3 * d + 2] += ca * (d02 * e0 + d12 * e1 + d22 * e2)


def differentiate(density, row, normal, first_normal, at):
    """Add to the sums of derivatives what one source does."""
    begin_pair()
    begin_vector()  # Y and W, in the places of X and R
    polynomial(third, p2)
    third = 2.0 * third * rr
    fifth: REAL = yy * yy * y
    take_tensor(density, row, at)
    ca: REAL = 2.0 * px - 3.0 * fifth
    cb: REAL = 15.0 * fifth + 2.0 * (pr - 5.0 * px)
    cc: REAL = third - 105.0 * fifth - 14.0 * (pr - 5.0 * px)
    pr = 2.0 * pr
    v0 = d00 * e0 + d01 * e1 + d02 * e2
    v1 = d10 * e0 + d11 * e1 + d12 * e2
    v2 = d20 * e0 + d21 * e1 + d22 * e2
    z0 = d00 * e0 + d10 * e1 + d20 * e2 + v0
    z1 = d01 * e0 + d11 * e1 + d21 * e2 + v1
    z2 = d02 * e0 + d12 * e1 + d22 * e2 + v2
    both: REAL = v0 * e0 + v1 * e1 + v2 * e2
    trace: REAL = d00 + d11 + d22
    if VALUES:
        across: REAL = pr * r
        along = (ca * trace + cb * both) * r
        u0 += ca * r * z0 + along * e0 - across * v0
        u1 += ca * r * z1 + along * e1 - across * v1
        u2 += ca * r * z2 + along * e2 - across * v2
    if GRADIENT:
        g00 += 2.0 * ca * d00 - pr * d00
        g01 += ca * (d01 + d10) - pr * d01
        g02 += ca * (d02 + d20) - pr * d02
        g10 += ca * (d10 + d01) - pr * d10
        g11 += 2.0 * ca * d11 - pr * d11
        g12 += ca * (d12 + d21) - pr * d12
        g20 += ca * (d20 + d02) - pr * d20
        g21 += ca * (d21 + d12) - pr * d21
        g22 += 2.0 * ca * d22 - pr * d22
        level = ca * trace + cb * both
        along = cb * trace + cc * both
        z0 = cb * z0
        z1 = cb * z1
        z2 = cb * z2
        v0 = z0 - third * v0
        v1 = z1 - third * v1
        v2 = z2 - third * v2
    add_gradient()
