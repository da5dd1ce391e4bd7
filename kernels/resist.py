"""How pairs of spheres close to each other resist their motion, and products of their blocks.

A work item owns a sphere, and adds what its pairs say. The pairs of 32 spheres, a slice, are side
by side in memory: first pairs, then second ones, and so on.
"""

from typing import List

import pykokkos as pk

REAL = pk.double
SLICE = 32


@pk.workunit
def resist(
    i: int,
    counts: pk.View1D[pk.int32],
    begins: pk.View1D[pk.int64],
    others: pk.View1D[pk.int32],
    numbers: pk.View2D[REAL],
    moves: pk.View2D[REAL],
    unit: REAL,
    sign: REAL,
    acts: pk.View2D[REAL],
):
    """Write ``sign`` times forces and torques on sphere i, by its motion and by others.

    Spheres move by ``moves`` (6, N), and ``unit`` times its motion is added. Pair p has ``others``
    and ``numbers`` at ``begins[i] + 32 p``: a unit vector along the pair, what acts along it by
    velocities and turns, and what acts across it.
    """
    ux: REAL = moves[0][i]
    uy: REAL = moves[1][i]
    uz: REAL = moves[2][i]
    wx: REAL = moves[3][i]
    wy: REAL = moves[4][i]
    wz: REAL = moves[5][i]
    fx: REAL = unit * ux
    fy: REAL = unit * uy
    fz: REAL = unit * uz
    tx: REAL = unit * wx
    ty: REAL = unit * wy
    tz: REAL = unit * wz
    k: pk.int64 = begins[i]
    for p in range(counts[i]):
        j: int = others[k]
        x: REAL = numbers[0][k]
        y: REAL = numbers[1][k]
        z: REAL = numbers[2][k]
        vx: REAL = moves[0][j]
        vy: REAL = moves[1][j]
        vz: REAL = moves[2][j]
        qx: REAL = moves[3][j]
        qy: REAL = moves[4][j]
        qz: REAL = moves[5][j]
        # Along the pair, and across it: velocities, and turns times its vector.
        u: REAL = x * ux + y * uy + z * uz
        w: REAL = x * wx + y * wy + z * wz
        v: REAL = x * vx + y * vy + z * vz
        q: REAL = x * qx + y * qy + z * qz
        uu: REAL = numbers[7][k]
        uw: REAL = numbers[8][k]
        uv: REAL = numbers[9][k]
        uq: REAL = numbers[10][k]
        ww: REAL = numbers[11][k]
        wv: REAL = numbers[12][k]
        wq: REAL = numbers[13][k]
        force: REAL = (numbers[3][k] - uu) * u + (numbers[4][k] - uv) * v
        torque: REAL = (numbers[5][k] - ww) * w + (numbers[6][k] - wq) * q
        ax: REAL = uw * wx + uq * qx
        ay: REAL = uw * wy + uq * qy
        az: REAL = uw * wz + uq * qz
        bx: REAL = uw * ux + wv * vx
        by: REAL = uw * uy + wv * vy
        bz: REAL = uw * uz + wv * vz
        fx += force * x + uu * ux + uv * vx + (ay * z - az * y)
        fy += force * y + uu * uy + uv * vy + (az * x - ax * z)
        fz += force * z + uu * uz + uv * vz + (ax * y - ay * x)
        tx += torque * x + ww * wx + wq * qx + (y * bz - z * by)
        ty += torque * y + ww * wy + wq * qy + (z * bx - x * bz)
        tz += torque * z + ww * wz + wq * qz + (x * by - y * bx)
        k = k + SLICE
    acts[0][i] = sign * fx
    acts[1][i] = sign * fy
    acts[2][i] = sign * fz
    acts[3][i] = sign * tx
    acts[4][i] = sign * ty
    acts[5][i] = sign * tz


