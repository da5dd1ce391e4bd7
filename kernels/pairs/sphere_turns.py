"""Twice the rate at which spheres turn by torques t on spheres, overlapping or not.

    u = (1/r_c^3) [ (m + 2 R + 2 X) t + (l - 2 R - 6 X) (t.e) e ]

With the radii a and b over r_c, in p2[0] and p2[1] or the MARKS of the points, s = a^2 + b^2, D = (a - b)^2 and
Q = a^2 + 4 a b + b^2,

    r > a + b             m = -y^3     l = 3 y^3
    |a - b| < r <= a + b  m = (5 r^3 - 27 s r + 32 (a^3 + b^3) - 9 (a^2 - b^2)^2 y - D^2 Q y^3) / w
                          l = 3 (D y - r)^2 (Q - r^2) y / w
    r <= |a - b|          m = 2 / max(a, b)^3     l = 0

where w = 32 a^3 b^3.
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
    away: REAL = (one - other) * (one - other)
    square: REAL = one * one + other * other
    ratio: REAL = rr * y
    cube: REAL = y * y * y
    iso: REAL = 0.0 - cube
    axial: REAL = 3.0 * cube
    if rr <= both * both:
        volume: REAL = 32.0 * one * one * one * other * other * other
        mixed: REAL = square + 4.0 * one * other
        iso = 5.0 * ratio * rr - 27.0 * square * ratio
        iso = iso + 32.0 * (one * one * one + other * other * other)
        iso = iso - 9.0 * away * both * both * y - away * away * mixed * cube
        axial = 3.0 * (away * y - ratio) * (away * y - ratio) * (mixed - rr) * y
        if volume > 0.0:
            iso = iso / volume
            axial = axial / volume
    if rr <= away:
        largest: REAL = 0.5 * (both + pk.fabs(one - other))
        iso = 0.0
        if both > 0.0:  # points leave themselves out
            iso = 2.0 / (largest * largest * largest)
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
