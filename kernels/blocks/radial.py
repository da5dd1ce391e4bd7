"""Radial functions and direction of a pair, which ``p2p.py`` describes.

With BLOB, sources are blobs of finite size, and pairs within a blob's radius r_b have no singular
part. From the radial functions there, the blob's own ones are subtracted: polynomials of the same
degree in ``core``, the s of r_b. They follow the others in each row of ``radial``, and the last
column has (r_c / r_b)^2.

With BLOB and MARKS each pair has a width of its own, whose square over r_c^2 is the sum of both
marks. The last column then has the square of a width over its radius, and the polynomials belong
to a blob that ends at 1.

If ALGEBRAIC, the last column has (epsilon / r_c)^2. Then ``core`` is 1 / (r^2 + epsilon^2), and the
blob's functions are its square root times polynomials of this degree.

With PARTS, ``singular`` and ``smooth`` are 0 or 1, and multiply the two parts of a pair.
"""

from typing import List

from parki.runtime.scopes import block

BLOB = False
ALGEBRAIC = 0  # degree in 1 / (r^2 + epsilon^2), if all pairs are within blobs of such powers
CORE = DEGREE * (1 - (ALGEBRAIC > 0)) + ALGEBRAIC  # degree of a blob's polynomials
COLUMNS = DEGREE + 1 + BLOB * (CORE + 2)  # of ``radial``


@block(writes="least most singular smooth")
def begin_parts():
    """Declare the weights of the parts of pairs, and the squared distances of pairs that count."""
    if PARTS:
        singular: REAL = 1.0
        smooth: REAL = 1.0
        least: REAL = 0.0
        most: REAL = 1.0


@block()
def take_row(table, radial, row):
    """Declare ``table``, a row of ``radial``."""
    table: List[REAL] = [0.0] * COLUMNS
    for power in range(COLUMNS):
        table[power] = radial[row][power]


@block(writes="least most p0 p1 p2 p3 p4 p5 p6 p7 p8 p9 singular smooth")
def take_rows(radial):
    """Take the first rows of ``radial`` to p0, p1, p2, and with more TABLES up to p5 or p9."""
    begin_parts()
    p0: List[REAL] = [0.0] * COLUMNS
    p1: List[REAL] = [0.0] * COLUMNS
    p2: List[REAL] = [0.0] * COLUMNS
    if EVALUATOR != 1:
        for power in range(COLUMNS):
            p0[power] = radial[0][power]
            if TABLES > 1 or EVALUATOR == 2:
                p1[power] = radial[1][power]
            if TABLES > 2 and EVALUATOR == 0:
                p2[power] = radial[2][power]
        if TABLES > 3:
            take_row(p3, radial, 3)
        if TABLES > 4:
            take_row(p4, radial, 4)
            take_row(p5, radial, 5)
        if TABLES > 6:
            take_row(p6, radial, 6)
            take_row(p7, radial, 7)
            take_row(p8, radial, 8)
        if TABLES > 9:
            take_row(p9, radial, 9)


@block(writes="decay least most p0 p1 p2 p3 p4 p5 p6 p7 p8 p9 peak singular smooth")
def take_radial(radial, xi_rc):
    """Take the rows of ``radial``, and what else EVALUATOR 1 and 2 need."""
    take_rows(radial)
    if EVALUATOR > 0:
        peak: REAL = 0.5641895835477563 * xi_rc
        decay: REAL = xi_rc * xi_rc


@block(writes="least most p0 p1 p10 p11 p12 p2 p3 p4 p5 p6 p7 p8 p9 singular smooth")
def take_polynomials(radial):
    """Take the rows of ``radial``, and to p3 the one that values take WITH_VALUES.

    With four TABLES or more these are p6 and p7, or p8 as well; with ten they are p10 to p12.
    """
    take_rows(radial)
    if VALUES and WITH_VALUES:
        if TABLES > 6:
            take_row(p10, radial, TABLES)
            take_row(p11, radial, TABLES + 1)
            take_row(p12, radial, TABLES + 2)
        elif TABLES > 3:
            take_row(p6, radial, TABLES)
            take_row(p7, radial, TABLES + 1)
            if TABLES > 4:
                take_row(p8, radial, TABLES + 2)
        else:
            take_row(p3, radial, TABLES)