@pk.workunit
def multiply_blocks(
    i: int,
    counts: pk.View1D[pk.int32],
    begins: pk.View1D[pk.int64],
    others: pk.View1D[pk.int32],
    numbers: pk.View2D[REAL],
    own: pk.View2D[REAL],
    moves: pk.View2D[REAL],
    acts: pk.View2D[REAL],
):
    """Write the product of the blocks (36, ...) of sphere i with the ``moves`` (6, N) of others.

    It has a block of its ``own`` (36, N), too.
    """
    sums: List[REAL] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    for column in range(6):
        moved: REAL = moves[column][i]
        for row in range(6):
            sums[row] += own[6 * row + column][i] * moved
    k: pk.int64 = begins[i]
    for p in range(counts[i]):
        j: int = others[k]
        for column in range(6):
            move: REAL = moves[column][j]
            for row in range(6):
                sums[row] += numbers[6 * row + column][k] * move
        k = k + SLICE
    for row in range(6):
        acts[row][i] = sums[row]


@pk.workunit
def write_numbers(
    p: int,
    first: pk.View1D[pk.int32],
    second: pk.View1D[pk.int32],
    places: pk.View2D[pk.int32],
    axes: pk.View2D[REAL],
    blocks: pk.View2D[REAL],
    scales: pk.View2D[REAL],
    numbers: pk.View2D[REAL],
    others: pk.View1D[pk.int32],
):
    """Write the numbers of pair p to the slots of its spheres, as `resist` takes them.

    ``scales`` (2, N) multiply velocities and turns, and forces and torques.
    """
    for k in range(2):
        at: pk.int64 = places[k][p]
        i: int = first[p]
        j: int = second[p]
        if k == 1:
            i = second[p]
            j = first[p]
        others[at] = j
        u: REAL = scales[0][i]
        w: REAL = scales[1][i]
        v: REAL = scales[0][j]
        q: REAL = scales[1][j]
        a: int = 3 * k
        b: int = 3 - 3 * k
        for c in range(3):
            numbers[c][at] = axes[c][p]
        numbers[3][at] = u * u * blocks[6 * a + a][p]
        numbers[4][at] = u * v * blocks[6 * a + b][p]
        numbers[5][at] = w * w * blocks[6 * (a + 1) + a + 1][p]
        numbers[6][at] = w * q * blocks[6 * (a + 1) + b + 1][p]
        numbers[7][at] = u * u * blocks[36 + 6 * a + a][p]
        numbers[8][at] = u * w * blocks[36 + 6 * a + a + 1][p]
        numbers[9][at] = u * v * blocks[36 + 6 * a + b][p]
        numbers[10][at] = u * q * blocks[36 + 6 * a + b + 1][p]
        numbers[11][at] = w * w * blocks[36 + 6 * (a + 1) + a + 1][p]
        numbers[12][at] = w * v * blocks[36 + 6 * (a + 1) + b][p]
        numbers[13][at] = w * q * blocks[36 + 6 * (a + 1) + b + 1][p]


@pk.workunit
def resist_alone(
    i: int,
    counts: pk.View1D[pk.int32],
    begins: pk.View1D[pk.int64],
    numbers: pk.View2D[REAL],
    blocks: pk.View2D[REAL],
):
    """Write the block (N, 36) by which sphere i resists while others rest, plus 1."""
    sums: List[REAL] = [0.0] * 36
    e: List[REAL] = [0.0] * 3
    for row in range(6):
        sums[7 * row] = 1.0
    k: pk.int64 = begins[i]
    for p in range(counts[i]):
        for c in range(3):
            e[c] = numbers[c][k]
        uu: REAL = numbers[7][k]
        uw: REAL = numbers[8][k]
        ww: REAL = numbers[11][k]
        for row in range(3):
            for c in range(3):
                sums[6 * row + c] += (numbers[3][k] - uu) * e[row] * e[c]
                sums[21 + 6 * row + c] += (numbers[5][k] - ww) * e[row] * e[c]
            sums[7 * row] += uu
            sums[21 + 7 * row] += ww
        # Forces by turns are crossed with the vector, and torques by velocities the other way.
        sums[4] += uw * e[2]
        sums[5] -= uw * e[1]
        sums[9] -= uw * e[2]
        sums[11] += uw * e[0]
        sums[15] += uw * e[1]
        sums[16] -= uw * e[0]
        sums[19] -= uw * e[2]
        sums[20] += uw * e[1]
        sums[24] += uw * e[2]
        sums[26] -= uw * e[0]
        sums[30] -= uw * e[1]
        sums[31] += uw * e[0]
        k = k + SLICE
    for s in range(36):
        blocks[i][s] = sums[s]


