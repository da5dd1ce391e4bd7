"""Pairs of points near each other, images included: where points are, and which pairs there are."""

from typing import List

import pykokkos as pk

REAL = pk.double
# Whether pairs are written down, or only counted.
WRITES = 1
# Whether points are spheres, each pair of which counts once, the larger one first.
SPHERES = 0


@pk.workunit
def find_pairs(
    i: int,
    targets: pk.View2D[REAL],
    sources: pk.View2D[REAL],
    radii: pk.View1D[REAL],
    cells: pk.View2D[pk.int32],
    shape: pk.View2D[pk.int32],
    vectors: pk.View2D[REAL],
    order: pk.View1D[pk.int32],
    starts: pk.View1D[pk.int32],
    reach: REAL,
    itself: int,
    counts: pk.View1D[pk.int32],
    ends: pk.View1D[pk.int64],
    indptr: pk.View1D[pk.int32],
    first: pk.View1D[pk.int32],
    second: pk.View1D[pk.int32],
    apart: pk.View2D[REAL],
    distances: pk.View1D[REAL],
):
    """Count the sources within ``reach`` of target i, and write them down before ``ends[i]``.

    Cells are along the three ``vectors``: ``shape`` has their numbers, whether an axis is periodic,
    and over how many cells points reach. ``order`` has the sources by cells. ``apart`` runs from
    the source to the target; a source at the target counts if ``itself`` is 1. Spheres reach that
    many times their radii; their later partners count, and an image of a sphere itself on one side.
    Their vector ``apart`` runs from the larger sphere, the first one. Pairs of points have
    ``indptr`` of sparse matrices, too.
    """
    found: int = 0
    place: pk.int64 = 0
    if WRITES == 1:
        place = ends[i] - counts[i]
        if SPHERES == 0:
            indptr[i + 1] = int(ends[i])
    x: REAL = targets[0][i]
    y: REAL = targets[1][i]
    z: REAL = targets[2][i]
    near: REAL = reach
    a: REAL = 0.0
    if SPHERES == 1:
        a = radii[i]
    for dx in range(0 - shape[2][0], shape[2][0] + 1):
        cx: int = cells[0][i] + dx
        nx: int = 0
        if shape[1][0] == 1:
            nx = int(pk.floor(REAL(cx) / REAL(shape[0][0])))
            cx = cx - nx * shape[0][0]
        for dy in range(0 - shape[2][1], shape[2][1] + 1):
            cy: int = cells[1][i] + dy
            ny: int = 0
            if shape[1][1] == 1:
                ny = int(pk.floor(REAL(cy) / REAL(shape[0][1])))
                cy = cy - ny * shape[0][1]
            for dz in range(0 - shape[2][2], shape[2][2] + 1):
                cz: int = cells[2][i] + dz
                nz: int = 0
                if shape[1][2] == 1:
                    nz = int(pk.floor(REAL(cz) / REAL(shape[0][2])))
                    cz = cz - nz * shape[0][2]
                inside: bool = cx >= 0 and cy >= 0 and cz >= 0
                if cx >= shape[0][0] or cy >= shape[0][1] or cz >= shape[0][2]:
                    inside = False
                if inside:
                    sx: REAL = nx * vectors[0][0] + ny * vectors[1][0] + nz * vectors[2][0]
                    sy: REAL = nx * vectors[0][1] + ny * vectors[1][1] + nz * vectors[2][1]
                    sz: REAL = nx * vectors[0][2] + ny * vectors[1][2] + nz * vectors[2][2]
                    cell: int = (cx * shape[0][1] + cy) * shape[0][2] + cz
                    for k in range(starts[cell], starts[cell + 1]):
                        j: int = order[k]
                        rx: REAL = sources[0][j] + sx - x
                        ry: REAL = sources[1][j] + sy - y
                        rz: REAL = sources[2][j] + sz - z
                        square: REAL = rx * rx + ry * ry + rz * rz
                        counted: bool = True
                        if SPHERES == 1:
                            near = reach * (a + radii[j])
                            once: bool = i < j
                            if i == j:
                                once = rx > 0.0
                                if rx == 0.0:
                                    once = ry > 0.0
                                    if ry == 0.0:
                                        once = rz > 0.0
                            counted = once and square < near * near
                        else:
                            counted = pk.sqrt(square) <= near
                            if itself == 0 and square == 0.0:
                                counted = False
                        if counted:
                            found += 1
                            if WRITES == 1:
                                if SPHERES == 1:
                                    if a >= radii[j]:
                                        first[place] = i
                                        second[place] = j
                                        apart[0][place] = rx
                                        apart[1][place] = ry
                                        apart[2][place] = rz
                                    else:
                                        first[place] = j
                                        second[place] = i
                                        apart[0][place] = 0.0 - rx
                                        apart[1][place] = 0.0 - ry
                                        apart[2][place] = 0.0 - rz
                                else:
                                    second[place] = j
                                    apart[0][place] = 0.0 - rx
                                    apart[1][place] = 0.0 - ry
                                    apart[2][place] = 0.0 - rz
                                    distances[place] = pk.sqrt(square)
                                place += 1
    if WRITES == 0:
        counts[i] = found


@pk.workunit
def locate_points(
    i: int,
    points: pk.View2D[REAL],
    vectors: pk.View2D[REAL],
    inverse: pk.View2D[REAL],
    cuts: pk.View2D[REAL],
    shape: pk.View2D[pk.int32],
    inside: pk.View2D[REAL],
    cells: pk.View2D[pk.int32],
    keys: pk.View1D[pk.int32],
):
    """Move point i by periods into the box, and find its cell along each of the ``vectors``.

    ``cuts`` has where cells begin along each of them, and how many there are per unit. A point that
    is no number is in the first cell.
    """
    place: List[REAL] = [0.0] * 3
    period: List[REAL] = [0.0] * 3
    key: int = 0
    for a in range(3):
        place[a] = points[0][i] * inverse[0][a] + points[1][i] * inverse[1][a]
        place[a] += points[2][i] * inverse[2][a]
        if shape[1][a] == 1:
            period[a] = pk.floor(place[a])
    for a in range(3):
        x: REAL = points[a][i] - period[0] * vectors[0][a]
        inside[a][i] = x - period[1] * vectors[1][a] - period[2] * vectors[2][a]
        within: REAL = (place[a] - period[a] - cuts[0][a]) * cuts[1][a]
        cell: int = 0
        if within >= 0.0:
            cell = shape[0][a] - 1
            if within < cell:
                cell = int(within)
        cells[a][i] = cell
        key = key * shape[0][a] + cell
    keys[i] = key