@block(writes="s")
def variable(place):
    """Declare s of a place from 0 to 1; beyond the cut-off one at which polynomials are finite."""
    s: REAL = 2.0 * place - 1.0
    if PARTS:
        s = pk.fmin(s, 1.0)


@block(reads="s smooth")
def polynomial(value, table):
    """Declare ``value``, a polynomial in s."""
    value: REAL = table[0]
    for power in range(DEGREE):
        value = value * s + table[power + 1]
    if PARTS:
        value = value * smooth


@block(reads="core root s shrink smooth within", writes="within")
def function(value, table, order):
    """Declare ``value``, less a blob's, of a function that falls as 1 / r^(2 order + 1)."""
    polynomial(value, table)
    if BLOB:
        within = table[DEGREE + 1]
        for power in range(CORE):
            within = within * core + table[DEGREE + power + 2]
        if ALGEBRAIC:
            value = value - within * root
        elif core < 1.0:
            if MARKS:
                within = within * pk.sqrt(shrink)
                for _ in range(order):
                    within = within * shrink
            value = value - within


@block(reads="singular y", writes="reciprocal y")
def begin_points():
    """Keep 1 / r as ``reciprocal``."""
    reciprocal: REAL = y
    if PARTS:
        y = y * singular


@block(reads="mark", writes="wide")
def take_width(density, row, at):
    """Declare the squared width of a pair over r_c^2, where each has its own."""
    if BLOB and MARKS:
        wide: REAL = mark + density[row + CHARGES - 1][at]


@block(reads="p0 rr singular wide y", writes="core reciprocal root shrink within y")
def begin_blob():
    """Drop the singular part of a pair within the blob: y is 0, and ``reciprocal`` keeps it."""
    begin_points()
    if BLOB:
        within: REAL = 0.0
        if ALGEBRAIC:
            core: REAL = 1.0 / (rr + p0[COLUMNS - 1])
            root: REAL = pk.sqrt(core)
            y = 0.0
        else:
            if MARKS:
                core: REAL = 1.0
                shrink: REAL = 0.0
                if wide > 0.0:
                    shrink = p0[COLUMNS - 1] / wide
                    core = pk.fmin(2.0 * rr * shrink - 1.0, 1.0)
            else:
                core: REAL = pk.fmin(2.0 * rr * p0[COLUMNS - 1] - 1.0, 1.0)
            if core < 1.0:
                y = 0.0


@block(reads="reciprocal rr")
def distance(value):
    """Declare ``value``, the distance over r_c."""
    value: REAL = rr * reciprocal


@block(reads="p0 rr singular smooth y", writes="reciprocal s y")
def first_function(value):
    """Take the first table to ``value``."""
    begin_points()
    variable(rr)
    polynomial(value, p0)


@block(reads="coincident decay p0 p1 peak rr xi_rc y", writes="mean psi")
def evaluate():
    """By EVALUATOR 1 and 2 take T_0 to mean, and psi."""
    if EVALUATOR == 1:
        mean: REAL = 0.5 * y * pk.erf(xi_rc * rr * y)
        if rr <= coincident:
            mean = peak
    if EVALUATOR == 2:
        mean: REAL = p0[0]
        divisor: REAL = p1[0]
        for power in range(DEGREE):
            mean = mean * rr + p0[power + 1]
            divisor = divisor * rr + p1[power + 1]
        mean = mean / divisor
    psi: REAL = peak * pk.exp(0.0 - decay * rr)


@block(reads="r0 r1 r2 reciprocal", writes="e0 e1 e2")
def direction():
    """Take the direction from source to target to e0, e1, e2."""
    e0: REAL = r0 * reciprocal
    e1: REAL = r1 * reciprocal
    e2: REAL = r2 * reciprocal
