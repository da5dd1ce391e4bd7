"""The libraries of a host's FFTs: SciPy's, or DUCC's where they are asked for.

A library transforms along one axis, in the calling thread, and without a factor. Other threads run
meanwhile. DUCC's transforms took 0.6 to 0.75 of the time of SciPy's: docs/notebook/decisions.md.
But their last bits depend on the number of threads.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Protocol

import numpy as np

from parki.errors import UnavailableError
from parki.settings import SETTINGS


class Library(Protocol):
    """A library of FFTs."""

    def real(self, values: Any, length: int, axis: int, out: Any) -> None:
        """Transform real values, with zeros up to ``length``, into ``out``."""

    def real_inverse(self, modes: Any, length: int, axis: int, out: Any) -> None:
        """Transform modes to ``length`` real values, of which ``out`` takes the first ones."""

    def complex(self, forward: bool, *lines: tuple[Any, int]) -> None:
        """Transform values along their axis in place, one after the other."""


class SciPy:
    """SciPy's transforms, which allocate their results."""

    def __init__(self) -> None:
        import scipy.fft

        self.fft = scipy.fft

    def real(self, values: Any, length: int, axis: int, out: Any) -> None:
        """Transform real values, with zeros up to ``length``, into ``out``."""
        out[...] = self.fft.rfft(values, n=length, axis=axis)

    def real_inverse(self, modes: Any, length: int, axis: int, out: Any) -> None:
        """Transform modes to ``length`` real values, of which ``out`` takes the first ones."""
        values = self.fft.irfft(modes, n=length, axis=axis, norm="forward")
        if out.shape[axis] < length:
            values = values[_first(out.shape[axis], axis, out.ndim)]
        out[...] = values

    def complex(self, forward: bool, *lines: tuple[Any, int]) -> None:
        """Transform values along their axis in place, one after the other."""
        transform = self.fft.fft if forward else self.fft.ifft
        norm = "backward" if forward else "forward"  # neither scales
        for values, axis in lines:
            modes = transform(values, axis=axis, norm=norm, overwrite_x=True)
            if not np.may_share_memory(modes, values):
                values[...] = modes


class Ducc:
    """DUCC's transforms, which fill given arrays of any strides."""

    def __init__(self) -> None:
        from ducc0 import fft

        self.fft = fft

    def real(self, values: Any, length: int, axis: int, out: Any) -> None:
        """Transform real values, with zeros up to ``length``, into ``out``."""
        n = values.shape[axis]
        if n < length:
            shape = list(values.shape)
            shape[axis] = length
            padded = np.zeros(shape, dtype=values.dtype)
            padded[_first(n, axis, values.ndim)] = values
            values = padded
        self.fft.r2c(values, axes=(axis,), out=out)

    def real_inverse(self, modes: Any, length: int, axis: int, out: Any) -> None:
        """Transform modes to ``length`` real values, of which ``out`` takes the first ones."""
        how: dict[str, Any] = {"axes": (axis,), "lastsize": length, "forward": False}
        if out.shape[axis] == length:
            self.fft.c2r(modes, out=out, **how)
        else:
            out[...] = self.fft.c2r(modes, **how)[_first(out.shape[axis], axis, out.ndim)]

    def complex(self, forward: bool, *lines: tuple[Any, int]) -> None:
        """Transform values along their axis in place, one after the other."""
        for values, axis in lines:
            self.fft.c2c(values, axes=(axis,), forward=forward, out=values)


def _first(count: int, axis: int, rank: int) -> tuple[slice, ...]:
    """Return the index of the first ``count`` places along an axis."""
    index = [slice(None)] * rank
    index[axis] = slice(count)
    return tuple(index)


LIBRARIES: dict[str, type[Ducc] | type[SciPy]] = {"ducc0": Ducc, "scipy": SciPy}


@cache
def _loaded(name: str) -> Library:
    return LIBRARIES[name]()


def library() -> Library:
    """Return the library that `PARKI_FFT` names."""
    chosen = SETTINGS["PARKI_FFT"].value()
    try:
        return _loaded(chosen)
    except ImportError as error:
        raise UnavailableError(
            f"PARKI_FFT is {chosen!r}, but importing it fails ({error}); pip install {chosen}, or "
            "unset this environment variable"
        ) from error
