"""``u = M [k^2 A - k (k.A) + i k k^2 D]``, ``p = -i M k^2 (k.A)``: a Stokes flow.

A are the first three components, D is the fourth one where there is one: sources and sinks. With
BRINKMAN the M k^2 of pressures and of D is ``M (k^2 + alpha2)``.
"""

from kernels.blocks.mode import take_components, take_square, take_wavenumber
from parki.runtime.scopes import block


@block(
    reads=(
        "alpha2 basis box f2 hat i0 i1 i2 im inverse_unit k0 k1 k2 m plane re square0 square1 "
        "square2 unit"
    ),
    writes="hat",
    takes="a0 a1 a2 b0 b1 b2 kk x y z",
)
def multiply():
    """Multiply a mode by the symbol."""
    take_wavenumber()
    take_square()
    take_components()
    a: REAL = x * a0 + y * a1 + z * a2
    b: REAL = x * b0 + y * b1 + z * b2
    if BRINKMAN:
        harmonic: REAL = m * (kk + alpha2)
        if PLANE:
            if square0[i0] + square1[i1] <= 0.0:
                harmonic = plane[f2] * unit
    if PRESSURE:
        scale: REAL = m * kk * inverse_unit
        if BRINKMAN:
            scale = harmonic * inverse_unit
        pressure_re: REAL = scale * b
        pressure_im: REAL = 0.0 - scale * a
    if VELOCITY:
        # k (k.A) - i k k^2 D = k times this
        if COMPONENTS > 3:
            if BRINKMAN:
                sources: REAL = harmonic * hat[3][im]
                sinks: REAL = harmonic * hat[3][re]
            else:
                a = a + kk * hat[3][im]
                b = b - kk * hat[3][re]
        hat[0][re] = m * (kk * a0 - x * a)
        hat[0][im] = m * (kk * b0 - x * b)
        hat[1][re] = m * (kk * a1 - y * a)
        hat[1][im] = m * (kk * b1 - y * b)
        hat[2][re] = m * (kk * a2 - z * a)
        hat[2][im] = m * (kk * b2 - z * b)
        if COMPONENTS > 3:
            if BRINKMAN:
                hat[0][re] = hat[0][re] - x * sources
                hat[0][im] = hat[0][im] + x * sinks
                hat[1][re] = hat[1][re] - y * sources
                hat[1][im] = hat[1][im] + y * sinks
                hat[2][re] = hat[2][re] - z * sources
                hat[2][im] = hat[2][im] + z * sinks
    if PRESSURE:
        hat[3 * VELOCITY][re] = pressure_re
        hat[3 * VELOCITY][im] = pressure_im
