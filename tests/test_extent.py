"""The box of sums whose free directions have no length given."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from contract import rms

import parki
from parki.reference import direct_sum


def cloud(seed=0, n=200, m=150):
    rng = np.random.default_rng(seed)
    src = 5 * rng.standard_normal((3, n)) - 20
    trg = 5 * rng.standard_normal((3, m)) + np.array([[-20], [-20], [40]])
    return trg, src, rng.standard_normal((3, n))


@pytest.mark.parametrize(
    ("periodicity", "box"),
    [(0, None), (1, [30, None, None]), (2, [30, 20, None]), (0, [None, None, 80]), (0, [None] * 3)],
)
def test_the_extent_of_the_points_is_the_box(periodicity, box):
    trg, src, dens = cloud()
    if box is not None and box[2] is not None:
        trg[2], src[2] = abs(trg[2]), abs(src[2])
    options = parki.EwaldOptions(periodicity=periodicity, box=box, tolerance=1e-6)
    plan = parki.Plan("stokes_sl", trg, src, options)
    lengths = [plan.box[a] for a in range(3)]
    ref = direct_sum("stokes_sl", trg, src, dens, box=lengths, periodicity=periodicity)
    assert rms(plan(dens) - ref) <= plan.promise(dens)
    both = np.hstack([trg, src])
    for axis in range(3):
        if box is None or box[axis] is None:
            assert plan.origin[axis] <= both[axis].min()
            assert plan.origin[axis] + plan.box[axis] >= both[axis].max()
            assert plan.box[axis] < 1.1 * np.ptp(both[axis])
        else:
            assert plan.origin[axis] == 0 and plan.box[axis] == box[axis]


def test_a_box_may_be_left_out_where_no_axis_is_periodic():
    assert parki.EwaldOptions(periodicity=0).box == (None, None, None)
    for periodicity, example in ((1, [1, None, None]), (2, [1, 1, None]), (3, [1, 1, 1])):
        message = f"box is missing, but periodicity is {periodicity} .* such as {example}"
        with pytest.raises(parki.ParkiValueError, match=message.replace("[", r"\[")):
            parki.EwaldOptions(periodicity)
        assert parki.EwaldOptions(periodicity, example).box == tuple(example)


# A line's transforms are long, whatever its few points.
@pytest.mark.parametrize(("flat", "tolerance"), [(1, 1e-6), (2, 1e-2), (3, 1e-6)])
def test_points_in_a_plane_on_a_line_and_at_a_point(flat, tolerance):
    rng = np.random.default_rng(3)
    src = 7 * rng.random((3, 50))
    src[3 - flat :] = 2.5
    dens = rng.standard_normal((3, 50))
    options = parki.EwaldOptions(periodicity=0, tolerance=tolerance)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = parki.Plan("stokes_sl", src, src, options)
    ref = direct_sum("stokes_sl", src, src, dens, box=plan.box, periodicity=0)
    # Coinciding points skip each other in both.
    assert rms(plan(dens) - ref) <= plan.promise(dens)


def test_float32_points_far_from_the_origin_keep_their_differences():
    rng = np.random.default_rng(4)
    src = (rng.integers(0, 4096, (3, 100)) / 64 + 1000).astype("f4")  # exact, and so shifted
    dens = rng.standard_normal((3, 100)).astype("f4")
    plan = parki.Plan("stokes_sl", src, src, parki.EwaldOptions(periodicity=0, tolerance=1e-4))
    ref = direct_sum("stokes_sl", src, src, dens, box=plan.box, periodicity=0)
    assert rms(plan(dens) - ref) <= plan.promise(dens) + 32 * np.finfo("f4").eps * rms(ref)


def test_a_few_far_points_are_warned_of():
    trg, src, dens = cloud(n=2000)
    trg[0, 0] = 3000
    options = parki.EwaldOptions(periodicity=0, tolerance=1e-2)
    with pytest.warns(parki.ParkiWarning, match=r"grid \d+ times larger: 98 % of the points"):
        pot = parki.stokes_sl(trg, src, dens, options)
    ref = direct_sum("stokes_sl", trg, src, dens, box=[1, 1, 1], periodicity=0)
    assert rms(pot - ref) <= parki.Plan("stokes_sl", src, src, options).promise(dens)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_points_too_close_together_for_their_precision(dtype):
    """The inverse of a length is infinite: points would be NaN, and their cells anywhere."""
    tiny = float(np.finfo(dtype).tiny)
    points = (np.random.default_rng(0).random((3, 5)) * tiny / 16).astype(dtype)
    options = parki.EwaldOptions(0, None, 1e-3)
    with pytest.raises(parki.ParkiValueError, match="does not hold; give lengths in another unit"):
        parki.Plan("laplace", points, points, options)
    scaled = points * points.dtype.type(2.0**60)
    assert np.isfinite(parki.Plan("laplace", scaled, scaled, options)(np.ones(5, dtype))).all()


@pytest.mark.parametrize("tolerance", [1e-4, 1e-9])
@pytest.mark.parametrize("edges", [(1, 1, 1000), (1, 100, 1000)])
def test_few_points_in_a_long_box(edges, tolerance):
    """Transforms are padded by the diagonal: cut-offs and grid steps must grow with it."""
    rng = np.random.default_rng(0)
    src, dens = rng.random((3, 20)) * np.array(edges)[:, None], rng.standard_normal((3, 20))
    options = parki.EwaldOptions(0, [float(e) for e in edges], tolerance)
    plan = parki.Plan("stokes_sl", src, src, options)
    assert plan.memory.peak < 2e8
    expected = direct_sum("stokes_sl", src, src, dens, box=edges, periodicity=0)
    assert rms(plan(dens) - expected) <= plan.promise(dens)
