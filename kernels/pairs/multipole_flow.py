"""Slope of the potential of charges q, dipoles d and, with QUADRUPOLES, quadrupoles Q.

With Y = (3 X + R) / r^2, v = Q e + Q^T e, dipoles over r_c and quadrupoles over its square,

u = (1/r_c^2) [ q (2 X r - y^2) e + (y^3 - 2 X) d - h d.e e + a (v + tr Q e) + b e.Q e e ]
    a = 3 y^4 - 2 Y r     b = -15 y^4 - 2 (W - 5 Y) r     h = 3 y^3 - 2 Y r^2

The derivatives d_j u_i are, over r_c^3,

    q (h e_i e_j - (y^3 - 2 X) d_ij) - a (d.e d_ij + d_i e_j + e_i d_j) - b d.e e_i e_j
    + A (Q_ij + Q_ji + tr Q d_ij) + B (e.Q e d_ij + tr Q e_i e_j + v_i e_j + e_i v_j)
    + C e.Q e e_i e_j
        A = 3 y^5 - 2 Y     B = -15 y^5 - 2 (W - 5 Y)     C = 105 y^5 - 2 V r^2 + 14 (W - 5 Y)
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import direction, distance, first_function, polynomial
from kernels.blocks.slopes import add_gradient, begin_pair, begin_vector
from kernels.blocks.vector import take_tensor, take_vector

QUADRUPOLES = True  # whether the rows of Q follow q and d


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function()
    direction()
    distance(r)
    polynomial(b, p1)
    yy: REAL = y * y
    slope: REAL = 2.0 * a * r - yy
    level: REAL = yy * y - 2.0 * a
    bent: REAL = 2.0 * b * rr - 3.0 * yy * y
    cut(slope)
    cut(level)
    cut(bent)
    if QUADRUPOLES:
        polynomial(c, p2)
        third: REAL = 3.0 * yy * yy - 2.0 * b * r
        fourth: REAL = (10.0 * b - 2.0 * c) * r - 15.0 * yy * yy
        cut(third)
        cut(fourth)
    for d in range(MANY):
        take_vector(f0, f1, f2, density, row + CHARGES * d + 1, at)
        fe: REAL = f0 * e0 + f1 * e1 + f2 * e2
        along: REAL = slope * density[row + CHARGES * d][at] + bent * fe
        if QUADRUPOLES:
            take_tensor(density, row + CHARGES * d + 4, at)
            v0: REAL = (d00 + d00) * e0 + (d01 + d10) * e1 + (d02 + d20) * e2
            v1: REAL = (d10 + d01) * e0 + (d11 + d11) * e1 + (d12 + d21) * e2
            v2: REAL = (d20 + d02) * e0 + (d21 + d12) * e1 + (d22 + d22) * e2
            along += third * (d00 + d11 + d22)
            along += 0.5 * fourth * (v0 * e0 + v1 * e1 + v2 * e2)
            u[3 * d] += third * v0
            u[3 * d + 1] += third * v1
            u[3 * d + 2] += third * v2
        u[3 * d] += level * f0 + along * e0
        u[3 * d + 1] += level * f1 + along * e1
        u[3 * d + 2] += level * f2 + along * e2


def differentiate(density, row, normal, first_normal, at):
    """Add to the sums of derivatives what one source does."""
    begin_pair()
    begin_vector()  # X and Y, in the places of X and R
    polynomial(pw, p2)
    cube: REAL = yy * y
    px = 2.0 * px - cube
    bent: REAL = 3.0 * cube - 2.0 * pr * rr
    third: REAL = 3.0 * yy * yy - 2.0 * pr * r
    fourth: REAL = (10.0 * pr - 2.0 * pw) * r - 15.0 * yy * yy
    take_vector(f0, f1, f2, density, row + 1, at)
    fe: REAL = f0 * e0 + f1 * e1 + f2 * e2
    charge: REAL = density[row][at]
    if QUADRUPOLES:
        take_tensor(density, row + 4, at)
        z0 = (d00 + d00) * e0 + (d01 + d10) * e1 + (d02 + d20) * e2
        z1 = (d10 + d01) * e0 + (d11 + d11) * e1 + (d12 + d21) * e2
        z2 = (d20 + d02) * e0 + (d21 + d12) * e1 + (d22 + d22) * e2
        both: REAL = 0.5 * (z0 * e0 + z1 * e1 + z2 * e2)
        trace: REAL = d00 + d11 + d22
    if VALUES:
        along = px * r * charge - bent * fe
        if QUADRUPOLES:
            along += third * trace + fourth * both
            u0 += third * z0
            u1 += third * z1
            u2 += third * z2
        u0 += along * e0 - px * f0
        u1 += along * e1 - px * f1
        u2 += along * e2 - px * f2
    level = px * charge - third * fe
    along = bent * charge - fourth * fe
    if QUADRUPOLES:
        polynomial(pv, p3)
        fifth: REAL = cube * yy
        pw = pw - 5.0 * pr
        ca: REAL = 3.0 * fifth - 2.0 * pr
        cb: REAL = 0.0 - 15.0 * fifth - 2.0 * pw
        level += ca * trace + cb * both
        along += cb * trace + (105.0 * fifth - 2.0 * pv * rr + 14.0 * pw) * both
        z0 = cb * z0
        z1 = cb * z1
        z2 = cb * z2
        if GRADIENT:
            g00 += ca * (d00 + d00)
            g01 += ca * (d01 + d10)
            g02 += ca * (d02 + d20)
            g10 += ca * (d10 + d01)
            g11 += ca * (d11 + d11)
            g12 += ca * (d12 + d21)
            g20 += ca * (d20 + d02)
            g21 += ca * (d21 + d12)
            g22 += ca * (d22 + d22)
    z0 = z0 - third * f0
    z1 = z1 - third * f1
    z2 = z2 - third * f2
    v0 = z0
    v1 = z1
    v2 = z2
    add_gradient()
