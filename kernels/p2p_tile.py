"""P2P on devices: the near field by lists of the sources in reach.

A tile is some consecutive sorted targets of one column of cells. ``p2p.py`` describes the columns
and the pair kernel. Each thread of a team owns a tile, with a lane for each of the LANES parts of a
target's sources. No tile waits for another, and the tiles of a team are neighbours and read nearly
the same sources. Most sources within the cut-off of the tile's bounding box are out of a given
target's reach, and on a device a lane without work waits for the lanes with work. So the lanes of a
target search the tile's candidates one by one, and list the ones in reach. After CANDIDATES of them
each lane computes its list.

Lists depend on the points alone: sums over other densities can reuse them. A row of a list has a
source for each lane. For CANDIDATES of a lane there is one row of lengths, and as many rows as the
longest list has sources.
"""

from typing import List

import pykokkos as pk

from kernels.blocks.radial import take_polynomials, take_radial
from kernels.blocks.slopes import add_sums, begin_strain, begin_sums, end_strain, store_sums, strain
from kernels.blocks.vector import take_target, take_vector
from kernels.blocks.walk import begin_copies, bound, meet_copy, take_system
from kernels.pairs.spheres import differentiate, interact

REAL = pk.double
CHARGES = 6  # rows of a density
OUTPUTS = 3  # rows of results
NORMALS = True  # whether sources have normals
MARKS = False  # whether points have marks, as in p2p.py
LABELS = False  # whether points have labels, as in p2p.py; lists have no pairs of equal ones
PARTS = False  # whether parts of pairs have weights, as in p2p_labels.py
TABLES = 3  # radial functions that a pair takes
LOW = False  # positions have a second part, as in p2p.py
UNIT = 5.9604644775390625e-08  # the unit of the second part
CUT = False  # lists have no pairs beyond the cut-off
MANY = 1  # densities summed at once, in the rows of ``dens`` and ``pot``
EVALUATOR = 0  # of the radial functions, and their degree, as in p2p.py
DEGREE = 12
PERIODIC = 3  # the first PERIODIC axes repeat
TILTED = False  # whether they are not at right angles, as in p2p.py
TILES = 1  # tiles of a team, next to each other
TILE = 4  # most targets of a tile
LANES = 1  # lanes that share the sources of a target
CANDIDATES = 64  # sources that a lane searches before it computes
LIST = 64  # sources of a list in scratch memory: all in reach, or one where lists are kept
RUNS = 64  # columns of cells looked up at a time
LISTS = 0  # lists: 0 forgets them, 1 counts their rows and no more, 2 keeps them, 3 takes them
DERIVATIVES = False  # whether derivatives are summed, by constants as in p2p_derivatives.py:
WITH_VALUES = True
PRESSURE = False
GRADIENT = False
TENSORS = False
STRAIN = False
MOVED = False
VALUES = False
LEVEL = OUTPUTS * VALUES
SLOPES = LEVEL + PRESSURE
PULL = SLOPES + 3 * OUTPUTS * GRADIENT
BEND = PULL + 3 * TENSORS
SUMS = DERIVATIVES * (BEND + 9 * STRAIN) + (1 - DERIVATIVES) * MANY * OUTPUTS


