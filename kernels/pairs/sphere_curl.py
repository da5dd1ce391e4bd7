"""Spheres that turn and spheres that move: what torques t make of velocities, and forces of turns.

    u = (1/r_c^2) (c - 2 smooth1 r) t x e
    d_j u_i = (1/r_c^3) [ (c' - c/r + 2 psi1 + 6 smooth1) (t x e)_i e_j
                          + (c/r - 2 smooth1) eps_ikj t_k ]

With the radii a of the sphere that turns and b of the other, over r_c, last of the tables or the
MARKS of the points,

    r > a + b             c = y^2
    |a - b| < r <= a + b  c = (a - b + r)^2 (b^2 + 2 b (a + r) - 3 (a - r)^2) y^2 / (16 a^3 b)
    r <= |a - b|          c = r / a^3 if b < a, otherwise 0

A coinciding pair has y = 0, r = 0: no derivative, except of nested spheres.

With MARKS the tables smooth1 and psi1 belong to points, and the next ones to the Laplacian of their
field, which b^2 / 6 multiplies.
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import direction, first_function
from kernels.blocks.radii import lift, take_radii
from kernels.blocks.slopes import add_gradient_of_cross, begin_pair, begin_vector
from kernels.blocks.vector import take_vector
from parki.runtime.scopes import block

TURNING_TARGETS = False  # whether targets turn by forces, or move by torques


@block(reads="mark", writes="moves sixth turns")
def take_turning(table, density, row, at):
    """Take the radii to ``turns`` and ``moves``, and what multiplies the Laplacian to ``sixth``."""
    if MARKS and TURNING_TARGETS == 0:
        take_radii(moves, turns, table, density, row, at)
    else:
        take_radii(turns, moves, table, density, row, at)
    sixth: REAL = 0.16666666666666666 * (moves * moves)


@block(reads="moves rr turns y", writes="away both c ratio")
def overlap():
    """Take c, and what its branches share, of the radii ``turns`` and ``moves``."""
    both: REAL = turns + moves
    away: REAL = turns - moves
    ratio: REAL = rr * y
    c: REAL = y * y
    if rr <= both * both:
        inner: REAL = (away + ratio) * y
        rest: REAL = moves * moves + 2.0 * moves * (turns + ratio)
        rest = rest - 3.0 * (turns - ratio) * (turns - ratio)
        c = 0.0
        if turns * moves > 0.0:
            c = inner * inner * rest / (16.0 * turns * turns * turns * moves)
    if rr <= away * away:
        c = 0.0
        if away > 0.0:
            c = ratio / (turns * turns * turns)


@block(
    reads="least mark most p0 p1 r0 r1 r2 rr singular smooth y",
    writes="u y",
    takes="c e0 e1 e2 ratio sixth smooth1 smooth1_lap1 t0 t1 t2",
)
def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function(smooth1)
    direction()
    take_turning(p1, density, row, at)
    lift(smooth1, smooth1_lap1, p1, sixth)
    overlap()
    a: REAL = c - 2.0 * smooth1 * ratio
    cut(a)
    for d in range(MANY):
        take_vector(t0, t1, t2, density, row + CHARGES * d, at)
        u[3 * d] += a * (t1 * e2 - t2 * e1)
        u[3 * d + 1] += a * (t2 * e0 - t0 * e2)
        u[3 * d + 2] += a * (t0 * e1 - t1 * e0)


@block(
    reads="mark p0 p1 p2 p3 r0 r1 r2 rr singular smooth y",
    writes="first g00 g01 g02 g10 g11 g12 g20 g21 g22 last u0 u1 u2 y z0 z1 z2",
    takes=(
        "away both c e0 e1 e2 level moves psi1 psi1_lap1 r sixth smooth1 smooth1_lap1 t0 t1 t2 "
        "turns yy"
    ),
)
def differentiate(density, row, normal, first_normal, at):
    """Add to the sums of derivatives what one source does."""
    begin_pair(smooth1)
    begin_vector(psi1)
    take_turning(p2, density, row, at)
    lift(smooth1, smooth1_lap1, p2, sixth)
    lift(psi1, psi1_lap1, p3, sixth)
    overlap()
    # c / r, and c' - c / r.
    level = c * y
    slope: REAL = 0.0 - 3.0 * yy * y
    if rr <= both * both:
        slope = 0.0
        if turns * moves > 0.0:
            first: REAL = (away + r) * y
            last: REAL = moves * moves + 2.0 * moves * (turns + r) - 3.0 * (turns - r) * (turns - r)
            slope = 2.0 * first * (moves + 3.0 * (turns - r)) - (3.0 * away * y + 1.0) * last * y
            slope = slope * first / (16.0 * turns * turns * turns * moves)
    if rr <= away * away:
        slope = 0.0
        if away > 0.0:
            level = 1.0 / (turns * turns * turns)
    take_vector(t0, t1, t2, density, row, at)
    if VALUES:
        a: REAL = c - 2.0 * smooth1 * r
        u0 += a * (t1 * e2 - t2 * e1)
        u1 += a * (t2 * e0 - t0 * e2)
        u2 += a * (t0 * e1 - t1 * e0)
    slope = slope + 2.0 * psi1 + 6.0 * smooth1
    across: REAL = level - 2.0 * smooth1
    level = 0.0
    add_gradient_of_cross(slope, across, t0, t1, t2)
