"""Stokes flow of torques t, which has no pressure.

u = (1/r_c^2) (y^2 - 2 X r) t x e
d_j u_i = (1/r_c^3) [ (-3 y^3 + 2 R + 6 X) (t x e)_i e_j + (y^3 - 2 X) eps_ikj t_k ]
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import direction, first_function, more_functions
from kernels.blocks.slopes import add_gradient_of_cross, begin_pair, begin_vector
from kernels.blocks.vector import take_vector


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function()
    more_functions()
    if EVALUATOR > 0:
        a = b
    direction()
    a = y * y - 2.0 * a * rr * reciprocal
    cut(a)
    for d in range(MANY):
        take_vector(t0, t1, t2, density, row + CHARGES * d, at)
        u[3 * d] += a * (t1 * e2 - t2 * e1)
        u[3 * d + 1] += a * (t2 * e0 - t0 * e2)
        u[3 * d + 2] += a * (t0 * e1 - t1 * e0)


def differentiate(density, row, normal, first_normal, at):
    """Add to the sums of derivatives what one source does."""
    begin_pair()
    begin_vector()
    cube: REAL = yy * y
    take_vector(t0, t1, t2, density, row, at)
    if VALUES:
        a: REAL = yy - 2.0 * px * r
        u0 += a * (t1 * e2 - t2 * e1)
        u1 += a * (t2 * e0 - t0 * e2)
        u2 += a * (t0 * e1 - t1 * e0)
    pr = 2.0 * pr + 6.0 * px - 3.0 * cube
    px = cube - 2.0 * px
    add_gradient_of_cross(pr, px, t0, t1, t2)
