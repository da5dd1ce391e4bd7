"""A mode's wavenumber, and three components of it."""


def take_wavenumber():
    """Take the wavenumber to x, y, z."""
    x: REAL = k0[i0]
    y: REAL = k1[i1]
    z: REAL = k2[i2]


def take_components():
    """Take the first three components to a0 + i b0 and so on."""
    a0: REAL = hat[0][re]
    b0: REAL = hat[0][im]
    a1: REAL = hat[1][re]
    b1: REAL = hat[1][im]
    a2: REAL = hat[2][re]
    b2: REAL = hat[2][im]
