"""Iterations of conjugate gradients whose numbers stay on the device.

A work item owns an entry of vectors, which are flat. It reads the numbers that launches before have
left. The first item writes new ones, which nobody reads in the same launch.
"""

import pykokkos as pk

REAL = pk.double


@pk.workunit
def multiply_parts(
    i: int,
    lead: int,
    stride: int,
    most: int,
    total: int,
    first: pk.View1D[REAL],
    second: pk.View1D[REAL],
    row: int,
    parts: pk.View2D[pk.double],
):
    """Write a part of the dot product of two vectors, of ``most`` entries from ``lead`` i on."""
    sum: pk.double = 0.0
    k: int = lead * i
    for _ in range(most):
        if k < total:
            one: pk.double = first[k]
            sum += one * second[k]
        k = k + stride
    parts[row][i] = sum


@pk.workunit
def direct(
    i: int,
    step: int,
    error: REAL,
    rounding: REAL,
    products: pk.View1D[REAL],
    states: pk.View2D[REAL],
    z: pk.View1D[REAL],
    towards: pk.View1D[REAL],
):
    """Take the next direction, if the error is not small; leave the numbers of row ``step`` + 1.

    ``products`` are those of what is left with itself and with z. A row of ``states`` has how far
    z was along what is left, the energy until then, the whole of it, whether steps go on, how many
    did, and what is off, of how much.
    """
    every: REAL = products[0]
    size: REAL = products[1]
    whole: REAL = states[step][2]
    going: REAL = states[step][3]
    if step == 0:
        whole = every
    off: REAL = every - size
    part: REAL = whole - states[step][1]
    on: REAL = 0.0
    if step == 0:
        if whole > 0.0:
            on = 1.0
    elif off > error * error * part + rounding * whole:
        on = 1.0
    going = going * on
    factor: REAL = 0.0
    if going > 0.0:
        factor = size / states[step][0]
    towards[i] = factor * towards[i] + z[i]
    if i == 0:
        states[step + 1][0] = size
        states[step + 1][2] = whole
        states[step + 1][3] = going
        states[step + 1][5] = off
        states[step + 1][6] = 1.0
        if part > 0.0:
            states[step + 1][6] = part


@pk.workunit
def go(
    i: int,
    step: int,
    products: pk.View1D[REAL],
    states: pk.View2D[REAL],
    towards: pk.View1D[REAL],
    less: pk.View1D[REAL],
    motions: pk.View1D[REAL],
    left: pk.View1D[REAL],
):
    """Go along a direction, which takes ``less`` of what is left, if steps go on.

    ``products`` has that of both. What has been gone so far adds to ``motions``.
    """
    size: REAL = states[step + 1][0]
    ahead: REAL = 0.0
    if states[step + 1][3] > 0.0:
        ahead = 0.0 - size / products[0]
    motions[i] = motions[i] + ahead * towards[i]
    left[i] = left[i] + ahead * less[i]
    if i == 0:
        states[step + 1][1] = states[step][1] + ahead * size
        states[step + 1][4] = states[step][4] + states[step + 1][3]


@pk.workunit
def step_on(
    i: int,
    total: int,
    moved: int,
    left: pk.View1D[pk.double],
    energy: pk.View1D[pk.double],
    p: pk.View1D[REAL],
    h: pk.View1D[REAL],
    x: pk.View1D[REAL],
    residual: pk.View1D[REAL],
    v: pk.View1D[REAL],
    u: pk.View1D[REAL],
    length: pk.View1D[pk.double],
):
    """Go along p and v as far as is best, which takes h off the residual."""
    size: pk.double = left[0] / energy[0]
    if i < total:
        x[i] = x[i] + size * p[i]
        residual[i] = residual[i] - size * h[i]
    if i < moved:
        u[i] = u[i] + size * v[i]
    if i == 0:
        length[0] = size


@pk.workunit
def conjugate(
    i: int,
    total: int,
    moved: int,
    products: pk.View1D[pk.double],
    energy: pk.View1D[pk.double],
    length: pk.View1D[pk.double],
    z: pk.View1D[REAL],
    p: pk.View1D[REAL],
    w: pk.View1D[REAL],
    v: pk.View1D[REAL],
    left: pk.View1D[pk.double],
    numbers: pk.View1D[pk.double],
):
    """Take z and w as directions, less what they have of p and v.

    ``products`` are of z with the residual, which has become orthogonal to p, and with h. They stay
    so where the preconditioner is inexact.
    """
    size: pk.double = 0.0 - products[1] / energy[0]
    if i < total:
        p[i] = z[i] + size * p[i]
    if i < moved:
        v[i] = w[i] + size * v[i]
    if i == 0:
        left[0] = products[0]
        numbers[0] = length[0] * products[0]
        numbers[2] = energy[0]
