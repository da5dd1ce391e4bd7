"""Spheres that turn and spheres that move: what torques t make of velocities, and forces of turns.

    u = (1/r_c^2) (c - 2 X r) t x e

With the radii a of the sphere that turns and b of the other, over r_c, in p1[0] and p1[1] or the
MARKS of the points,

    r > a + b             c = y^2
    |a - b| < r <= a + b  c = (a - b + r)^2 (b^2 + 2 b (a + r) - 3 (a - r)^2) y^2 / (16 a^3 b)
    r <= |a - b|          c = r / a^3 if b < a, otherwise 0

With MARKS the table X belongs to points, and the next one to the Laplacian of their field, which
b^2 / 6 multiplies.
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import direction, first_function, polynomial
from kernels.blocks.vector import take_vector

TURNING_TARGETS = False  # whether targets turn by forces, or move by torques


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    first_function()
    direction()
    if MARKS:
        turns: REAL = density[row + CHARGES - 1][at]
        moves: REAL = mark
        if TURNING_TARGETS:
            turns = mark
            moves = density[row + CHARGES - 1][at]
        polynomial(more, p1)
        a = a + 0.16666666666666666 * (moves * moves) * more
    else:
        turns: REAL = p1[0]
        moves: REAL = p1[1]
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
    a = c - 2.0 * a * ratio
    cut(a)
    for d in range(MANY):
        take_vector(t0, t1, t2, density, row + CHARGES * d, at)
        u[3 * d] += a * (t1 * e2 - t2 * e1)
        u[3 * d + 1] += a * (t2 * e0 - t0 * e2)
        u[3 * d + 2] += a * (t0 * e1 - t1 * e0)
