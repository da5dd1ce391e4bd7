"""The near field of the single layer as a block-sparse matrix: 3 x 3 blocks of pairs within r_c.

Points are sorted by cells no narrower than r_c, periodic along x with a period of 1. `find_pairs`
counts a target's sources, or writes their columns and blocks; `sum_blocks` multiplies.
"""

from typing import List

import pykokkos as pk

REAL = pk.double
DEGREE = 8
COUNTING = True


@pk.workunit
def find_pairs(
    i: int,
    points: pk.View2D[REAL],
    cell: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    starts: pk.View1D[pk.int32],
    radial: pk.View2D[REAL],
    cutoff: REAL,
    counts: pk.View1D[pk.int32],
    begins: pk.View1D[pk.int64],
    columns: pk.View1D[pk.int32],
    blocks: pk.View2D[REAL],
):
    """Find the sources of target i."""
    found: int = 0
    m0: int = cell[i] // shape[2] // shape[1]
    m1: int = cell[i] // shape[2] % shape[1]
    m2: int = cell[i] % shape[2]
    first2: int = m2 - 1
    last2: int = m2 + 1
    if first2 < 0:
        first2 = 0
    if last2 > shape[2] - 1:
        last2 = shape[2] - 1
    for a in range(3):
        k0: int = m0 + a - 1
        if k0 < 0:
            k0 = k0 + shape[0]
        if k0 >= shape[0]:
            k0 = k0 - shape[0]
        for b in range(3):
            k1: int = m1 + b - 1
            if k1 >= 0 and k1 < shape[1]:
                column: int = (k0 * shape[1] + k1) * shape[2]
                for j in range(starts[column + first2], starts[column + last2 + 1]):
                    r0: REAL = points[0][i] - points[0][j]
                    if r0 > 0.5:
                        r0 = r0 - 1.0
                    if r0 < -0.5:
                        r0 = r0 + 1.0
                    r0 = r0 / cutoff
                    r1: REAL = (points[1][i] - points[1][j]) / cutoff
                    r2: REAL = (points[2][i] - points[2][j]) / cutoff
                    rr: REAL = r0 * r0 + r1 * r1 + r2 * r2
                    if rr <= 1.0:
                        if COUNTING == 0:
                            y: REAL = 0.0
                            if rr > 0.0:
                                y = 1.0 / pk.sqrt(rr)
                            s: REAL = 2.0 * rr - 1.0
                            p: REAL = radial[0][0]
                            q: REAL = radial[1][0]
                            for power in range(DEGREE):
                                p = p * s + radial[0][power + 1]
                                q = q * s + radial[1][power + 1]
                            p = (y - 2.0 * p) / cutoff
                            q = (y - 2.0 * q * rr) * y * y / cutoff
                            at: pk.int64 = begins[i] + found
                            columns[at] = j
                            blocks[0][at] = p + q * r0 * r0
                            blocks[1][at] = q * r0 * r1
                            blocks[2][at] = q * r0 * r2
                            blocks[3][at] = q * r1 * r0
                            blocks[4][at] = p + q * r1 * r1
                            blocks[5][at] = q * r1 * r2
                            blocks[6][at] = q * r2 * r0
                            blocks[7][at] = q * r2 * r1
                            blocks[8][at] = p + q * r2 * r2
                        found += 1
    if COUNTING:
        counts[i] = found


@pk.workunit
def sum_blocks(
    team: pk.TeamMember,
    targets: int,
    rows: int,
    begins: pk.View1D[pk.int64],
    columns: pk.View1D[pk.int32],
    blocks: pk.View2D[REAL],
    dens: pk.View2D[REAL],
    pot: pk.View2D[REAL],
):
    """Multiply the blocks of ``rows`` targets, each by the lanes of a thread."""
    first: int = team.league_rank() * rows

    def target(t: int):
        i: int = first + t
        if i < targets:
            begin: pk.int64 = begins[i]
            count: int = int(begins[i + 1] - begin)
            for d in range(3):

                def add(m: int, acc: pk.Acc[REAL]):
                    j: int = columns[begin + m]
                    f: REAL = blocks[3 * d][begin + m] * dens[0][j]
                    f += blocks[3 * d + 1][begin + m] * dens[1][j]
                    f += blocks[3 * d + 2][begin + m] * dens[2][j]
                    acc += f

                total: REAL = pk.parallel_reduce(pk.ThreadVectorRange(team, count), add)
                pot[d][i] = total

    pk.parallel_for(pk.TeamThreadRange(team, rows), target)
