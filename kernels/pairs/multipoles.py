"""Potential of charges q, their dipoles d and quadrupoles Q, with its gradient.

With h = 3 y^3 - 2 R - 6 X and Y = (3 X + R) / r^2, where dipoles are over r_c and quadrupoles over
its square,

phi = (1/r_c) [ q (y - 2 L) + d.e (y^2 - 2 X r) + e.Q e h - (tr Q) (y^3 - 2 X) ]
d_j phi = (1/r_c^2) [ q (2 X r - y^2) e_j + (y^3 - 2 X) d_j - h d.e e_j
                      + a (tr Q e + Q e + Q^T e)_j + b e.Q e e_j ]
    a = 3 y^4 - 2 Y r     b = -15 y^4 - 2 (W - 5 Y) r
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import direction, distance, first_function, polynomial
from kernels.blocks.slopes import begin_pair
from kernels.blocks.vector import take_tensor, take_vector


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function()
    direction()
    distance(r)
    polynomial(x, p1)
    polynomial(b, p2)
    a = y - 2.0 * a
    across: REAL = 2.0 * x - y * y * y
    slope: REAL = y * y - 2.0 * x * r
    along: REAL = 3.0 * y * y * y - 2.0 * b - 6.0 * x
    cut(a)
    cut(across)
    cut(slope)
    cut(along)
    for d in range(MANY):
        take_vector(f0, f1, f2, density, row + CHARGES * d + 1, at)
        take_tensor(density, row + CHARGES * d + 4, at)
        v0: REAL = d00 * e0 + d01 * e1 + d02 * e2
        v1: REAL = d10 * e0 + d11 * e1 + d12 * e2
        v2: REAL = d20 * e0 + d21 * e1 + d22 * e2
        u[d] += a * density[row + CHARGES * d][at] + slope * (f0 * e0 + f1 * e1 + f2 * e2)
        u[d] += along * (v0 * e0 + v1 * e1 + v2 * e2) + across * (d00 + d11 + d22)


def differentiate(density, row, normal, first_normal, at):
    """Add to the sums of derivatives what one source does."""
    begin_pair()
    polynomial(pr, p1)  # Y, in the place of R
    polynomial(pw, p2)
    fourth: REAL = yy * yy
    level: REAL = yy * y - 2.0 * px
    bent: REAL = 3.0 * yy * y - 2.0 * pr * rr
    take_vector(f0, f1, f2, density, row + 1, at)
    take_tensor(density, row + 4, at)
    charge: REAL = density[row][at]
    v0: REAL = d00 * e0 + d01 * e1 + d02 * e2
    v1: REAL = d10 * e0 + d11 * e1 + d12 * e2
    v2: REAL = d20 * e0 + d21 * e1 + d22 * e2
    fe: REAL = f0 * e0 + f1 * e1 + f2 * e2
    both: REAL = v0 * e0 + v1 * e1 + v2 * e2
    trace: REAL = d00 + d11 + d22
    if VALUES:
        polynomial(a, p3)
        u0 += charge * (y - 2.0 * a) + (yy - 2.0 * px * r) * fe + bent * both - level * trace
    if GRADIENT:
        ca: REAL = 3.0 * fourth - 2.0 * pr * r
        cb: REAL = (10.0 * pr - 2.0 * pw) * r - 15.0 * fourth
        along: REAL = charge * (2.0 * px * r - yy) - bent * fe + ca * trace + cb * both
        v0 = v0 + d00 * e0 + d10 * e1 + d20 * e2
        v1 = v1 + d01 * e0 + d11 * e1 + d21 * e2
        v2 = v2 + d02 * e0 + d12 * e1 + d22 * e2
        g00 += level * f0 + ca * v0 + along * e0
        g01 += level * f1 + ca * v1 + along * e1
        g02 += level * f2 + ca * v2 + along * e2
