"""A mode's wavenumber, and three components of it."""

from parki.runtime.scopes import block


@block(reads="basis box i0 i1 i2 k0 k1 k2", writes="x y z")
def take_wavenumber():
    """Take the wavenumber to x, y, z."""
    x: REAL = k0[i0]
    y: REAL = k1[i1]
    z: REAL = k2[i2]
    if TILTED:
        z = basis[box][2] * x + basis[box + 1][2] * y + basis[box + 2][2] * z
        y = basis[box][1] * x + basis[box + 1][1] * y
        x = basis[box][0] * x


@block(reads="i0 i1 i2 square0 square1 square2 x y z", writes="kk")
def take_square():
    """Take the square of the wavenumber x, y, z to kk."""
    if TILTED:
        kk: REAL = x * x + y * y + z * z
    else:
        kk: REAL = square0[i0] + square1[i1] + square2[i2]


@block(reads="hat im re", writes="a0 a1 a2 b0 b1 b2")
def take_components():
    """Take the first three components to a0 + i b0 and so on."""
    a0: REAL = hat[0][re]
    b0: REAL = hat[0][im]
    a1: REAL = hat[1][re]
    b1: REAL = hat[1][im]
    a2: REAL = hat[2][re]
    b2: REAL = hat[2][im]
