"""Twice the rate at which spheres turn by torques t on spheres, overlapping or not.

    u = (1/r_c^3) [ (m + 2 psi1 + 2 smooth1) t + (l - 2 psi1 - 6 smooth1) (t.e) e ]

With the radii a and b over r_c, last of the tables or the MARKS of the points, p = r - |a - b| and
q = |a - b| y,

    r > a + b             m = -y^3     l = 3 y^3
    |a - b| < r <= a + b  m = 2 / max(a, b)^3
                              + (p (5 + 15 q + 3 q^2 + q^3) - 6 a b (9 + 2 q + q^2) y) p^2 / w
                          l = 3 (1 + q)^2 (6 a b - p (r + |a - b|)) y p^2 / w
    r <= |a - b|          m = 2 / max(a, b)^3     l = 0

where w = 32 a^3 b^3, in a form that keeps its digits for spheres of very different sizes. The
derivatives d_j u_i are, over r_c^4, with smooth2 = (3 smooth1 + psi1) / r^2,

    A t_i e_j + B (t.e) e_i e_j + C (e_i t_j + (t.e) d_ij)
        A = m' + 2 (psi2 - smooth2) r    B = l' - 2 (psi2 - 3 smooth2) r - 2 C
        C = l y - 2 smooth2 r

A coinciding pair has y = 0, r = 0: no derivative.
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import direction, first_function, polynomial
from kernels.blocks.radii import take_radii
from kernels.blocks.slopes import add_gradient_of_vector, begin_pair, begin_vector
from kernels.blocks.vector import take_vector
from parki.runtime.scopes import block


@block(reads="one other rr y", writes="axial both deep difference iso part product rate")
def overlap():
    """Take m to iso, l to axial, and what their branches share, of the radii ``one``, ``other``."""
    both: REAL = one + other
    difference: REAL = pk.fabs(one - other)
    product: REAL = one * other
    ratio: REAL = rr * y
    cube: REAL = y * y * y
    iso: REAL = 0.0 - cube
    axial: REAL = 3.0 * cube
    inside: REAL = 0.0
    if both > 0.0:  # points leave themselves out
        largest: REAL = 0.5 * (both + difference)
        inside = 2.0 / (largest * largest * largest)
    deep: REAL = ratio - difference
    part: REAL = difference * y
    rate: REAL = 0.0
    if product > 0.0:
        rate = deep / product / (32.0 * product * product)
    share: REAL = rate * deep
    if rr <= both * both:
        iso = deep * (5.0 + part * (15.0 + part * (3.0 + part)))
        iso = iso - 6.0 * product * y * (9.0 + part * (2.0 + part))
        iso = inside + share * iso
        axial = 6.0 * product - deep * (ratio + difference)
        axial = 3.0 * share * (1.0 + part) * (1.0 + part) * axial * y
    if rr <= difference * difference:
        iso = inside
        axial = 0.0


@block(
    reads="least mark most p0 p1 p2 r0 r1 r2 rr singular smooth y",
    writes="one u y",
    takes="axial e0 e1 e2 iso other psi1 smooth1 t0 t1 t2",
)
def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function(smooth1)
    direction()
    polynomial(psi1, p1)
    take_radii(one, other, p2, density, row, at)
    overlap()
    iso = iso + 2.0 * (psi1 + smooth1)
    axial = axial - 2.0 * psi1 - 6.0 * smooth1
    cut(iso)
    cut(axial)
    for d in range(MANY):
        take_vector(t0, t1, t2, density, row + CHARGES * d, at)
        along: REAL = axial * (t0 * e0 + t1 * e1 + t2 * e2)
        u[3 * d] += iso * t0 + along * e0
        u[3 * d + 1] += iso * t1 + along * e1
        u[3 * d + 2] += iso * t2 + along * e2


@block(
    reads="mark p0 p1 p2 p3 r0 r1 r2 rr singular smooth y",
    writes="g00 g01 g02 g10 g11 g12 g20 g21 g22 one u0 u1 u2 y z0 z1 z2",
    takes=(
        "axial both deep difference e0 e1 e2 iso other part product psi2 r rate smooth1 smooth2 "
        "t0 t1 t2 yy"
    ),
)
def differentiate(density, row, normal, first_normal, at):
    """Add to the sums of derivatives what one source does."""
    begin_pair(psi2)
    begin_vector(smooth2)
    take_radii(one, other, p2, density, row, at)
    overlap()
    # Slopes of m and of l.
    ca: REAL = 3.0 * yy * yy
    cb: REAL = 0.0 - 9.0 * yy * yy
    if rr <= both * both:
        tail: REAL = 5.0 + part * (15.0 + part * (3.0 + part))
        sides: REAL = 6.0 * product * y
        ca = 2.0 * (deep * tail - sides * (9.0 + part * (2.0 + part)))
        bent: REAL = tail - deep * part * y * (15.0 + part * (6.0 + 3.0 * part))
        bent = bent + sides * y * (9.0 + part * (4.0 + 3.0 * part))
        ca = rate * (ca + deep * bent)
        held: REAL = 6.0 * product - deep * (r + difference)
        cb = (1.0 + part) * held * (2.0 - deep * y)
        cb = cb - 2.0 * deep * (part * y * held + r * (1.0 + part))
        cb = 3.0 * rate * (1.0 + part) * y * cb
    if rr <= difference * difference:
        ca = 0.0
        cb = 0.0
    take_vector(t0, t1, t2, density, row, at)
    te: REAL = t0 * e0 + t1 * e1 + t2 * e2
    if VALUES:
        polynomial(smooth1, p3)
        a: REAL = iso + 2.0 * smooth2 * rr - 4.0 * smooth1
        b: REAL = (axial - 2.0 * smooth2 * rr) * te
        u0 += a * t0 + b * e0
        u1 += a * t1 + b * e1
        u2 += a * t2 + b * e2
    cc: REAL = axial * y - 2.0 * smooth2 * r
    ca = ca + 2.0 * (psi2 - smooth2) * r
    cb = cb - 2.0 * (psi2 - 3.0 * smooth2) * r - 2.0 * cc
    add_gradient_of_vector(ca, cb, cc, t0, t1, t2, te)
