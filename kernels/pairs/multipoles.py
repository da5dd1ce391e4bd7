"""Potential of charges q, their dipoles d and quadrupoles Q; with WITH_SLOPES its gradient, too.

With h = 3 y^3 - 2 R - 6 X and Y = (3 X + R) / r^2, where dipoles are over r_c and quadrupoles over
its square,

phi = (1/r_c) [ q (y - 2 L) + d.e (y^2 - 2 X r) + e.Q e h - (tr Q) (y^3 - 2 X) ]
d_j phi = (1/r_c^2) [ q (2 X r - y^2) e_j + (y^3 - 2 X) d_j - h d.e e_j
                      + a (tr Q e + Q e + Q^T e)_j + b e.Q e e_j ]
    a = 3 y^4 - 2 Y r     b = -15 y^4 - 2 (W - 5 Y) r

Without QUADRUPOLES there is R in the place of Y, and no W.
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import direction, distance, first_function, polynomial
from kernels.blocks.vector import take_tensor, take_vector

WITH_SLOPES = False  # whether the gradient follows the potential in u
QUADRUPOLES = True  # whether the rows of Q follow q and d


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function()
    direction()
    distance(r)
    polynomial(x, p1)
    if QUADRUPOLES or WITH_SLOPES:
        polynomial(b, p2)
    yy: REAL = y * y
    a = y - 2.0 * a
    slope: REAL = yy - 2.0 * x * r
    level: REAL = yy * y - 2.0 * x
    if QUADRUPOLES and WITH_SLOPES:
        polynomial(c, p3)
        bent: REAL = 3.0 * yy * y - 2.0 * b * rr
        third: REAL = 3.0 * yy * yy - 2.0 * b * r
        fourth: REAL = (10.0 * b - 2.0 * c) * r - 15.0 * yy * yy
        cut(third)
        cut(fourth)
    elif QUADRUPOLES or WITH_SLOPES:
        bent: REAL = 3.0 * yy * y - 2.0 * b - 6.0 * x
    cut(a)
    cut(slope)
    if QUADRUPOLES or WITH_SLOPES:
        cut(level)
        cut(bent)
    for d in range(MANY):
        take_vector(f0, f1, f2, density, row + CHARGES * d + 1, at)
        fe: REAL = f0 * e0 + f1 * e1 + f2 * e2
        charge: REAL = density[row + CHARGES * d][at]
        potential: REAL = a * charge + slope * fe
        if WITH_SLOPES:
            along: REAL = 0.0 - slope * charge - bent * fe
        if QUADRUPOLES:
            take_tensor(density, row + CHARGES * d + 4, at)
            v0: REAL = d00 * e0 + d01 * e1 + d02 * e2
            v1: REAL = d10 * e0 + d11 * e1 + d12 * e2
            v2: REAL = d20 * e0 + d21 * e1 + d22 * e2
            both: REAL = v0 * e0 + v1 * e1 + v2 * e2
            trace: REAL = d00 + d11 + d22
            potential += bent * both - level * trace
            if WITH_SLOPES:
                along += third * trace + fourth * both
                v0 = v0 + d00 * e0 + d10 * e1 + d20 * e2
                v1 = v1 + d01 * e0 + d11 * e1 + d21 * e2
                v2 = v2 + d02 * e0 + d12 * e1 + d22 * e2
                u[OUTPUTS * d + 1] += third * v0
                u[OUTPUTS * d + 2] += third * v1
                u[OUTPUTS * d + 3] += third * v2
        u[OUTPUTS * d] += potential
        if WITH_SLOPES:
            u[OUTPUTS * d + 1] += level * f0 + along * e0
            u[OUTPUTS * d + 2] += level * f1 + along * e1
            u[OUTPUTS * d + 3] += level * f2 + along * e2
