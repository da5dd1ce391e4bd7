"""Potential flow of octupoles f n n, n the axis UP, with Y = (3 X + R) / r^2.

u = (1/r_c^5) [ A (f + 2 f_n n) + B (e_n^2 f + (f.e) (e + 2 e_n n) + 2 f_n e_n e)
                + C e_n^2 (f.e) e ]
    A = 3 y^5 - 2 Y     B = -15 y^5 - 2 (W - 5 Y)     C = 105 y^5 - 2 V r^2 + 14 (W - 5 Y)
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import direction, first_function, polynomial
from kernels.blocks.vector import take_vector

UP = 2


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function()
    direction()
    polynomial(b, p1)
    polynomial(c, p2)
    fifth: REAL = y * y * y * y * y
    b = b - 5.0 * a
    a = 3.0 * fifth - 2.0 * a
    c = 105.0 * fifth - 2.0 * c * rr + 14.0 * b
    b = 0.0 - 15.0 * fifth - 2.0 * b
    cut(a)
    cut(b)
    cut(c)
    en: REAL = e2
    if UP == 0:
        en = e0
    if UP == 1:
        en = e1
    for d in range(MANY):
        take_vector(f0, f1, f2, density, row + CHARGES * d, at)
        fn: REAL = density[row + CHARGES * d + UP][at]
        fe: REAL = f0 * e0 + f1 * e1 + f2 * e2
        level: REAL = a + b * en * en
        along: REAL = (b + c * en * en) * fe + 2.0 * b * fn * en
        u[3 * d] += level * f0 + along * e0
        u[3 * d + 1] += level * f1 + along * e1
        u[3 * d + 2] += level * f2 + along * e2
        u[3 * d + UP] += 2.0 * (a * fn + b * en * fe)
