"""Twice the rate at which spheres turn by torques t on spheres, overlapping or not.

    u = (1/r_c^3) [ (m + 2 R + 2 X) t + (l - 2 R - 6 X) (t.e) e ]

With the radii a and b over r_c, in p2[0] and p2[1] or the MARKS of the points, p = r - |a - b| and
q = |a - b| y,

    r > a + b             m = -y^3     l = 3 y^3
    |a - b| < r <= a + b  m = 2 / max(a, b)^3
                              + (p (5 + 15 q + 3 q^2 + q^3) - 6 a b (9 + 2 q + q^2) y) p^2 / w
                          l = 3 (1 + q)^2 (6 a b - p (r + |a - b|)) y p^2 / w
    r <= |a - b|          m = 2 / max(a, b)^3     l = 0

where w = 32 a^3 b^3, in a form that keeps its digits for spheres of very different sizes.
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import direction, first_function, polynomial
from kernels.blocks.vector import take_vector


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function()
    direction()
    polynomial(b, p1)
    if MARKS:
        one: REAL = mark
        other: REAL = density[row + CHARGES - 1][at]
    else:
        one: REAL = p2[0]
        other: REAL = p2[1]
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
    if rr <= both * both:
        deep: REAL = ratio - difference
        part: REAL = difference * y
        share: REAL = 0.0
        if product > 0.0:
            share = deep / product * (deep / product) / (32.0 * product)
        iso = deep * (5.0 + part * (15.0 + part * (3.0 + part)))
        iso = iso - 6.0 * product * y * (9.0 + part * (2.0 + part))
        iso = inside + share * iso
        axial = 6.0 * product - deep * (ratio + difference)
        axial = 3.0 * share * (1.0 + part) * (1.0 + part) * axial * y
    if rr <= difference * difference:
        iso = inside
        axial = 0.0
    iso = iso + 2.0 * (b + a)
    axial = axial - 2.0 * b - 6.0 * a
    cut(iso)
    cut(axial)
    for d in range(MANY):
        take_vector(t0, t1, t2, density, row + CHARGES * d, at)
        along: REAL = axial * (t0 * e0 + t1 * e1 + t2 * e2)
        u[3 * d] += iso * t0 + along * e0
        u[3 * d + 1] += iso * t1 + along * e1
        u[3 * d + 2] += iso * t2 + along * e2
