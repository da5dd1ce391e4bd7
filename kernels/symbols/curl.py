"""``u = i M k x t``: the flow of torques."""

from kernels.blocks.mode import take_components, take_wavenumber
from parki.runtime.scopes import block


@block(
    reads="basis box hat i0 i1 i2 im k0 k1 k2 m re", writes="hat", takes="a0 a1 a2 b0 b1 b2 x y z"
)
def multiply():
    """Multiply a mode by the symbol."""
    take_wavenumber()
    take_components()
    hat[0][re] = m * (z * b1 - y * b2)
    hat[0][im] = m * (y * a2 - z * a1)
    hat[1][re] = m * (x * b2 - z * b0)
    hat[1][im] = m * (z * a0 - x * a2)
    hat[2][re] = m * (y * b0 - x * b1)
    hat[2][im] = m * (x * a1 - y * a0)
