"""Pairs of spheres close to each other: how they resist and shake.

`parki.dynamics.lubrication` has the mathematics. A pair has two slots, one of each of its spheres,
to which it writes what its spheres get; then a sphere adds up what its slots say, in their order.
"""

from typing import List

import pykokkos as pk

REAL = pk.double
SLICE = 32


@pk.workunit
def tabulate_pairs(
    p: int,
    gaps: pk.View1D[REAL],
    logs: pk.View1D[REAL],
    kinds: pk.View2D[pk.int32],
    sorts: int,
    weights: pk.View2D[REAL],
    nearest: REAL,
    log_nearest: REAL,
    slope: REAL,
    farthest: REAL,
    fading: REAL,
    numbers: pk.View2D[REAL],
):
    """Write the 37 numbers of pair p, by the weights of its kind: see `parki.dynamics.tables`.

    There are as many kinds as pairs of ``sorts`` of radii. Each has 27 rows of ``weights``: 9 of
    functions up to the gap ``nearest``, and 18 of Chebyshev's polynomials beyond it, of an argument
    with that ``slope`` in the logarithm. Pairs fade out towards the gap ``farthest``.
    """
    sums: List[REAL] = [0.0] * 37
    gap: REAL = gaps[p]
    log: REAL = 0.0 - logs[p]
    row: int = 27 * (sorts * kinds[0][p] + kinds[1][p])
    terms: List[REAL] = [0.0] * 9
    one: REAL = 1.0
    two: REAL = 0.0
    argument: REAL = 0.0
    if gap < nearest:
        terms[0] = 1.0
        terms[1] = gap
        terms[2] = gap * gap * log
        terms[3] = gap * gap
        terms[4] = gap * gap * gap * log
        terms[5] = gap * gap * gap
        terms[6] = 1.0 / gap
        terms[7] = log
        terms[8] = gap * log
        for n in range(9):
            for s in range(37):
                sums[s] += terms[n] * weights[row + n][s]
    else:
        argument = 0.0 - 1.0 - slope * (log + log_nearest)
        two = argument
        for n in range(18):
            for s in range(37):
                sums[s] += one * weights[row + 9 + n][s]
            # The next polynomial, and the one after it.
            terms[0] = two
            two = 2.0 * argument * two - one
            one = terms[0]
    fade: REAL = fading * (farthest - gap)
    if fade > 1.0:
        fade = 1.0
    fade = fade * fade * (3.0 - 2.0 * fade)
    for s in range(37):
        numbers[s][p] = fade * sums[s]


