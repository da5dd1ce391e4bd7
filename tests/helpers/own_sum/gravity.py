"""Field of point masses, a pair function that is in the tests alone.

u = (1/r_c^2) (2 smooth1 r - y^2) e
d_j u_i = (1/r_c^3) [ (3 y^3 - 2 psi1 - 6 smooth1) e_i e_j - (y^3 - 2 smooth1) d_ij ]
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import direction, distance, first_function
from kernels.blocks.slopes import add_gradient, begin_pair, begin_vector
from parki.runtime.scopes import block


@block(
    reads="least most p0 r0 r1 r2 rr singular smooth y", writes="u y", takes="e0 e1 e2 r smooth1"
)
def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function(smooth1)
    direction()
    distance(r)
    a: REAL = 2.0 * smooth1 * r - y * y
    cut(a)
    for d in range(MANY):
        field: REAL = a * density[row + CHARGES * d][at]
        u[3 * d] += field * e0
        u[3 * d + 1] += field * e1
        u[3 * d + 2] += field * e2


@block(
    reads="p0 p1 r0 r1 r2 rr singular smooth y",
    writes="g00 g01 g02 g10 g11 g12 g20 g21 g22 u0 u1 u2 y z0 z1 z2",
    takes="along e0 e1 e2 level psi1 r smooth1 yy",
)
def differentiate(density, row, normal, first_normal, at):
    """Add to the sums of derivatives what one source does."""
    begin_pair(smooth1)
    begin_vector(psi1)
    cube: REAL = yy * y
    charge: REAL = density[row][at]
    if VALUES:
        a: REAL = (2.0 * smooth1 * r - yy) * charge
        u0 += a * e0
        u1 += a * e1
        u2 += a * e2
    along = (3.0 * cube - 2.0 * psi1 - 6.0 * smooth1) * charge
    level = (2.0 * smooth1 - cube) * charge
    add_gradient()
