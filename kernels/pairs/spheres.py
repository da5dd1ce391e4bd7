"""Spheres of two radii, spread over and averaged over their surfaces, overlapping or not.

    u = (1/r_c) [ (m - 2 flow) f + (l - 2 smooth1 r^2) (f.e) e ]

With the radii a and b over r_c, which are p2[0] and p2[1], or the MARKS of the points,
s = a^2 + b^2 and D = (a - b)^2,

    r > a + b             m = y + s y^3 / 3                         l = y - s y^3
    |a - b| < r <= a + b  m = 4 / (3 max(a, b)) - (9 + 2 q + q^2) g    l = 3 (1 + q)^2 g
    r <= |a - b|          m = 4 / (3 max(a, b))                        l = 0

where q = |a - b| y and g = (r - |a - b|)^2 y / (24 a b): Zuk, Wajnryb, Mizerski, Szymczak (2014),
in a form that keeps its digits for spheres of very different sizes. If EQUAL, all radii are a, so
that q = 0 and g = r / (24 a^2). A coinciding pair has y = 0, r = 0. The pressure, which points
alone feel (a = 0), is 2 f.e / r^2 outside of a sphere, and 0 inside.

With MARKS the tables flow, smooth1 and psi1 belong to points. The next ones belong to the Laplacian
of their field, which s / 6 multiplies, and the last ones to its Laplacian, which (a b / 6)^2
multiplies.
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import direction, first_function, polynomial
from kernels.blocks.radii import lift, take_radii
from kernels.blocks.slopes import add_gradient_of_vector, begin_pair, begin_vector
from kernels.blocks.vector import take_vector
from parki.runtime.scopes import block

EQUAL = False  # whether all spheres have one radius


@block(
    reads="mark p2 rr y",
    writes="away axial both iso one ratio share sixth square twice",
    takes="other",
)
def overlap(density, row, at):
    """Take m to iso, l to axial, and what the branches share."""
    take_radii(one, other, p2, density, row, at)
    both: REAL = one + other
    difference: REAL = one - other
    square: REAL = one * one + other * other
    twice: REAL = 0.027777777777777776 * (one * one) * (other * other)
    third: REAL = 0.3333333333333333 * square
    sixth: REAL = 0.16666666666666666 * square
    away: REAL = difference * difference
    ratio: REAL = rr * y
    cube: REAL = y * y * y
    share: REAL = 0.0
    if one * other > 0.0:
        share = 1.0 / (24.0 * one * other)
    inside: REAL = 0.0
    if both > 0.0:  # points leave themselves out
        inside = 8.0 / (3.0 * (both + pk.fabs(difference)))
    iso: REAL = y + third * cube
    axial: REAL = y - square * cube
    if rr <= both * both:
        if EQUAL:
            iso = inside - 9.0 * share * ratio
            axial = 3.0 * share * ratio
        else:
            deep: REAL = ratio - pk.fabs(difference)
            part: REAL = pk.fabs(difference) * y
            iso = inside - share * deep * deep * y * (9.0 + 2.0 * part + part * part)
            axial = 3.0 * share * deep * deep * y * (1.0 + part) * (1.0 + part)
    if EQUAL == 0 and rr <= away:
        iso = inside
        axial = 0.0


@block(
    reads="least mark most p0 p1 p2 p3 p4 p5 r0 r1 r2 rr singular smooth y",
    writes="one square u y",
    takes=(
        "axial e0 e1 e2 f0 f1 f2 flow flow_lap1 flow_lap2 iso sixth smooth1 smooth1_lap1 "
        "smooth1_lap2 twice"
    ),
)
def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function(flow)
    direction()
    polynomial(smooth1, p1)
    overlap(density, row, at)
    lift(flow, flow_lap1, p2, sixth)
    lift(smooth1, smooth1_lap1, p3, sixth)
    if TABLES > 4:
        lift(flow, flow_lap2, p4, twice)
        lift(smooth1, smooth1_lap2, p5, twice)
    a: REAL = iso - 2.0 * flow
    b: REAL = axial - 2.0 * smooth1 * rr
    cut(a)
    cut(b)
    for d in range(MANY):
        take_vector(f0, f1, f2, density, row + CHARGES * d, at)
        along: REAL = b * (f0 * e0 + f1 * e1 + f2 * e2)
        u[OUTPUTS * d] += a * f0 + along * e0
        u[OUTPUTS * d + 1] += a * f1 + along * e1
        u[OUTPUTS * d + 2] += a * f2 + along * e2


@block(
    reads="mark p0 p1 p2 p3 p4 p5 p6 p7 p8 r0 r1 r2 rr singular smooth y",
    writes="g00 g01 g02 g10 g11 g12 g20 g21 g22 one p square u0 u1 u2 y z0 z1 z2",
    takes=(
        "away axial both e0 e1 e2 f0 f1 f2 flow flow_lap1 flow_lap2 iso psi1 psi1_lap1 psi1_lap2 "
        "r ratio share sixth smooth1 smooth1_lap1 smooth1_lap2 twice yy"
    ),
)
def differentiate(density, row, normal, first_normal, at):
    """Add to the sums of derivatives what one source does."""
    begin_pair(smooth1)
    overlap(density, row, at)
    begin_vector(psi1)
    lift(smooth1, smooth1_lap1, p2, sixth)
    lift(psi1, psi1_lap1, p3, sixth)
    if TABLES > 4:
        lift(smooth1, smooth1_lap2, p4, twice)
        lift(psi1, psi1_lap2, p5, twice)
    take_vector(f0, f1, f2, density, row, at)
    fe: REAL = f0 * e0 + f1 * e1 + f2 * e2
    if PRESSURE:
        outside: REAL = 2.0 * yy
        if rr <= both * both:
            outside = 0.0
        p += fe * (outside + (2.0 * psi1 - 4.0 * smooth1) * r)
    if VALUES:
        if MARKS:
            polynomial(flow, p6)
        else:
            polynomial(flow, p3)
        lift(flow, flow_lap1, p7, sixth)
        if TABLES > 4:
            lift(flow, flow_lap2, p8, twice)
        a: REAL = iso - 2.0 * flow
        b: REAL = (axial - 2.0 * smooth1 * rr) * fe
        u0 += a * f0 + b * e0
        u1 += a * f1 + b * e1
        u2 += a * f2 + b * e2
    # Slopes of m and of l.
    ca: REAL = 0.0 - yy - square * yy * yy
    cb: REAL = 3.0 * square * yy * yy - yy
    if rr <= both * both:
        ca = 0.0 - 3.0 * share * (away * y + 3.0 * ratio) * (ratio - away * y) * yy
        cb = 3.0 * share * (ratio - away * y) * (ratio + 3.0 * away * y) * yy
    if rr <= away:
        ca = 0.0
        cb = 0.0
    cc: REAL = axial * y - 2.0 * smooth1 * r
    ca = ca - 2.0 * (psi1 - smooth1) * r
    cb = cb + 2.0 * (psi1 + smooth1) * r - 2.0 * cc
    add_gradient_of_vector(ca, cb, cc, f0, f1, f2, fe)
