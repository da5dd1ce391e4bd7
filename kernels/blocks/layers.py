"""Kernels of layers near a surface, with functions in place of 1/r^k.

With r = d + b n0, where n0 is the normal at the nearest point and b the signed distance, b^2
becomes r^2 - |xi|^2 (``across``) before 1/r^k is replaced by s1 to s7, so that every power of 1/r^k
meets only moments that vanish. What is left with one factor b has the jump, j3 to j7. With 1/r^k
itself, and without jumps, each is the kernel of the sum of the same name. Without n0 and b each has
the numerators of that kernel, whatever is in place of 1/r^k.
"""

from typing import List

from parki.runtime.scopes import block


@block(reads="body centres frames i j nodes numbers")
def to_node(r):
    """Take the vector from a node, which its body's frame has, to the target."""
    for c in range(3):
        r[c] = numbers[c][i] - centres[c][body]
        for a in range(3):
            r[c] -= frames[body][c][a] * nodes[a][j]


@block(reads="e1 e3 e5 e7 summed", writes="e1 e3 e5 e7")
def complement(rho2):
    """Take the part of 1/r^k that a smooth kernel lacks.

    It is Gamma(k/2, r^2) / (Gamma(k/2) r^k), in widths. For a pair that the sums left out it is
    minus the smooth kernel itself: below one width by a series of positive terms, since 1/r^k takes
    all digits where r is small.
    """
    ratio: REAL = rho2
    damp: REAL = pk.exp(0.0 - ratio)
    if summed or ratio >= 1.0:
        root: REAL = pk.sqrt(ratio)
        e1 = pk.erfc(root) / root
        e3 = (e1 + 1.1283791670955126 * damp) / ratio
        e5 = (e3 + 0.7522527780636751 * damp) / ratio
        e7 = (e5 + 0.3009011112254699 * damp) / ratio
        if summed:
            root = 0.0
        else:
            root = 1.0 / root
        e1 -= root
        e3 -= root / ratio
        e5 -= root / (ratio * ratio)
        e7 -= root / (ratio * ratio * ratio)
    else:
        term: REAL = 0.08597174606442 * damp
        e7 = 0.0
        for step in range(20):
            e7 -= term
            term = term * ratio / (4.5 + step)
        e5 = ratio * e7 - 0.3009011112254699 * damp
        e3 = ratio * e5 - 0.7522527780636751 * damp
        e1 = ratio * e3 - 1.1283791670955126 * damp


@block(
    reads="away bump i inverse jump order p power square",
    writes="bump j3 j5 j7 s1 s3 s5 s7",
)
def regularise():
    """Add the series of the regularised functions; take their jumps and a smooth delta function."""
    z2: REAL = square * power
    t: REAL = z2 - away * away
    # Laguerre polynomials with the powers 0 to 3, the ones before them, and their series.
    now: List[REAL] = [1.0, 1.0, 1.0, 1.0]
    before: List[REAL] = [0.0, 0.0, 0.0, 0.0]
    series: List[REAL] = [0.0, 0.0, 0.0, 0.0]
    for n in range(order):
        for a in range(4):
            series[a] += p[n][i] * now[a]
            above: REAL = (2.0 * n + 1.0 + a - t) * now[a] - (n + REAL(a)) * before[a]
            before[a] = now[a]
            now[a] = above / (n + 1.0)
    damping: REAL = inverse * pk.exp(0.0 - z2)
    s1 += damping * series[0]
    s3 += 2.0 * damping * series[1] * power
    s5 += 1.3333333333333333 * damping * series[2] * power * power
    s7 += 0.5333333333333333 * damping * series[3] * power * power * power
    flat: REAL = pk.exp(0.0 - t)
    bump = flat * now[1]
    j3 = 2.0 * jump * bump * power
    j5 = 1.3333333333333333 * jump * flat * now[2] * power * power
    j7 = 0.5333333333333333 * jump * flat * now[3] * power * power * power


@block(reads="across b d e j3 j5 j7 n0 r s1 s3 s5 s7 square", writes="block")
def add_layer(n):
    """Add the kernel of a layer: one of the following, by number."""
    if LAYER == 0:
        add_single_velocity()
    elif LAYER == 1:
        add_single_pressure()
    elif LAYER == 2:
        add_tensor(e)
    elif LAYER == 3:
        add_tensor(n)
    elif LAYER == 4:
        add_double_pressure(n)
    elif LAYER == 5:
        add_double_traction(n)
    elif LAYER == 6:
        block[0] += s1
    else:
        for c in range(3):
            block[0] += (r[c] * s3 + n0[c] * j3) * n[c]


@block(reads="n0 r s1 s3 square", writes="block")
def add_single_velocity():
    """Add 1/r + r r/r^3."""
    rest: REAL = s1 - square * s3
    for c in range(3):
        for a in range(3):
            block[3 * c + a] += s3 * r[c] * r[a] + rest * n0[c] * n0[a]
        block[4 * c] += s1


