"""The sums of G2P over the points of a window."""

from kernels.blocks.window import grid_point


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


def gather_rows(length):
    """Add to the sums of target k of a batch what its window takes from rows of a plane's block.

    The window along z has this ``length``, in half cache lines.
    """
    x: REAL = wx[k][plane - at[0][k]]
    y0: int = at[1][k]
    z0: int = at[2][k]
    plane0: List[REAL] = [0.0] * length
    plane1: List[REAL] = [0.0] * length
    plane2: List[REAL] = [0.0] * length
    for b in range(P):
        w: REAL = wy[k][b]
        for z in range(length):
            plane0[z] += w * block[y0 + b][z0 + z]
        if COMPONENTS > 1:
            for z in range(length):
                plane1[z] += w * block[HIGH + y0 + b][z0 + z]
        if COMPONENTS > 2:
            for z in range(length):
                plane2[z] += w * block[2 * HIGH + y0 + b][z0 + z]
    for v in range(0, length // LANES * LANES, LANES):
        for z in range(LANES):
            sums[k][z] += x * wz[k][v + z] * plane0[v + z]
        if COMPONENTS > 1:
            for z in range(LANES):
                sums[k][LANES + z] += x * wz[k][v + z] * plane1[v + z]
        if COMPONENTS > 2:
            for z in range(LANES):
                sums[k][2 * LANES + z] += x * wz[k][v + z] * plane2[v + z]
    for z in range(length // LANES * LANES, length):
        sums[k][z % LANES] += x * wz[k][z] * plane0[z]
    if COMPONENTS > 1:
        for z in range(length // LANES * LANES, length):
            sums[k][LANES + z % LANES] += x * wz[k][z] * plane1[z]
    if COMPONENTS > 2:
        for z in range(length // LANES * LANES, length):
            sums[k][2 * LANES + z % LANES] += x * wz[k][z] * plane2[z]
