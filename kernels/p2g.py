"""P2G: spreads the sources onto the grid with the window.

Four components (MATH C): A_j = f_j w + (q_j n_m + n_j q_m) d_m w, j = 0..2, and D = (q.n) w; the
single layer alone has the first three without the gradient, Laplace the plain window. Row a of the
window tables is a polynomial in 2 frac - 1 for the a-th of the P grid points that a source touches,
from floor(x/h) on: the shift by half a window is the same in G2P and cancels.

`p2g_owner` (CPUs): sources are sorted by tiles; a tile's sources reach at most halfway into the
next tile but one, so tiles of one colour never touch the same grid point: each work item owns its
tile and writes without atomics.
"""

from typing import List

import pykokkos as pk

REAL = pk.double
SINGLE = True
DOUBLE = True
LAPLACE = False
P = 8
ROW = 8  # P, rounded up with zero columns so that rows fill vector registers
TERMS = 7  # polynomial terms of the window


@pk.workunit
def p2g_owner(
    i: int,
    colour: pk.View1D[pk.int32],
    tiles: pk.View1D[pk.int32],
    starts: pk.View1D[pk.int32],
    src: pk.View2D[REAL],
    dens: pk.View2D[REAL],
    norms: pk.View2D[REAL],
    inverse_step: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    window: pk.View2D[REAL],
    slope: pk.View2D[REAL],
    grid: pk.View4D[REAL],
):
    """Spread the sources of one column of tiles.

    ``colour`` is (first x, first y, step x, step y, tiles per row).
    """
    tile0: int = colour[0] + colour[2] * (i // colour[4])
    tile1: int = colour[1] + colour[3] * (i % colour[4])
    column: int = (tile0 * tiles[1] + tile1) * tiles[2]
    begin: int = starts[column]
    end: int = starts[column + tiles[2]]
    for j in range(begin, end):
        t0: REAL = src[0][j] * inverse_step[0]
        t1: REAL = src[1][j] * inverse_step[1]
        t2: REAL = src[2][j] * inverse_step[2]
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
        wx: List[REAL] = [0.0] * ROW
        wy: List[REAL] = [0.0] * ROW
        wz: List[REAL] = [0.0] * ROW
        for p in range(ROW):
            wx[p] = window[0][p]
            wy[p] = window[0][p]
            wz[p] = window[0][p]
        for k in range(1, TERMS):
            for p in range(ROW):
                wx[p] = wx[p] * z0 + window[k][p]
                wy[p] = wy[p] * z1 + window[k][p]
                wz[p] = wz[p] * z2 + window[k][p]
        f0: REAL = 0.0
        f1: REAL = 0.0
        f2: REAL = 0.0
        if SINGLE or LAPLACE:
            f0 = dens[0][j]
        if SINGLE:
            f1 = dens[1][j]
            f2 = dens[2][j]
        if DOUBLE:
            dx: List[REAL] = [0.0] * ROW
            dy: List[REAL] = [0.0] * ROW
            dz: List[REAL] = [0.0] * ROW
            for p in range(ROW):
                dx[p] = slope[0][p]
                dy[p] = slope[0][p]
                dz[p] = slope[0][p]
            for k in range(1, TERMS):
                for p in range(ROW):
                    dx[p] = dx[p] * z0 + slope[k][p]
                    dy[p] = dy[p] * z1 + slope[k][p]
                    dz[p] = dz[p] * z2 + slope[k][p]
            q0: REAL = dens[3 * SINGLE][j]
            q1: REAL = dens[3 * SINGLE + 1][j]
            q2: REAL = dens[3 * SINGLE + 2][j]
            n0: REAL = norms[0][j]
            n1: REAL = norms[1][j]
            n2: REAL = norms[2][j]
            s00: REAL = 2.0 * q0 * n0 * inverse_step[0]
            s01: REAL = (q0 * n1 + q1 * n0) * inverse_step[1]
            s02: REAL = (q0 * n2 + q2 * n0) * inverse_step[2]
            s10: REAL = (q0 * n1 + q1 * n0) * inverse_step[0]
            s11: REAL = 2.0 * q1 * n1 * inverse_step[1]
            s12: REAL = (q1 * n2 + q2 * n1) * inverse_step[2]
            s20: REAL = (q0 * n2 + q2 * n0) * inverse_step[0]
            s21: REAL = (q1 * n2 + q2 * n1) * inverse_step[1]
            s22: REAL = 2.0 * q2 * n2 * inverse_step[2]
            trace: REAL = q0 * n0 + q1 * n1 + q2 * n2
        for a in range(P):
            g0: int = c0 + a
            if g0 >= shape[0]:
                g0 = g0 - shape[0]
            for b in range(P):
                g1: int = c1 + b
                if g1 >= shape[1]:
                    g1 = g1 - shape[1]
                ww: REAL = wx[a] * wy[b]
                if DOUBLE:
                    dw: REAL = dx[a] * wy[b]
                    wd: REAL = wx[a] * dy[b]
                    a0: REAL = f0 * ww + s00 * dw + s01 * wd
                    a1: REAL = f1 * ww + s10 * dw + s11 * wd
                    a2: REAL = f2 * ww + s20 * dw + s21 * wd
                    b0: REAL = s02 * ww
                    b1: REAL = s12 * ww
                    b2: REAL = s22 * ww
                    a3: REAL = trace * ww
                    for z in range(ROW):
                        grid[0][g0][g1][c2 + z] += a0 * wz[z] + b0 * dz[z]
                    for z in range(ROW):
                        grid[1][g0][g1][c2 + z] += a1 * wz[z] + b1 * dz[z]
                    for z in range(ROW):
                        grid[2][g0][g1][c2 + z] += a2 * wz[z] + b2 * dz[z]
                    for z in range(ROW):
                        grid[3][g0][g1][c2 + z] += a3 * wz[z]
                else:
                    a0: REAL = f0 * ww
                    for z in range(ROW):
                        grid[0][g0][g1][c2 + z] += a0 * wz[z]
                    if SINGLE:
                        a1: REAL = f1 * ww
                        a2: REAL = f2 * ww
                        for z in range(ROW):
                            grid[1][g0][g1][c2 + z] += a1 * wz[z]
                        for z in range(ROW):
                            grid[2][g0][g1][c2 + z] += a2 * wz[z]
