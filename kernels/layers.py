"""Layers of surfaces near targets: blocks of numbers of an event and the nodes of its body.

An event is a target near a body (`parki.surfaces.near`). Its pairs with nodes are shared out among
PARTS work items, which take one pair after the other in turn, so that a device reads and writes in
a row. Each pair has a block of numbers, times the node's area. It is made of functions in place of
1/r^k, in up to three parts:

    whole     times the kernel of the sum itself, unless the sum leaves the pair out
    smooth    times the change from that to a kernel that is smooth at a width
    regular   the change to the regularised kernel of ``docs/boundary_integrals.md``, if the event
              has a width of regularisation and the pair is within ``reach`` of these widths

The regularised kernel is of order M. With lengths in its width, b the event's distance from the
surface and t = r^2 - b^2, its functions are 1/r^k - F_k, where

    F_1 = erfc(r)/r - exp(-r^2) sum_{n<M} p_n L_n(t),        F_{k+2} = -(2/k) dF_k/dt,

L_n are Laguerre polynomials, and p_n the Laguerre coefficients of erfc(r)/r. A pair that the sum
leaves out takes the finite 1/r^k - F_k.

``numbers`` of events has rows of the target's place (0 to 2), the normal at the nearest point (3 to
5), the direction of tractions (6 to 8), the signed distance from the surface, the width of the
regularisation or zero, the side (-1 to 1), the width of the smooth kernel, the squared distance up
to which nodes are pairs, the one up to which sums leave them out, and how much of the target is
inside (15). ``whole_numbers`` has the body, its first node, its nodes, the node whose pair the sum
leaves out, whether the body is thin, the node that the target is at, and whether what constants
lack goes to the nodes around.

The block of pair k of an event begins at ``columns`` of all ``begins`` pairs before the event and
has a row for each of its own columns, a value for each pair; blocks of the next row of results come
after all pairs.
"""

from typing import List

import pykokkos as pk

from kernels.blocks.layers import (
    add_layer,
    complement,
    regularise,
    to_node,
)

REAL = pk.double
PARTS = 1  # work items of an event
LAYER = 0  # of the list in `add_layer`
ROWS = 3
COLUMNS = 3
BLOCK = ROWS * COLUMNS


