"""What makes the mean of a triply periodic double layer one without flux: a linear flow."""

import pykokkos as pk

REAL = pk.double


@pk.workunit
def add_linear(
    i: int,
    each: int,
    sums: pk.View2D[pk.double],
    trg: pk.View2D[pk.double],
    factor: pk.double,
    u: pk.View2D[REAL],
):
    """Add to the flow at target i by sums of moments: of all targets, or if ``each`` of its own.

    In double precision, whatever the arithmetic: a body of many points has a sum of q.n near zero,
    which is multiplied by the distance from the origin, many boxes perhaps.
    """
    own: int = each * i
    for c in range(3):
        u[c][i] += factor * (sums[c][own] - sums[3][own] * trg[c][i])
