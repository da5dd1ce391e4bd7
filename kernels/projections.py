"""Projections of densities on bodies: to rigid motions, and to the mean flux through a surface.

The density, arm x density and the density's component along the normal are integrated over the
surface of each body. Work items of `add_moments` take a part of the nodes of a body each.
"""

from typing import List

import pykokkos as pk

REAL = pk.double
PARTS = 32


@pk.workunit
def add_moments(
    i: int,
    bodies: int,
    starts: pk.View1D[pk.int32],
    arms: pk.View2D[REAL],
    normals: pk.View2D[REAL],
    areas: pk.View1D[REAL],
    density: pk.View3D[REAL],
    moments: pk.View2D[REAL],
):
    """Write the integrals (7, ...) over part of the nodes of a body, of one of the densities."""
    body: int = i // PARTS
    part: int = i - PARTS * body
    d: int = body // bodies
    body = body - bodies * d
    sums: List[REAL] = [0.0] * 7
    j: int = starts[body] + part
    while j < starts[body + 1]:
        u: REAL = areas[j] * density[d][0][j]
        v: REAL = areas[j] * density[d][1][j]
        w: REAL = areas[j] * density[d][2][j]
        sums[0] += u
        sums[1] += v
        sums[2] += w
        sums[3] += arms[1][j] * w - arms[2][j] * v
        sums[4] += arms[2][j] * u - arms[0][j] * w
        sums[5] += arms[0][j] * v - arms[1][j] * u
        sums[6] += normals[0][j] * u + normals[1][j] * v + normals[2][j] * w
        j += PARTS
    for n in range(7):
        moments[n][i] = sums[n]


@pk.workunit
def project(
    i: int,
    nodes: int,
    bodies: int,
    home: pk.View1D[pk.int32],
    arms: pk.View2D[REAL],
    normals: pk.View2D[REAL],
    total_areas: pk.View1D[REAL],
    mobility: pk.View3D[REAL],
    density: pk.View3D[REAL],
    moments: pk.View2D[REAL],
    itself: REAL,
    rigid: REAL,
    flux: REAL,
    added: pk.View3D[REAL],
    times: REAL,
    projected: pk.View3D[REAL],
):
    """Write ``itself`` times a density, and its projections times ``rigid`` and ``flux``.

    And ``times`` what is ``added``.
    """
    d: int = i // nodes
    j: int = i - nodes * d
    body: int = home[j]
    first: int = PARTS * (bodies * d + body)
    sums: List[REAL] = [0.0] * 7
    moving: List[REAL] = [0.0] * 6
    for n in range(7):
        for part in range(PARTS):
            sums[n] += moments[n][first + part]
    if rigid != 0.0:
        for n in range(6):
            for m in range(6):
                moving[n] += rigid * mobility[body][n][m] * sums[m]
    through: REAL = flux * sums[6] / total_areas[body]
    x: REAL = arms[0][j]
    y: REAL = arms[1][j]
    z: REAL = arms[2][j]
    projected[d][0][j] = moving[0] + moving[4] * z - moving[5] * y
    projected[d][1][j] = moving[1] + moving[5] * x - moving[3] * z
    projected[d][2][j] = moving[2] + moving[3] * y - moving[4] * x
    for c in range(3):
        projected[d][c][j] += itself * density[d][c][j] + through * normals[c][j]
        projected[d][c][j] += times * added[d][c][j]
