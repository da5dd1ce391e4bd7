"""P2P's pairs of equal labels: a sum leaves out one image of each.

It is the nearest image, or if GIVEN the one at the positions that were given. ``p2p.py`` skips
these pairs with all their images. Here one work item owns a target and meets the sources of its
label, which follow each other, in three laps:

1. The image within the cut-off adds its smooth part alone, which takes the pair from the grid's
   field. So close pairs lose no digits.
2. The grid has all of an image beyond the cut-off: its singular part is subtracted.
3. All other images within the cut-off are added, as ``p2p.py`` adds pairs.

A file of ``kernels/pairs`` has what a pair adds. ``singular`` and ``smooth`` are the weights of its
parts.
"""

from typing import List

import pykokkos as pk

from kernels.blocks.labels import begin_labels, begin_lap, meet_label
from kernels.blocks.radial import take_polynomials, take_radial
from kernels.blocks.slopes import begin_strain, begin_sums, end_strain, strain
from kernels.blocks.vector import take_target, take_vector
from kernels.pairs.spheres import differentiate, interact

REAL = pk.double
CHARGES = 6  # rows of a density
OUTPUTS = 3  # rows of the velocity or potential
NORMALS = True  # whether sources have normals
MARKS = False  # whether points have marks, as in p2p.py
TABLES = 3  # radial functions that a pair takes
WITH_VALUES = True  # whether values take one more with derivatives
PRESSURE = True
GRADIENT = True
TENSORS = False  # whether targets have tensors
STRAIN = False  # whether they have weights, as in p2p_derivatives.py
MOVED = False  # whether sums are changes, as there
VALUES = False  # whether derivatives come with the velocity or potential
EVALUATOR = 0
DEGREE = 12
PERIODIC = 3  # the first PERIODIC axes repeat
TILTED = False  # whether they are not at right angles, as in p2p.py
GIVEN = False  # whether points are left out as they were given
MANY = 1  # densities summed at once, in the rows of ``dens`` and ``pot``
LOW = False  # positions have a second part, as in p2p.py
UNIT = 5.9604644775390625e-08  # the unit of the second part
CUT = False  # PARTS cuts
PARTS = True  # whether the singular and the smooth part of a pair have weights


@pk.workunit
def p2p_labels(
    i: int,
    order: pk.View1D[pk.int32],
    begins: pk.View1D[pk.int32],
    ends: pk.View1D[pk.int32],
    trg: pk.View2D[REAL],
    src: pk.View2D[REAL],
    dens: pk.View2D[REAL],
    norms: pk.View2D[REAL],
    trg_periods: pk.View2D[REAL],
    src_periods: pk.View2D[REAL],
    copies: pk.View2D[REAL],
    half: pk.View1D[REAL],
    images: pk.View1D[pk.int32],
    side: REAL,
    radial: pk.View2D[REAL],
    xi_rc: REAL,
    cutoff: REAL,
    coincident: REAL,
    factor: REAL,
    trg_low: pk.View2D[REAL],
    src_low: pk.View2D[REAL],
    half_low: pk.View1D[REAL],
    pot: pk.View2D[REAL],
):
    """Add the pairs of target ``i`` of those with labels, whose column is ``order[i]``.

    It meets sources ``begins[i]`` to ``ends[i] - 1``. ``trg_periods`` and ``src_periods`` say how
    many periods away points were given. ``half`` are half the periods, and ``images`` how many
    images are within the cut-off to each side of the nearest one. Where two images are equally
    near, ``side`` (1 or -1) decides. If TILTED, ``copies`` are as in
    `p2p_staged`, and the lattice vectors follow; ``images`` begins with the number of copies. For
    the others see there.
    """
    begin_labels()
    take_radial(radial, xi_rc)
    for lap in range(3):
        begin_lap()
        u: List[REAL] = [0.0] * (MANY * OUTPUTS)
        for image in range(count):
            for j in range(begin, end):
                meet_label(j)
                interact(dens, 0, norms, 0, j)
        scale: REAL = sign * inverse * factor
        for d in range(MANY * OUTPUTS):
            pot[d][out] += u[d] * scale


@pk.workunit
def p2p_labels_derivatives(
    i: int,
    order: pk.View1D[pk.int32],
    begins: pk.View1D[pk.int32],
    ends: pk.View1D[pk.int32],
    trg: pk.View2D[REAL],
    src: pk.View2D[REAL],
    dens: pk.View2D[REAL],
    norms: pk.View2D[REAL],
    trg_periods: pk.View2D[REAL],
    src_periods: pk.View2D[REAL],
    copies: pk.View2D[REAL],
    half: pk.View1D[REAL],
    images: pk.View1D[pk.int32],
    side: REAL,
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
    pot: pk.View2D[REAL],
    pressure: pk.View2D[REAL],
    gradient: pk.View2D[REAL],
    pull: pk.View2D[REAL],
):
    """The same for pressure and gradients, and values if wanted: see `p2p_staged_derivatives`."""
    begin_labels()
    take_polynomials(radial)
    for lap in range(3):
        begin_lap()
        if STRAIN:
            begin_strain(out)
        else:
            begin_sums()
        if TENSORS:
            take_target(out)
        for image in range(count):
            for j in range(begin, end):
                meet_label(j)
                if rr >= least and rr < most:
                    if STRAIN:
                        begin_sums()
                    differentiate(dens, 0, norms, 0, j)
                    if STRAIN:
                        strain()
        if STRAIN:
            end_strain()
        if VALUES:
            pot[0][out] += sign * gentle * u0
            if OUTPUTS > 1:
                pot[1][out] += sign * gentle * u1
                pot[2][out] += sign * gentle * u2
        if PRESSURE:
            pressure[0][out] += sign * scale * p
        if TENSORS:
            pull[0][out] += sign * derivative_scale * pull0
            pull[1][out] += sign * derivative_scale * pull1
            pull[2][out] += sign * derivative_scale * pull2
        if STRAIN:
            pull[0][out] += sign * derivative_scale * bend00
            pull[1][out] += sign * derivative_scale * bend01
            pull[2][out] += sign * derivative_scale * bend02
            pull[3][out] += sign * derivative_scale * bend10
            pull[4][out] += sign * derivative_scale * bend11
            pull[5][out] += sign * derivative_scale * bend12
            pull[6][out] += sign * derivative_scale * bend20
            pull[7][out] += sign * derivative_scale * bend21
            pull[8][out] += sign * derivative_scale * bend22
        if GRADIENT:
            gradient[0][out] += sign * scale * g00
            gradient[1][out] += sign * scale * g01
            gradient[2][out] += sign * scale * g02
            if OUTPUTS > 1:
                gradient[3][out] += sign * scale * g10
                gradient[4][out] += sign * scale * g11
                gradient[5][out] += sign * scale * g12
                gradient[6][out] += sign * scale * g20
                gradient[7][out] += sign * scale * g21
                gradient[8][out] += sign * scale * g22
