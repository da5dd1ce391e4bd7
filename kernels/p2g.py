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
its tile, or every n-th plane of it where tiles are few, and writes without atomics. Several
components are spread by ``p2g_block.py``.
"""

from typing import List

import pykokkos as pk

from kernels.blocks.spread import gradients
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
    boxes: int,
    first: int,
    grid: pk.View4D[REAL],
):
    """Spread the sources of one column of tiles onto its part of the planes.

    ``colour`` is (first x, first y, tiles, tiles per row, parts). Grids lie side by side along y:
    one for each system, from ``first`` on. If systems have ``boxes`` of their own, which are more
    than one, each has three rows of ``basis``.
    """
    item: int = i % colour[2]
    own: int = i // colour[2] % colour[4]
    system: int = i // colour[2] // colour[4]
    tile0: int = colour[0] + 2 * (item // colour[3])
    tile1: int = colour[1] + 2 * (item % colour[3])
    column: int = ((system * tiles[0] + tile0) * tiles[1] + tile1) * tiles[2]
    above: int = (first + system) * shape[1]
    box: int = 0
    if TILTED:
        if boxes > 1:
            box = 3 * system
    for j in range(starts[column], starts[column + tiles[2]]):
        place(src, j)
        wx: List[REAL] = [0.0] * ROW
        wy: List[REAL] = [0.0] * ROW
        wz: List[REAL] = [0.0] * ROW
        evaluate(window, wx, wy, wz)
        if GRADIENT:
            dx: List[REAL] = [0.0] * ROW
            dy: List[REAL] = [0.0] * ROW
            dz: List[REAL] = [0.0] * ROW
            evaluate(slope, dx, dy, dz)
            for p in range(ROW):
                dx[p] = dx[p] * inverse_step[0]
                dy[p] = dy[p] * inverse_step[1]
                dz[p] = dz[p] * inverse_step[2]
            gradients(j)
        if QUADRUPOLES:
            bx: List[REAL] = [0.0] * ROW
            by: List[REAL] = [0.0] * ROW
            bz: List[REAL] = [0.0] * ROW
            evaluate(curvature, bx, by, bz)
            for p in range(ROW):
                bx[p] = bx[p] * inverse_step[0] * inverse_step[0]
                by[p] = by[p] * inverse_step[1] * inverse_step[1]
                bz[p] = bz[p] * inverse_step[2] * inverse_step[2]
        for a in range(PX):
            g0: int = c0 + a
            if g0 >= shape[0]:
                g0 = g0 - shape[0]
            if g0 % colour[4] == own:
                x: REAL = 1.0
                if PX > 1:
                    x = wx[a]
                f0: REAL = 0.0
                f1: REAL = 0.0
                f2: REAL = 0.0
                if PLAIN > 0:
                    f0 = dens[0][j] * x
                if PLAIN > 1:
                    f1 = dens[1][j] * x
                if PLAIN > 2:
                    f2 = dens[2][j] * x
                if GRADIENT:
                    # What slopes along x multiply, then the others.
                    s: REAL = dx[a]
                    f0 += xx * s
                    h0: REAL = xy * x
                    l0: REAL = xz * x
                    if VECTORS:
                        f1 += yx * s
                        f2 += zx * s
                        h1: REAL = yy * x
                        h2: REAL = zy * x
                        l1: REAL = yz * x
                        l2: REAL = zz * x
                    if QUADRUPOLES:
                        # What the slopes along two axes multiply, or the curvature along one.
                        f0 += dens[4][j] * bx[a]
                        h0 += (dens[5][j] + dens[7][j]) * s
                        l0 += (dens[6][j] + dens[10][j]) * s
                        q11: REAL = dens[8][j] * x
                        q12: REAL = (dens[9][j] + dens[11][j]) * x
                        q22: REAL = dens[12][j] * x
                for b in range(P):
                    g1: int = c1 + b
                    if g1 >= shape[1]:
                        g1 = g1 - shape[1]
                    g1 = g1 + above
                    y: REAL = wy[b]
                    if GRADIENT:
                        d: REAL = dy[b]
                        a0: REAL = f0 * y + h0 * d
                        b0: REAL = l0 * y
                        if QUADRUPOLES:
                            a0 += q11 * by[b]
                            b0 += q12 * d
                            e0: REAL = q22 * y
                            for z in range(ROW):
                                grid[0][g0][g1][c2 + z] += e0 * bz[z]
                        for z in range(ROW):
                            grid[0][g0][g1][c2 + z] += a0 * wz[z] + b0 * dz[z]
                        if VECTORS:
                            a1: REAL = f1 * y + h1 * d
                            a2: REAL = f2 * y + h2 * d
                            b1: REAL = l1 * y
                            b2: REAL = l2 * y
                            for z in range(ROW):
                                grid[1][g0][g1][c2 + z] += a1 * wz[z] + b1 * dz[z]
                            for z in range(ROW):
                                grid[2][g0][g1][c2 + z] += a2 * wz[z] + b2 * dz[z]
                        if LAYERS:
                            a3: REAL = trace * x * y
                            for z in range(ROW):
                                grid[3][g0][g1][c2 + z] += a3 * wz[z]
                    else:
                        a0: REAL = f0 * y
                        for z in range(ROW):
                            grid[0][g0][g1][c2 + z] += a0 * wz[z]
                        if PLAIN > 1:
                            a1: REAL = f1 * y
                            for z in range(ROW):
                                grid[1][g0][g1][c2 + z] += a1 * wz[z]
                        if PLAIN > 2:
                            a2: REAL = f2 * y
                            for z in range(ROW):
                                grid[2][g0][g1][c2 + z] += a2 * wz[z]
