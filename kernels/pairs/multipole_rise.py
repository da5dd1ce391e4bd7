"""Slope along the axis n, UP, of the flow of charges q, dipoles d and quadrupoles Q.

With Y = (3 X + R) / r^2, v = Q e + Q^T e, dipoles over r_c and quadrupoles over its square, and
a, b, h, A, B and C as of `multipole_flow.py`,

u = (1/r_c^3) [ L n + S e + e_n z + A (Q n + Q^T n) ],     z = B v - a d
    L = q (2 X - y^3) - a d.e + A tr Q + B e.Q e
    S = e_n (q h - b d.e + B tr Q + C e.Q e) + z_n
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import direction, distance, first_function, polynomial
from kernels.blocks.vector import take_tensor, take_vector

UP = 2


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function()
    direction()
    distance(r)
    polynomial(b, p1)
    polynomial(c, p2)
    polynomial(fifth, p3)
    yy: REAL = y * y
    cube: REAL = yy * y
    level: REAL = 2.0 * a - cube
    bent: REAL = 3.0 * cube - 2.0 * b * rr
    third: REAL = 3.0 * yy * yy - 2.0 * b * r
    fourth: REAL = (10.0 * b - 2.0 * c) * r - 15.0 * yy * yy
    c = c - 5.0 * b
    ca: REAL = 3.0 * cube * yy - 2.0 * b
    cb: REAL = 0.0 - 15.0 * cube * yy - 2.0 * c
    cc: REAL = 105.0 * cube * yy - 2.0 * fifth * rr + 14.0 * c
    cut(level)
    cut(bent)
    cut(third)
    cut(fourth)
    cut(ca)
    cut(cb)
    cut(cc)
    en: REAL = e2
    if UP == 0:
        en = e0
    if UP == 1:
        en = e1
    for d in range(MANY):
        take_vector(f0, f1, f2, density, row + CHARGES * d + 1, at)
        take_tensor(density, row + CHARGES * d + 4, at)
        charge: REAL = density[row + CHARGES * d][at]
        fe: REAL = f0 * e0 + f1 * e1 + f2 * e2
        v0: REAL = (d00 + d00) * e0 + (d01 + d10) * e1 + (d02 + d20) * e2
        v1: REAL = (d10 + d01) * e0 + (d11 + d11) * e1 + (d12 + d21) * e2
        v2: REAL = (d20 + d02) * e0 + (d21 + d12) * e1 + (d22 + d22) * e2
        both: REAL = 0.5 * (v0 * e0 + v1 * e1 + v2 * e2)
        trace: REAL = d00 + d11 + d22
        v0 = cb * v0 - third * f0
        v1 = cb * v1 - third * f1
        v2 = cb * v2 - third * f2
        along: REAL = en * (bent * charge - fourth * fe + cb * trace + cc * both)
        if UP == 0:
            along += v0
        if UP == 1:
            along += v1
        if UP == 2:
            along += v2
        up: REAL = level * charge - third * fe + ca * trace + cb * both
        tensor: int = row + CHARGES * d + 4
        u[3 * d] += along * e0 + en * v0
        u[3 * d + 1] += along * e1 + en * v1
        u[3 * d + 2] += along * e2 + en * v2
        u[3 * d] += ca * (density[tensor + UP][at] + density[tensor + 3 * UP][at])
        u[3 * d + 1] += ca * (density[tensor + 3 + UP][at] + density[tensor + 3 * UP + 1][at])
        u[3 * d + 2] += ca * (density[tensor + 6 + UP][at] + density[tensor + 3 * UP + 2][at])
        u[3 * d + UP] += up
