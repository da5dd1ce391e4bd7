"""FGC's convolution (CNV): multiplies a block of Fourier modes by the far-field symbol, in place.

The symbol is a real multiplier M (split, window, truncation of the kernel and scale, tabulated for
non-negative wavenumbers) times a tensor structure, which a file of ``kernels/symbols`` has; see
"The far field in Fourier space" of docs/theory.md. One work item owns one mode. Complex numbers are
pairs of reals.

`evaluate`, `truncate` and `tabulate` make M when a plan is made.
"""

from typing import List

import pykokkos as pk

from kernels.symbols.flow import multiply

REAL = pk.double
COMPONENTS = 4  # fields that sources were spread onto
VELOCITY = True  # whether the velocity is wanted, in components 0 to 2
PRESSURE = False  # whether the pressure is, in the component after it
SECOND_SOURCES = False  # whether a second grid has sources of the Laplacian
SECOND_TARGETS = False  # whether a second grid takes the Laplacian of the first one
TWICE = SECOND_SOURCES + SECOND_TARGETS > 0
BRINKMAN = False  # whether M is over k^2 (k^2 + alpha2)
PLANE = False  # whether ``plane`` has M (k^2 + alpha2) of the modes along the last axis
TILTED = False  # whether the axes of the box are not at right angles
TERMS = 20  # terms of a Chebyshev series
MODES = 16  # lowest modes along an axis, which `sum_lowest_modes` sums without the grid
WIDTH = 8  # functions evaluated at a time


@pk.workunit
def convolve(
    i: int,
    hat: pk.View2D[REAL],
    multiplier: pk.View3D[REAL],
    shape: pk.View1D[pk.int32],
    full: pk.View1D[pk.int32],
    k0: pk.View1D[REAL],
    k1: pk.View1D[REAL],
    k2: pk.View1D[REAL],
    square0: pk.View1D[REAL],
    square1: pk.View1D[REAL],
    square2: pk.View1D[REAL],
    basis: pk.View2D[REAL],
    unit: REAL,
    inverse_unit: REAL,
    alpha2: REAL,
    plane: pk.View1D[REAL],
    sets: int,
    systems: int,
):
    """Convolve mode i of a block of ``shape`` modes, for each of ``sets`` grids.

    The modes of a grid follow the modes of another within each plane of the first axis. If TWICE,
    ``sets`` counts pairs of grids: the second one follows the first, by ``apart`` numbers.

    ``k`` is zero at the Nyquist index of an even length (an odd factor has no place there),
    ``square`` is k^2 everywhere. ``full`` holds the transform lengths: the multiplier is folded at
    half of each. M is scaled for velocities with one inverse length; ``unit`` has the others.
    A pressure has one more, ``inverse_unit``.

    With BRINKMAN a pressure takes ``M (k^2 + alpha2)`` in place of ``M k^2``, and from ``plane``
    for modes along the last axis.

    If TILTED, ``k`` are the grid's wavenumbers; the transpose of ``basis`` times them is the box's.
    M is folded along the last axis alone, and only if this axis is free.

    The sets are of ``systems`` with boxes of their own, in turn, each with a ``basis`` and an M.
    The rows of M are of all systems at the first mode along the first axis, then at the second one.
    """
    i2: int = i % shape[2]
    i1: int = i // shape[2] % shape[1]
    i0: int = i // shape[2] // shape[1] // sets
    box: int = 0
    own: int = i0
    if systems > 1:
        system: int = i // shape[2] // shape[1] % sets % systems
        box = 3 * system
        own = i0 * systems + system
    f1: int = i1
    if 2 * f1 > full[1]:
        f1 = full[1] - f1
    f2: int = i2
    if 2 * f2 > full[2]:
        f2 = full[2] - f2
    m: REAL = multiplier[own][f1][f2]
    # A block may have more than 2^30 modes.
    re: pk.int64 = i
    if TWICE:
        re = re + i // (shape[1] * shape[2]) * (shape[1] * shape[2])
    re = 2 * re
    im: pk.int64 = re + 1
    m = m * unit
    if TWICE:
        if TILTED:
            along0: REAL = basis[box][0] * k0[i0]
            along1: REAL = basis[box][1] * k0[i0] + basis[box + 1][1] * k1[i1]
            along2: REAL = basis[box][2] * k0[i0] + basis[box + 1][2] * k1[i1]
            along2 = along2 + basis[box + 2][2] * k2[i2]
            square: REAL = along0 * along0 + along1 * along1 + along2 * along2
        else:
            square: REAL = square0[i0] + square1[i1] + square2[i2]
        apart: int = 2 * shape[1] * shape[2]
    if SECOND_SOURCES:
        for c in range(COMPONENTS):
            hat[c][re] = hat[c][re] - square * hat[c][re + apart]
            hat[c][im] = hat[c][im] - square * hat[c][im + apart]
    multiply()
    if SECOND_TARGETS:
        for c in range(COMPONENTS):
            hat[c][re + apart] = 0.0 - square * hat[c][re]
            hat[c][im + apart] = 0.0 - square * hat[c][im]


