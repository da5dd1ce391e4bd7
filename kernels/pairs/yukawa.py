"""Potential of screened charges: ``(f y - 2 L) / r_c``, with ``f = exp(-kappa r)``.

The gradient is ``(-(1 + kappa r) f y^2 + 2 r X) e_j / r_c^2``. The last coefficient of the second
row of ``radial`` is kappa r_c. With f the near field is as accurate as its size, however small that
is: the difference of 1/r and a polynomial would round as 1/r does.
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import begin_blob, distance, polynomial, variable
from kernels.blocks.slopes import begin_pair


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    begin_blob()
    variable(rr)
    distance(r)
    polynomial(a, p0)
    a = y * pk.exp(0.0 - p1[DEGREE] * r) - 2.0 * a
    cut(a)
    for d in range(MANY):
        u[d] += a * density[row + d][at]


def differentiate(density, row, normal, first_normal, at):
    """Add to the sums of derivatives what one source does."""
    begin_pair()
    screened: REAL = p1[DEGREE] * r
    fallen: REAL = pk.exp(0.0 - screened)
    if VALUES:
        polynomial(a, p3)
        a = y * fallen - 2.0 * a
        u0 += a * density[row][at]
    px = (2.0 * px * r - (1.0 + screened) * fallen * yy) * density[row][at]
    g00 += px * e0
    g01 += px * e1
    g02 += px * e2
