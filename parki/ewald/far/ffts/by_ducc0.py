"""DUCC's transforms, which fill given arrays of any strides.

They took 0.6 to 0.75 of the time of SciPy's: docs/notebook/decisions.md. But their last bits depend
on the number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ducc0 import fft

from parki.ewald.far.ffts import first
from parki.typing import AnyArray


def real(values: AnyArray, length: int, axis: int, out: AnyArray) -> None:
    """Transform real values, with zeros up to ``length``, into ``out``."""
    n = values.shape[axis]
    if n < length:
        shape = list(values.shape)
        shape[axis] = length
        padded = np.zeros(shape, dtype=values.dtype)
        padded[first(n, axis, values.ndim)] = values
        values = padded
    fft.r2c(values, axes=(axis,), out=out)


def real_inverse(modes: AnyArray, length: int, axis: int, out: AnyArray) -> None:
    """Transform modes to ``length`` real values, of which ``out`` takes the first ones."""
    whole = out.shape[axis] == length
    values = fft.c2r(
        modes, axes=(axis,), lastsize=length, forward=False, out=out if whole else None
    )
    if not whole:
        out[...] = values[first(out.shape[axis], axis, out.ndim)]


def complex(forward: bool, *lines: tuple[Any, int]) -> None:
    """Transform values along their axis in place, one after the other."""
    for values, axis in lines:
        fft.c2c(values, axes=(axis,), forward=forward, out=values)
