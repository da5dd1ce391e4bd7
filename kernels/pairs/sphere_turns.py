"""Twice the rate at which spheres turn by torques t on spheres, overlapping or not.

    u = (1/r_c^3) [ (m + 2 R + 2 X) t + (l - 2 R - 6 X) (t.e) e ]

With the radii a and b over r_c, last of the tables, s = a^2 + b^2, D = (a - b)^2 and
Q = a^2 + 4 a b + b^2,

    r > a + b             m = -y^3     l = 3 y^3
    |a - b| < r <= a + b  m = (5 r^3 - 27 s r + 32 (a^3 + b^3) - 9 (a^2 - b^2)^2 y - D^2 Q y^3) / w
                          l = 3 (D y - r)^2 (Q - r^2) y / w
    r <= |a - b|          m = 2 / max(a, b)^3     l = 0

where w = 32 a^3 b^3. The derivatives d_j u_i are, over r_c^4, with Y = (3 X + R) / r^2,

    A t_i e_j + B (t.e) e_i e_j + C (e_i t_j + (t.e) d_ij)
        A = m' + 2 (W - Y) r      B = l' - 2 (W - 3 Y) r - 2 C      C = l y - 2 Y r

A coinciding pair has y = 0, r = 0: no derivative.
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import direction, first_function, polynomial
from kernels.blocks.slopes import add_gradient, begin_pair, begin_vector
from kernels.blocks.vector import take_vector


def overlap():
    """Take m to iso, l to axial, and what their branches share, of the radii ``one``, ``other``."""
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


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function()
    direction()
    polynomial(b, p1)
    one: REAL = p2[0]
    other: REAL = p2[1]
    overlap()
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


def differentiate(density, row, normal, first_normal, at):
    """Add to the sums of derivatives what one source does."""
    begin_pair()
    begin_vector()  # W and Y, in the places of X and R
    one: REAL = p2[0]
    other: REAL = p2[1]
    overlap()
    # Slopes of m and of l.
    ca: REAL = 3.0 * yy * yy
    cb: REAL = 0.0 - 9.0 * yy * yy
    if rr <= both * both:
        cubes: REAL = 32.0 * one * one * one * other * other * other
        sides: REAL = square + 4.0 * one * other
        ca = 15.0 * rr - 27.0 * square + 9.0 * away * both * both * yy
        ca = ca + 3.0 * away * away * sides * yy * yy
        cb = (sides - rr) * (3.0 * away * yy + 1.0) * y + 2.0 * (away * y - r)
        cb = -3.0 * (away * y - r) * cb
        if cubes > 0.0:
            ca = ca / cubes
            cb = cb / cubes
    if rr <= away:
        ca = 0.0
        cb = 0.0
    take_vector(t0, t1, t2, density, row, at)
    te: REAL = t0 * e0 + t1 * e1 + t2 * e2
    if VALUES:
        polynomial(a, p3)
        a = iso + 2.0 * pr * rr - 4.0 * a
        b: REAL = (axial - 2.0 * pr * rr) * te
        u0 += a * t0 + b * e0
        u1 += a * t1 + b * e1
        u2 += a * t2 + b * e2
    cc: REAL = axial * y - 2.0 * pr * r
    ca = ca + 2.0 * (px - pr) * r
    cb = cb - 2.0 * (px - 3.0 * pr) * r - 2.0 * cc
    along = te * cb
    level = te * cc
    v0 = ca * t0
    v1 = ca * t1
    v2 = ca * t2
    z0 = cc * t0
    z1 = cc * t1
    z2 = cc * t2
    add_gradient()
