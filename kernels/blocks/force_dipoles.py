"""Spheres of two radii that carry forces and their dipoles: their functions of the distance.

All pairs follow from w, the mean of the distance over both surfaces: of shells, which forces and
velocities are spread over, or of balls, which dipoles and gradients are (target first: ss, sb, bs,
bb). With ``b_n = (1/r d/dr)^(n+1) w`` the functions are b_n r^m: ``ss0 = b_0``, ``ss1 = b_1 r^2``,
``sb1 = b_1 r``, ``sb2 = b_2 r^3``, ``bb1 = b_1``, ``bb2 = b_2 r^2`` and ``bb3 = b_3 r^4``. With the
radii a of the target and b of the source, A the larger and B the smaller one,

    r >= a + b            w = r + c / r, c = a^2 / 3 + b^2 / 3, with 1/5 for 1/3 of balls
    |a - b| < r < a + b   w is that of r <= |a - b|, and a polynomial of p = r - |a - b| over r:
                          ss    -p^4 / (24 A B)
                          sb    (p^6 +- 6 b p^5) / (240 a b^3), - if a > b; bs likewise
                          bb    (56 A B p^6 - 8 |a - b| p^7 - p^8) / (4480 A^3 B^3)
    r <= |a - b|          w = r^2 / (3 A) + a constant if the larger one is a shell; otherwise
                          w = (1 / (2 A) - e B^2 / A^3) r^2 - r^4 / (20 A^3) + a constant

Zuk, Wajnryb, Mizerski, Szymczak (2014) have the functions of forces and torques. In p and t = p / r
nothing is divided by a small number. A coinciding pair has y = 0, r = 0.

Few pairs overlap, but where vectors take several pairs at a time all of them would pay for those.
So pairs closer than the sum of the two largest radii are taken as at that distance, and another sum
adds the rest.
"""

from parki.runtime.scopes import block


@block(
    reads="one other",
    writes=(
        "bb_once bb_twice bs_once product sb_once sb_twice square_one square_other ss_once ss_twice"
    ),
)
def weigh_laplacians():
    """Take the weights of the Laplacian of the field of points, and of its, of each kind.

    ``one`` and ``other`` are the radii of target and source.
    """
    square_one: REAL = one * one
    square_other: REAL = other * other
    product: REAL = square_one * square_other
    ss_once: REAL = 0.16666666666666666 * (square_one + square_other)
    sb_once: REAL = 0.16666666666666666 * square_one + 0.1 * square_other
    bs_once: REAL = 0.1 * square_one + 0.16666666666666666 * square_other
    bb_once: REAL = 0.1 * (square_one + square_other)
    ss_twice: REAL = 0.027777777777777776 * product
    sb_twice: REAL = 0.016666666666666666 * product
    bb_twice: REAL = 0.01 * product


@block(reads="rr", writes="y")
def stay_apart(table):
    """Take pairs closer than the first number of ``table`` as at that distance; see above."""
    if rr < table[0] * table[0]:
        y = table[1]


@block(
    reads="bb1 bb2 bb3 one other product r rr square_one square_other y",
    writes="bb1 bb2 bb3 bs1 bs2 sb1 sb2 ss0 ss1",
)
def overlap():
    """Change the functions of a pair that overlaps."""
    both: REAL = one + other
    if rr <= both * both:
        away: REAL = pk.fabs(one - other)
        large: REAL = 0.5 * (both + away)
        small: REAL = 0.5 * (both - away)
        deep: REAL = pk.fmax(r - away, 0.0)
        part: REAL = deep * y
        deep_part: REAL = deep * part
        part2: REAL = part * part
        # Points leave themselves out, and have no part of what they overlap with.
        of_large: REAL = 0.0
        if large > 0.0:
            of_large = 1.0 / large
        of_both: REAL = 0.0
        if small > 0.0:
            of_both = of_large / small
        third: REAL = of_large * of_large * of_large
        inside: REAL = 0.0 - 0.4 * third
        ss0 = 0.6666666666666666 * of_large - 0.041666666666666664 * of_both * deep_part * part * (
            4.0 - part
        )
        ss1 = 0.0 - 0.125 * of_both * deep_part * (2.0 - part) * (2.0 - part)
        # What deep^5 and deep^6 become; the sign of the first one is the sphere's that has a ball.
        fifth1: REAL = 6.0 * part2 * (20.0 - part * (15.0 - 3.0 * part))
        fifth2: REAL = 90.0 * part * (1.0 - part) * (2.0 - part) * (2.0 - part)
        sixth1: REAL = part2 * (30.0 - part * (18.0 - 3.0 * part))
        sixth2: REAL = 15.0 * part * (2.0 - part) * (2.0 - part) * (2.0 - part)
        of_one: REAL = 0.0
        of_other: REAL = 0.0
        if product > 0.0:
            of_one = 0.004166666666666667 * of_both / square_one * deep
            of_other = 0.004166666666666667 * of_both / square_other * deep
        sb1 = of_other * (other * fifth1 + deep * sixth1) + inside * r
        bs1 = of_one * (deep * sixth1 - one * fifth1)
        sb2 = of_other * (other * fifth2 + deep * sixth2)
        bs2 = of_one * (deep * sixth2 - one * fifth2)
        if one > other:
            sb1 = of_other * (deep * sixth1 - other * fifth1)
            bs1 = of_one * (one * fifth1 + deep * sixth1) + inside * r
            sb2 = of_other * (deep * sixth2 - other * fifth2)
            bs2 = of_one * (one * fifth2 + deep * sixth2)
        share: REAL = of_both * of_both * of_both * deep_part * 0.00022321428571428571
        six: REAL = 56.0 * large * small
        seven: REAL = 0.0 - 8.0 * away * deep
        eight: REAL = 0.0 - deep * deep
        bb1 = six * (30.0 - part * (18.0 - 3.0 * part)) + seven * (
            42.0 - part * (21.0 - 3.0 * part)
        )
        bb1 = bb1 + eight * (56.0 - part * (24.0 - 3.0 * part))
        bb1 = inside + share * part2 * bb1
        bb2 = six * 15.0 * (2.0 - part) * (2.0 - part) * (2.0 - part)
        bb2 = bb2 + seven * (210.0 - part * (252.0 - part * (105.0 - 15.0 * part)))
        bb2 = bb2 + eight * (336.0 - part * (336.0 - part * (120.0 - 15.0 * part)))
        bb2 = share * part * bb2
        bb3 = six * (360.0 - part * (1200.0 - part * (1350.0 - part * (630.0 - 105.0 * part))))
        bb3 = bb3 + seven * (
            840.0 - part * (2100.0 - part * (1890.0 - part * (735.0 - 105.0 * part)))
        )
        bb3 = bb3 + eight * (
            1680.0 - part * (3360.0 - part * (2520.0 - part * (840.0 - 105.0 * part)))
        )
        bb3 = share * bb3