@pk.workunit
def strain(
    i: int,
    hat: pk.View2D[REAL],
    multiplier: pk.View3D[REAL],
    rise: pk.View3D[REAL],
    shape: pk.View1D[pk.int32],
    full: pk.View1D[pk.int32],
    k0: pk.View1D[REAL],
    k1: pk.View1D[REAL],
    k2: pk.View1D[REAL],
    times0: pk.View1D[pk.double],
    times2: pk.View1D[pk.double],
    sets: int,
    systems: int,
    sums: pk.View2D[pk.double],
):
    """Sum over the modes of row i along the last axis, before they are convolved as in `convolve`.

    The sums are of M |q|^2, and of its change with k^2 times the products of two components of the
    grid's k: 00, 01, 02, 11, 12, 22. ``rise`` is M differentiated by k^2, ``times0[i0] times2[i2]``
    how many modes a mode stands for.
    """
    i1: int = i % shape[1]
    i0: int = i // shape[1] // sets
    own: int = i0
    if systems > 1:
        own = i0 * systems + i // shape[1] % sets % systems
    f1: int = i1
    if 2 * f1 > full[1]:
        f1 = full[1] - f1
    start: pk.int64 = i
    start = 2 * start * shape[2]
    total: pk.double = 0.0
    plain: pk.double = 0.0
    along: pk.double = 0.0
    squared: pk.double = 0.0
    for i2 in range(shape[2]):
        f2: int = i2
        if 2 * f2 > full[2]:
            f2 = full[2] - f2
        re: pk.double = hat[0][start + 2 * i2]
        im: pk.double = hat[0][start + 2 * i2 + 1]
        value: pk.double = times2[i2] * (re * re + im * im)
        last: pk.double = k2[i2]
        change: pk.double = rise[own][f1][f2] * value
        total += multiplier[own][f1][f2] * value
        plain += change
        along += change * last
        squared += change * last * last
    first: pk.double = k0[i0]
    second: pk.double = k1[i1]
    sums[0][i] = times0[i0] * total
    sums[1][i] = times0[i0] * first * first * plain
    sums[2][i] = times0[i0] * first * second * plain
    sums[3][i] = times0[i0] * first * along
    sums[4][i] = times0[i0] * second * second * plain
    sums[5][i] = times0[i0] * second * along
    sums[6][i] = times0[i0] * squared


@pk.workunit
def sum_lowest_modes(
    i: int,
    rotation: pk.View2D[pk.double],
    weights: pk.View2D[pk.double],
    offsets: pk.View1D[pk.int32],
    pieces: int,
    sums: pk.View2D[pk.double],
):
    """Sum a row of weights times the powers 1 to MODES of complex numbers, over a piece of points.

    Item i is (row, piece). The real and the imaginary parts of each power are two rows of ``sums``.
    """
    row: int = i // pieces
    piece: int = i % pieces
    real: List[pk.double] = [0.0] * MODES
    imaginary: List[pk.double] = [0.0] * MODES
    for point in range(offsets[piece], offsets[piece + 1]):
        cosine: pk.double = rotation[point][0]
        sine: pk.double = rotation[point][1]
        x: pk.double = weights[row][point]
        y: pk.double = 0.0
        for mode in range(MODES):
            rotated: pk.double = x * cosine - y * sine
            y = x * sine + y * cosine
            x = rotated
            real[mode] += x
            imaginary[mode] += y
    for mode in range(MODES):
        sums[2 * (MODES * row + mode)][piece] = real[mode]
        sums[2 * (MODES * row + mode) + 1][piece] = imaginary[mode]


@pk.workunit
def evaluate(
    i: int,
    pieces: pk.View3D[REAL],
    places: pk.View1D[REAL],
    values: pk.View2D[REAL],
    groups: int,
    intervals: int,
):
    """Evaluate functions given by Chebyshev series on equal intervals, at place i.

    ``pieces`` has shape (terms, intervals, functions), ``values`` (functions, places). Places are
    measured in intervals from the start, and functions come in groups of WIDTH.
    """
    place: REAL = places[i]
    index: int = int(place)
    if index > intervals - 1:
        index = intervals - 1
    twice: REAL = 4.0 * (place - REAL(index)) - 2.0
    later: List[REAL] = [0.0] * WIDTH
    value: List[REAL] = [0.0] * WIDTH
    for group in range(groups):
        first: int = group * WIDTH
        for m in range(WIDTH):
            later[m] = 0.0
            value[m] = pieces[TERMS - 1][index][first + m]
        # Clenshaw's recurrence: powers of the place would amplify rounding a million times.
        for t in range(TERMS - 2):
            for m in range(WIDTH):
                after: REAL = twice * value[m] - later[m] + pieces[TERMS - 2 - t][index][first + m]
                later[m] = value[m]
                value[m] = after
        for m in range(WIDTH):
            values[first + m][i] = 0.5 * twice * value[m] - later[m] + pieces[0][index][first + m]


