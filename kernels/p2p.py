"""P2P: the near field, over pairs closer than the cut-off.

Sources are sorted by cells that are columns in x and y, cut finely along z, so that all sources of
one column between two heights are one contiguous run. `p2p_staged`: one team owns a tile of
consecutive sorted targets of one column and writes only their potentials. It copies the runs within
the cut-off of the tile's bounding box to scratch memory, CHUNK sources at a time. Runs are short,
and one loop over many staged sources vectorises where many loops over few do not. ``p2p_tile.py``
walks the same columns on a device.

A file of ``kernels/pairs`` has what a pair adds: `interact` to u here, and `differentiate` to the
sums of ``p2p_derivatives.py``. Its formulas have y = r_c/r, e = (x - y)/r, r over r_c, and
polynomials in s = 2 r^2 - 1, the tables of ``parki/ewald/sums/tables.py``, by their names. The rows
of ``radial`` are TABLES of them. They are the smooth remainders of the full kernels, so a
coinciding pair needs only y = 0 to lose its singular part and keep the rest.

The caller sets the distance over r_c (r0, r1, r2), its square rr, and y. A source's density is in
column ``at`` of ``density``, from ``row`` on, and its normal likewise; the d-th of MANY densities
is d CHARGES further, and what it adds d OUTPUTS further in u.

With MARKS each point has a number, such as a radius. The fourth row of ``trg`` has the targets',
which the caller takes to ``mark``, and the last row of a density has the sources'.

With LABELS the fourth rows of ``trg`` and ``src`` have whole numbers. Pairs of equal ones are left
to ``p2p_labels.py``.

EVALUATOR 1 and 2 take Hasimoto's radial functions from their formulas instead. With z = xi r_c and
r in units of r_c: psi = z / sqrt(pi) exp(-(z r)^2), psi1 = -2 z^2 psi, flow = smooth0 + psi, and
smooth1 = (smooth0 - psi) / r^2, where

    1   smooth0 = erf(z r) / 2 r by the library
    2   smooth0 = N(r^2) / D(r^2), rows N and D of ``radial``

The difference smooth0 - psi loses digits at small r. But smooth1 occurs only as smooth1 r^2 added
to y, and the singular part loses these digits anyway.
"""

from typing import List

import pykokkos as pk

from kernels.blocks.radial import take_radial
from kernels.blocks.stage import begin_walk, fill_stage, meet
from kernels.blocks.vector import take_vector
from kernels.pairs.spheres import interact

REAL = pk.double
CHARGES = 6  # rows of a density
OUTPUTS = 3  # rows of results
NORMALS = True  # whether sources have normals
MARKS = False  # whether points have marks
LABELS = False  # whether points have labels
PARTS = False  # whether parts of pairs have weights, as in p2p_labels.py
TABLES = 3  # radial functions that a pair takes
EVALUATOR = 0  # of the radial functions: 0 polynomials, 1 the library's erf and exp, 2 rational
DEGREE = 12  # of the polynomials: the radial functions, or N and D
PERIODIC = 3  # the first PERIODIC axes repeat
TILE = 4  # most targets of a tile
CHUNK = 256  # sources staged at a time, a multiple of LANES
LANES = 8  # sources are staged by whole vectors
MANY = 1  # densities summed at once, in the rows of ``dens`` and ``pot``
LOW = False  # positions have a second part, for distances of close points: see below
NORMAL = 3 + PERIODIC + MANY * CHARGES
LOWER = NORMAL + 3 * NORMALS
LABEL = LOWER + 3 * LOW
ROWS = LABEL + LABELS
UNIT = 5.9604644775390625e-08  # 2^-24, the unit of the second parts
# Whether `interact` gets pairs beyond the cut-off, and adds zeros for them. A branch saves a vector
# no work and would keep its sums in memory; library functions are not for vectors.
CUT = EVALUATOR == 0


@pk.workunit
def p2p_staged(
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
    xi_rc: REAL,
    cutoff: REAL,
    coincident: REAL,
    factor: REAL,
    trg_low: pk.View2D[REAL],
    src_low: pk.View2D[REAL],
    half_low: pk.View1D[REAL],
    copies: pk.View2D[REAL],
    pot: pk.View2D[REAL],
):
    """Near field of one tile (column, first, last + 1) of targets, over all images in reach.

    The columns of a system follow the columns of another, which is not part of its sums.

    ``norms`` are the normals over r_c. ``coincident`` is the squared distance, over r_c, below
    which a pair counts as one point. ``xi_rc`` is z above; polynomials do not use it. ``factor``
    multiplies the result.

    The rows of the stage are position, shift of the target (periodic axes), density, normal, and
    the second parts of position and shift together. ``src_low`` has the position's over UNIT.
    Second parts have a factor of their own: compilers may reorder sums with one factor.

    For ``shape`` see ``walk.py``. In a tilted box points fill a brick, and ``copies`` has the
    shifts of its copies in reach; see `meet_copy`.

    Runs are copied by whole vectors: ``src``, ``dens`` and ``norms`` have LANES - 1 columns beyond
    the last source. The next run or the surplus overwrites what a vector copies beyond its run.
    """
    stage: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), ROWS, CHUNK + LANES)
    total: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), MANY * OUTPUTS, TILE)
    begin_walk()
    take_radial(radial, xi_rc)

    def clear(t: int):
        for d in range(MANY * OUTPUTS):
            total[d][t] = 0.0

    pk.parallel_for(pk.TeamThreadRange(team, last - first), clear)

    while more == 1:
        fill_stage()

        def target(t: int):
            take_vector(y0, y1, y2, trg, 0, first + t)
            if MARKS:
                mark: REAL = trg[3][first + t]
            if LABELS:
                label: REAL = trg[3][first + t]
            u: List[REAL] = [0.0] * (MANY * OUTPUTS)
            if LOW:
                take_vector(l0, l1, l2, trg_low, 0, first + t)
                tiny: REAL = inverse * UNIT
            for m in range(staged):
                meet(m)
                if CUT or rr < 1.0:
                    interact(stage, 3 + PERIODIC, stage, NORMAL, m)
            for d in range(MANY * OUTPUTS):
                total[d][t] += u[d]

        pk.parallel_for(pk.TeamThreadRange(team, last - first), target)
        team.team_barrier()

    def store(t: int):
        out: int = order[first + t]
        scale: REAL = inverse * factor
        for d in range(MANY * OUTPUTS):
            pot[d][out] = total[d][t] * scale

    pk.parallel_for(pk.TeamThreadRange(team, last - first), store)