@pk.workunit
def act(
    p: int,
    first: pk.View1D[pk.int32],
    second: pk.View1D[pk.int32],
    places: pk.View2D[pk.int32],
    axes: pk.View2D[REAL],
    blocks: pk.View2D[REAL],
    moves: pk.View2D[REAL],
    strain: pk.View2D[REAL],
    rows: int,
    said: pk.View2D[REAL],
):
    """Write how pair p acts on its spheres, by their motions (6, N) and a strain.

    Forces and torques, and with 15 ``rows`` also stresslets, go to the slots of both spheres.
    """
    half: REAL = 0.7071067811865476
    sixth: REAL = 0.4082482904638631
    e: List[REAL] = [0.0] * 3
    stretched: List[REAL] = [0.0] * 3
    size: REAL = 0.0
    for c in range(3):
        e[c] = axes[c][p]
    for c in range(3):
        stretched[c] = strain[c][0] * e[0] + strain[c][1] * e[1] + strain[c][2] * e[2]
        size += e[c] * stretched[c]
    # Motions along the axis, and across it: of each sphere a velocity, a turn and a strain.
    along: List[REAL] = [0.0] * 6
    across: List[REAL] = [0.0] * 18
    aside: List[REAL] = [0.0] * 3
    for c in range(3):
        aside[c] = stretched[c] - size * e[c]
        across[6 + c] = aside[c] / half
        across[15 + c] = aside[c] / half
    along[2] = 3.0 * size * sixth
    along[5] = along[2]
    for k in range(2):
        j: int = first[p]
        if k == 1:
            j = second[p]
        for c in range(3):
            along[3 * k] += e[c] * moves[c][j]
            along[3 * k + 1] += e[c] * moves[3 + c][j]
        for c in range(3):
            across[9 * k + c] = moves[c][j] - e[c] * along[3 * k]
        across[9 * k + 3] = moves[4][j] * e[2] - moves[5][j] * e[1]
        across[9 * k + 4] = moves[5][j] * e[0] - moves[3][j] * e[2]
        across[9 * k + 5] = moves[3][j] * e[1] - moves[4][j] * e[0]
    for k in range(2):
        at: pk.int64 = places[k][p]
        # What acts: a force, a torque and a stresslet along the axis, and three across it.
        axial: List[REAL] = [0.0] * 3
        side: List[REAL] = [0.0] * 9
        for row in range(3):
            for s in range(6):
                axial[row] += blocks[6 * (3 * k + row) + s][p] * along[s]
                for c in range(3):
                    side[3 * row + c] += blocks[36 + 6 * (3 * k + row) + s][p] * across[3 * s + c]
        for c in range(3):
            said[c][at] = axial[0] * e[c] + side[c]
        said[3][at] = axial[1] * e[0] + e[1] * side[5] - e[2] * side[4]
        said[4][at] = axial[1] * e[1] + e[2] * side[3] - e[0] * side[5]
        said[5][at] = axial[1] * e[2] + e[0] * side[4] - e[1] * side[3]
        if rows > 6:
            flat: REAL = blocks[72 + 2 * k][p] + blocks[73 + 2 * k][p]
            for c in range(3):
                for d in range(3):
                    both: REAL = 3.0 * e[c] * e[d]
                    if c == d:
                        both -= 1.0
                    shear: REAL = side[6 + c] * e[d] + e[c] * side[6 + d]
                    plane: REAL = strain[c][d] - 0.5 * size * both
                    plane -= aside[c] * e[d] + e[c] * aside[d]
                    said[6 + 3 * c + d][at] = axial[2] * sixth * both + half * shear + flat * plane


@pk.workunit
def shake(
    p: int,
    places: pk.View2D[pk.int32],
    axes: pk.View2D[REAL],
    blocks: pk.View2D[REAL],
    normal: pk.View2D[REAL],
    said: pk.View2D[REAL],
):
    """Write the forces and torques of pair p by twelve normal numbers, to the slots of its spheres.

    Their covariance is the matrix of motions: numbers meet its lower triangular roots.
    """
    e: List[REAL] = [0.0] * 3
    along: List[REAL] = [0.0] * 4
    across: List[REAL] = [0.0] * 12
    for c in range(3):
        e[c] = axes[c][p]
    for k in range(4):
        for c in range(3):
            along[k] += e[c] * normal[3 * k + c][p]
        for c in range(3):
            across[3 * k + c] = normal[3 * k + c][p] - along[k] * e[c]
    axial: List[REAL] = [0.0] * 4
    side: List[REAL] = [0.0] * 12
    left: List[REAL] = [0.0] * 16
    size: REAL = 0.0
    for part in range(2):
        # Rows of velocities or of turns, of both spheres.
        left[0] = blocks[7 * part][p]
        left[1] = blocks[6 * (3 + part) + part][p]
        left[2] = blocks[6 * (3 + part) + 3 + part][p]
        size = pk.sqrt(pk.fmax(left[0], 0.0))
        if size > 0.0:
            axial[part] = size * along[2 * part]
            axial[2 + part] = left[1] / size * along[2 * part]
            left[2] -= left[1] / size * (left[1] / size)
        axial[2 + part] += pk.sqrt(pk.fmax(left[2], 0.0)) * along[2 * part + 1]
    for row in range(4):
        for s in range(4):
            m: int = row
            n: int = s
            if row > 1:
                m = row + 1
            if s > 1:
                n = s + 1
            left[4 * row + s] = blocks[36 + 6 * m + n][p]
    for k in range(4):
        size = pk.sqrt(pk.fmax(left[5 * k], 0.0))
        if size > 0.0:
            for row in range(k, 4):
                root: REAL = left[4 * row + k] / size
                for c in range(3):
                    side[3 * row + c] += root * across[3 * k + c]
            for row in range(k + 1, 4):
                for s in range(k + 1, 4):
                    left[4 * row + s] -= left[4 * row + k] / size * (left[4 * s + k] / size)
    for k in range(2):
        at: pk.int64 = places[k][p]
        b: int = 6 * k + 3
        for c in range(3):
            said[c][at] = axial[2 * k] * e[c] + side[6 * k + c]
        said[3][at] = axial[2 * k + 1] * e[0] + e[1] * side[b + 2] - e[2] * side[b + 1]
        said[4][at] = axial[2 * k + 1] * e[1] + e[2] * side[b] - e[0] * side[b + 2]
        said[5][at] = axial[2 * k + 1] * e[2] + e[0] * side[b + 1] - e[1] * side[b]