@pk.workunit
def truncate(
    i: int,
    values: pk.View2D[pk.double],
    squares: pk.View1D[pk.double],
    across: pk.View1D[pk.double],
    faded: pk.View2D[pk.double],
    row: pk.View1D[pk.int32],
    constant: pk.View1D[pk.double],
    whole: pk.double,
    largest: pk.double,
    screening: pk.double,
    order: int,
    count: int,
):
    """Make the transform of a kernel that ends, at mode and wavenumber i, from what fading adds.

    The kernel is ``whole / k^2`` for k^2 = ``squares + across^2``, over ``k^2 + screening``
    again if ``order`` is 2; with order 1 screening is in the k^2. ``faded`` has rows for some modes
    (``row`` is -1 without), up to ``largest``; ``constant`` is added where ``across`` is 0.
    """
    m: int = i // count
    j: int = i - m * count
    k: pk.double = across[j]
    square: pk.double = squares[m] + k * k
    value: pk.double = 0.0
    if square > 0.0:
        value = whole
        if row[m] >= 0 and k <= largest:
            value -= faded[row[m]][j]
        if order == 2:
            value = value / (square * (square + screening))
        else:
            value = value / (square + screening)
        if k == 0.0:
            value += constant[m]
    values[m][j] = value


@pk.workunit
def tabulate(
    i: int,
    multiplier: pk.View1D[REAL],
    shape: pk.View1D[pk.int32],
    square0: pk.View1D[pk.double],
    square1: pk.View1D[pk.double],
    square2: pk.View1D[pk.double],
    window0: pk.View1D[pk.double],
    window1: pk.View1D[pk.double],
    window2: pk.View1D[pk.double],
    basis: pk.View2D[pk.double],
    screening: pk.double,
    alpha2: pk.double,
    given: pk.View1D[pk.double],
    ends: int,
    order: int,
    gamma: pk.View1D[pk.double],
    decays: int,
    terms: int,
    scale: pk.double,
    shift: pk.double,
    end: pk.double,
    strength: pk.double,
    systems: int,
):
    """Make M for mode i of a block of ``shape`` modes, from the squares of its wavenumbers.

    M is ``strength`` (4 pi or 8 pi) over k^2, or with ``order`` 2 over ``k^2 (k^2 + alpha2)``, and
    0 at k = 0; or the transform that is ``given``, if the kernel ``ends``.
    The factors of the split and the windows multiply it. The split's factor is a polynomial of
    ``terms`` coefficients in ``scale k^2 - shift``, and 0 where ``scale k^2`` is beyond ``end``;
    it has an exponential if it ``decays``.

    If TILTED, wavenumbers of the grid are in the place of squares; ``basis`` is as in `convolve`,
    and the volume of the grid's box over the box's, its determinant, is a factor. The rows of all
    ``systems`` with boxes of their own follow each other at each mode along the first axis.
    """
    i2: int = i % shape[2]
    i1: int = i // shape[2] % shape[1]
    i0: int = i // shape[2] // shape[1]
    box: int = 0
    if systems > 1:
        box = i0 % systems * 3
        i0 = i0 // systems
    part: pk.double = 1.0
    if TILTED:
        x0: pk.double = basis[box][0] * square0[i0]
        x1: pk.double = basis[box][1] * square0[i0] + basis[box + 1][1] * square1[i1]
        x2: pk.double = basis[box][2] * square0[i0] + basis[box + 1][2] * square1[i1]
        x2 = x2 + basis[box + 2][2] * square2[i2]
        part = basis[box][0] * basis[box + 1][1] * basis[box + 2][2]
        kk: pk.double = x0 * x0 + x1 * x1 + x2 * x2 + screening * screening
    else:
        kk: pk.double = square0[i0] + square1[i1] + square2[i2]
    value: pk.double = 0.0
    x: pk.double = scale * kk
    if kk > 0.0 or ends == 1:
        if x <= end:
            if ends == 1:
                value = given[i]
            else:
                value = strength / kk
                if order == 2:
                    value = value / (kk + alpha2)
            factor: pk.double = gamma[0]
            for t in range(1, terms):
                factor = factor * (x - shift) + gamma[t]
            if decays == 1:
                factor = factor * pk.exp(0.0 - x)
            value = value * part * factor * window0[i0] * window1[i1] * window2[i2]
    multiplier[i] = REAL(value)
