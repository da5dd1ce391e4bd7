"""The sums of G2P over the points of a window."""

from typing import List

from kernels.blocks.window import grid_point, horner
from parki.runtime.scopes import block


@block(reads="above c0 c1 c2 field shape wx wy wz", writes="u0 u1 u2", takes="g0 g1 g2")
def gather_window(wraps):
    """Add the field's values times the window to u0, u1 and u2.

    If ``wraps`` is 1, the window continues at the beginning of z. If it is 0, the window stays
    within a row of the field.
    """
    sum0: List[REAL] = [0.0] * ROW
    sum1: List[REAL] = [0.0] * ROW
    sum2: List[REAL] = [0.0] * ROW
    for a in range(PX):
        grid_point(g0, 0, c0 + a)
        # Sums of a plane come first: one sum of all would wait for itself P * P times.
        plane0: List[REAL] = [0.0] * ROW
        plane1: List[REAL] = [0.0] * ROW
        plane2: List[REAL] = [0.0] * ROW
        for b in range(P):
            grid_point(g1, 1, c1 + b)
            g1 = g1 + above
            w: REAL = wy[b]
            if wraps == 0:
                for z in range(ROW):
                    plane0[z] += w * field[0][g0][g1][c2 + z]
                if COMPONENTS > 1:
                    for z in range(ROW):
                        plane1[z] += w * field[1][g0][g1][c2 + z]
                if COMPONENTS > 2:
                    for z in range(ROW):
                        plane2[z] += w * field[2][g0][g1][c2 + z]
            else:
                for z in range(P):
                    grid_point(g2, 2, c2 + z)
                    plane0[z] += w * field[0][g0][g1][g2]
                    if COMPONENTS > 1:
                        plane1[z] += w * field[1][g0][g1][g2]
                    if COMPONENTS > 2:
                        plane2[z] += w * field[2][g0][g1][g2]
        x: REAL = 1.0
        if PX > 1:
            x = wx[a]
        for z in range(ROW):
            sum0[z] += x * plane0[z]
        if COMPONENTS > 1:
            for z in range(ROW):
                sum1[z] += x * plane1[z]
        if COMPONENTS > 2:
            for z in range(ROW):
                sum2[z] += x * plane2[z]
    for z in range(ROW):
        u0 += sum0[z] * wz[z]
        if COMPONENTS > 1:
            u1 += sum1[z] * wz[z]
        if COMPONENTS > 2:
            u2 += sum2[z] * wz[z]