@pk.workunit
def add_up(
    i: int,
    counts: pk.View1D[pk.int32],
    begins: pk.View1D[pk.int64],
    rows: int,
    said: pk.View2D[REAL],
    found: pk.View2D[REAL],
):
    """Write the sums of rows over the slots of sphere i."""
    for row in range(rows):
        total: REAL = 0.0
        k: pk.int64 = begins[i]
        for _ in range(counts[i]):
            total += said[row][k]
            k = k + SLICE
        found[row][i] = total


@pk.workunit
def count_slots(
    i: int,
    ordered: pk.View1D[pk.int32],
    total: int,
    starts: pk.View1D[pk.int32],
    counts: pk.View1D[pk.int32],
):
    """Find where the pairs of sphere i start, and how many they are.

    ``ordered`` has the spheres of all pairs, in ascending order.
    """
    low: int = 0
    high: int = total
    while low < high:
        middle: int = (low + high) // 2
        if ordered[middle] < i:
            low = middle + 1
        else:
            high = middle
    found: int = 0
    while low + found < total:
        if ordered[low + found] != i:
            break
        found += 1
    starts[i] = low
    counts[i] = found


@pk.workunit
def place_slots(
    i: int,
    order: pk.View1D[pk.int64],
    starts: pk.View1D[pk.int32],
    counts: pk.View1D[pk.int32],
    longest: pk.View1D[pk.int32],
    ends: pk.View1D[pk.int64],
    begins: pk.View1D[pk.int64],
    places: pk.View1D[pk.int32],
):
    """Write down the slots of the pairs of sphere i.

    ``ends`` are the sums of the ``longest`` numbers of pairs in the slices up to each of them.
    """
    part: int = i // SLICE
    k: pk.int64 = ends[part] - longest[part]
    k = SLICE * k + i - SLICE * part
    begins[i] = k
    for n in range(counts[i]):
        places[order[starts[i] + n]] = k
        k = k + SLICE


@pk.workunit
def measure_pairs(
    p: int,
    first: pk.View1D[pk.int32],
    second: pk.View1D[pk.int32],
    radii: pk.View1D[REAL],
    sorts: pk.View1D[pk.int32],
    vectors: pk.View2D[REAL],
    least: REAL,
    farthest: REAL,
    axes: pk.View2D[REAL],
    gaps: pk.View1D[REAL],
    overlaps: pk.View1D[REAL],
    kinds: pk.View2D[pk.int32],
):
    """Write the unit vector of pair p, its gap from ``least`` to ``farthest``, and its overlap.

    And the ``sorts`` of both radii, by their size.
    """
    i: int = first[p]
    j: int = second[p]
    x: REAL = vectors[0][p]
    y: REAL = vectors[1][p]
    z: REAL = vectors[2][p]
    r: REAL = pk.sqrt(x * x + y * y + z * z)
    both: REAL = radii[i] + radii[j]
    overlaps[p] = 1.0 - r / both
    gaps[p] = pk.fmin(pk.fmax(2.0 * r / both - 2.0, least), farthest)
    inverse: REAL = 0.0
    if r > 0.0:
        inverse = 1.0 / r
    axes[0][p] = x * inverse
    axes[1][p] = y * inverse
    axes[2][p] = z * inverse
    kinds[0][p] = sorts[i]
    kinds[1][p] = sorts[j]
