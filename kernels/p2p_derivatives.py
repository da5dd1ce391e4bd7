"""P2P's pressure and gradients: the near field's derivatives, over pairs closer than the cut-off.

`p2p_derivatives` (devices): one team owns a tile of consecutive sorted targets of one column of
cells, and walks the cells that `p2p_staged` does, each target by itself. `p2p_staged_derivatives`
(CPUs) stages the sources as that does, for long loops. What a pair adds to the pressure p and the
gradient, over r_c to a power, is `differentiate` in a file of ``kernels/pairs``; see ``p2p.py``. A
tensor target, with a tensor D and a strength s, reads D_jk d_k u_j + s p. With STRAIN a target has
weights w, and in the place of the gradient is the sum of (w_i d_a u_i) r_b over its pairs: what the
near field of w.u gains as points and box are strained together.
"""

import pykokkos as pk

from kernels.blocks.radial import take_polynomials
from kernels.blocks.slopes import begin_strain, begin_sums, strain
from kernels.blocks.stage import begin_walk, fill_stage, meet
from kernels.blocks.tile import begin_tile
from kernels.blocks.vector import take_target, take_vector
from kernels.blocks.walk import begin_own, clip, meet_copy, shift
from kernels.pairs.yukawa import differentiate

REAL = pk.double
CHARGES = 6  # rows of a density
OUTPUTS = 3  # rows of the velocity or potential
NORMALS = True  # whether sources have normals
TRANSPOSED_PAIR = False
MARKS = False  # whether points have marks, as in p2p.py
LABELS = False  # whether points have labels, as in p2p.py
PARTS = False  # whether parts of pairs have weights, as in p2p_labels.py
TABLES = 3  # radial functions that derivatives take
EVALUATOR = 0  # always polynomials
WITH_VALUES = True  # whether values take one more
PRESSURE = True
GRADIENT = True
TENSORS = False  # whether targets have tensors
STRAIN = False  # whether they have weights, in the first rows of ``tensors``
VALUES = False  # whether p2p_staged_derivatives sums the velocity or potential, too
DEGREE = 12
PERIODIC = 3  # the first PERIODIC axes repeat
TILTED = False  # whether they are not at right angles, as in p2p.py
LOW = False  # positions have a second part, as in p2p.py
UNIT = 5.9604644775390625e-08  # the unit of the second part
# For p2p_staged_derivatives, as for p2p_staged:
TILE = 4
CHUNK = 256
LANES = 8
MANY = 1
NORMAL = 3 + PERIODIC + CHARGES
LOWER = NORMAL + 3 * NORMALS
LABEL = LOWER + 3 * LOW
ROWS = LABEL + LABELS
# Rows of its sums: values, the pressure, the gradient from SLOPES on, from PULL on what
# tensor targets read, and from BEND on what strain does.
LEVEL = OUTPUTS * VALUES
SLOPES = LEVEL + PRESSURE
PULL = SLOPES + 3 * OUTPUTS * GRADIENT
BEND = PULL + 3 * TENSORS
SUMS = BEND + 9 * STRAIN