@block(reads="at block k plane strengths wx wy wz", writes="d sums u v z0")
def gather_rows(length):
    """Add to the sums of target k of a batch what its window takes from rows of a plane's block.

    The window along z has this ``length``, in half cache lines.
    """
    a: int = plane - at[0][k]
    y0: int = at[1][k]
    z0: int = at[2][k]
    x: REAL = wx[0][k][a]
    u: List[REAL] = [0.0] * LANES
    v: List[REAL] = [0.0] * HALF
    if ORDERS == 1:
        level: List[REAL] = [0.0] * (FIELDS * length)
        for b in range(P):
            w: REAL = wy[0][k][b]
            for c in range(FIELDS):
                for z in range(length):
                    level[c * length + z] += w * block[c * HIGH + y0 + b][z0 + z]
        for c in range(FIELDS):
            fold(length, level, c * length, 0)
            add_line(length, x, c)
    else:
        s: REAL = wx[1][k][a]
        # One field at a time: the sums of all exceed a CPU's registers.
        for c in range(FIELDS):
            level: List[REAL] = [0.0] * length
            slope1: List[REAL] = [0.0] * length
            bend1: List[REAL] = [0.0] * length
            for b in range(P):
                w: REAL = wy[0][k][b]
                d: REAL = wy[1][k][b]
                for z in range(length):
                    level[z] += w * block[c * HIGH + y0 + b][z0 + z]
                    slope1[z] += d * block[c * HIGH + y0 + b][z0 + z]
                if TENSORS:
                    e: REAL = wy[2][k][b]
                    for z in range(length):
                        bend1[z] += e * block[c * HIGH + y0 + b][z0 + z]
            # A tensor target's reading of this field: by derivatives, or by the pressure itself.
            t0: REAL = 0.0
            t1: REAL = 0.0
            t2: REAL = 0.0
            p: REAL = 0.0
            if TENSORS:
                if c < COMPONENTS:
                    t0 = strengths[k][3 * c]
                    t1 = strengths[k][3 * c + 1]
                    t2 = strengths[k][3 * c + 2]
                else:
                    p = strengths[k][9]
            fold(length, level, 0, 0)
            if c < COMPONENTS:
                if VALUES:
                    add_line(length, x, c)
                if GRADIENT:
                    add_line(length, s, SLOPES + 3 * c)
            elif PRESSURE:
                add_line(length, x, LEVEL)
            if TENSORS:
                add_line(length, t0 * wx[2][k][a] + p * s, PULL)
            if GRADIENT + TENSORS > 0:
                fold(length, slope1, 0, 0)
                if GRADIENT:
                    if c < COMPONENTS:
                        add_line(length, x, SLOPES + 3 * c + 1)
                if TENSORS:
                    add_line(length, t1 * s, PULL)
                    add_line(length, t0 * s + p * x, PULL + 1)
                fold(length, level, 0, 1)
                if GRADIENT:
                    if c < COMPONENTS:
                        add_line(length, x, SLOPES + 3 * c + 2)
                if TENSORS:
                    add_line(length, t2 * s, PULL)
                    add_line(length, t0 * s + p * x, PULL + 2)
            if TENSORS:
                fold(length, slope1, 0, 1)
                add_line(length, t2 * x, PULL + 1)
                add_line(length, t1 * x, PULL + 2)
                fold(length, bend1, 0, 0)
                add_line(length, t1 * x, PULL + 1)
                fold(length, level, 0, 2)
                add_line(length, t2 * x, PULL + 2)


@block(reads="k wz", writes="u v")
def fold(length, part, first, order):
    """Set u and v to a row of a plane's sums times the window along z, or a derivative of it.

    v is of the half line at the row's end.
    """
    if length >= LANES:
        for z in range(LANES):
            u[z] = wz[order][k][z] * part[first + z]
        for q in range(LANES, length // LANES * LANES, LANES):
            for z in range(LANES):
                u[z] += wz[order][k][q + z] * part[first + q + z]
    if length % LANES > 0:
        for z in range(HALF):
            v[z] = (
                wz[order][k][length // LANES * LANES + z]
                * (part[first + length // LANES * LANES + z])
            )


@block(reads="k u v", writes="sums")
def add_line(length, factor, line):
    """Add to a line of the sums of target k what `fold` found."""
    if length >= LANES:
        for z in range(LANES):
            sums[k][(line) * LANES + z] += (factor) * u[z]
    if length % LANES > 0:
        for z in range(HALF):
            sums[k][(line) * LANES + z] += (factor) * v[z]


@block(reads="shift v0 v1 v2 z0 z1 z2", writes="v0 v1 v2 wx wy wz")
def keep_window(table, order, to):
    """Keep the values of a window, or of a derivative of it, for target ``to`` of a batch."""
    horner(table, TERMS - 1, v0, v1, v2)
    for p in range(ROW):
        wx[order][to][p] = v0[p] * z0 + table[TERMS - 1][p]
    for p in range(ROW):
        wy[order][to][p] = v1[p] * z1 + table[TERMS - 1][p]
    for z in range(LONG):
        wz[order][to][z] = 0.0
    for p in range(ROW):
        wz[order][to][shift + p] = v2[p] * z2 + table[TERMS - 1][p]


@block(reads="k sums", writes="u")
def total(line):
    """Set u to the sum of a line of target k."""
    u = 0.0
    for z in range(LANES):
        u += sums[k][(line) * LANES + z]
