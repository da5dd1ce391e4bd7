"""FGC's convolution (CNV): multiplies a block of Fourier modes by the far-field symbol, in place.

    Stokes   u = M [ k^2 A - k (k.A) + i k k^2 D ]      (A, D from P2G; D = 0 for a dipole)
    Laplace  phi = M q
    rotlet   u = i M k x t                          (M as for Laplace)
    pressure p = -i M k^2 (k.A)

as in "The far field in Fourier space" of docs/theory.md,
with the real multiplier M (split, window, truncation of the kernel and scale, tabulated for
non-negative wavenumbers). One work item owns one mode. Complex numbers are pairs of reals.

`evaluate` and `tabulate` make M when a plan is made.
"""

from typing import List

import pykokkos as pk

REAL = pk.double
SINGLE = True
DOUBLE = True
LAPLACE = False
ROTLET = False
DIPOLE = False
VELOCITY = True  # whether the velocity is computed, in components 0 to 2
PRESSURE = False  # whether the pressure is computed, in the component after the velocity
QUARTIC = True  # whether M is over k^4, or over k^2
GIVEN = False  # whether the transform of a kernel that ends is given
DECAYS = False  # whether the split's factor has an exponential
TERMS = 19  # terms of a Chebyshev series
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
    inverse_unit: REAL,
    sets: int,
):
    """Convolve mode i of a block of ``shape`` modes, for each of ``sets`` grids.

    The modes of a grid follow the modes of another within each plane of the first axis.

    ``k`` is zero at the Nyquist index of an even length (an odd factor has no place there),
    ``square`` is k^2 everywhere. ``full`` holds the transform lengths: the multiplier is folded at
    half of each. The pressure and the flow of a rotlet or a dipole have one length less in their
    unit than what M is scaled for: they are multiplied by ``inverse_unit``.
    """
    i2: int = i % shape[2]
    i1: int = i // shape[2] % shape[1]
    i0: int = i // shape[2] // shape[1] // sets
    f1: int = i1
    if 2 * f1 > full[1]:
        f1 = full[1] - f1
    f2: int = i2
    if 2 * f2 > full[2]:
        f2 = full[2] - f2
    m: REAL = multiplier[i0][f1][f2]
    # A block may have more than 2^30 modes.
    re: pk.int64 = i
    re = 2 * re
    im: pk.int64 = re + 1
    if LAPLACE:
        hat[0][re] = hat[0][re] * m
        hat[0][im] = hat[0][im] * m
    if ROTLET or DIPOLE:
        m = m * inverse_unit
    if SINGLE or DOUBLE or ROTLET or DIPOLE:
        x: REAL = k0[i0]
        y: REAL = k1[i1]
        z: REAL = k2[i2]
        if SINGLE or DOUBLE or DIPOLE:
            kk: REAL = square0[i0] + square1[i1] + square2[i2]
        a0: REAL = hat[0][re]
        b0: REAL = hat[0][im]
        a1: REAL = hat[1][re]
        b1: REAL = hat[1][im]
        a2: REAL = hat[2][re]
        b2: REAL = hat[2][im]
    if ROTLET:
        hat[0][re] = m * (z * b1 - y * b2)
        hat[0][im] = m * (y * a2 - z * a1)
        hat[1][re] = m * (x * b2 - z * b0)
        hat[1][im] = m * (z * a0 - x * a2)
        hat[2][re] = m * (y * b0 - x * b1)
        hat[2][im] = m * (x * a1 - y * a0)
    if SINGLE or DOUBLE or DIPOLE:
        a: REAL = x * a0 + y * a1 + z * a2
        b: REAL = x * b0 + y * b1 + z * b2
        if PRESSURE:
            scale: REAL = m * kk * inverse_unit
            pressure_re: REAL = scale * b
            pressure_im: REAL = 0.0 - scale * a
        if VELOCITY:
            # k (k.A) - i k k^2 D = k times this
            if DOUBLE:
                a = a + kk * hat[3][im]
                b = b - kk * hat[3][re]
            hat[0][re] = m * (kk * a0 - x * a)
            hat[0][im] = m * (kk * b0 - x * b)
            hat[1][re] = m * (kk * a1 - y * a)
            hat[1][im] = m * (kk * b1 - y * b)
            hat[2][re] = m * (kk * a2 - z * a)
            hat[2][im] = m * (kk * b2 - z * b)
        if PRESSURE:
            hat[3 * VELOCITY][re] = pressure_re
            hat[3 * VELOCITY][im] = pressure_im


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
    given: pk.View1D[pk.double],
    gamma: pk.View1D[pk.double],
    terms: int,
    scale: pk.double,
    shift: pk.double,
    end: pk.double,
    strength: pk.double,
):
    """Make M for mode i of a block of ``shape`` modes, from the squares of its wavenumbers.

    M is ``strength`` (4 pi or 8 pi) over k^2 or k^4, and 0 at k = 0; or the transform if GIVEN.
    The factors of the split and the windows multiply it. The split's factor is a polynomial of
    ``terms`` coefficients in ``scale k^2 - shift``, and 0 where ``scale k^2`` is beyond ``end``.
    """
    i2: int = i % shape[2]
    i1: int = i // shape[2] % shape[1]
    i0: int = i // shape[2] // shape[1]
    kk: pk.double = square0[i0] + square1[i1] + square2[i2]
    value: pk.double = 0.0
    x: pk.double = scale * kk
    if kk > 0.0 or GIVEN:
        if x <= end:
            if GIVEN:
                value = given[i]
            else:
                value = strength / kk
                if QUARTIC:
                    value = value / kk
            factor: pk.double = gamma[0]
            for t in range(1, terms):
                factor = factor * (x - shift) + gamma[t]
            if DECAYS:
                factor = factor * pk.exp(0.0 - x)
            value = value * factor * window0[i0] * window1[i1] * window2[i2]
    multiplier[i] = REAL(value)
