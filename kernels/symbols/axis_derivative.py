"""``u = - M k_n k q``: the slope along the axis n, UP, of the flow of charges' potential.

Vectors A have its slope along the axis once more, ``M k_n^2 k (k.A)``: doublets' flow.
"""

from kernels.blocks.mode import take_components, take_wavenumber
from parki.runtime.scopes import block

UP = 2


@block(
    reads="basis box hat i0 i1 i2 im k0 k1 k2 m re", writes="hat", takes="a0 a1 a2 b0 b1 b2 x y z"
)
def multiply():
    """Multiply a mode by the symbol."""
    take_wavenumber()
    n: REAL = z
    if UP == 0:
        n = x
    if UP == 1:
        n = y
    if COMPONENTS == 1:
        n = 0.0 - m * n
        a: REAL = n * hat[0][re]
        b: REAL = n * hat[0][im]
    else:
        take_components()
        n = m * n * n
        a: REAL = n * (x * a0 + y * a1 + z * a2)
        b: REAL = n * (x * b0 + y * b1 + z * b2)
    hat[0][re] = a * x
    hat[0][im] = b * x
    hat[1][re] = a * y
    hat[1][im] = b * y
    hat[2][re] = a * z
    hat[2][im] = b * z
