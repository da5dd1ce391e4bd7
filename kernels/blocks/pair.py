"""The interaction of a pair, which ``p2p.py`` describes."""

from kernels.blocks.cut import cut


def take_radial(radial, xi_rc):
    """Take the rows of ``radial`` to p0, p1, p2, and what EVALUATOR 1 and 2 need besides."""
    p0: List[REAL] = [0.0] * (DEGREE + 1)
    p1: List[REAL] = [0.0] * (DEGREE + 1)
    p2: List[REAL] = [0.0] * (DEGREE + 1)
    if EVALUATOR != 1:
        for power in range(DEGREE + 1):
            p0[power] = radial[0][power]
            if SINGLE or DOUBLE or DIPOLE or EVALUATOR == 2:
                p1[power] = radial[1][power]
            if DOUBLE and EVALUATOR == 0:
                p2[power] = radial[2][power]
    if EVALUATOR > 0:
        peak: REAL = 0.5641895835477563 * xi_rc
        decay: REAL = xi_rc * xi_rc


def interact(density, row, normal, first_normal, at):
    """Add to u what one source does, for each of MANY densities.

    Density d is in column ``at`` of ``density``, from ``row`` + d CHARGES on, and adds to u from
    d OUTPUTS on; its normal likewise, once. Of the caller: the distance over r_c (r0, r1, r2), its
    square rr, and y, which is 0 for a coinciding pair; coincident, and what `take_radial` took. If
    TRANSPOSED_PAIR, the density is one of forces, and u is what the target would be multiplied by
    if it were
    the source; its normal is n0, n1, n2 of the caller, with the opposite sign.
    """
    if EVALUATOR == 0:
        s: REAL = 2.0 * rr - 1.0
        a: REAL = p0[0]
        for power in range(DEGREE):
            a = a * s + p0[power + 1]
    if EVALUATOR == 1:
        a: REAL = 0.5 * y * pk.erf(xi_rc * rr * y)
        if rr <= coincident:
            a = peak
    if EVALUATOR == 2:
        a: REAL = p0[0]
        divisor: REAL = p1[0]
        for power in range(DEGREE):
            a = a * rr + p0[power + 1]
            divisor = divisor * rr + p1[power + 1]
        a = a / divisor
    if EVALUATOR > 0:
        if SINGLE or DOUBLE or ROTLET or DIPOLE:
            psi: REAL = peak * pk.exp(0.0 - decay * rr)
            b: REAL = (a - psi) * y * y
            a = a + psi
            if ROTLET:
                a = b
    if LAPLACE:
        a = y - 2.0 * a
        cut(a)
        for d in range(MANY):
            u[d] += a * density[row + d][at]
    if SINGLE or DOUBLE or ROTLET or DIPOLE:
        e0: REAL = r0 * y
        e1: REAL = r1 * y
        e2: REAL = r2 * y
    if SINGLE or DOUBLE or DIPOLE:
        if EVALUATOR == 0:
            b: REAL = p1[0]
            for power in range(DEGREE):
                b = b * s + p1[power + 1]
    if ROTLET:
        a = y * y - 2.0 * a * rr * y
        cut(a)
        for d in range(MANY):
            t0: REAL = density[row + CHARGES * d][at]
            t1: REAL = density[row + CHARGES * d + 1][at]
            t2: REAL = density[row + CHARGES * d + 2][at]
            u[3 * d] += a * (t1 * e2 - t2 * e1)
            u[3 * d + 1] += a * (t2 * e0 - t0 * e2)
            u[3 * d + 2] += a * (t0 * e1 - t1 * e0)
    if DIPOLE:
        if EVALUATOR > 0:
            a = b
            b = (0.0 - 2.0 * decay) * psi
        r: REAL = rr * y
        ca: REAL = y * y + 2.0 * (b - a) * r
        cc: REAL = 2.0 * a * r - y * y
        cb: REAL = 3.0 * y * y - 2.0 * (b + 3.0 * a) * r
        cut(ca)
        cut(cb)
        cut(cc)
        for d in range(MANY):
            if TRANSPOSED_PAIR:
                f0: REAL = 0.0 - density[row + 3 * d][at]
                f1: REAL = 0.0 - density[row + 3 * d + 1][at]
                f2: REAL = 0.0 - density[row + 3 * d + 2][at]
                fe: REAL = f0 * e0 + f1 * e1 + f2 * e2
                along: REAL = cb * fe
                v0: REAL = ca * f0 + along * e0
                v1: REAL = ca * f1 + along * e1
                v2: REAL = ca * f2 + along * e2
                fe = cc * fe
                f0 = cc * f0
                f1 = cc * f1
                f2 = cc * f2
                u[9 * d] += v0 * e0 + e0 * f0 + fe
                u[9 * d + 1] += v0 * e1 + e0 * f1
                u[9 * d + 2] += v0 * e2 + e0 * f2
                u[9 * d + 3] += v1 * e0 + e1 * f0
                u[9 * d + 4] += v1 * e1 + e1 * f1 + fe
                u[9 * d + 5] += v1 * e2 + e1 * f2
                u[9 * d + 6] += v2 * e0 + e2 * f0
                u[9 * d + 7] += v2 * e1 + e2 * f1
                u[9 * d + 8] += v2 * e2 + e2 * f2 + fe
            else:
                d00: REAL = density[row + CHARGES * d][at]
                d01: REAL = density[row + CHARGES * d + 1][at]
                d02: REAL = density[row + CHARGES * d + 2][at]
                d10: REAL = density[row + CHARGES * d + 3][at]
                d11: REAL = density[row + CHARGES * d + 4][at]
                d12: REAL = density[row + CHARGES * d + 5][at]
                d20: REAL = density[row + CHARGES * d + 6][at]
                d21: REAL = density[row + CHARGES * d + 7][at]
                d22: REAL = density[row + CHARGES * d + 8][at]
                v0: REAL = d00 * e0 + d01 * e1 + d02 * e2
                v1: REAL = d10 * e0 + d11 * e1 + d12 * e2
                v2: REAL = d20 * e0 + d21 * e1 + d22 * e2
                along: REAL = cc * (d00 + d11 + d22)
                along += cb * (v0 * e0 + v1 * e1 + v2 * e2)
                u[3 * d] += ca * v0 + along * e0
                u[3 * d] += cc * (d00 * e0 + d10 * e1 + d20 * e2)
                u[3 * d + 1] += ca * v1 + along * e1
                u[3 * d + 1] += cc * (d01 * e0 + d11 * e1 + d21 * e2)
                u[3 * d + 2] += ca * v2 + along * e2
                u[3 * d + 2] += cc * (d02 * e0 + d12 * e1 + d22 * e2)
    if SINGLE or DOUBLE:
        if DOUBLE:
            if TRANSPOSED_PAIR == 0:
                n0: REAL = normal[first_normal][at]
                n1: REAL = normal[first_normal + 1][at]
                n2: REAL = normal[first_normal + 2][at]
            ne: REAL = n0 * e0 + n1 * e1 + n2 * e2
            if EVALUATOR == 0:
                g: REAL = p2[0]
                for power in range(DEGREE):
                    g = g * s + p2[power + 1]
            if EVALUATOR > 0:
                g: REAL = (0.0 - 2.0 * decay) * psi
            r: REAL = rr * y
            h: REAL = (4.0 * g + 12.0 * b) * r - 6.0 * y * y
            g = -2.0 * g * r
            cut(g)
            cut(h)
            gn: REAL = g * ne
            h = h * ne
        if SINGLE:
            a = y - 2.0 * a
            b = y - 2.0 * b * rr
            cut(a)
            cut(b)
        for d in range(MANY):
            along: REAL = 0.0
            if SINGLE:
                f0: REAL = density[row + CHARGES * d][at]
                f1: REAL = density[row + CHARGES * d + 1][at]
                f2: REAL = density[row + CHARGES * d + 2][at]
                along = b * (f0 * e0 + f1 * e1 + f2 * e2)
                u[OUTPUTS * d] += a * f0
                u[OUTPUTS * d + 1] += a * f1
                u[OUTPUTS * d + 2] += a * f2
                if TRANSPOSED_PAIR:
                    u[OUTPUTS * d] += along * e0
                    u[OUTPUTS * d + 1] += along * e1
                    u[OUTPUTS * d + 2] += along * e2
                    along = 0.0
            if DOUBLE:
                q0: REAL = density[row + CHARGES * d + LAYER_ROW][at]
                q1: REAL = density[row + CHARGES * d + LAYER_ROW + 1][at]
                q2: REAL = density[row + CHARGES * d + LAYER_ROW + 2][at]
                qe: REAL = q0 * e0 + q1 * e1 + q2 * e2
                qn: REAL = q0 * n0 + q1 * n1 + q2 * n2
                along = along + g * qn + h * qe
                qe = g * qe
                u[OUTPUTS * d + LAYER_OUT] += gn * q0
                u[OUTPUTS * d + LAYER_OUT] += qe * n0
                u[OUTPUTS * d + LAYER_OUT + 1] += gn * q1
                u[OUTPUTS * d + LAYER_OUT + 1] += qe * n1
                u[OUTPUTS * d + LAYER_OUT + 2] += gn * q2
                u[OUTPUTS * d + LAYER_OUT + 2] += qe * n2
            u[OUTPUTS * d + LAYER_OUT] += along * e0
            u[OUTPUTS * d + LAYER_OUT + 1] += along * e1
            u[OUTPUTS * d + LAYER_OUT + 2] += along * e2
