"""What bodies of one shape do alone: to their frames, products with a matrix, and back.

Arrays of blobs are (3, N), one body after the other; blobs may be the nodes of surfaces, too.
Bodies of a shape have numbers among all bodies, and the blob that each begins with.
"""

from typing import List

import pykokkos as pk

REAL = pk.double
TOGETHER = 4


@pk.workunit
def carry(
    i: int,
    bodies: pk.View1D[pk.int32],
    begins: pk.View1D[pk.int32],
    blobs: int,
    arms: pk.View2D[REAL],
    motions: pk.View3D[REAL],
    velocities: pk.View2D[REAL],
):
    """Write the velocity of a blob, whose body moves and turns by ``motions`` (2, 3, B).

    ``arms`` (3, N) reach from the origins of bodies to their blobs.
    """
    b: int = i // blobs
    at: int = begins[b] + i - blobs * b
    body: int = bodies[b]
    x: REAL = arms[0][at]
    y: REAL = arms[1][at]
    z: REAL = arms[2][at]
    u: REAL = motions[1][0][body]
    v: REAL = motions[1][1][body]
    w: REAL = motions[1][2][body]
    velocities[0][at] = motions[0][0][body] + v * z - w * y
    velocities[1][at] = motions[0][1][body] + w * x - u * z
    velocities[2][at] = motions[0][2][body] + u * y - v * x


@pk.workunit
def to_frames(
    i: int,
    bodies: pk.View1D[pk.int32],
    begins: pk.View1D[pk.int32],
    count: int,
    blobs: int,
    rows: int,
    frames: pk.View3D[REAL],
    values: pk.View3D[REAL],
    rotated: pk.View3D[REAL],
):
    """Write values of a blob in the frame of its body, which has a row (rows n) for each of them.

    ``values`` are (k, rows, N): of vectors one below the other, or of one number. Items of each of
    the k have all blobs of ``count`` bodies.
    """
    b: int = i // blobs
    k: int = i - blobs * b
    d: int = b // count
    b = b - count * d
    at: int = begins[b] + k
    body: int = bodies[b]
    if rows == 1:
        rotated[b][d][k] = values[d][0][at]
    for v in range(rows // 3):
        for c in range(3):
            total: REAL = 0.0
            for e in range(3):
                total += frames[body][e][c] * values[d][3 * v + e][at]
            rotated[b][d][blobs * (3 * v + c) + k] = total


@pk.workunit
def to_lab(
    i: int,
    bodies: pk.View1D[pk.int32],
    begins: pk.View1D[pk.int32],
    count: int,
    blobs: int,
    rows: int,
    frames: pk.View3D[REAL],
    rotated: pk.View3D[REAL],
    values: pk.View3D[REAL],
):
    """Write values of a blob by the rows of its body, (rows n) or more, in its frame."""
    b: int = i // blobs
    k: int = i - blobs * b
    d: int = b // count
    b = b - count * d
    at: int = begins[b] + k
    body: int = bodies[b]
    if rows == 1:
        values[d][0][at] = rotated[b][d][k]
    for v in range(rows // 3):
        for c in range(3):
            total: REAL = 0.0
            for e in range(3):
                total += frames[body][c][e] * rotated[b][d][blobs * (3 * v + e) + k]
            values[d][3 * v + c][at] = total


@pk.workunit
def multiply(
    i: int,
    rows: int,
    inner: int,
    columns: int,
    left: pk.View2D[REAL],
    right: pk.View2D[REAL],
    product: pk.View2D[REAL],
):
    """Write a column of the product of ``left`` and ``right``, for a few rows of bodies."""
    group: int = i // columns
    column: int = i - columns * group
    sums: List[REAL] = [0.0] * TOGETHER
    at: List[int] = [0] * TOGETHER
    for r in range(TOGETHER):
        at[r] = TOGETHER * group + r
        if at[r] >= rows:
            at[r] = rows - 1
    for k in range(inner):
        factor: REAL = right[k][column]
        for r in range(TOGETHER):
            sums[r] += left[at[r]][k] * factor
    for r in range(TOGETHER):
        product[at[r]][column] = sums[r]
