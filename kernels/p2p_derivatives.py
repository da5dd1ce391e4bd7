"""P2P's pressure and gradients on CPUs: derivatives of the near field, and its values, if wanted.

One team owns a tile of consecutive sorted targets of one column of cells, and stages sources as
`p2p_staged` does, for long loops. On devices `p2p_tile` has derivatives. What a pair adds to the
pressure p and the gradient, over r_c to a power, is `differentiate` in a file of ``kernels/pairs``;
see ``p2p.py``. A tensor target, with a tensor D and a strength s, reads D_jk d_k u_j + s p. With
STRAIN a target has weights w, and in the place of what it reads is the sum of (w_i d_a u_i) r_b
over its pairs: what the near field of w.u gains as points and box are strained together. If MOVED,
the distance r of a charge moves by ``motion`` r: u is the change of the potential, a dipole's.
"""

import pykokkos as pk

from kernels.blocks.radial import take_polynomials
from kernels.blocks.slopes import add_sums, begin_strain, begin_sums, end_strain, store_sums, strain
from kernels.blocks.stage import begin_walk, fill_stage, meet
from kernels.blocks.vector import take_target, take_vector
from kernels.pairs.spheres import differentiate

REAL = pk.double
CHARGES = 6  # rows of a density
OUTPUTS = 3  # rows of the velocity or potential
NORMALS = True  # whether sources have normals
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
MOVED = False  # whether sums are changes as points and box are strained by ``motion``
VALUES = False  # whether the velocity or potential is summed, too
DEGREE = 12
PERIODIC = 3  # the first PERIODIC axes repeat
LOW = False  # positions have a second part, as in p2p.py
UNIT = 5.9604644775390625e-08  # the unit of the second part
# As for p2p_staged:
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
    motion: pk.View2D[REAL],
    trg_low: pk.View2D[REAL],
    src_low: pk.View2D[REAL],
    half_low: pk.View1D[REAL],
    copies: pk.View2D[REAL],
    pot: pk.View2D[REAL],
    pressure: pk.View2D[REAL],
    gradient: pk.View2D[REAL],
    pull: pk.View2D[REAL],
):
    """Derivatives of the near field of one tile (column, first, last + 1) of targets.

    ``norms`` are the normals over r_c. ``coincident`` is the squared distance, over r_c, below
    which a pair counts as one point. ``scale`` multiplies the result: it has the powers of r_c and
    the factor from solver units to the user's; ``derivative_scale`` has one more power, and
    ``gentle``, which multiplies values, one less. Row 3 i + j of ``gradient`` is d_j u_i, row j for
    Laplace. Column i of ``tensors`` belongs to target i as given: rows 3 j + k are D_jk, row 9 is
    s; ``pull`` is the gradient of the readings. With STRAIN the columns are weights, and ``pull``
    has nine sums in the unit of w.u.
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
            if STRAIN:
                end_strain()
            add_sums(t)

        pk.parallel_for(pk.TeamThreadRange(team, last - first), target)
        team.team_barrier()

    def store(t: int):
        out: int = order[first + t]
        store_sums(t)

    pk.parallel_for(pk.TeamThreadRange(team, last - first), store)
