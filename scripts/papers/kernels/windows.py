"""Kernels that time the computation of windows, and the reading of stored windows."""

from typing import List

import pykokkos as pk

from kernels.blocks.window import evaluate, place

REAL = pk.double
P = 8
ROW = 8
TERMS = 7


@pk.workunit
def compute(
    i: int,
    src: pk.View2D[REAL],
    inverse_step: pk.View1D[REAL],
    cells: pk.View1D[pk.int32],
    window: pk.View2D[REAL],
    out: pk.View1D[REAL],
):
    """Evaluate the windows of a point along three axes, and write one number."""
    place(src, i)
    wx: List[REAL] = [0.0] * ROW
    wy: List[REAL] = [0.0] * ROW
    wz: List[REAL] = [0.0] * ROW
    evaluate(window, wx, wy, wz)
    total: REAL = 0.0
    for p in range(ROW):
        total += wx[p] * wy[p] * wz[p]
    out[i] = total + REAL(c0 + c1 + c2)


@pk.workunit
def read(
    i: int,
    anchors: pk.View2D[pk.int32],
    stored: pk.View2D[REAL],
    out: pk.View1D[REAL],
):
    """Read the windows of a point, and write one number."""
    total: REAL = 0.0
    for p in range(P):
        total += stored[i][p] * stored[i][P + p] * stored[i][2 * P + p]
    out[i] = total + REAL(anchors[0][i] + anchors[1][i] + anchors[2][i])
