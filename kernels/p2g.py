"""P2G: spreads the sources onto the grid with the window.

Four components ("The far field in Fourier space" of docs/theory.md): A_j = f_j w + S_jm d_m w,
j = 0..2, and D = (q.n) w, with S = q n^T + n q^T for a vector q with a normal. A tensor T has
S = -T, which need not be symmetric, and no D. The dipole of a charge is one row of T, and spreads
onto A_0 alone. A charge q with its dipole d and, with QUADRUPOLES, its quadrupole Q spread there
``q w - d.grad w + Q : grad grad w``. PLAIN sources, vectors f or numbers, have the window alone.
Row a of the window tables is a polynomial in 2 frac - 1 for the a-th of the P grid points that a
source touches, from floor(x/h) on: the shift by half a window is the same in G2P and cancels.

`p2g_owner` (CPUs): sources are sorted by tiles. A tile's sources reach at most halfway into the
second next tile, so that tiles of one colour never touch the same grid point. Each work item owns
its tile, or every n-th plane of it where tiles are few, and writes without atomics. A batch of
sources is spread plane by plane.
"""

from typing import List

import pykokkos as pk

from kernels.blocks.spread import stresslet
from kernels.blocks.window import evaluate, place

REAL = pk.double
PLAIN = 3  # components that are spread by the window itself
LAYERS = True  # whether there are vectors with normals, too
TENSORS = 0  # rows of the sources' tensors, each of which is spread onto a component: 3 or 1
GRADIENT = LAYERS + (TENSORS > 0)  # whether the window's gradient spreads them
VECTORS = LAYERS + (TENSORS > 1)  # whether it spreads them onto three components
QUADRUPOLES = False  # whether charges and dipoles have quadrupoles, too
TILTED = False  # whether gradients are by axes that are not at right angles: ``basis`` times those
P = 8
PX = P  # points of the window along x: 1 where the grid has two dimensions, y and z
ROW = 8  # P, rounded up with zero columns so that rows fill vector registers
TERMS = 7  # polynomial terms of the window
BATCH = 1  # sources that are spread together
VALUES = BATCH * ROW


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
    curvature: pk.View2D[REAL],
    basis: pk.View2D[REAL],
    first: int,
    grid: pk.View4D[REAL],
):
    """Spread the sources of one column of tiles onto its part of the planes.

    ``colour`` is (first x, first y, tiles, tiles per row, parts). Grids lie side by side along y:
    one for each system, from ``first`` on.
    """
    item: int = i % colour[2]
    own: int = i // colour[2] % colour[4]
    system: int = i // colour[2] // colour[4]
    tile0: int = colour[0] + 2 * (item // colour[3])
    tile1: int = colour[1] + 2 * (item % colour[3])
    column: int = ((system * tiles[0] + tile0) * tiles[1] + tile1) * tiles[2]
    above: int = (first + system) * shape[1]
    end: int = starts[column + tiles[2]]
    wx: List[REAL] = [0.0] * VALUES
    wy: List[REAL] = [0.0] * VALUES
    wz: List[REAL] = [0.0] * VALUES
    dx: List[REAL] = [0.0] * VALUES
    dy: List[REAL] = [0.0] * VALUES
    dz: List[REAL] = [0.0] * VALUES
    bx: List[REAL] = [0.0] * VALUES
    by: List[REAL] = [0.0] * VALUES
    bz: List[REAL] = [0.0] * VALUES
    cx: List[int] = [0] * BATCH
    cy: List[int] = [0] * BATCH
    cz: List[int] = [0] * BATCH
    batch: int = starts[column]
    while batch < end:
        count: int = end - batch
        if count > BATCH:
            count = BATCH
        low: int = cells[0]
        high: int = 0
        for k in range(count):
            place(src, batch + k)
            cx[k] = c0
            cy[k] = c1
            cz[k] = c2
            if c0 < low:
                low = c0
            if c0 > high:
                high = c0
            v0: List[REAL] = [0.0] * ROW
            v1: List[REAL] = [0.0] * ROW
            v2: List[REAL] = [0.0] * ROW
            evaluate(window, v0, v1, v2)
            for p in range(ROW):
                wx[k * ROW + p] = v0[p]
                wy[k * ROW + p] = v1[p]
                wz[k * ROW + p] = v2[p]
            if GRADIENT:
                evaluate(slope, v0, v1, v2)
                for p in range(ROW):
                    dx[k * ROW + p] = v0[p] * inverse_step[0]
                    dy[k * ROW + p] = v1[p] * inverse_step[1]
                    dz[k * ROW + p] = v2[p] * inverse_step[2]
            if QUADRUPOLES:
                evaluate(curvature, v0, v1, v2)
                for p in range(ROW):
                    bx[k * ROW + p] = v0[p] * inverse_step[0] * inverse_step[0]
                    by[k * ROW + p] = v1[p] * inverse_step[1] * inverse_step[1]
                    bz[k * ROW + p] = v2[p] * inverse_step[2] * inverse_step[2]
        for plane in range(low, high + PX):
            g0: int = plane
            if g0 >= shape[0]:
                g0 = g0 - shape[0]
            mine: int = count
            if g0 % colour[4] != own:
                mine = 0
            for k in range(mine):
                a: int = plane - cx[k]
                if a >= 0 and a < PX:
                    j: int = batch + k
                    at: int = k * ROW
                    c1: int = cy[k]
                    c2: int = cz[k]
                    x: REAL = 1.0
                    if PX > 1:
                        x = wx[at + a]
                    f0: REAL = 0.0
                    f1: REAL = 0.0
                    f2: REAL = 0.0
                    if PLAIN > 0:
                        f0 = dens[0][j] * x
                    if PLAIN > 1:
                        f1 = dens[1][j] * x
                    if PLAIN > 2:
                        f2 = dens[2][j] * x
                    v2: List[REAL] = [0.0] * ROW
                    for z in range(ROW):
                        v2[z] = wz[at + z]
                    if LAYERS:
                        stresslet(j)
                        trace = trace * x
                        yx: REAL = xy
                        zy: REAL = yz
                        xz: REAL = zx
                    if TENSORS > 0:
                        xx: REAL = -dens[PLAIN + 0][j]
                        xy: REAL = -dens[PLAIN + 1][j]
                        xz: REAL = -dens[PLAIN + 2][j]
                    if TENSORS > 1:
                        yx: REAL = -dens[PLAIN + 3][j]
                        yy: REAL = -dens[PLAIN + 4][j]
                        yz: REAL = -dens[PLAIN + 5][j]
                        zx: REAL = -dens[PLAIN + 6][j]
                        zy: REAL = -dens[PLAIN + 7][j]
                        zz: REAL = -dens[PLAIN + 8][j]
                    if TILTED:
                        xx = basis[0][0] * xx + basis[0][1] * xy + basis[0][2] * xz
                        xy = basis[1][1] * xy + basis[1][2] * xz
                        xz = basis[2][2] * xz
                        if VECTORS:
                            yx = basis[0][0] * yx + basis[0][1] * yy + basis[0][2] * yz
                            yy = basis[1][1] * yy + basis[1][2] * yz
                            yz = basis[2][2] * yz
                            zx = basis[0][0] * zx + basis[0][1] * zy + basis[0][2] * zz
                            zy = basis[1][1] * zy + basis[1][2] * zz
                            zz = basis[2][2] * zz
                    if GRADIENT:
                        # What slopes along x multiply, then the others.
                        s2: List[REAL] = [0.0] * ROW
                        for z in range(ROW):
                            s2[z] = dz[at + z]
                        s: REAL = dx[at + a]
                        f0 += xx * s
                        if VECTORS:
                            f1 += yx * s
                            f2 += zx * s
                        xy = xy * x
                        if VECTORS:
                            yy = yy * x
                            zy = zy * x
                        xz = xz * x
                        if VECTORS:
                            yz = yz * x
                            zz = zz * x
                        if QUADRUPOLES:
                            # What the slopes along two axes multiply, or the curvature along one.
                            b2: List[REAL] = [0.0] * ROW
                            for z in range(ROW):
                                b2[z] = bz[at + z]
                            f0 += dens[4][j] * bx[at + a]
                            xy += (dens[5][j] + dens[7][j]) * s
                            xz += (dens[6][j] + dens[10][j]) * s
                            yy: REAL = dens[8][j] * x
                            yz: REAL = (dens[9][j] + dens[11][j]) * x
                            zz: REAL = dens[12][j] * x
                    for b in range(P):
                        g1: int = c1 + b
                        if g1 >= shape[1]:
                            g1 = g1 - shape[1]
                        g1 = g1 + above
                        y: REAL = wy[at + b]
                        if GRADIENT:
                            d: REAL = dy[at + b]
                            a0: REAL = f0 * y + xy * d
                            if VECTORS:
                                a1: REAL = f1 * y + yy * d
                                a2: REAL = f2 * y + zy * d
                            b0: REAL = xz * y
                            if VECTORS:
                                b1: REAL = yz * y
                                b2: REAL = zz * y
                            if QUADRUPOLES:
                                a0 += yy * by[at + b]
                                b0 += yz * d
                                c0: REAL = zz * y
                                for z in range(ROW):
                                    grid[0][g0][g1][c2 + z] += c0 * b2[z]
                            for z in range(ROW):
                                grid[0][g0][g1][c2 + z] += a0 * v2[z] + b0 * s2[z]
                            if VECTORS:
                                for z in range(ROW):
                                    grid[1][g0][g1][c2 + z] += a1 * v2[z] + b1 * s2[z]
                                for z in range(ROW):
                                    grid[2][g0][g1][c2 + z] += a2 * v2[z] + b2 * s2[z]
                            if LAYERS:
                                a3: REAL = trace * y
                                for z in range(ROW):
                                    grid[3][g0][g1][c2 + z] += a3 * v2[z]
                        else:
                            a0: REAL = f0 * y
                            for z in range(ROW):
                                grid[0][g0][g1][c2 + z] += a0 * v2[z]
                            if PLAIN > 1:
                                a1: REAL = f1 * y
                                for z in range(ROW):
                                    grid[1][g0][g1][c2 + z] += a1 * v2[z]
                            if PLAIN > 2:
                                a2: REAL = f2 * y
                                for z in range(ROW):
                                    grid[2][g0][g1][c2 + z] += a2 * v2[z]
        batch += count
