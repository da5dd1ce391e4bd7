"""G2P: gathers the far field from the grid at the targets, with the window.

`g2p_target`: one work item owns one target, reads P x P x P grid points of each component, and
adds to its potential. Targets are sorted by grid tiles, so that neighbours in a warp or in time
read the same grid lines. The grid index starts at floor(x/h), as in P2G.

`g2p_gradient` also gathers the derivatives, with the window's derivatives: the field is a sum over
grid points g of w(g - x), whose derivative by x is -w'(g - x).
"""

from typing import List

import pykokkos as pk

from kernels.blocks.gather import gather_window
from kernels.blocks.window import grid_point, place, take_values

REAL = pk.double
COMPONENTS = 3  # most components
P = 8
PX = P  # points of the window along x: 1 where the grid has two dimensions, y and z
ROW = 8  # P, rounded up with zero columns so that rows fill vector registers
TERMS = 7
# g2p_target only:
SPILL = True  # whether the field continues beyond the end of a periodic z
# g2p_gradient only:
VALUES = True  # also add the field itself, as g2p_target does


@pk.workunit
def g2p_target(
    i: int,
    trg: pk.View2D[REAL],
    order: pk.View1D[pk.int32],
    inverse_step: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    window: pk.View2D[REAL],
    first: int,
    field: pk.View4D[REAL],
    pot: pk.View2D[REAL],
):
    """Add the far field at sorted target i to column order[i] of the potential.

    Fields lie side by side along y; this one is number ``first``.
    """
    place(trg, i)
    above: int = first * shape[1]
    take_values(window, wx, wy, wz)
    u0: REAL = 0.0
    u1: REAL = 0.0
    u2: REAL = 0.0
    # Windows that wrap along z are few and have a loop of their own: in one loop all take longer.
    if SPILL or c2 + ROW <= shape[2]:
        gather_window(0)
    else:
        gather_window(1)
    out: int = order[i]
    pot[0][out] += u0
    if COMPONENTS > 1:
        pot[1][out] += u1
    if COMPONENTS > 2:
        pot[2][out] += u2


@pk.workunit
def g2p_gradient(
    i: int,
    trg: pk.View2D[REAL],
    order: pk.View1D[pk.int32],
    inverse_step: pk.View1D[REAL],
    descent: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    window: pk.View2D[REAL],
    slope: pk.View2D[REAL],
    first: int,
    field: pk.View4D[REAL],
    pot: pk.View2D[REAL],
    gradient: pk.View2D[REAL],
):
    """Add the far field's derivatives at sorted target i to column order[i].

    Row 3 c + d of ``gradient`` is the derivative of component c along axis d. ``descent`` is the
    factor of the window's slope: minus the inverse step, in the unit of the result.
    """
    place(trg, i)
    above: int = first * shape[1]
    take_values(window, wx, wy, wz)
    take_values(slope, dx, dy, dz)
    out: int = order[i]
    # One component at a time: the sums of all exceed a GPU's registers.
    for k in range(COMPONENTS):
        value: List[REAL] = [0.0] * ROW
        along0: List[REAL] = [0.0] * ROW
        along1: List[REAL] = [0.0] * ROW
        for a in range(P):
            grid_point(g0, 0, c0 + a)
            # Sums of a plane come first: they serve all derivatives along x.
            plane: List[REAL] = [0.0] * ROW
            slopes: List[REAL] = [0.0] * ROW
            for b in range(P):
                grid_point(g1, 1, c1 + b)
                g1 = g1 + above
                w: REAL = wy[b]
                d: REAL = dy[b]
                for z in range(ROW):
                    plane[z] += w * field[k][g0][g1][c2 + z]
                    slopes[z] += d * field[k][g0][g1][c2 + z]
            x: REAL = wx[a]
            x0: REAL = dx[a]
            for z in range(ROW):
                value[z] += x * plane[z]
                along0[z] += x0 * plane[z]
                along1[z] += x * slopes[z]
        u: REAL = 0.0
        u0: REAL = 0.0
        u1: REAL = 0.0
        u2: REAL = 0.0
        for z in range(ROW):
            u += value[z] * wz[z]
            u0 += along0[z] * wz[z]
            u1 += along1[z] * wz[z]
            u2 += value[z] * dz[z]
        if VALUES:
            pot[k][out] += u
        gradient[3 * k][out] += u0 * descent[0]
        gradient[3 * k + 1][out] += u1 * descent[1]
        gradient[3 * k + 2][out] += u2 * descent[2]
