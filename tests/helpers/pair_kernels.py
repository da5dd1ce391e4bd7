"""Pair kernels by their formulas."""

from __future__ import annotations

import numpy as np


def residual_kernels(split, r, f, q, n):
    """Compute near single layer, double layer, Laplace kernel and rotlet from derivatives of b."""
    d = np.linalg.norm(r)
    e = r / d
    b1, b2, b3, *_ = split.near(d)
    single = (b2 + b1 / d) * f + (b1 / d - b2) * (f @ e) * e
    double = b3 * ((q @ n) * e + (n @ e) * q + (q @ e) * n)
    double += (-2 * b3 + 6 * b2 / d - 6 * b1 / d**2) * (q @ e) * (n @ e) * e
    return single, double, b1 / d, (b1 / d**2 - b2 / d) * np.cross(f, e)
