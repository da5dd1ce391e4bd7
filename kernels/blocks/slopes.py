"""Derivatives of the interaction of a pair, which ``p2p_derivatives.py`` describes."""

from kernels.blocks.tensor import feel


def take_polynomials(radial):
    """Set p0, p1, p2 to the rows of ``radial`` that the derivatives take."""
    p0: List[REAL] = [0.0] * (DEGREE + 1)
    p1: List[REAL] = [0.0] * (DEGREE + 1)
    p2: List[REAL] = [0.0] * (DEGREE + 1)
    for k in range(DEGREE + 1):
        p0[k] = radial[0][k]
        if VECTOR:
            p1[k] = radial[1][k]
        if DOUBLE or DIPOLE or TENSORS:
            p2[k] = radial[2][k]
    if VALUES:
        if SINGLE or LAPLACE:
            p3: List[REAL] = [0.0] * (DEGREE + 1)
            for k in range(DEGREE + 1):
                p3[k] = radial[LAST][k]


def begin_sums():
    """Begin the sums of a target: u0, p, g00 and so on."""
    u0: REAL = 0.0
    u1: REAL = 0.0
    u2: REAL = 0.0
    p: REAL = 0.0
    g00: REAL = 0.0
    g01: REAL = 0.0
    g02: REAL = 0.0
    g10: REAL = 0.0
    g11: REAL = 0.0
    g12: REAL = 0.0
    g20: REAL = 0.0
    g21: REAL = 0.0
    g22: REAL = 0.0


