"""Sums of derivatives, to which the files of ``kernels/pairs`` add what a source does."""

from kernels.blocks.radial import begin_points, direction, distance, polynomial, variable
from parki.runtime.scopes import block


@block(writes="g00 g01 g02 g10 g11 g12 g20 g21 g22 p u0 u1 u2")
def begin_sums():
    """Begin the sums of a target: u0, p, g00 and so on."""
    u0: REAL = 0.0
    u1: REAL = 0.0
    u2: REAL = 0.0
    p: REAL = 0.0
    g00: REAL = 0.0
    g01: REAL = 0.0
    g02: REAL = 0.0
    g10: REAL = 0.0
    g11: REAL = 0.0
    g12: REAL = 0.0
    g20: REAL = 0.0
    g21: REAL = 0.0
    g22: REAL = 0.0


@block(
    reads="tensors",
    writes=(
        "bend00 bend01 bend02 bend10 bend11 bend12 bend20 bend21 bend22 head slope00 slope01 "
        "slope02 slope10 slope11 slope12 slope20 slope21 slope22 value0 value1 value2 weigh0 "
        "weigh1 weigh2"
    ),
)
def begin_strain(at):
    """Begin the sums bend00, bend01 and so on of a target with weights, which `strain` adds to.

    The target's other sums are value0, head, slope00 and so on, as u0, p, g00 are a pair's.
    """
    value0: REAL = 0.0
    value1: REAL = 0.0
    value2: REAL = 0.0
    head: REAL = 0.0
    slope00: REAL = 0.0
    slope01: REAL = 0.0
    slope02: REAL = 0.0
    slope10: REAL = 0.0
    slope11: REAL = 0.0
    slope12: REAL = 0.0
    slope20: REAL = 0.0
    slope21: REAL = 0.0
    slope22: REAL = 0.0
    weigh0: REAL = tensors[0][at]
    weigh1: REAL = 0.0
    weigh2: REAL = 0.0
    if OUTPUTS > 1:
        weigh1 = tensors[1][at]
        weigh2 = tensors[2][at]
    bend00: REAL = 0.0
    bend01: REAL = 0.0
    bend02: REAL = 0.0
    bend10: REAL = 0.0
    bend11: REAL = 0.0
    bend12: REAL = 0.0
    bend20: REAL = 0.0
    bend21: REAL = 0.0
    bend22: REAL = 0.0


@block(
    reads=("g00 g01 g02 g10 g11 g12 g20 g21 g22 p r0 r1 r2 u0 u1 u2 weigh0 weigh1 weigh2"),
    writes=(
        "bend00 bend01 bend02 bend10 bend11 bend12 bend20 bend21 bend22 head slope00 slope01 "
        "slope02 slope10 slope11 slope12 slope20 slope21 slope22 value0 value1 value2"
    ),
)
def strain():
    """Add a pair's distance times the gradient of what the target weighs, in g00 and so on.

    Add what else the pair makes to the sums of the target.
    """
    if VALUES:
        value0 += u0
        if OUTPUTS > 1:
            value1 += u1
            value2 += u2
    if PRESSURE:
        head += p
    if GRADIENT:
        slope00 += g00
        slope01 += g01
        slope02 += g02
        if OUTPUTS > 1:
            slope10 += g10
            slope11 += g11
            slope12 += g12
            slope20 += g20
            slope21 += g21
            slope22 += g22
    bend0: REAL = g00
    bend1: REAL = g01
    bend2: REAL = g02
    if OUTPUTS > 1:
        bend0 = weigh0 * g00 + weigh1 * g10 + weigh2 * g20
        bend1 = weigh0 * g01 + weigh1 * g11 + weigh2 * g21
        bend2 = weigh0 * g02 + weigh1 * g12 + weigh2 * g22
    bend00 += bend0 * r0
    bend01 += bend0 * r1
    bend02 += bend0 * r2
    bend11 += bend1 * r1
    bend12 += bend1 * r2
    bend22 += bend2 * r2
    if CHARGES + OUTPUTS + MOVED > 2:
        bend10 += bend1 * r0
        bend20 += bend2 * r0
        bend21 += bend2 * r1


@block(
    reads=(
        "bend00 bend01 bend02 bend10 bend11 bend12 bend20 bend21 bend22 head slope00 slope01 "
        "slope02 slope10 slope11 slope12 slope20 slope21 slope22 value0 value1 value2 weigh0"
    ),
    writes=(
        "bend00 bend01 bend02 bend10 bend11 bend12 bend20 bend21 bend22 g00 g01 g02 g10 g11 g12 "
        "g20 g21 g22 p u0 u1 u2"
    ),
)
def end_strain():
    """Take the sums of a target with weights as u0, p, g00 and so on.

    Charges pull along their distances, so that their strains are symmetric, unless they are MOVED.
    """
    if CHARGES + OUTPUTS + MOVED == 2:
        bend10 = bend01
        bend20 = bend02
        bend21 = bend12
    if OUTPUTS == 1:
        bend00 = weigh0 * bend00
        bend01 = weigh0 * bend01
        bend02 = weigh0 * bend02
        bend10 = weigh0 * bend10
        bend11 = weigh0 * bend11
        bend12 = weigh0 * bend12
        bend20 = weigh0 * bend20
        bend21 = weigh0 * bend21
        bend22 = weigh0 * bend22
    begin_sums()
    u0 = value0
    u1 = value1
    u2 = value2
    p = head
    g00 = slope00
    g01 = slope01
    g02 = slope02
    g10 = slope10
    g11 = slope11
    g12 = slope12
    g20 = slope20
    g21 = slope21
    g22 = slope22


