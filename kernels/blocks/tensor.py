"""What a tensor target reads of a pair, which ``p2p_derivatives.py`` describes."""


def take_tensor(at):
    """Take a tensor target: its tensor to d00 and so on, its trace, and its strength."""
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
