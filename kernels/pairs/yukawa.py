"""Potential of screened charges: ``(y - V) / r_c``, with the gradient ``(-y^2 - V') e / r_c^2``.

V is a polynomial in s = 2 r - 1, and D = V' is, too. A coinciding pair keeps the smooth part alone,
without the kappa r_c that V has at r = 0: it is the last coefficient of p1, and kappa r_c the one
before it.

With PARTS the singular part is exp(-kappa r_c r) / r, and the smooth one is what is left. Both take
B = (1 - exp(-kappa r_c r)) / r from 1/r and from V.
"""

from kernels.blocks.cut import cut
from kernels.blocks.radial import begin_blob, distance, polynomial, variable
from kernels.blocks.slopes import direction

TERMS = 18  # of the series of B and of its slope, complete to double precision up to 1


def bounded():
    """Take B to ``bare`` and its slope to ``slope``, where the parts have other weights than 1."""
    screening: REAL = p1[DEGREE - 1]
    z: REAL = screening * r
    bare: REAL = 1.0
    slope: REAL = 1.0
    if z < 1.0:
        for term in range(TERMS):
            bare = 1.0 - bare * z / REAL(TERMS + 1 - term)
            ratio: REAL = REAL(TERMS + 1 - term) / REAL((TERMS - term) * (TERMS + 2 - term))
            slope = 1.0 - slope * z * ratio
        slope = -0.5 * slope
    else:
        fallen: REAL = pk.exp(0.0 - z)
        bare = (1.0 - fallen) / z
        slope = (fallen - bare) / z
    bare = (smooth - singular) * screening * bare
    slope = (smooth - singular) * screening * screening * slope


def value(table):
    """Take the potential to a, with V from ``table``."""
    distance(r)
    variable(r)
    polynomial(a, table)
    a = y - a
    if PARTS:
        bounded()
        a = a + bare
    elif rr <= coincident:
        a = p1[DEGREE]


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does."""
    begin_blob()
    value(p0)
    cut(a)
    for d in range(MANY):
        u[d] += a * density[row + d][at]


def differentiate(density, row, normal, first_normal, at):
    """Add to the sums of derivatives what one source does."""
    begin_blob()
    direction()
    if VALUES:
        value(p3)
        u0 += a * density[row][at]
    else:
        distance(r)
        variable(r)
        if PARTS:
            bounded()
    polynomial(px, p0)
    px = 0.0 - y * y - px
    if PARTS:
        px = px + slope
    px = px * density[row][at]
    g00 += px * e0
    g01 += px * e1
    g02 += px * e2
