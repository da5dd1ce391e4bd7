"""G2P for tensor targets: also gathers the gradient of the targets' reading of the far field.

A tensor target with a tensor D and a strength s reads D_jk d_k u_j + s p from a velocity u and its
pressure p. The gradient of the reading takes the window's second derivatives: the field is a sum
over grid points g of w(g - x). One work item owns one target, as in `g2p_target`, reads P x P x P
grid points of each component once, and gathers all results from them.
"""

from typing import List

import pykokkos as pk

from kernels.blocks.window import grid_point, place, take_values

REAL = pk.double
P = 8
ROW = 8  # P, rounded up with zero columns so that rows fill vector registers
TERMS = 7
VALUES = True  # whether the velocity is wanted
GRADIENT = True
PRESSURE = True
SYSTEMS = False  # whether targets are of several systems, each with a grid of its own


@pk.workunit
def g2p_tensor(
    i: int,
    trg: pk.View2D[REAL],
    order: pk.View1D[pk.int32],
    inverse_step: pk.View1D[REAL],
    descent: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    window: pk.View2D[REAL],
    slope: pk.View2D[REAL],
    curvature: pk.View2D[REAL],
    first: int,
    grids: pk.View1D[pk.int32],
    field: pk.View4D[REAL],
    tensors: pk.View2D[REAL],
    pot: pk.View2D[REAL],
    gradient: pk.View2D[REAL],
    pressure: pk.View2D[REAL],
    pull: pk.View2D[REAL],
):
    """Add results at sorted target i to column order[i]; ``field`` is velocity, pressure.

    Fields lie side by side along y; this one is number ``first``, or as many further as ``grids``
    says for a target, if targets are of SYSTEMS. Rows of ``gradient``, and
    ``descent``, are as in `g2p_gradient`; ``tensors`` and ``pull`` as in `p2p_derivatives`.
    """
    place(trg, i)
    above: int = first * shape[1]
    if SYSTEMS:
        above = above + grids[i] * shape[1]
    take_values(window, wx, wy, wz)
    take_values(slope, dx, dy, dz)
    take_values(curvature, cx, cy, cz)
    out: int = order[i]
    pull0: REAL = 0.0
    pull1: REAL = 0.0
    pull2: REAL = 0.0
    for c in range(4):
        value: List[REAL] = [0.0] * ROW
        along0: List[REAL] = [0.0] * ROW
        along1: List[REAL] = [0.0] * ROW
        along00: List[REAL] = [0.0] * ROW
        along01: List[REAL] = [0.0] * ROW
        along11: List[REAL] = [0.0] * ROW
        for a in range(P):
            grid_point(g0, 0, c0 + a)
            # Sums of a plane come first: they serve all derivatives along x.
            plane: List[REAL] = [0.0] * ROW
            slopes: List[REAL] = [0.0] * ROW
            bends: List[REAL] = [0.0] * ROW
            for b in range(P):
                grid_point(g1, 1, c1 + b)
                g1 = g1 + above
                w: REAL = wy[b]
                d: REAL = dy[b]
                e: REAL = cy[b]
                for z in range(ROW):
                    plane[z] += w * field[c][g0][g1][c2 + z]
                    slopes[z] += d * field[c][g0][g1][c2 + z]
                    bends[z] += e * field[c][g0][g1][c2 + z]
            x: REAL = wx[a]
            x0: REAL = dx[a]
            x00: REAL = cx[a]
            for z in range(ROW):
                value[z] += x * plane[z]
                along0[z] += x0 * plane[z]
                along1[z] += x * slopes[z]
                along00[z] += x00 * plane[z]
                along01[z] += x0 * slopes[z]
                along11[z] += x * bends[z]
        u: REAL = 0.0
        u0: REAL = 0.0
        u1: REAL = 0.0
        u2: REAL = 0.0
        u00: REAL = 0.0
        u01: REAL = 0.0
        u02: REAL = 0.0
        u11: REAL = 0.0
        u12: REAL = 0.0
        u22: REAL = 0.0
        for z in range(ROW):
            u += value[z] * wz[z]
            u0 += along0[z] * wz[z]
            u1 += along1[z] * wz[z]
            u2 += value[z] * dz[z]
            u00 += along00[z] * wz[z]
            u01 += along01[z] * wz[z]
            u02 += along0[z] * dz[z]
            u11 += along11[z] * wz[z]
            u12 += along1[z] * dz[z]
            u22 += value[z] * cz[z]
        if c < 3:
            if VALUES:
                pot[c][out] += u
            if GRADIENT:
                gradient[3 * c][out] += u0 * descent[0]
                gradient[3 * c + 1][out] += u1 * descent[1]
                gradient[3 * c + 2][out] += u2 * descent[2]
            s0: REAL = tensors[3 * c][out] * descent[0]
            s1: REAL = tensors[3 * c + 1][out] * descent[1]
            s2: REAL = tensors[3 * c + 2][out] * descent[2]
            pull0 += (s0 * u00 + s1 * u01 + s2 * u02) * descent[0]
            pull1 += (s0 * u01 + s1 * u11 + s2 * u12) * descent[1]
            pull2 += (s0 * u02 + s1 * u12 + s2 * u22) * descent[2]
        else:
            if PRESSURE:
                pressure[0][out] += u
            strength: REAL = tensors[9][out]
            pull0 += strength * u0 * descent[0]
            pull1 += strength * u1 * descent[1]
            pull2 += strength * u2 * descent[2]
    pull[0][out] += pull0
    pull[1][out] += pull1
    pull[2][out] += pull2
