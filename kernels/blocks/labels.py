"""The walk over sources of a target's label, which ``p2p_labels.py`` describes."""

from kernels.blocks.vector import take_vector
from parki.runtime.scopes import block


@block(
    reads="begins cutoff ends half i images order trg trg_low",
    writes=(
        "across1 across2 apart around begin end far inverse l0 l1 l2 mark out rate0 rate1 rate2 "
        "sides0 sides1 sides2 x0 x1 x2"
    ),
)
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
    if TILTED:
        around = images[0]
    # Pairs beyond the cut-off, and periods between images left out and the nearest ones. Loops that
    # carry sums alone are vectors.
    far: REAL = 0.0
    apart: REAL = 0.0
    if TILTED:
        apart = 1.0


@block(reads="apart around far lap", writes="count least most sign singular smooth")
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


@block(reads="half i j lap side src_periods trg_periods", writes="apart")
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


@block(reads="around copies i side src src_periods trg_periods x0 x1 x2")
def leave_out(j, h0, h1, h2, rest0, rest1, rest2):
    """Take half of the shift to the image of source j that is left out of a tilted box.

    ``rest0`` to ``rest2`` are the second parts of the whole shift. Copies are in an order that
    their negatives reverse: so the transposed sum finds the same one of two that are equally near.
    """
    if GIVEN:
        for d in range(PERIODIC):
            periods: REAL = src_periods[d][j] - trg_periods[d][i]
            h0 += periods * copies[0][around + d]
            h1 += periods * copies[1][around + d]
            h2 += periods * copies[2][around + d]
            if LOW:
                rest0 += periods * copies[3][around + d]
                rest1 += periods * copies[4][around + d]
                rest2 += periods * copies[5][around + d]
    else:
        best: REAL = 1.0e30
        nearest: int = 0
        for n in range(around):
            c: int = n
            if side < 0.0:
                c = around - 1 - n
            d0: REAL = (x0 - copies[0][c]) - (src[0][j] + copies[0][c])
            d1: REAL = (x1 - copies[1][c]) - (src[1][j] + copies[1][c])
            d2: REAL = (x2 - copies[2][c]) - (src[2][j] + copies[2][c])
            dd: REAL = d0 * d0 + d1 * d1 + d2 * d2
            if dd < best:
                best = dd
                nearest = c
        h0 = copies[0][nearest]
        h1 = copies[1][nearest]
        h2 = copies[2][nearest]
        if LOW:
            rest0 = copies[3][nearest]
            rest1 = copies[4][nearest]
            rest2 = copies[5][nearest]


@block(
    reads="around copies i image lap r0 r1 r2 side src src_periods trg_periods x0 x1 x2",
    writes="h0 h1 h2 r0 r1 r2 rest0 rest1 rest2",
)
def displace_copy(j):
    """Take ``r0`` to ``r2`` to the displacement of the lap's image in a tilted box."""
    h0: REAL = 0.0
    h1: REAL = 0.0
    h2: REAL = 0.0
    rest0: REAL = 0.0
    rest1: REAL = 0.0
    rest2: REAL = 0.0
    if lap == 2:
        h0 = copies[0][image]
        h1 = copies[1][image]
        h2 = copies[2][image]
        if LOW:
            rest0 = copies[3][image]
            rest1 = copies[4][image]
            rest2 = copies[5][image]
    else:
        leave_out(j, h0, h1, h2, rest0, rest1, rest2)
    r0 = (x0 - h0) - (r0 + h0)
    r1 = (x1 - h1) - (r1 + h1)
    r2 = (x2 - h2) - (r2 + h2)


@block(
    reads=(
        "across1 across2 around coincident copies half half_low i image inverse l0 l1 l2 lap "
        "rate0 rate1 rate2 side sides0 sides1 sides2 src src_low src_periods trg_periods x0 x1 x2"
    ),
    writes="apart far r0 r1 r2 rr y",
    takes="h0 h1 h2 out0 out1 out2 rest0 rest1 rest2 shift0 shift1 shift2",
)
def meet_label(j):
    """Take the distance of source j, or of an image of it, as ``p2p.py`` says."""
    take_vector(r0, r1, r2, src, 0, j)
    if TILTED:
        displace_copy(j)
    else:
        displace_all()
    r0 = r0 * inverse
    r1 = r1 * inverse
    r2 = r2 * inverse
    if LOW:
        tiny: REAL = inverse * UNIT
        low0: REAL = l0 - src_low[0][j]
        low1: REAL = l1 - src_low[1][j]
        low2: REAL = l2 - src_low[2][j]
        if TILTED:
            low0 = low0 - rest0
            low1 = low1 - rest1
            low2 = low2 - rest2
        else:
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
        if TILTED:
            if rr < 1.0:
                o0: REAL = 0.0
                o1: REAL = 0.0
                o2: REAL = 0.0
                leave_out(j, o0, o1, o2, rest0, rest1, rest2)
                beside = 2.0 * (pk.fabs(h0 - o0) * rate0 + pk.fabs(h1 - o1) * rate1)
                if PERIODIC > 2:
                    beside = beside + 2.0 * pk.fabs(h2 - o2) * rate2
        else:
            if PERIODIC > 0:
                beside = pk.fabs(shift0 - out0)
            if PERIODIC > 1:
                beside = beside + pk.fabs(shift1 - out1)
            if PERIODIC > 2:
                beside = beside + pk.fabs(shift2 - out2)
        if beside < 0.5:
            rr = 1.0


@block(
    reads=(
        "across1 across2 half i image j lap r0 r1 r2 rate0 rate1 rate2 side sides0 sides1 sides2 "
        "src_periods trg_periods x0 x1 x2"
    ),
    writes="apart out0 out1 out2 r0 r1 r2 shift0 shift1 shift2",
)
def displace_all():
    """Do the same in a box along the axes."""
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
