"""SciPy's transforms, which allocate their results."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import fft

from parki.ewald.far.ffts import first
from parki.typing import AnyArray


def real(values: AnyArray, length: int, axis: int, out: AnyArray) -> None:
    """Transform real values, with zeros up to ``length``, into ``out``."""
    out[...] = fft.rfft(values, n=length, axis=axis)


def real_inverse(modes: AnyArray, length: int, axis: int, out: AnyArray) -> None:
    """Transform modes to ``length`` real values, of which ``out`` takes the first ones."""
    values = fft.irfft(modes, n=length, axis=axis, norm="forward")
    if out.shape[axis] < length:
        values = values[first(out.shape[axis], axis, out.ndim)]
    out[...] = values


def complex(forward: bool, *lines: tuple[Any, int]) -> None:
    """Transform values along their axis in place, one after the other."""
    transform = fft.fft if forward else fft.ifft
    norm = "backward" if forward else "forward"  # neither scales
    for values, axis in lines:
        modes = transform(values, axis=axis, norm=norm, overwrite_x=True)
        if not np.may_share_memory(modes, values):
            values[...] = modes
