"""The far field's multiplier: symbol, split, truncation, window and scale in one real number.

Stokes modes are ``u = M [k^2 A - k (k.A) + i k k^2 D]`` with ``M = -B^(k) gamma_S``, Laplace modes
``phi = M q`` with ``M = (4 pi / k^2) gamma_L`` (MATH B.5, C), each over the window's transform
squared, times the grid's cell volume. Where free directions need it, the kernel ends beyond
all pairs: see `parki.ewald.truncated`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.ewald.split import Split
from parki.ewald.window import KaiserBessel

Array = NDArray[np.float64]


def wavenumbers(length: int, step: float) -> Array:
    """Return the non-negative wavenumbers of a transform: indices 0 to length // 2."""
    return np.asarray(2 * np.pi / (length * step) * np.arange(length // 2 + 1))


def window_factor(window: KaiserBessel, length: int, step: float) -> Array:
    """Return ``1 / (h w^(k h)^2)``: undoes spreading and gathering, times the cell's edge."""
    k = 2 * np.pi / length * np.arange(length // 2 + 1)
    return 1 / (step * window.fourier(k) ** 2)


def plain(laplace: bool, split: Split, k2: Any) -> Any:
    """Return the multiplier of the untruncated kernel; 0 at k = 0. NumPy or CuPy."""
    zero = k2 == 0
    safe = k2 + zero
    if laplace:
        return (4 * np.pi / safe * split.gamma_laplace(k2)) * ~zero
    return (8 * np.pi / safe**2 * split.gamma_stokes(k2)) * ~zero
