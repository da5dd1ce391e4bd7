"""``u = i M k q``: the slope of the potential of charges."""

from kernels.blocks.mode import take_wavenumber
from parki.runtime.scopes import block


@block(reads="basis box hat i0 i1 i2 im k0 k1 k2 m re", writes="hat", takes="x y z")
def multiply():
    """Multiply a mode by the symbol."""
    take_wavenumber()
    a: REAL = m * hat[0][re]
    b: REAL = m * hat[0][im]
    hat[0][re] = 0.0 - x * b
    hat[0][im] = x * a
    hat[1][re] = 0.0 - y * b
    hat[1][im] = y * a
    hat[2][re] = 0.0 - z * b
    hat[2][im] = z * a
