"""The walk over sources of a target's label, which ``p2p_labels.py`` describes."""

from kernels.blocks.vector import take_vector


def begin_labels():
    """Take the target to x0, x1, x2, and what all laps share."""
    out: int = order[i]
    begin: int = begins[i]
    end: int = ends[i]
    inverse: REAL = 1.0 / cutoff
    take_vector(x0, x1, x2, trg, 0, i)
    if MARKS:
        mark: REAL = trg[3][i]
    if LOW:
        take_vector(l0, l1, l2, trg_low, 0, i)
    # Images on either side of the nearest one, and all of them.
    sides0: int = 0
    sides1: int = 0
    sides2: int = 0
    if PERIODIC > 0:
        sides0 = images[0]
        rate0: REAL = 0.5 / half[0]
    if PERIODIC > 1:
        sides1 = images[1]
        rate1: REAL = 0.5 / half[1]
    if PERIODIC > 2:
        sides2 = images[2]
        rate2: REAL = 0.5 / half[2]
    across1: int = 2 * sides1 + 1
    across2: int = 2 * sides2 + 1
    around: int = (2 * sides0 + 1) * across1 * across2
    # Pairs beyond the cut-off, and periods between images left out and the nearest ones. Loops that
    # carry sums alone are vectors.
    far: REAL = 0.0
    apart: REAL = 0.0


def begin_lap():
    """Set weights, sign and distances of a lap, and the count of its images."""
    singular = 1.0
    smooth = 1.0
    sign: REAL = 1.0
    least = 0.0
    most = 1.0
    count: int = around
    if lap == 0:
        singular = 0.0
        count = 1
    if lap == 1:
        smooth = 0.0
        sign = -1.0
        least = 1.0
        most = 1.0e30
        count = 1
        if far < 1.0:
            count = 0
    if lap == 2 and around == 1 and apart < 0.5:
        count = 0


def displace(axis, r, x, rate, steps, shift, out):
    """Take ``r`` of an axis from the position of source j to the displacement of the lap's image.

    The image is ``shift`` periods away, and the one that is left out ``out`` periods.
    """
    if PERIODIC > axis:
        shift: REAL = side * pk.floor(0.5 + side * (x - r) * rate)
        out: REAL = shift
        if GIVEN:
            out = src_periods[axis][j] - trg_periods[axis][i]
            apart += pk.fabs(out - shift)
        if lap == 2:
            shift = shift + steps
        else:
            shift = out
        r = (x - shift * half[axis]) - (r + shift * half[axis])
    else:
        r = x - r


def meet_label(j):
    """Take the distance of source j, or of an image of it, as ``p2p.py`` says."""
    take_vector(r0, r1, r2, src, 0, j)
    steps0: REAL = 0.0
    steps1: REAL = 0.0
    steps2: REAL = 0.0
    if lap == 2:
        steps0 = REAL(image // (across1 * across2) - sides0)
        steps1 = REAL(image // across2 % across1 - sides1)
        steps2 = REAL(image % across2 - sides2)
    displace(0, r0, x0, rate0, steps0, shift0, out0)
    displace(1, r1, x1, rate1, steps1, shift1, out1)
    displace(2, r2, x2, rate2, steps2, shift2, out2)
    r0 = r0 * inverse
    r1 = r1 * inverse
    r2 = r2 * inverse
    if LOW:
        tiny: REAL = inverse * UNIT
        low0: REAL = l0 - src_low[0][j]
        low1: REAL = l1 - src_low[1][j]
        low2: REAL = l2 - src_low[2][j]
        if PERIODIC > 0:
            low0 = low0 - 2.0 * shift0 * half_low[0]
        if PERIODIC > 1:
            low1 = low1 - 2.0 * shift1 * half_low[1]
        if PERIODIC > 2:
            low2 = low2 - 2.0 * shift2 * half_low[2]
        r0 += low0 * tiny
        r1 += low1 * tiny
        r2 += low2 * tiny
    rr: REAL = r0 * r0 + r1 * r1 + r2 * r2
    y: REAL = 1.0 / pk.sqrt(rr)
    if rr <= coincident:
        y = 0.0
    beyond: REAL = 0.0
    if rr >= 1.0:
        beyond = 1.0
    far += beyond
    if lap == 2:
        beside: REAL = 0.0
        if PERIODIC > 0:
            beside = pk.fabs(shift0 - out0)
        if PERIODIC > 1:
            beside = beside + pk.fabs(shift1 - out1)
        if PERIODIC > 2:
            beside = beside + pk.fabs(shift2 - out2)
        if beside < 0.5:
            rr = 1.0