@pk.workunit
def p2p_derivatives(
    team: pk.TeamMember,
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
    cutoff: REAL,
    coincident: REAL,
    scale: REAL,
    trg_low: pk.View2D[REAL],
    src_low: pk.View2D[REAL],
    half_low: pk.View1D[REAL],
    copies: pk.View2D[REAL],
    derivative_scale: REAL,
    tensors: pk.View2D[REAL],
    pressure: pk.View2D[REAL],
    gradient: pk.View2D[REAL],
    pull: pk.View2D[REAL],
):
    """Derivatives of the near field of one tile (column, first, last + 1) of targets.

    ``norms`` are the normals over r_c. ``coincident`` is the squared distance, over r_c, below
    which a pair counts as one point. ``scale`` multiplies the result: it has the powers of r_c and
    the factor from solver units to the user's; ``derivative_scale`` has one more power. Row 3 i + j
    of ``gradient`` is d_j u_i, row j for Laplace. Column i of ``tensors`` belongs to target i as
    given: rows 3 j + k are D_jk, row 9 is s; ``pull`` is the gradient of the readings.
    """
    begin_tile()
    take_polynomials(radial)

    def target(t: int):
        i: int = first + t
        if STRAIN:
            begin_strain(order[i])
        else:
            begin_sums()
        if MARKS:
            mark: REAL = trg[3][i]
        if LABELS:
            label: REAL = trg[3][i]
        if TENSORS:
            take_target(order[i])
        most: int = 1
        if TILTED:
            most = shape[3]
            begin_own()
        for copy in range(most):
            if TILTED:
                meet_copy()
            for c0 in range(first0, last0 + 1):
                gap0: REAL = pk.fmax(REAL(c0) * width[0] - hi0, lo0 - REAL(c0 + 1) * width[0])
                gap0 = pk.fmax(gap0, 0.0)
                w0: int = c0
                x0: REAL = trg[0][i]
                image0: int = 0
                s0: REAL = 0.0
                shift(0, w0, image0, s0, x0)
                for c1 in range(first1, last1 + 1):
                    gap1: REAL = pk.fmax(REAL(c1) * width[1] - hi1, lo1 - REAL(c1 + 1) * width[1])
                    gap1 = pk.fmax(gap1, 0.0)
                    left: REAL = cutoff * cutoff - gap0 * gap0 - gap1 * gap1
                    if left <= 0.0:
                        continue
                    w1: int = c1
                    x1: REAL = trg[1][i]
                    image1: int = 0
                    s1: REAL = 0.0
                    shift(1, w1, image1, s1, x1)
                    reach: REAL = pk.sqrt(left)
                    below: int = int(pk.floor((lo2 - reach) / width[2]))
                    above: int = int(pk.floor((hi2 + reach) / width[2]))
                    clip(2, below, above)
                    column: int = (system + w0 * shape[1] + w1) * shape[2]
                    while below <= above:
                        # One run of cells, up to the top of the box; the next image has the rest.
                        w2: int = below
                        x2: REAL = trg[2][i]
                        image2: int = 0
                        s2: REAL = 0.0
                        shift(2, w2, image2, s2, x2)
                        run: int = above - below + 1
                        if run > shape[2] - w2:
                            run = shape[2] - w2
                        below = below + run
                        begin: int = starts[column + w2]
                        end: int = starts[column + w2 + run]
                        if LOW and TILTED:
                            l0: REAL = trg_low[0][i] - copies[3][copy]
                            l1: REAL = trg_low[1][i] - copies[4][copy]
                            l2: REAL = trg_low[2][i] - copies[5][copy]
                        if LOW and 1 - TILTED:
                            l0: REAL = trg_low[0][i] - REAL(2 * image0) * half_low[0]
                            l1: REAL = trg_low[1][i] - REAL(2 * image1) * half_low[1]
                            l2: REAL = trg_low[2][i] - REAL(2 * image2) * half_low[2]
                        for j in range(begin, end):
                            r0: REAL = (x0 - (src[0][j] + s0)) * inverse
                            r1: REAL = (x1 - (src[1][j] + s1)) * inverse
                            r2: REAL = (x2 - (src[2][j] + s2)) * inverse
                            if LOW:
                                r0 += (l0 - src_low[0][j]) * (inverse * UNIT)
                                r1 += (l1 - src_low[1][j]) * (inverse * UNIT)
                                r2 += (l2 - src_low[2][j]) * (inverse * UNIT)
                            rr: REAL = r0 * r0 + r1 * r1 + r2 * r2
                            if LABELS:
                                if src[3][j] == label:
                                    rr = 1.0
                            if rr < 1.0:
                                y: REAL = 1.0 / pk.sqrt(rr)
                                if rr <= coincident:
                                    y = 0.0
                                if STRAIN:
                                    begin_sums()
                                differentiate(dens, 0, norms, 0, j)
                                if STRAIN:
                                    strain()
        out: int = order[i]
        if PRESSURE:
            pressure[0][out] = p * scale
        if TENSORS:
            pull[0][out] = pull0 * derivative_scale
            pull[1][out] = pull1 * derivative_scale
            pull[2][out] = pull2 * derivative_scale
        if STRAIN:
            gradient[0][out] = bend00 * scale
            gradient[1][out] = bend01 * scale
            gradient[2][out] = bend02 * scale
            gradient[3][out] = bend10 * scale
            gradient[4][out] = bend11 * scale
            gradient[5][out] = bend12 * scale
            gradient[6][out] = bend20 * scale
            gradient[7][out] = bend21 * scale
            gradient[8][out] = bend22 * scale
        if GRADIENT and 1 - STRAIN:
            gradient[0][out] = g00 * scale
            gradient[1][out] = g01 * scale
            gradient[2][out] = g02 * scale
            if OUTPUTS > 1:
                gradient[3][out] = g10 * scale
                gradient[4][out] = g11 * scale
                gradient[5][out] = g12 * scale
                gradient[6][out] = g20 * scale
                gradient[7][out] = g21 * scale
                gradient[8][out] = g22 * scale

    pk.parallel_for(pk.TeamThreadRange(team, last - first), target)


