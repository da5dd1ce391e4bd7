"""The window's values: P2G and G2P evaluate polynomials over a grid cell."""

from typing import List

from parki.runtime.scopes import block


@block(reads="cells inverse_step", writes="c0 c1 c2 z0 z1 z2")
def place(points, at):
    """Set c0, c1, c2 to the grid cell of a point, and z0, z1, z2 to its place there, -1 to 1."""
    t0: REAL = points[0][at] * inverse_step[0]
    t1: REAL = points[1][at] * inverse_step[1]
    t2: REAL = points[2][at] * inverse_step[2]
    c0: int = int(t0)
    c1: int = int(t1)
    c2: int = int(t2)
    if c0 > cells[0] - 1:
        c0 = cells[0] - 1
    if c1 > cells[1] - 1:
        c1 = cells[1] - 1
    if c2 > cells[2] - 1:
        c2 = cells[2] - 1
    z0: REAL = 2.0 * (t0 - REAL(c0)) - 1.0
    z1: REAL = 2.0 * (t1 - REAL(c1)) - 1.0
    z2: REAL = 2.0 * (t2 - REAL(c2)) - 1.0


@block(reads="cells inverse_step")
def cell_within(points, axis, at, first, edge, t, c):
    """Set t to a coordinate in grid steps, and c to its cell among ``edge`` from ``first`` on.

    The cell list's rounding may differ in the last bit, and the list decides.
    """
    t: REAL = points[axis][at] * inverse_step[axis]
    c: int = int(t)
    if c > first + edge - 1:
        c = first + edge - 1
    if c > cells[axis] - 1:
        c = cells[axis] - 1
    if c < first:
        c = first


@block(reads="z0 z1 z2")
def evaluate(table, x, y, z):
    """Set the arrays x, y and z to the values of a window at a point that `place` found."""
    horner(table, TERMS, x, y, z)


@block(reads="z0 z1 z2")
def horner(table, terms, x, y, z):
    """Set the arrays to the polynomials of the first ``terms`` coefficients, two at least."""
    # A loop that only copies is a call for g++, whose stores the next loads wait for.
    for p in range(ROW):
        x[p] = table[0][p] * z0 + table[1][p]
        y[p] = table[0][p] * z1 + table[1][p]
        z[p] = table[0][p] * z2 + table[1][p]
    for term in range(2, terms):
        for p in range(ROW):
            x[p] = x[p] * z0 + table[term][p]
            y[p] = y[p] * z1 + table[term][p]
            z[p] = z[p] * z2 + table[term][p]


@block(reads="z0 z1 z2")
def take_values(table, x, y, z):
    """Declare the arrays x, y and z with these values."""
    x: List[REAL] = [0.0] * ROW
    y: List[REAL] = [0.0] * ROW
    z: List[REAL] = [0.0] * ROW
    evaluate(table, x, y, z)


@block(reads="shape")
def grid_point(g, axis, at):
    """Declare g, grid point ``at`` of an axis, wrapped at the end of a periodic one."""
    g: int = at
    if g >= shape[axis]:
        g = g - shape[axis]


@block()
def value(table, p, x, w):
    """Set w to value p of a window along one axis; x is the place of the point in its cell."""
    w: REAL = table[0][p]
    for term in range(1, TERMS):
        w = w * x + table[term][p]


@block()
def halves(table, p, x, xx, even, odd):
    """Set even and odd to the parts, in x, of value p of a window along one axis; xx is x^2.

    Windows are even functions: value P - 1 - p is ``even - odd``. Slopes are odd functions: theirs
    is ``odd - even``.
    """
    even: REAL = table[(TERMS - 1) % 2][p]
    for term in range((TERMS - 1) % 2 + 2, TERMS, 2):
        even = even * xx + table[term][p]
    odd: REAL = table[TERMS % 2][p]
    for term in range(TERMS % 2 + 2, TERMS, 2):
        odd = odd * xx + table[term][p]
    odd = odd * x