@pk.workunit
def join_blocks(
    q: int,
    close: pk.View1D[pk.int32],
    first: pk.View1D[pk.int32],
    second: pk.View1D[pk.int32],
    places: pk.View2D[pk.int32],
    numbers: pk.View2D[REAL],
    own: pk.View2D[REAL],
    joined: pk.View2D[REAL],
):
    """Write the matrix (144 numbers) of a close pair q, with the blocks of its two spheres alone.

    ``numbers`` are those of all pairs, in slots at ``places``.
    """
    p: int = close[q]
    k: pk.int64 = places[0][p]
    e: List[REAL] = [0.0] * 3
    between: List[REAL] = [0.0] * 36
    for c in range(3):
        e[c] = numbers[c][k]
    uv: REAL = numbers[9][k]
    uq: REAL = numbers[10][k]
    wv: REAL = numbers[12][k]
    wq: REAL = numbers[13][k]
    for row in range(3):
        for c in range(3):
            between[6 * row + c] = (numbers[4][k] - uv) * e[row] * e[c]
            between[21 + 6 * row + c] = (numbers[6][k] - wq) * e[row] * e[c]
        between[7 * row] += uv
        between[21 + 7 * row] += wq
    between[4] = uq * e[2]
    between[5] = 0.0 - uq * e[1]
    between[9] = 0.0 - uq * e[2]
    between[11] = uq * e[0]
    between[15] = uq * e[1]
    between[16] = 0.0 - uq * e[0]
    between[19] = 0.0 - wv * e[2]
    between[20] = wv * e[1]
    between[24] = wv * e[2]
    between[26] = 0.0 - wv * e[0]
    between[30] = 0.0 - wv * e[1]
    between[31] = wv * e[0]
    i: int = first[p]
    j: int = second[p]
    for row in range(6):
        for c in range(6):
            joined[q][12 * row + c] = own[i][6 * row + c]
            joined[q][78 + 12 * row + c] = own[j][6 * row + c]
            joined[q][12 * row + 6 + c] = between[6 * row + c]
            joined[q][72 + 12 * c + row] = between[6 * row + c]


@pk.workunit
def part_blocks(
    q: int,
    first: pk.View1D[pk.int32],
    second: pk.View1D[pk.int32],
    places: pk.View2D[pk.int32],
    inverses: pk.View2D[REAL],
    alone: pk.View2D[REAL],
    numbers: pk.View2D[REAL],
    others: pk.View1D[pk.int32],
    changes: pk.View2D[REAL],
):
    """Write the blocks of the inverse of a close pair q to the slots of its spheres.

    The ``changes`` are the differences of a sphere's own block from its inverse ``alone``.
    """
    for k in range(2):
        at: pk.int64 = places[k][q]
        i: int = first[q]
        j: int = second[q]
        if k == 1:
            i = second[q]
            j = first[q]
        others[at] = j
        for row in range(6):
            for c in range(6):
                own: REAL = inverses[q][78 * k + 12 * row + c]
                changes[6 * row + c][at] = own - alone[i][6 * row + c]
                numbers[6 * row + c][at] = inverses[q][72 * k + 6 - 6 * k + 12 * row + c]