def differentiate(density, row, normal, first_normal, at):
    """Add the contribution of one source to the sums.

    Its density is in column ``at`` of ``density``, from ``row`` on; likewise its normal. The caller
    sets the distance over r_c (r0, r1, r2), its square rr, and y, which is 0 for a coinciding
    pair; and calls `take_polynomials` and `take_tensor` before.
    """
    s: REAL = 2.0 * rr - 1.0
    r: REAL = rr * y
    yy: REAL = y * y
    e0: REAL = r0 * y
    e1: REAL = r1 * y
    e2: REAL = r2 * y
    px: REAL = p0[0]
    for k in range(DEGREE):
        px = px * s + p0[k + 1]
    if VALUES:
        if SINGLE or LAPLACE:
            a: REAL = p3[0]
            for k in range(DEGREE):
                a = a * s + p3[k + 1]
            a = y - 2.0 * a
    if LAPLACE:
        if VALUES:
            u0 += a * density[row][at]
        px = (2.0 * px * r - yy) * density[row][at]
        g00 += px * e0
        g01 += px * e1
        g02 += px * e2
    if VECTOR:
        pr: REAL = p1[0]
        for k in range(DEGREE):
            pr = pr * s + p1[k + 1]
        # The gradient is v e^T + e z^T + level I, plus terms of some kernels.
        v0: REAL = 0.0
        v1: REAL = 0.0
        v2: REAL = 0.0
        z0: REAL = 0.0
        z1: REAL = 0.0
        z2: REAL = 0.0
        along: REAL = 0.0
        level: REAL = 0.0
        if SINGLE:
            f0: REAL = density[row][at]
            f1: REAL = density[row + 1][at]
            f2: REAL = density[row + 2][at]
            fe: REAL = f0 * e0 + f1 * e1 + f2 * e2
            if VALUES:
                b: REAL = (y - 2.0 * px * rr) * fe
                u0 += a * f0 + b * e0
                u1 += a * f1 + b * e1
                u2 += a * f2 + b * e2
            if PRESSURE:
                p += fe * (2.0 * yy + (2.0 * pr - 4.0 * px) * r)
            if GRADIENT:
                ca: REAL = 2.0 * (px - pr) * r - yy
                cc: REAL = yy - 2.0 * px * r
                along = fe * (2.0 * (pr + 3.0 * px) * r - 3.0 * yy)
                level = fe * cc
                v0 = ca * f0
                v1 = ca * f1
                v2 = ca * f2
                z0 = cc * f0
                z1 = cc * f1
                z2 = cc * f2
        if DOUBLE or DIPOLE or TENSORS:
            pw: REAL = p2[0]
            for k in range(DEGREE):
                pw = pw * s + p2[k + 1]
        cube: REAL = yy * y
        if TENSORS:
            feel()
        if DOUBLE:
            pw = pw * rr
            q0: REAL = density[row + 3 * SINGLE][at]
            q1: REAL = density[row + 3 * SINGLE + 1][at]
            q2: REAL = density[row + 3 * SINGLE + 2][at]
            n0: REAL = normal[first_normal][at]
            n1: REAL = normal[first_normal + 1][at]
            n2: REAL = normal[first_normal + 2][at]
            qe: REAL = q0 * e0 + q1 * e1 + q2 * e2
            ne: REAL = n0 * e0 + n1 * e1 + n2 * e2
            qn: REAL = q0 * n0 + q1 * n1 + q2 * n2
            both: REAL = qe * ne
            if VALUES:
                g: REAL = -2.0 * pr * r
                h: REAL = g * qn + ((4.0 * pr + 12.0 * px) * r - 6.0 * yy) * both
                u0 += g * (ne * q0 + qe * n0) + h * e0
                u1 += g * (ne * q1 + qe * n1) + h * e1
                u2 += g * (ne * q2 + qe * n2) + h * e2
            if PRESSURE:
                p += 4.0 * qn * (cube + pr - 2.0 * px)
                p += 4.0 * both * (2.0 * pr + 6.0 * px + pw - 3.0 * cube)
            if GRADIENT:
                ce: REAL = 30.0 * cube + 4.0 * pw - 20.0 * pr - 60.0 * px
                cf: REAL = 4.0 * pr + 12.0 * px - 6.0 * cube
                pw = -2.0 * pw
                pr = -2.0 * pr
                along = along + ce * both + pw * qn
                level = level + cf * both + pr * qn
                h0: REAL = ne * q0 + qe * n0
                h1: REAL = ne * q1 + qe * n1
                h2: REAL = ne * q2 + qe * n2
                v0 = v0 + pw * h0
                v1 = v1 + pw * h1
                v2 = v2 + pw * h2
                z0 = z0 + cf * h0
                z1 = z1 + cf * h1
                z2 = z2 + cf * h2
                q01: REAL = pr * (q0 * n1 + q1 * n0)
                q12: REAL = pr * (q1 * n2 + q2 * n1)
                q20: REAL = pr * (q2 * n0 + q0 * n2)
                g00 += 2.0 * pr * q0 * n0
                g01 += q01
                g02 += q20
                g10 += q01
                g11 += 2.0 * pr * q1 * n1
                g12 += q12
                g20 += q20
                g21 += q12
                g22 += 2.0 * pr * q2 * n2
        if DIPOLE:
            d00: REAL = density[row][at]
            d01: REAL = density[row + 1][at]
            d02: REAL = density[row + 2][at]
            d10: REAL = density[row + 3][at]
            d11: REAL = density[row + 4][at]
            d12: REAL = density[row + 5][at]
            d20: REAL = density[row + 6][at]
            d21: REAL = density[row + 7][at]
            d22: REAL = density[row + 8][at]
            pw = 2.0 * pw * rr
            v0 = d00 * e0 + d01 * e1 + d02 * e2
            v1 = d10 * e0 + d11 * e1 + d12 * e2
            v2 = d20 * e0 + d21 * e1 + d22 * e2
            z0 = d00 * e0 + d10 * e1 + d20 * e2
            z1 = d01 * e0 + d11 * e1 + d21 * e2
            z2 = d02 * e0 + d12 * e1 + d22 * e2
            both: REAL = v0 * e0 + v1 * e1 + v2 * e2
            trace: REAL = d00 + d11 + d22
            if VALUES:
                a: REAL = yy + 2.0 * (pr - px) * r
                b: REAL = 2.0 * px * r - yy
                h: REAL = b * trace + (3.0 * yy - 2.0 * (pr + 3.0 * px) * r) * both
                u0 += a * v0 + b * z0 + h * e0
                u1 += a * v1 + b * z1 + h * e1
                u2 += a * v2 + b * z2 + h * e2
            cf: REAL = 3.0 * cube - 2.0 * pr - 6.0 * px
            if PRESSURE:
                p += both * (2.0 * cf - pw)
                p -= trace * (2.0 * cube + 2.0 * pr - 4.0 * px)
            if GRADIENT:
                ca: REAL = cube + 2.0 * pr - 2.0 * px
                cc: REAL = 2.0 * px - cube
                g00 += (ca + cc) * d00
                g01 += ca * d01 + cc * d10
                g02 += ca * d02 + cc * d20
                g10 += ca * d10 + cc * d01
                g11 += (ca + cc) * d11
                g12 += ca * d12 + cc * d21
                g20 += ca * d20 + cc * d02
                g21 += ca * d21 + cc * d12
                g22 += (ca + cc) * d22
                level = cf * both + cc * trace
                along = cf * trace - (5.0 * cf + pw) * both
                pw = pw - cf
                f0: REAL = cf * (v0 + z0)
                f1: REAL = cf * (v1 + z1)
                f2: REAL = cf * (v2 + z2)
                v0 = pw * v0 + cf * z0
                v1 = pw * v1 + cf * z1
                v2 = pw * v2 + cf * z2
                z0 = f0
                z1 = f1
                z2 = f2
        if ROTLET:
            t0: REAL = density[row][at]
            t1: REAL = density[row + 1][at]
            t2: REAL = density[row + 2][at]
            if VALUES:
                a: REAL = yy - 2.0 * px * r
                u0 += a * (t1 * e2 - t2 * e1)
                u1 += a * (t2 * e0 - t0 * e2)
                u2 += a * (t0 * e1 - t1 * e0)
            pr = 2.0 * pr + 6.0 * px - 3.0 * cube
            px = cube - 2.0 * px
            v0 = pr * (t1 * e2 - t2 * e1)
            v1 = pr * (t2 * e0 - t0 * e2)
            v2 = pr * (t0 * e1 - t1 * e0)
            g01 -= px * t2
            g02 += px * t1
            g10 += px * t2
            g12 -= px * t0
            g20 -= px * t1
            g21 += px * t0
        if GRADIENT:
            v0 = v0 + along * e0
            v1 = v1 + along * e1
            v2 = v2 + along * e2
            g00 += v0 * e0 + e0 * z0 + level
            g01 += v0 * e1 + e0 * z1
            g02 += v0 * e2 + e0 * z2
            g10 += v1 * e0 + e1 * z0
            g11 += v1 * e1 + e1 * z1 + level
            g12 += v1 * e2 + e1 * z2
            g20 += v2 * e0 + e2 * z0
            g21 += v2 * e1 + e2 * z1
            g22 += v2 * e2 + e2 * z2 + level
