"""The reading of a tensor target, which ``p2p_derivatives.py`` describes."""


def take_tensor(at):
    """Set d00 and so on to the tensor of a target, and take its trace and its strength."""
    d00: REAL = tensors[0][at]
    d01: REAL = tensors[1][at]
    d02: REAL = tensors[2][at]
    d10: REAL = tensors[3][at]
    d11: REAL = tensors[4][at]
    d12: REAL = tensors[5][at]
    d20: REAL = tensors[6][at]
    d21: REAL = tensors[7][at]
    d22: REAL = tensors[8][at]
    strength: REAL = tensors[9][at]
    trace: REAL = d00 + d11 + d22
    pull0: REAL = 0.0
    pull1: REAL = 0.0
    pull2: REAL = 0.0


def feel():
    """Add to pull0, pull1, pull2 the gradient of the target's reading of a source f0, f1, f2."""
    w: REAL = 2.0 * pw * rr
    ka: REAL = cube + 2.0 * pr - 2.0 * px
    kb: REAL = 2.0 * px - cube
    kc: REAL = 3.0 * cube - 2.0 * pr - 6.0 * px
    de0: REAL = d00 * e0 + d01 * e1 + d02 * e2
    de1: REAL = d10 * e0 + d11 * e1 + d12 * e2
    de2: REAL = d20 * e0 + d21 * e1 + d22 * e2
    te0: REAL = d00 * e0 + d10 * e1 + d20 * e2
    te1: REAL = d01 * e0 + d11 * e1 + d21 * e2
    te2: REAL = d02 * e0 + d12 * e1 + d22 * e2
    ede: REAL = de0 * e0 + de1 * e1 + de2 * e2
    fde: REAL = de0 * f0 + de1 * f1 + de2 * f2
    fte: REAL = te0 * f0 + te1 * f1 + te2 * f2
    of_e: REAL = (w - kc) * fde + kc * fte
    of_e += (kc * trace - (5.0 * kc + w) * ede + strength * (2.0 * kc - w)) * fe
    of_f: REAL = kc * ede + kb * trace - strength * (2.0 * cube + 2.0 * pr - 4.0 * px)
    kc = kc * fe
    pull0 -= of_e * e0 + of_f * f0 + kc * (de0 + te0)
    pull0 -= ka * (d00 * f0 + d10 * f1 + d20 * f2) + kb * (d00 * f0 + d01 * f1 + d02 * f2)
    pull1 -= of_e * e1 + of_f * f1 + kc * (de1 + te1)
    pull1 -= ka * (d01 * f0 + d11 * f1 + d21 * f2) + kb * (d10 * f0 + d11 * f1 + d12 * f2)
    pull2 -= of_e * e2 + of_f * f2 + kc * (de2 + te2)
    pull2 -= ka * (d02 * f0 + d12 * f1 + d22 * f2) + kb * (d20 * f0 + d21 * f1 + d22 * f2)