@pk.workunit
def p2p_staged_derivatives(
    team: pk.TeamMember,
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
    cutoff: REAL,
    coincident: REAL,
    scale: REAL,
    derivative_scale: REAL,
    gentle: REAL,
    tensors: pk.View2D[REAL],
    trg_low: pk.View2D[REAL],
    src_low: pk.View2D[REAL],
    half_low: pk.View1D[REAL],
    copies: pk.View2D[REAL],
    pot: pk.View2D[REAL],
    pressure: pk.View2D[REAL],
    gradient: pk.View2D[REAL],
    pull: pk.View2D[REAL],
):
    """The same with sources staged for all targets of the tile; and values, if wanted.

    Values are multiplied by ``gentle``, which has one power of 1/r_c less than ``scale``.
    """
    stage: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), ROWS, CHUNK + LANES)
    total: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), SUMS, TILE)
    begin_walk()
    take_polynomials(radial)

    def clear(t: int):
        for row in range(SUMS):
            total[row][t] = 0.0

    pk.parallel_for(pk.TeamThreadRange(team, last - first), clear)

    while more == 1:
        fill_stage()

        def target(t: int):
            take_vector(y0, y1, y2, trg, 0, first + t)
            if MARKS:
                mark: REAL = trg[3][first + t]
            if LABELS:
                label: REAL = trg[3][first + t]
            if LOW:
                take_vector(l0, l1, l2, trg_low, 0, first + t)
                tiny: REAL = inverse * UNIT
            if STRAIN:
                begin_strain(order[first + t])
            else:
                begin_sums()
            if TENSORS:
                take_target(order[first + t])
            for m in range(staged):
                meet(m)
                if rr < 1.0:
                    if STRAIN:
                        begin_sums()
                    differentiate(stage, 3 + PERIODIC, stage, NORMAL, m)
                    if STRAIN:
                        strain()
            if VALUES:
                total[0][t] += u0
                if OUTPUTS > 1:
                    total[1][t] += u1
                    total[2][t] += u2
            if PRESSURE:
                total[LEVEL][t] += p
            if STRAIN:
                total[BEND][t] += bend00
                total[BEND + 1][t] += bend01
                total[BEND + 2][t] += bend02
                total[BEND + 3][t] += bend10
                total[BEND + 4][t] += bend11
                total[BEND + 5][t] += bend12
                total[BEND + 6][t] += bend20
                total[BEND + 7][t] += bend21
                total[BEND + 8][t] += bend22
            if GRADIENT and 1 - STRAIN:
                total[SLOPES][t] += g00
                total[SLOPES + 1][t] += g01
                total[SLOPES + 2][t] += g02
                if OUTPUTS > 1:
                    total[SLOPES + 3][t] += g10
                    total[SLOPES + 4][t] += g11
                    total[SLOPES + 5][t] += g12
                    total[SLOPES + 6][t] += g20
                    total[SLOPES + 7][t] += g21
                    total[SLOPES + 8][t] += g22
            if TENSORS:
                total[PULL][t] += pull0
                total[PULL + 1][t] += pull1
                total[PULL + 2][t] += pull2

        pk.parallel_for(pk.TeamThreadRange(team, last - first), target)
        team.team_barrier()

    def store(t: int):
        out: int = order[first + t]
        if VALUES:
            for row in range(LEVEL):
                pot[row][out] = total[row][t] * gentle
        if PRESSURE:
            pressure[0][out] = total[LEVEL][t] * scale
        if STRAIN:
            for row in range(9):
                gradient[row][out] = total[BEND + row][t] * scale
        if GRADIENT and 1 - STRAIN:
            for row in range(3 * OUTPUTS):
                gradient[row][out] = total[SLOPES + row][t] * scale
        if TENSORS:
            for row in range(3):
                pull[row][out] = total[PULL + row][t] * derivative_scale

    pk.parallel_for(pk.TeamThreadRange(team, last - first), store)
