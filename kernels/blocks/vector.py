"""Vectors and tensors of points, as three and nine rows of an array."""

from parki.runtime.scopes import block


@block()
def take_vector(v0, v1, v2, array, row, at):
    """Take a vector to ``v0``, ``v1``, ``v2``."""
    v0: REAL = array[row][at]
    v1: REAL = array[row + 1][at]
    v2: REAL = array[row + 2][at]


@block(writes="d00 d01 d02 d10 d11 d12 d20 d21 d22")
def take_tensor(array, row, at):
    """Take a tensor to d00, d01 and so on."""
    d00: REAL = array[row][at]
    d01: REAL = array[row + 1][at]
    d02: REAL = array[row + 2][at]
    d10: REAL = array[row + 3][at]
    d11: REAL = array[row + 4][at]
    d12: REAL = array[row + 5][at]
    d20: REAL = array[row + 6][at]
    d21: REAL = array[row + 7][at]
    d22: REAL = array[row + 8][at]


@block(
    reads="tensors",
    writes="pull0 pull1 pull2 read_trace s00 s01 s02 s10 s11 s12 s20 s21 s22 strength",
)
def take_target(at):
    """Take a tensor target: its tensor, the trace of that, and its strength."""
    s00: REAL = tensors[0][at]
    s01: REAL = tensors[1][at]
    s02: REAL = tensors[2][at]
    s10: REAL = tensors[3][at]
    s11: REAL = tensors[4][at]
    s12: REAL = tensors[5][at]
    s20: REAL = tensors[6][at]
    s21: REAL = tensors[7][at]
    s22: REAL = tensors[8][at]
    strength: REAL = tensors[9][at]
    read_trace: REAL = s00 + s11 + s22
    pull0: REAL = 0.0
    pull1: REAL = 0.0
    pull2: REAL = 0.0
