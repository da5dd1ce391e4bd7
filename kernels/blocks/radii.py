"""Radii of the spheres of a pair."""

from kernels.blocks.radial import polynomial
from parki.runtime.scopes import block


@block(reads="mark")
def take_radii(one, other, table, density, row, at):
    """Declare the radii of target and source over r_c: the MARKS of the points, or in ``table``."""
    if MARKS:
        one: REAL = mark
        other: REAL = density[row + CHARGES - 1][at]
    else:
        one: REAL = table[0]
        other: REAL = table[1]


@block(reads="s smooth")
def lift(value, more, table, weight):
    """Add to ``value``, with MARKS, ``weight`` times ``more``, a polynomial of a Laplacian."""
    if MARKS:
        polynomial(more, table)
        value = value + weight * more
