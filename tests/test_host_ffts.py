"""The libraries of the host's FFTs do the same, and a setting names one."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

import parki
from parki.ewald.far import transforms

MODULE = "parki.ewald.far.ffts.by_"
NAMES = ("ducc0", "scipy")


def library_of(name):
    """Return the module of a library, or skip the test where it is not installed."""
    pytest.importorskip(name)
    return importlib.import_module(MODULE + name)


def near(found, exact):
    """Return whether values agree to rounding."""
    return abs(found - exact).max() < 10 * np.finfo(found.dtype).eps * abs(exact).max()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("axis", "length"), [(1, 6), (1, 11), (2, 8), (2, 9)])
def test_a_library_transforms_parts_of_arrays(name, dtype, axis, length):
    """Parts have gaps between rows; values are padded before, and cropped after."""
    library, random = library_of(name), np.random.default_rng(1)
    shape = [2, 6, 8]
    whole = random.standard_normal((2, 6, 11)).astype(dtype)
    values = whole[..., :8]
    shape[axis] = length // 2 + 1
    kept = np.zeros((2, shape[1] + 3, shape[2] + 1), np.result_type(np.dtype(dtype), np.complex64))
    hat = kept[:, 2 : 2 + shape[1], : shape[2]]
    library.real(values, length, axis, hat)
    assert near(hat, np.fft.rfft(values, n=length, axis=axis))
    other = 3 - axis
    modes = hat.copy()
    library.complex(True, (hat, other))
    assert near(hat, np.fft.fft(modes, axis=other))
    library.complex(False, (hat, other))
    assert near(hat, hat.shape[other] * modes)
    assert np.count_nonzero(kept) == hat.size  # and nothing beside it
    back = np.zeros_like(whole)
    library.real_inverse(modes, length, axis, back[..., :8])
    assert near(back[..., :8], length * values)
    assert not back[..., 8:].any()


@pytest.mark.parametrize("name", NAMES)
def test_a_sum_takes_the_library_that_is_named(monkeypatch, name):
    library = library_of(name)
    src = np.random.default_rng(2).random((3, 40))
    options = parki.EwaldOptions(box=(1.0, 1.0, 1.0), periodicity=1, tolerance=1e-4)
    monkeypatch.setenv("PARKI_FFT", name)
    plan = parki.Plan("stokes_sl", src, src, options=options)
    assert plan.pipeline.stages.fgc.transforms.fft is library
    check = plan.check(src)
    assert check.error < check.promise


def test_libraries_that_are_not_named_or_not_here(monkeypatch):
    monkeypatch.delenv("PARKI_FFT", raising=False)
    assert transforms.library() is library_of("scipy")
    monkeypatch.delitem(sys.modules, f"{MODULE}ducc0", raising=False)
    monkeypatch.setitem(sys.modules, "ducc0", None)
    monkeypatch.setenv("PARKI_FFT", "ducc0")
    with pytest.raises(parki.UnavailableError, match=r"PARKI_FFT is 'ducc0'.*pip install ducc0"):
        transforms.library()
    monkeypatch.setenv("PARKI_FFT", "fftw")
    with pytest.raises(parki.ParkiValueError, match="PARKI_FFT is 'fftw'; expected ducc0 or scipy"):
        transforms.library()
