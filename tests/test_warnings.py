"""Where less is reached than asked for, parki says so, and how much."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import parki


def cloud(dtype):
    rng = np.random.default_rng(0)
    return (rng.random((3, 60)) * [[1], [1], [9]]).astype(dtype), rng.standard_normal((3, 60))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_double_layers_in_a_high_box(dtype):
    src, norms = cloud(dtype)
    options = parki.EwaldOptions(periodicity=2, box=[1, 1, 10], tolerance=1e-5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parki.Plan("stokes_dl", src, src, norms.astype(dtype), options)
    told = [str(w.message) for w in caught]
    assert len(told) == (dtype == "f4")
    assert all("reach some 7e-05 in single precision" in text for text in told)


@pytest.mark.parametrize("shift", [0.25, 1e-3])
def test_points_that_are_moved_in_single_precision(shift):
    src, _ = cloud("f4")
    src[:] = np.round(src * 64) / 64 - np.float32(shift) - 4
    moved = parki.Plan
    options = parki.EwaldOptions(periodicity=0, tolerance=1e-3)
    if shift == 0.25:  # exact
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            moved("laplace", src, src, options)
    else:
        src[0, 0] = 1e-3
        with pytest.warns(parki.ParkiWarning, match="are moved into a box of"):
            moved("laplace", src, src, options)


def test_the_prolate_split_of_steep_sums():
    src, norms = cloud("f8")
    options = parki.EwaldOptions(tolerance=1e-10, box=[1, 1, 10], split="prolate")
    with pytest.warns(parki.ParkiWarning, match="reach 3e-09 at best by the prolate split"):
        parki.Plan("stokes_dl", src, src, norms, options, want="p")
