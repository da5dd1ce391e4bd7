"""Sources staged for a tile of targets, which ``p2p.py`` describes."""

from kernels.blocks.tile import begin_tile
from kernels.blocks.walk import clip, meet_copy, shift
from parki.runtime.scopes import block


@block(
    reads="cutoff origin shape team tiles trg width",
    writes=(
        "above below bottom0 bottom1 bottom2 box c0 c1 column copy copy0 end final first first0 "
        "first1 hi0 hi1 hi2 image0 image1 image2 inverse j last last0 last1 lo0 lo1 lo2 more row0 "
        "s0 s1 s2 square system top0 top1 top2 x0 x1 x2"
    ),
)
def begin_walk():
    """Begin a tile, and its walk over columns and runs."""
    begin_tile()
    if first == last:
        last0 = first0 - 1
    # Position of the walk; it stops whenever the stage is full.
    c0: int = first0 - 1
    c1: int = last1
    row0: int = 0
    square: REAL = 0.0
    below: int = 1
    above: int = 0
    j: int = 0
    end: int = 0
    column: int = 0
    image0: int = 0
    image1: int = 0
    image2: int = 0
    s0: REAL = 0.0
    s1: REAL = 0.0
    s2: REAL = 0.0
    x0: REAL = 0.0
    x1: REAL = 0.0
    x2: REAL = 0.0
    more: int = 1
    copy: int = copy0 - 1
    final: int = copy0 + shape[3] - 1
    if first == last:
        final = copy


