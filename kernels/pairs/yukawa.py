"""Potential of screened charges: ``(y - V) / r_c``, with the gradient ``(-y^2 - V') e / r_c^2``.

V is a polynomial in s = 2 r - 1, and D = V' is, too. A coinciding pair keeps the smooth part alone,
without the kappa r_c that V has at r = 0: it is the last coefficient of p1.
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import begin_blob, polynomial
from kernels.blocks.slopes import direction


def value(table):
    """Take the potential to a, with V from ``table``."""
    r: REAL = rr * y
    s: REAL = 2.0 * r - 1.0
    polynomial(a, table)
    a = y - a
    if rr <= coincident:
        a = p1[DEGREE]


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    begin_blob()
    value(p0)
    cut(a)
    for d in range(MANY):
        u[d] += a * density[row + d][at]


def differentiate(density, row, normal, first_normal, at):
    """Add to the sums of derivatives what one source does."""
    begin_blob()
    direction()
    if VALUES:
        value(p3)
        u0 += a * density[row][at]
    else:
        s: REAL = 2.0 * rr * y - 1.0
    polynomial(px, p0)
    px = (0.0 - y * y - px) * density[row][at]
    g00 += px * e0
    g01 += px * e1
    g02 += px * e2