@block(reads="j3 n0 r s3", writes="block")
def add_single_pressure():
    """Add 2 r/r^3."""
    for c in range(3):
        block[c] += 2.0 * (r[c] * s3 + n0[c] * j3)


@block(reads="across b d j3 j5 n0 s3 s5", writes="block")
def add_tensor(v):
    """Add -6 r r (r.v)/r^5: the velocity of a double layer, and the traction of a single one."""
    lin: REAL = b * s5 + j5  # in place of b / r^5
    mid: REAL = s3 - across * s5  # of b^2 / r^5
    cube: REAL = b * s3 + j3 - across * lin  # of b^3 / r^5
    nu: REAL = n0[0] * v[0] + n0[1] * v[1] + n0[2] * v[2]
    eta: REAL = d[0] * v[0] + d[1] * v[1] + d[2] * v[2]
    dd: REAL = eta * s5 + nu * lin
    dn: REAL = eta * lin + nu * mid
    nn: REAL = eta * mid + nu * cube
    for c in range(3):
        along: REAL = dd * d[c] + dn * n0[c]
        outward: REAL = dn * d[c] + nn * n0[c]
        for a in range(3):
            block[3 * c + a] -= 6.0 * (along * d[a] + outward * n0[a])


@block(reads="across b d j5 n0 s3 s5", writes="block")
def add_double_pressure(n):
    """Add 4 (n/r^3 - 3 r (r.n)/r^5)."""
    lin: REAL = b * s5 + j5
    nu: REAL = n0[0] * n[0] + n0[1] * n[1] + n0[2] * n[2]
    eta: REAL = d[0] * n[0] + d[1] * n[1] + d[2] * n[2]
    outward: REAL = nu * (3.0 * across * s5 - 3.0 * s3) - 3.0 * eta * lin
    along: REAL = 3.0 * (eta * s5 + nu * lin)
    for c in range(3):
        block[c] += 4.0 * (n[c] * s3 + n0[c] * outward - d[c] * along)


@block(reads="across b d e j5 j7 n0 s3 s5 s7", writes="block")
def add_double_traction(n):
    """Add the traction of a double layer along e, which needs constants made exact.

    -4 e n/r^3 - 6 (r (r.n) e + (r.e)(r.n) + (n.e) r r + n (r.e) r)/r^5 + 60 r r (r.e)(r.n)/r^7
    """
    lin: REAL = b * s5 + j5  # in place of b / r^5
    mid: REAL = s3 - across * s5  # of b^2 / r^5
    seven1: REAL = b * s7 + j7  # of b / r^7; the next ones have higher powers of b
    seven2: REAL = s5 - across * s7
    seven3: REAL = lin - across * seven1
    seven4: REAL = s3 - across * (2.0 * s5 - across * s7)
    facing: REAL = n[0] * e[0] + n[1] * e[1] + n[2] * e[2]
    # r.n and r.e are d.n + b n0.n and d.e + b n0.e.
    dn: REAL = d[0] * n[0] + d[1] * n[1] + d[2] * n[2]
    bn: REAL = n0[0] * n[0] + n0[1] * n[1] + n0[2] * n[2]
    de: REAL = d[0] * e[0] + d[1] * e[1] + d[2] * e[2]
    be: REAL = n0[0] * e[0] + n0[1] * e[1] + n0[2] * e[2]
    twice0: REAL = dn * de
    twice1: REAL = dn * be + bn * de
    twice2: REAL = bn * be
    # (r.n)(r.e) r r / r^7 has d d, d n0 and n0 n0 times these.
    t0: REAL = twice0 * s7 + twice1 * seven1 + twice2 * seven2
    t1: REAL = twice0 * seven1 + twice1 * seven2 + twice2 * seven3
    t2: REAL = twice0 * seven2 + twice1 * seven3 + twice2 * seven4
    own: REAL = twice0 * s5 + twice1 * lin + twice2 * mid
    for c in range(3):
        for a in range(3):
            dd: REAL = d[c] * d[a]
            mixed: REAL = d[c] * n0[a] + n0[c] * d[a]
            nn: REAL = n0[c] * n0[a]
            five: REAL = facing * (dd * s5 + mixed * lin + nn * mid)
            five += e[a] * (d[c] * (dn * s5 + bn * lin) + n0[c] * (dn * lin + bn * mid))
            five += n[c] * (d[a] * (de * s5 + be * lin) + n0[a] * (de * lin + be * mid))
            if c == a:
                five += own
            block[3 * c + a] += 60.0 * (dd * t0 + mixed * t1 + nn * t2) - 6.0 * five
            block[3 * c + a] -= 4.0 * e[c] * n[a] * s3
