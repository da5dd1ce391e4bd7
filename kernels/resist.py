"""How pairs of spheres close to each other resist their motion.

A work item owns a sphere, and adds what its pairs say. Spheres are in slices of 32, so that those
of a slice read their pairs side by side.
"""

import pykokkos as pk

SLICE = 32


@pk.workunit
def resist(
    i: int,
    counts: pk.View1D[pk.int32],
    begins: pk.View1D[pk.int64],
    others: pk.View1D[pk.int32],
    numbers: pk.View2D[pk.double],
    own: pk.View2D[pk.double],
    moves: pk.View2D[pk.double],
    unit: pk.double,
    sign: pk.double,
    acts: pk.View2D[pk.double],
):
    """Write ``sign`` times forces and torques on sphere i, by its motion and that of others.

    Motions are ``own`` of the sphere and ``moves`` of others, (6, N): they may be the same. Added
    is ``unit`` times the motion. Of pair p of the sphere are ``others`` and ``numbers`` at
    ``begins[i] + 32 p``: a unit vector along the pair, forces and torques along it by velocities
    and turns, and those across it.
    """
    ux: pk.double = own[0][i]
    uy: pk.double = own[1][i]
    uz: pk.double = own[2][i]
    wx: pk.double = own[3][i]
    wy: pk.double = own[4][i]
    wz: pk.double = own[5][i]
    fx: pk.double = unit * ux
    fy: pk.double = unit * uy
    fz: pk.double = unit * uz
    tx: pk.double = unit * wx
    ty: pk.double = unit * wy
    tz: pk.double = unit * wz
    k: pk.int64 = begins[i]
    for p in range(counts[i]):
        j: int = others[k]
        x: pk.double = numbers[0][k]
        y: pk.double = numbers[1][k]
        z: pk.double = numbers[2][k]
        vx: pk.double = moves[0][j]
        vy: pk.double = moves[1][j]
        vz: pk.double = moves[2][j]
        qx: pk.double = moves[3][j]
        qy: pk.double = moves[4][j]
        qz: pk.double = moves[5][j]
        # Along the pair, and across it: velocities, and turns times its vector.
        u: pk.double = x * ux + y * uy + z * uz
        w: pk.double = x * wx + y * wy + z * wz
        v: pk.double = x * vx + y * vy + z * vz
        q: pk.double = x * qx + y * qy + z * qz
        uu: pk.double = numbers[7][k]
        uw: pk.double = numbers[8][k]
        uv: pk.double = numbers[9][k]
        uq: pk.double = numbers[10][k]
        ww: pk.double = numbers[11][k]
        wv: pk.double = numbers[12][k]
        wq: pk.double = numbers[13][k]
        force: pk.double = (numbers[3][k] - uu) * u + (numbers[4][k] - uv) * v
        torque: pk.double = (numbers[5][k] - ww) * w + (numbers[6][k] - wq) * q
        ax: pk.double = uw * wx + uq * qx
        ay: pk.double = uw * wy + uq * qy
        az: pk.double = uw * wz + uq * qz
        bx: pk.double = uw * ux + wv * vx
        by: pk.double = uw * uy + wv * vy
        bz: pk.double = uw * uz + wv * vz
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
