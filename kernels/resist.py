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
    own: pk.View2D[REAL],
    moves: pk.View2D[REAL],
    unit: REAL,
    sign: REAL,
    acts: pk.View2D[REAL],
):
    """Write ``sign`` times forces and torques on sphere i, by its motion and by others.

    The sphere moves by ``own``, others by ``moves``, (6, N), which may be the same; ``unit`` times
    its motion is added. Pair p has ``others`` and ``numbers`` at ``begins[i] + 32 p``: a unit
    vector along the pair, what acts along it by velocities and turns, and what acts across it.
    """
    ux: REAL = own[0][i]
    uy: REAL = own[1][i]
    uz: REAL = own[2][i]
    wx: REAL = own[3][i]
    wy: REAL = own[4][i]
    wz: REAL = own[5][i]
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
    moves: pk.View2D[REAL],
    acts: pk.View2D[REAL],
):
    """Write the product of the blocks (36, ...) of sphere i with the ``moves`` (6, N) of others."""
    sums: List[REAL] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
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
