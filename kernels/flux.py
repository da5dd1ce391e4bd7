"""The mean of a triply periodic double layer without flux: what it asks of densities and adds."""

import pykokkos as pk

REAL = pk.double


@pk.workunit
def measure_dipoles(
    i: int,
    row: int,
    dens: pk.View2D[REAL],
    norms: pk.View2D[REAL],
    strengths: pk.View2D[pk.double],
):
    """Write q.n of source i and its size; q are the rows of the density from ``row`` on."""
    strength: pk.double = 0.0
    for c in range(3):
        q: pk.double = dens[row + c][i]
        strength += q * norms[c][i]
    strengths[0][i] = strength
    if strength < 0.0:
        strength = 0.0 - strength
    strengths[1][i] = strength


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
