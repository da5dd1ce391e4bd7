"""``u = M k_n^2 k (k.A)``: a potential flow, n the axis UP."""

from kernels.blocks.mode import take_components, take_wavenumber

UP = 2


def multiply():
    """Multiply a mode by the symbol."""
    take_wavenumber()
    take_components()
    n: REAL = z
    if UP == 0:
        n = x
    if UP == 1:
        n = y
    n = m * n * n
    a: REAL = n * (x * a0 + y * a1 + z * a2)
    b: REAL = n * (x * b0 + y * b1 + z * b2)
    hat[0][re] = a * x
    hat[0][im] = b * x
    hat[1][re] = a * y
    hat[1][im] = b * y
    hat[2][re] = a * z
    hat[2][im] = b * z
