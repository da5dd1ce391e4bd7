"""The stiffness operator of Q_p elements on a Cartesian mesh, element by element.

A work item takes one element of a list. It multiplies the values at the element's nodes by the
element's matrix, which is the same for all, and adds the result at these nodes. In two dimensions
there is one layer of elements along x, of degree DX = 0.
"""

from typing import List

import pykokkos as pk

REAL = pk.double
DEGREE = 2
DX = DEGREE  # along x
NODES = (DX + 1) * (DEGREE + 1) * (DEGREE + 1)
ATOMIC = False  # whether additions are protected
PRIVATE = False  # whether item i takes a part of the elements, and has its own result


@pk.workunit
def apply(
    i: int,
    items: pk.View1D[pk.int32],
    starts: pk.View1D[pk.int32],
    elements: pk.View1D[pk.int32],
    nodes: pk.View1D[pk.int32],
    local: pk.View2D[REAL],
    u: pk.View1D[REAL],
    out: pk.View2D[REAL],
):
    """Add the contributions of one element, or of ``starts[i]`` to ``starts[i + 1]`` - 1."""
    first: int = i
    last: int = i + 1
    mine: int = 0
    if PRIVATE:
        first = starts[i]
        last = starts[i + 1]
        mine = i
    for k in range(first, last):
        e: int = items[k]
        e0: int = e // elements[2] // elements[1]
        e1: int = e // elements[2] % elements[1]
        e2: int = e % elements[2]
        corner: int = (e0 * DX * nodes[1] + e1 * DEGREE) * nodes[2] + e2 * DEGREE
        values: List[REAL] = [0.0] * NODES
        for a in range(DX + 1):
            for b in range(DEGREE + 1):
                for c in range(DEGREE + 1):
                    n: int = (a * (DEGREE + 1) + b) * (DEGREE + 1) + c
                    values[n] = u[corner + (a * nodes[1] + b) * nodes[2] + c]
        for a in range(DX + 1):
            for b in range(DEGREE + 1):
                for c in range(DEGREE + 1):
                    n: int = (a * (DEGREE + 1) + b) * (DEGREE + 1) + c
                    total: REAL = 0.0
                    for m in range(NODES):
                        total += local[n][m] * values[m]
                    g: int = corner + (a * nodes[1] + b) * nodes[2] + c
                    if ATOMIC:
                        pk.atomic_add(out, [mine, g], total)
                    else:
                        out[mine][g] += total