@pk.workunit
def p2p_tile(
    team: pk.TeamMember,
    number: int,
    tiles: pk.View2D[pk.int32],
    trg: pk.View2D[REAL],
    order: pk.View1D[pk.int32],
    src: pk.View2D[REAL],
    dens: pk.View2D[REAL],
    norms: pk.View2D[REAL],
    starts: pk.View1D[pk.int32],
    shape: pk.View1D[pk.int32],
    width: pk.View1D[REAL],
    origin: pk.View1D[REAL],
    half: pk.View1D[REAL],
    radial: pk.View2D[REAL],
    xi_rc: REAL,
    cutoff: REAL,
    coincident: REAL,
    factor: REAL,
    rows: pk.View1D[pk.int32],
    used: pk.View1D[pk.int32],
    lists: pk.View2D[pk.int32],
    trg_low: pk.View2D[REAL],
    src_low: pk.View2D[REAL],
    half_low: pk.View1D[REAL],
    copies: pk.View2D[REAL],
    scale: REAL,
    derivative_scale: REAL,
    gentle: REAL,
    tensors: pk.View2D[REAL],
    motion: pk.View2D[REAL],
    pot: pk.View2D[REAL],
    pressure: pk.View2D[REAL],
    gradient: pk.View2D[REAL],
    pull: pk.View2D[REAL],
):
    """Near field of ``number`` tiles of at most TILE targets.

    Arguments are as for p2p_staged, and as for p2p_staged_derivatives.

    ``lists`` (all rows, TILE * LANES) are the lists kept, and ``rows`` (number + 1) says where the
    lists of a tile begin, and the next tile's. Where rows are counted or kept, ``used`` (number)
    receives their numbers. A tile that needs more rows than it has keeps none beyond them, and
    computes nothing right.
    """
    total: pk.ScratchView2D[REAL] = pk.ScratchView2D(
        team.team_scratch(0), SUMS, TILES * TILE * LANES
    )
    runs: pk.ScratchView2D[pk.int32] = pk.ScratchView2D(team.team_scratch(0), 2, TILES * RUNS)
    near: pk.ScratchView2D[pk.int32] = pk.ScratchView2D(
        team.team_scratch(0), LIST, TILES * TILE * LANES
    )
    counts: pk.ScratchView1D[pk.int32] = pk.ScratchView1D(
        team.team_scratch(0), TILES * TILE * LANES
    )
    walk: pk.ScratchView2D[pk.int32] = pk.ScratchView2D(team.team_scratch(0), 4, TILES)

    def one(w: int):
        tile: int = team.league_rank() * TILES + w
        lane: int = w * TILE * LANES
        table: int = w * RUNS
        take_system(tile)
        first: int = tiles[1][tile]
        last: int = tiles[2][tile]

        bound(first, last)

        def clear(v: int):
            for d in range(SUMS):
                total[d][lane + v] = 0.0

        pk.parallel_for(pk.ThreadVectorRange(team, TILE * LANES), clear)
        row: int = 0
        end_row: int = 0
        if LISTS > 1:
            row = rows[tile]
            end_row = rows[tile + 1]
        inverse: REAL = 1.0 / cutoff
        # Cells in reach along x and y, and their images.
        if TILTED:
            begin_copies()
        else:
            first0: int = int(pk.floor((lo0 - cutoff) / width[0]))
            last0: int = int(pk.floor((hi0 + cutoff) / width[0]))
            first1: int = int(pk.floor((lo1 - cutoff) / width[1]))
            last1: int = int(pk.floor((hi1 + cutoff) / width[1]))
        below0: int = 0
        below1: int = 0
        below2: int = 0
        images0: int = 1
        images1: int = 1
        images2: int = 1
        if PERIODIC > 0 and 1 - TILTED:
            below0 = int(pk.floor(REAL(first0) / REAL(shape[0])))
            images0 = int(pk.floor(REAL(last0) / REAL(shape[0]))) - below0 + 1
        if PERIODIC > 1 and 1 - TILTED:
            below1 = int(pk.floor(REAL(first1) / REAL(shape[1])))
            images1 = int(pk.floor(REAL(last1) / REAL(shape[1]))) - below1 + 1
        if TILTED:
            images2 = shape[3]
        if PERIODIC > 2 and 1 - TILTED:
            below2 = int(pk.floor(pk.floor((lo2 - cutoff) / width[2]) / REAL(shape[2])))
            above2: REAL = pk.floor((hi2 + cutoff) / width[2])
            images2 = int(pk.floor(above2 / REAL(shape[2]))) - below2 + 1
        if DERIVATIVES:
            take_polynomials(radial)
        else:
            take_radial(radial, xi_rc)

        for image in range(images0 * images1 * images2):
            image0: int = below0 + image // (images1 * images2)
            image1: int = below1 + image // images2 % images1
            image2: int = below2 + image % images2
            # Each side takes half of the shift, which is exact at the faces.
            s0: REAL = REAL(image0) * half[0]
            s1: REAL = REAL(image1) * half[1]
            s2: REAL = REAL(image2) * half[2]
            # The image's columns in reach.
            shift0: int = image0 * shape[0]
            shift1: int = image1 * shape[1]
            shift2: int = image2 * shape[2]
            if TILTED:
                copy: int = copy0 + image
                meet_copy()
                s0 = copies[0][copy]
                s1 = copies[1][copy]
                s2 = copies[2][copy]
                shift2 = 0
            from0: int = first0 - shift0
            if from0 < 0:
                from0 = 0
            to0: int = last0 - shift0
            if to0 > shape[0] - 1:
                to0 = shape[0] - 1
            from1: int = first1 - shift1
            if from1 < 0:
                from1 = 0
            to1: int = last1 - shift1
            if to1 > shape[1] - 1:
                to1 = shape[1] - 1
            across: int = to1 - from1 + 1
            columns: int = (to0 - from0 + 1) * across
            for start in range(0, columns, RUNS):
                count: int = columns - start
                if count > RUNS:
                    count = RUNS

                if LISTS < 3:

                    def look_up(q: int):
                        c0: int = from0 + (start + q) // across
                        c1: int = from1 + (start + q) % across
                        wide0: REAL = width[box]
                        wide1: REAL = width[box + 1]
                        wide2: REAL = width[box + 2]
                        g0: REAL = REAL(c0 + shift0) * wide0
                        g1: REAL = REAL(c1 + shift1) * wide1
                        gap0: REAL = pk.fmax(pk.fmax(g0 - hi0, lo0 - g0 - wide0), 0.0)
                        gap1: REAL = pk.fmax(pk.fmax(g1 - hi1, lo1 - g1 - wide1), 0.0)
                        left: REAL = cutoff * cutoff - gap0 * gap0 - gap1 * gap1
                        begin: int = 0
                        end: int = 0
                        if left > 0.0:
                            reach: REAL = pk.sqrt(left)
                            below: int = int(pk.floor((lo2 - reach) / wide2)) - shift2
                            above: int = int(pk.floor((hi2 + reach) / wide2)) - shift2
                            if below < 0:
                                below = 0
                            if above > shape[2] - 1:
                                above = shape[2] - 1
                            if below <= above:
                                column: int = (system + c0 * shape[1] + c1) * shape[2]
                                begin = starts[column + below]
                                end = starts[column + above + 1]
                        runs[0][table + q] = begin
                        runs[1][table + q] = end

                    pk.parallel_for(pk.ThreadVectorRange(team, count), look_up)

                # Position of the walk: at sources j to end of one run, before run q.
                q: int = 0
                j: int = 0
                end: int = 0
                more: int = 1
                while more == 1:
                    most: int = 0
                    if LISTS < 3:

                        def search(v: int):
                            i: int = first + v // LANES
                            z0: REAL = trg[0][i] - s0 - s0
                            z1: REAL = trg[1][i] - s1 - s1
                            z2: REAL = trg[2][i] - s2 - s2
                            found: int = 0
                            at: int = q
                            here: int = j
                            there: int = end
                            candidates: int = CANDIDATES
                            while candidates > 0:
                                if here < there:
                                    stop: int = there
                                    if stop > here + candidates * LANES:
                                        stop = here + candidates * LANES
                                    for k in range(here + v % LANES, stop, LANES):
                                        d0: REAL = z0 - src[0][k]
                                        d1: REAL = z1 - src[1][k]
                                        d2: REAL = z2 - src[2][k]
                                        square: REAL = d0 * d0 + d1 * d1 + d2 * d2
                                        if LABELS:
                                            if src[3][k] == trg[3][i]:
                                                square = cutoff * cutoff
                                        if square < cutoff * cutoff:
                                            if LISTS == 0:
                                                near[found][lane + v] = k
                                            found = found + 1
                                            if LISTS == 2:
                                                if row + found < end_row:
                                                    lists[row + found][v] = k
                                    candidates = candidates - (stop - here + LANES - 1) // LANES
                                    here = stop
                                elif at < count:
                                    # From both ends: the sources of a list lie all around the tile.
                                    side: int = at // 2
                                    if at % 2 == 1:
                                        side = count - 1 - at // 2
                                    here = runs[0][table + side]
                                    there = runs[1][table + side]
                                    at = at + 1
                                else:
                                    candidates = 0 - 1
                            counts[lane + v] = found
                            if v == 0:
                                walk[0][w] = at
                                walk[1][w] = here
                                walk[2][w] = there
                                walk[3][w] = candidates

                        pk.parallel_for(pk.ThreadVectorRange(team, (last - first) * LANES), search)
                        q = walk[0][w]
                        j = walk[1][w]
                        end = walk[2][w]
                        if walk[3][w] < 0:
                            more = 0
                        if LISTS > 0:
                            for t in range((last - first) * LANES):
                                if most < counts[lane + t]:
                                    most = counts[lane + t]
                    if LISTS == 1:
                        # All lanes have read the counts before the next candidates overwrite
                        # them: where something is computed, the lanes wait there.
                        pk.parallel_for(pk.ThreadVectorRange(team, TILE * LANES), clear)
                    if LISTS == 3:
                        more = lists[row][0] // 1024 % 2
                        most = lists[row][0] // 2048

                    if LISTS != 1:

                        def compute(v: int):
                            i: int = first + v // LANES
                            x0: REAL = trg[0][i] - s0
                            x1: REAL = trg[1][i] - s1
                            x2: REAL = trg[2][i] - s2
                            if DERIVATIVES:
                                if STRAIN:
                                    begin_strain(order[i])
                                else:
                                    begin_sums()
                                if TENSORS:
                                    take_target(order[i])
                            else:
                                u: List[REAL] = [0.0] * (MANY * OUTPUTS)
                            if MARKS:
                                mark: REAL = trg[3][i]
                            if LOW:
                                if TILTED:
                                    l0: REAL = trg_low[0][i] - copies[3][copy]
                                    l1: REAL = trg_low[1][i] - copies[4][copy]
                                    l2: REAL = trg_low[2][i] - copies[5][copy]
                                else:
                                    l0: REAL = trg_low[0][i] - REAL(2 * image0) * half_low[0]
                                    l1: REAL = trg_low[1][i] - REAL(2 * image1) * half_low[1]
                                    l2: REAL = trg_low[2][i] - REAL(2 * image2) * half_low[2]
                                tiny: REAL = inverse * UNIT
                            found: int = 0
                            if LISTS == 3:
                                found = lists[row][v] % 1024
                            else:
                                found = counts[lane + v]
                            if LISTS == 2:
                                # The list's length; for all lanes whether more follow, the longest.
                                if row + most < end_row:
                                    lists[row][v] = found + 1024 * (more + 2 * most)
                                else:
                                    found = 0
                            # The next source's position is loaded while one is computed; in far
                            # memory the number of the source after it, too.
                            ahead: int = 0
                            beyond: int = 0
                            if found > 0:
                                if LISTS > 0:
                                    ahead = lists[row + 1][v]
                                else:
                                    ahead = near[0][lane + v]
                            if LISTS > 0:
                                if found > 1:
                                    beyond = lists[row + 2][v]
                            take_vector(y0, y1, y2, src, 0, ahead)
                            for k in range(found):
                                m: int = ahead
                                if PERIODIC > 0:
                                    y0 = y0 + s0
                                if PERIODIC > 1:
                                    y1 = y1 + s1
                                if PERIODIC > 2:
                                    y2 = y2 + s2
                                r0: REAL = (x0 - y0) * inverse
                                r1: REAL = (x1 - y1) * inverse
                                r2: REAL = (x2 - y2) * inverse
                                if LOW:
                                    r0 += (l0 - src_low[0][m]) * tiny
                                    r1 += (l1 - src_low[1][m]) * tiny
                                    r2 += (l2 - src_low[2][m]) * tiny
                                if LISTS > 0:
                                    ahead = beyond
                                    if k + 2 < found:
                                        beyond = lists[row + k + 3][v]
                                elif k + 1 < found:
                                    ahead = near[k + 1][lane + v]
                                y0 = src[0][ahead]
                                y1 = src[1][ahead]
                                y2 = src[2][ahead]
                                rr: REAL = r0 * r0 + r1 * r1 + r2 * r2
                                y: REAL = 1.0 / pk.sqrt(rr)
                                if rr <= coincident:
                                    y = 0.0
                                if DERIVATIVES:
                                    if STRAIN:
                                        begin_sums()
                                    differentiate(dens, 0, norms, 0, m)
                                    if STRAIN:
                                        strain()
                                else:
                                    interact(dens, 0, norms, 0, m)
                            if DERIVATIVES:
                                if STRAIN:
                                    end_strain()
                                add_sums(lane + v)
                            else:
                                for d in range(MANY * OUTPUTS):
                                    total[d][lane + v] += u[d]

                        pk.parallel_for(pk.ThreadVectorRange(team, (last - first) * LANES), compute)
                    row = row + most + 1

        if LISTS != 1:

            def add(t: int):
                out: int = order[first + t]
                at: int = lane + t * LANES
                for d in range(SUMS):
                    sum: REAL = 0.0
                    for k in range(LANES):
                        sum += total[d][at + k]
                    if DERIVATIVES:
                        total[d][at] = sum
                    else:
                        pot[d][out] = sum * (inverse * factor)
                if DERIVATIVES:
                    store_sums(at)

            pk.parallel_for(pk.ThreadVectorRange(team, last - first), add)
        if LISTS == 1:
            used[tile] = row
        if LISTS == 2:
            used[tile] = row - rows[tile]

    # Tiles without targets are the last ones of a team.
    left: int = 0
    for w in range(TILES):
        place: int = team.league_rank() * TILES + w
        if place < number:
            if tiles[2][place] > tiles[1][place]:
                left = left + 1
    pk.parallel_for(pk.TeamThreadRange(team, left), one)