@block(
    reads=(
        "above below bottom0 bottom1 bottom2 box c0 c1 column copies copy cutoff dens end final "
        "first first0 first1 half half_low hi0 hi1 hi2 image0 image1 image2 j last0 last1 lo0 lo1 "
        "lo2 more norms row0 s0 s1 s2 shape square src src_low starts system team top0 top1 top2 "
        "trg width x0 x1 x2"
    ),
    writes=(
        "above below c0 c1 column copy end first0 first1 hi0 hi1 hi2 image0 image1 image2 j last0 "
        "last1 lo0 lo1 lo2 more row0 s0 s1 s2 square stage staged x0 x1 x2"
    ),
)
def fill_stage():
    """Copy the next sources in reach to the stage: filled of them, staged with the surplus.

    More is 0 after the last sources.
    """
    filled: int = 0
    while more == 1 and filled < CHUNK:
        if j < end:
            count: int = end - j
            if count > CHUNK - filled:
                count = CHUNK - filled
            if LOW:
                low0: REAL = REAL(2 * image0) * half_low[0]
                low1: REAL = REAL(2 * image1) * half_low[1]
                low2: REAL = REAL(2 * image2) * half_low[2]
                if shape[3] > 0:
                    low0 = copies[3][copy]
                    low1 = copies[4][copy]
                    low2 = copies[5][copy]

            def fill(v: int):
                # Rows are copied one vector of each at a time.
                at: int = filled + v * LANES
                k: int = j + v * LANES
                for lane in range(LANES):
                    stage[0][at + lane] = src[0][k + lane] + s0
                for lane in range(LANES):
                    stage[1][at + lane] = src[1][k + lane] + s1
                for lane in range(LANES):
                    stage[2][at + lane] = src[2][k + lane] + s2
                if PERIODIC > 0:
                    for lane in range(LANES):
                        stage[3][at + lane] = x0
                if PERIODIC > 1:
                    for lane in range(LANES):
                        stage[4][at + lane] = x1
                if PERIODIC > 2:
                    for lane in range(LANES):
                        stage[5][at + lane] = x2
                for row in range(MANY * CHARGES):
                    for lane in range(LANES):
                        stage[3 + PERIODIC + row][at + lane] = dens[row][k + lane]
                if NORMALS:
                    for row in range(3):
                        for lane in range(LANES):
                            stage[NORMAL + row][at + lane] = norms[row][k + lane]
                if LOW:
                    for lane in range(LANES):
                        stage[LOWER][at + lane] = src_low[0][k + lane] + low0
                    for lane in range(LANES):
                        stage[LOWER + 1][at + lane] = src_low[1][k + lane] + low1
                    for lane in range(LANES):
                        stage[LOWER + 2][at + lane] = src_low[2][k + lane] + low2
                if LABELS:
                    for lane in range(LANES):
                        stage[LABEL][at + lane] = src[3][k + lane]

            pk.parallel_for(pk.TeamThreadRange(team, (count + LANES - 1) // LANES), fill)
            if LANES > 1:
                # The next run overwrites what this one copied beyond its end.
                team.team_barrier()
            filled = filled + count
            j = j + count
        elif below <= above:
            # The next run of cells, up to the top of the box; the next image has the rest.
            w2: int = below
            x2 = 0.0
            shift(2, w2, image2, s2, x2)
            run: int = above - below + 1
            if run > shape[2] - w2:
                run = shape[2] - w2
            below = below + run
            j = starts[column + w2]
            end = starts[column + w2 + run]
        else:
            c1 = c1 + 1
            if c1 > last1:
                c1 = first1
                c0 = c0 + 1
                while c0 > last0 and copy < final:
                    copy = copy + 1
                    meet_copy()
                    c0 = first0
                    c1 = first1
                if c0 > last0:
                    more = 0
                else:
                    # What the columns of one c0 share.
                    wide0: REAL = width[box]
                    gap0: REAL = pk.fmax(REAL(c0) * wide0 - hi0, lo0 - REAL(c0 + 1) * wide0)
                    gap0 = pk.fmax(gap0, 0.0)
                    square = cutoff * cutoff - gap0 * gap0
                    w0: int = c0
                    x0 = 0.0
                    shift(0, w0, image0, s0, x0)
                    row0 = system + w0 * shape[1]
            if more == 1:
                wide1: REAL = width[box + 1]
                gap1: REAL = pk.fmax(REAL(c1) * wide1 - hi1, lo1 - REAL(c1 + 1) * wide1)
                gap1 = pk.fmax(gap1, 0.0)
                left: REAL = square - gap1 * gap1
                if left > 0.0:
                    reach: REAL = pk.sqrt(left)
                    below = int(pk.floor((lo2 - reach) / width[box + 2]))
                    above = int(pk.floor((hi2 + reach) / width[box + 2]))
                    clip(2, below, above)
                    w1: int = c1
                    x1 = 0.0
                    shift(1, w1, image1, s1, x1)
                    column = (row0 + w1) * shape[2]
    staged: int = (filled + LANES - 1) // LANES * LANES

    def surplus(m: int):
        # Surplus sources are placed out of reach of everything.
        for row in range(ROWS):
            stage[row][filled + m] = 0.0
        stage[0][filled + m] = trg[0][first] - 4.0 * cutoff - 2.0 * half[0]

    pk.parallel_for(pk.TeamThreadRange(team, staged - filled), surplus)
    team.team_barrier()


@block(reads="coincident inverse l0 l1 l2 label stage tiny y0 y1 y2", writes="r0 r1 r2 rr y")
def meet(m):
    """Take the distance of a target at y0, y1, y2 from staged source m, as ``p2p.py`` says.

    A pair of equal labels counts as one beyond the cut-off.
    """
    r0: REAL = y0 - stage[0][m]
    r1: REAL = y1 - stage[1][m]
    r2: REAL = y2 - stage[2][m]
    if PERIODIC > 0:
        r0 = (y0 + stage[3][m]) - stage[0][m]
    if PERIODIC > 1:
        r1 = (y1 + stage[4][m]) - stage[1][m]
    if PERIODIC > 2:
        r2 = (y2 + stage[5][m]) - stage[2][m]
    r0 = r0 * inverse
    r1 = r1 * inverse
    r2 = r2 * inverse
    if LOW:
        r0 += (l0 - stage[LOWER][m]) * tiny
        r1 += (l1 - stage[LOWER + 1][m]) * tiny
        r2 += (l2 - stage[LOWER + 2][m]) * tiny
    rr: REAL = r0 * r0 + r1 * r1 + r2 * r2
    y: REAL = 1.0 / pk.sqrt(rr)
    if rr <= coincident:
        y = 0.0
    if LABELS:
        if stage[LABEL][m] == label:
            rr = 1.0
