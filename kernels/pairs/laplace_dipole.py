"""Potential of charges' dipoles d, with its gradient; with WITH_SLOPES this follows it in u.

phi = (1/r_c^2) (y^2 - 2 X r) d.e
d_j phi = (1/r_c^3) [ (y^3 - 2 X) d_j + (-3 y^3 + 2 R + 6 X) (d.e) e_j ]
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import direction, first_function, more_functions, polynomial
from kernels.blocks.slopes import begin_pair
from kernels.blocks.vector import take_vector

WITH_SLOPES = False


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function()
    more_functions()
    if EVALUATOR > 0:
        a = b
    direction()
    if WITH_SLOPES:
        polynomial(b, p1)
        level: REAL = y * y * y - 2.0 * a
        b = 2.0 * b + 6.0 * a - 3.0 * y * y * y
        cut(level)
        cut(b)
    a = y * y - 2.0 * a * rr * reciprocal
    cut(a)
    for d in range(MANY):
        take_vector(d0, d1, d2, density, row + CHARGES * d, at)
        along: REAL = d0 * e0 + d1 * e1 + d2 * e2
        u[OUTPUTS * d] += a * along
        if WITH_SLOPES:
            along = b * along
            u[OUTPUTS * d + 1] += level * d0 + along * e0
            u[OUTPUTS * d + 2] += level * d1 + along * e1
            u[OUTPUTS * d + 3] += level * d2 + along * e2


def differentiate(density, row, normal, first_normal, at):
    """Add to the sums of derivatives what one source does."""
    begin_pair()
    polynomial(pr, p1)
    cube: REAL = yy * y
    take_vector(d0, d1, d2, density, row, at)
    along: REAL = d0 * e0 + d1 * e1 + d2 * e2
    if VALUES:
        u0 += (yy - 2.0 * px * r) * along
    along = (2.0 * pr + 6.0 * px - 3.0 * cube) * along
    px = cube - 2.0 * px
    g00 += px * d0 + along * e0
    g01 += px * d1 + along * e1
    g02 += px * d2 + along * e2
