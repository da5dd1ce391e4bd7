"""Potential of charges: ``(y - 2 L) / r_c``, with the gradient ``(-y^2 + 2 r X) e_j / r_c^2``.

With WITH_SLOPES the gradient follows the potential in u.
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import direction, distance, first_function, polynomial
from kernels.blocks.slopes import begin_pair

WITH_SLOPES = False


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function()
    a = y - 2.0 * a
    cut(a)
    if WITH_SLOPES:
        direction()
        distance(r)
        polynomial(b, p1)
        b = 2.0 * b * r - y * y
        cut(b)
    for d in range(MANY):
        u[OUTPUTS * d] += a * density[row + d][at]
        if WITH_SLOPES:
            along: REAL = b * density[row + d][at]
            u[OUTPUTS * d + 1] += along * e0
            u[OUTPUTS * d + 2] += along * e1
            u[OUTPUTS * d + 3] += along * e2


def differentiate(density, row, normal, first_normal, at):
    """Add to the sums of derivatives what one source does."""
    begin_pair()
    if VALUES:
        polynomial(a, p3)
        a = y - 2.0 * a
        u0 += a * density[row][at]
    px = (2.0 * px * r - yy) * density[row][at]
    g00 += px * e0
    g01 += px * e1
    g02 += px * e2
