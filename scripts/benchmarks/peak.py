"""Kernels of arithmetic only, or of memory traffic only (see ``ceilings.py``)."""

from typing import List  # noqa: UP035 (the kernel dialect)

import pykokkos as pk

REAL = pk.double
WIDE = 8  # independent chains
ROUNDS = 1000


@pk.workunit
def multiply_add(i: int, out: pk.View1D[REAL], x: REAL, y: REAL):
    """Multiply and add, WIDE * ROUNDS times."""
    a: List[REAL] = [0.0] * WIDE  # noqa: UP006
    for p in range(WIDE):
        a[p] = REAL(p + i)
    for _ in range(ROUNDS):
        for p in range(WIDE):
            a[p] = a[p] * x + y
    total: REAL = 0.0
    for p in range(WIDE):
        total += a[p]
    out[i] = total


@pk.workunit
def inverse_root(i: int, out: pk.View1D[REAL], x: REAL, y: REAL):
    """Take inverse square roots, WIDE * ROUNDS times."""
    a: List[REAL] = [0.0] * WIDE  # noqa: UP006
    for p in range(WIDE):
        a[p] = REAL(p + i) * x
    for _ in range(ROUNDS):
        for p in range(WIDE):
            a[p] = 1.0 / pk.sqrt(a[p] + y)
    total: REAL = 0.0
    for p in range(WIDE):
        total += a[p]
    out[i] = total


@pk.workunit
def triad(i: int, out: pk.View1D[REAL], b: pk.View1D[REAL], c: pk.View1D[REAL], x: REAL):
    """Read two numbers, write one."""
    out[i] = b[i] + x * c[i]
