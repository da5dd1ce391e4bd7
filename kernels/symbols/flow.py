"""``u = M [k^2 A - k (k.A) + i k k^2 D]``, ``p = -i M k^2 (k.A)``: a Stokes flow.

A are the first three components, D is the fourth one where there is one: sources and sinks.
"""

from kernels.blocks.mode import take_components, take_square, take_wavenumber


def multiply():
    """Multiply a mode by the symbol."""
    take_wavenumber()
    take_square()
    take_components()
    a: REAL = x * a0 + y * a1 + z * a2
    b: REAL = x * b0 + y * b1 + z * b2
    if PRESSURE:
        scale: REAL = m * kk * inverse_unit
        pressure_re: REAL = scale * b
        pressure_im: REAL = 0.0 - scale * a
    if VELOCITY:
        # k (k.A) - i k k^2 D = k times this
        if COMPONENTS > 3:
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