@block(reads="p0 r0 r1 r2 rr singular smooth y", writes="e0 e1 e2 r reciprocal s y yy")
def begin_pair(first):
    """Take powers of a pair's distance, its direction, and the ``first`` table, from p0."""
    begin_points()
    variable(rr)
    distance(r)
    yy: REAL = y * y
    direction()
    polynomial(first, p0)


@block(reads="p1 s smooth", writes="along level v0 v1 v2 z0 z1 z2")
def begin_vector(second):
    """Take the ``second`` table, from p1, and begin a gradient v e^T + e z^T + level I."""
    polynomial(second, p1)
    v0: REAL = 0.0
    v1: REAL = 0.0
    v2: REAL = 0.0
    z0: REAL = 0.0
    z1: REAL = 0.0
    z2: REAL = 0.0
    along: REAL = 0.0
    level: REAL = 0.0


@block(
    reads="along e0 e1 e2 level v0 v1 v2 z0 z1 z2",
    writes="g00 g01 g02 g10 g11 g12 g20 g21 g22 v0 v1 v2",
)
def add_gradient():
    """Add v e^T + e z^T + level I + along e e^T to the gradient."""
    if GRADIENT:
        v0 = v0 + along * e0
        v1 = v1 + along * e1
        v2 = v2 + along * e2
        g00 += v0 * e0 + e0 * z0 + level
        g01 += v0 * e1 + e0 * z1
        g02 += v0 * e2 + e0 * z2
        g10 += v1 * e0 + e1 * z0
        g11 += v1 * e1 + e1 * z1 + level
        g12 += v1 * e2 + e1 * z2
        g20 += v2 * e0 + e2 * z0
        g21 += v2 * e1 + e2 * z1
        g22 += v2 * e2 + e2 * z2 + level


@block(
    reads="along e0 e1 e2 level v0 v1 v2 z0 z1 z2",
    writes="along g00 g01 g02 g10 g11 g12 g20 g21 g22 level v0 v1 v2 z0 z1 z2",
)
def add_gradient_of_vector(iso, axial, across, v, w, x, product):
    """Add the gradient of a vector v, w, x whose product with e is ``product``.

    It is iso (v e^T) + axial (v.e) e e^T + across (e v^T + (v.e) I).
    """
    along = product * axial
    level = product * across
    v0 = iso * v
    v1 = iso * w
    v2 = iso * x
    z0 = across * v
    z1 = across * w
    z2 = across * x
    add_gradient()


@block(
    reads="along e0 e1 e2 level v0 v1 v2 z0 z1 z2",
    writes="g00 g01 g02 g10 g11 g12 g20 g21 g22 v0 v1 v2",
)
def add_gradient_of_cross(along_e, across, v, w, x):
    """Add the gradient of t x e of a vector t: along_e (t x e) e^T + across (t x I)."""
    v0 = along_e * (w * e2 - x * e1)
    v1 = along_e * (x * e0 - v * e2)
    v2 = along_e * (v * e1 - w * e0)
    g01 -= across * x
    g02 += across * w
    g10 += across * x
    g12 -= across * v
    g20 -= across * w
    g21 += across * v
    add_gradient()


@block(
    reads=(
        "bend00 bend01 bend02 bend10 bend11 bend12 bend20 bend21 bend22 g00 g01 g02 g10 g11 g12 "
        "g20 g21 g22 p pull0 pull1 pull2 u0 u1 u2"
    ),
    writes="total",
)
def add_sums(at):
    """Add a target's sums to column ``at`` of ``total``: values, pressure, gradient and so on."""
    if VALUES:
        total[0][at] += u0
        if OUTPUTS > 1:
            total[1][at] += u1
            total[2][at] += u2
    if PRESSURE:
        total[LEVEL][at] += p
    if STRAIN:
        total[BEND][at] += bend00
        total[BEND + 1][at] += bend01
        total[BEND + 2][at] += bend02
        total[BEND + 3][at] += bend10
        total[BEND + 4][at] += bend11
        total[BEND + 5][at] += bend12
        total[BEND + 6][at] += bend20
        total[BEND + 7][at] += bend21
        total[BEND + 8][at] += bend22
    if GRADIENT:
        total[SLOPES][at] += g00
        total[SLOPES + 1][at] += g01
        total[SLOPES + 2][at] += g02
        if OUTPUTS > 1:
            total[SLOPES + 3][at] += g10
            total[SLOPES + 4][at] += g11
            total[SLOPES + 5][at] += g12
            total[SLOPES + 6][at] += g20
            total[SLOPES + 7][at] += g21
            total[SLOPES + 8][at] += g22
    if TENSORS:
        total[PULL][at] += pull0
        total[PULL + 1][at] += pull1
        total[PULL + 2][at] += pull2


@block(reads="derivative_scale gentle out scale total", writes="gradient pot pressure pull")
def store_sums(at):
    """Store column ``at`` of ``total`` as the results of target ``out``."""
    if VALUES:
        for row in range(LEVEL):
            pot[row][out] = total[row][at] * gentle
    if PRESSURE:
        pressure[0][out] = total[LEVEL][at] * scale
    if STRAIN:
        for row in range(9):
            pull[row][out] = total[BEND + row][at] * derivative_scale
    if GRADIENT:
        for row in range(3 * OUTPUTS):
            gradient[row][out] = total[SLOPES + row][at] * scale
    if TENSORS:
        for row in range(3):
            pull[row][out] = total[PULL + row][at] * derivative_scale