@pk.workunit
def expand_distance(i: int, order: int, numbers: pk.View2D[REAL], p: pk.View2D[REAL]):
    """Write p_n, n < order: n! 2^(2n+1) exp(d^2) times the (2n+1)-fold integral of erfc.

    d is the distance in widths. With e_m = exp(d^2) i^m erfc(d), e_(m-2) = 2 m e_m + 2 d e_(m-1),
    which is stable downwards, and upwards for small d.
    """
    d: REAL = 0.0
    if numbers[10][i] > 0.0:
        d = pk.fabs(numbers[9][i]) / numbers[10][i]
    first: REAL = 1.1283791670955126
    one: REAL = first
    other: REAL = pk.exp(d * d) * pk.erfc(d)
    following: REAL = 0.0
    for n in range(order):
        p[n][i] = 0.0
    if d < 1.0:
        for m in range(1, 2 * order):
            following = (one - 2.0 * d * other) / (2.0 * m)
            one = other
            other = following
            if m == 2 * ((m - 1) // 2) + 1:
                p[(m - 1) // 2][i] = following
        one = first
    else:
        one = 0.0
        other = 1e-300
        highest: int = 2 * order + 249
        for step in range(highest):
            m: int = highest - step
            following = 2.0 * m * one + 2.0 * d * other
            one = other
            other = following  # e_(m-2)
            if m > 2 and m < 2 * order + 2:
                if m == 2 * ((m - 1) // 2) + 1:
                    p[(m - 3) // 2][i] = following
            if following > 1e200:
                one = one * 1e-200
                other = other * 1e-200
                for n in range(order):
                    p[n][i] = p[n][i] * 1e-200
        one = other
    factor: REAL = 2.0 * first / one
    for n in range(order):
        p[n][i] = factor * p[n][i]
        factor = 4.0 * (n + 1.0) * factor


@pk.workunit
def count_pairs(
    item: int,
    numbers: pk.View2D[REAL],
    whole_numbers: pk.View2D[pk.int32],
    nodes: pk.View2D[REAL],
    centres: pk.View2D[REAL],
    frames: pk.View3D[REAL],
    found_by: pk.View1D[pk.int32],
):
    """Count the pairs of work item ``item``."""
    i: int = item // PARTS
    k: int = item - PARTS * i
    found: int = 0
    r: List[REAL] = [0.0] * 3
    body: int = whole_numbers[0][i]
    while k < whole_numbers[2][i]:
        j: int = whole_numbers[1][i] + k
        to_node(r)
        if r[0] * r[0] + r[1] * r[1] + r[2] * r[2] < numbers[13][i]:
            found += 1
        k += PARTS
    found_by[item] = found


@pk.workunit
def make_pairs(
    item: int,
    numbers: pk.View2D[REAL],
    whole_numbers: pk.View2D[pk.int32],
    nodes: pk.View2D[REAL],
    normals: pk.View2D[REAL],
    areas: pk.View1D[REAL],
    centres: pk.View2D[REAL],
    frames: pk.View3D[REAL],
    order: int,
    reach: REAL,
    behind: REAL,
    p: pk.View2D[REAL],
    whole: REAL,
    smooth: REAL,
    begins: pk.View1D[pk.int64],
    counts: pk.View1D[pk.int32],
    every: int,
    found_by: pk.View1D[pk.int32],
    pairs: pk.int64,
    columns: int,
    column: int,
    many: int,
    added_pairs: pk.int64,
    added: pk.View1D[REAL],
    values: pk.View1D[REAL],
    indexed: int,
    indices: pk.View1D[pk.int32],
    bumps: pk.View1D[REAL],
    sums: pk.View2D[REAL],
):
    """Write the blocks of the pairs of work item ``item``, and add them up in ``sums``.

    If ``every`` node is a pair they are in the order of the nodes; else in the order of the items,
    each of which has ``found_by`` pairs. The block's first column is ``column`` of all ``columns``.
    ``indices``, if they are ``indexed``, are the places of its numbers in a density of ``many``
    nodes, one row after the other. Values of a smooth delta function on the surface, times areas,
    go to ``bumps``, which are zero before, and their sum below the sums of the blocks. Blocks
    ``added`` to these have as many pairs of each event.
    """
    i: int = item // PARTS
    number: int = item - PARTS * i
    body: int = whole_numbers[0][i]
    width: REAL = numbers[10][i]
    place: pk.int64 = begins[i]
    count: pk.int64 = counts[i]
    at: pk.int64 = 0
    row: pk.int64 = columns * pairs
    first: pk.int64 = columns * place + column * count
    added_row: pk.int64 = columns * added_pairs
    added_first: pk.int64 = (columns * i + column) * count
    found: int = number
    stride: int = PARTS
    if every == 0:
        stride = 1
        found = 0
        for before in range(number):
            found += found_by[PARTS * i + before]
    bumped: REAL = 0.0
    r: List[REAL] = [0.0] * 3
    d: List[REAL] = [0.0] * 3
    normal: List[REAL] = [0.0] * 3
    e: List[REAL] = [numbers[6][i], numbers[7][i], numbers[8][i]]
    n0: List[REAL] = [0.0] * 3
    block: List[REAL] = [0.0] * BLOCK
    total: List[REAL] = [0.0] * BLOCK
    # What jumps have of the distance, in widths.
    away: REAL = 0.0
    jump: REAL = 0.0
    if width > 0.0:
        away = pk.fabs(numbers[9][i]) / width
        for n in range(order):
            jump += p[n][i]
        jump = numbers[11][i] * (pk.erfc(away) - away * pk.exp(0.0 - away * away) * jump)
    k: int = number
    while k < whole_numbers[2][i]:
        j: int = whole_numbers[1][i] + k
        to_node(r)
        square: REAL = r[0] * r[0] + r[1] * r[1] + r[2] * r[2]
        if square < numbers[13][i]:
            for c in range(3):
                normal[c] = 0.0
                for a in range(3):
                    normal[c] += frames[body][c][a] * normals[a][j]
            summed: bool = j != whole_numbers[3][i]
            if square <= numbers[14][i]:
                summed = False
            near: bool = width > 0.0 and square < reach * reach * width * width
            if near and whole_numbers[4][i] == 1:
                ahead: REAL = normal[0] * numbers[3][i] + normal[1] * numbers[4][i]
                ahead += normal[2] * numbers[5][i]
                if ahead <= 0.0 and square < behind * behind * width * width:
                    near = False
            bump: REAL = 0.0
            for q in range(BLOCK):
                block[q] = 0.0
            e1: REAL = 0.0
            e3: REAL = 0.0
            e5: REAL = 0.0
            e7: REAL = 0.0
            # First the numerators of the sum's own kernel, then the regularised kernel's.
            for part in range(2):
                s1: REAL = 0.0
                s3: REAL = 0.0
                s5: REAL = 0.0
                s7: REAL = 0.0
                j3: REAL = 0.0
                j5: REAL = 0.0
                j7: REAL = 0.0
                b: REAL = 0.0
                across: REAL = square
                factor: REAL = smooth
                inverse: REAL = 1.0 / numbers[12][i]
                for c in range(3):
                    n0[c] = 0.0
                    d[c] = r[c]
                if part == 0 and summed:
                    s1 = whole / pk.sqrt(square)
                    s3 = s1 / square
                    s5 = s3 / square
                    s7 = s5 / square
                if part == 1:
                    factor = 0.0
                if part == 1 and near:
                    factor = 1.0
                    inverse = 1.0 / width
                    b = numbers[9][i]
                    across = square - b * b
                    for c in range(3):
                        n0[c] = numbers[3 + c][i]
                        d[c] = r[c] - b * n0[c]
                power: REAL = inverse * inverse
                if factor != 0.0:
                    complement(square * power)
                    factor = factor * inverse
                    s1 -= factor * e1
                    s3 -= factor * e3 * power
                    s5 -= factor * e5 * power * power
                    s7 -= factor * e7 * power * power * power
                if part == 1 and near:
                    regularise()
                    bumps[place + found] = bump * areas[j]
                    bumped += bump * areas[j]
                if part == 0 or near:
                    add_layer(normal)
            for q in range(BLOCK):
                block[q] = block[q] * areas[j]
                total[q] += block[q]
            for c in range(ROWS):
                for a in range(COLUMNS):
                    at = c * row + first + a * count + found
                    values[at] = block[COLUMNS * c + a]
                    if added_pairs > 0:
                        values[at] += added[c * added_row + added_first + a * count + found]
                    if indexed == 1:
                        indices[at] = (column + a) * many + j
            found += stride
        k += PARTS
    for q in range(BLOCK):
        sums[q][item] += total[q]
    sums[BLOCK][item] += bumped


@pk.workunit
def share_errors(
    item: int,
    whole_numbers: pk.View2D[pk.int32],
    numbers: pk.View2D[REAL],
    begins: pk.View1D[pk.int64],
    counts: pk.View1D[pk.int32],
    pairs: pk.int64,
    columns: int,
    column: int,
    many: int,
    indexed: int,
    indices: pk.View1D[pk.int32],
    bumps: pk.View1D[REAL],
    exact: REAL,
    mended: int,
    sums: pk.View2D[REAL],
    known: pk.View2D[REAL],
    values: pk.View1D[REAL],
):
    """Add what ``sums`` of constants lack of the ``exact`` value inside, if they are ``mended``.

    Work items take pairs of their event in turn. It acts on the density at the nearest point: at
    the node that the target is at, which has what is ``known`` there, too; or on the mean that the
    bumps take of the nodes around.
    """
    i: int = item // PARTS
    place: pk.int64 = begins[i]
    count: pk.int64 = counts[i]
    at: pk.int64 = 0
    row: pk.int64 = columns * pairs
    first: pk.int64 = columns * place + column * count
    missing: List[REAL] = [0.0] * BLOCK
    if mended == 1:
        for c in range(ROWS):
            for a in range(COLUMNS):
                for part in range(PARTS):
                    missing[COLUMNS * c + a] -= sums[COLUMNS * c + a][PARTS * i + part]
                if c == a:
                    missing[COLUMNS * c + a] += exact * numbers[15][i]
    total: REAL = 0.0
    if whole_numbers[6][i] == 1:
        for part in range(PARTS):
            total += sums[BLOCK][PARTS * i + part]
    k: int = item - PARTS * i
    while k < counts[i]:
        j: int = whole_numbers[1][i] + k
        if indexed == 1:
            j = indices[first + k] - column * many
        share: REAL = 0.0
        if total > 0.0:
            share = bumps[place + k] / total
        if j == whole_numbers[5][i]:
            share = 1.0
        if share != 0.0:
            for c in range(ROWS):
                for a in range(COLUMNS):
                    at = c * row + first + a * count + k
                    values[at] += share * missing[COLUMNS * c + a]
                    if j == whole_numbers[5][i]:
                        values[at] += known[COLUMNS * c + a][i]
        k += PARTS
