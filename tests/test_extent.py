"""The box of sums whose free directions have no length given."""

from __future__ import annotations

import functools
import math
import re
import warnings

import numpy as np
import pytest
from contract import rms
from scipy.special import zeta

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
    ref = direct_sum("stokes_sl", trg, src, dens, options=options)
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


@pytest.mark.parametrize("tolerance", [1e-4, 1e-9])
def test_a_line_of_dipoles_has_the_digits_of_its_period(tolerance):
    """Was 18 % off at 1e-4: the promise was that of a box of a thousandth of a period."""
    one, dipole = np.array([[0.1], [0.2], [0.3]]), np.array([[1.0], [0.0], [0.0]])
    options = parki.EwaldOptions(1, [1, None, None], tolerance)
    plan = parki.Plan("laplace_dipole", one, one, options, want="grad_u")
    assert plan.promise(dipole) < 20 * tolerance  # l^3 is a sixteenth of the period's
    assert abs(plan(dipole)[0, 0] + 4 * zeta(3)) <= plan.promise(dipole)  # a chain, head to tail


@pytest.mark.each
@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize(
    "kernel", ["laplace", "laplace_dipole", "stokes_sl", "stokes_rotlet", "stokes_dipole"]
)
def test_points_without_width_keep_the_promise(kernel, axes):
    """On the periodic axis, and in the plane of two; that on a line was broken 1.5 to 36 times."""
    rng = np.random.default_rng(0)
    src = rng.random((3, 20)) * (np.arange(3) < axes)[:, None]
    rows = {"laplace": (20,), "stokes_dipole": (3, 3, 20)}.get(kernel, (3, 20))
    dens = rng.standard_normal(rows)
    dens -= dens.mean(axis=-1, keepdims=True)
    options = parki.EwaldOptions(axes, [1] * axes + [None] * (3 - axes), 1e-6)
    plan = parki.Plan(kernel, src, src, options)
    exact = direct_sum(kernel, src, src, dens, options=options)
    assert rms(plan(dens) - exact) <= plan.promise(dens) + 1e-13 * rms(exact)
    assert min(plan.box) >= 0.25


@pytest.mark.parametrize(
    ("kernel", "periodicity", "box"),
    [
        ("stokes_sl", 1, (1, 0.001, 0.001)),
        ("stokes_sl", 1, (1, 0.0001, 0.0001)),
        ("stokes_dipole", 1, (1, 0.0001, 0.0001)),
        ("stokes_sl", 2, (1, 0.01, 0.0003)),
        ("stokes_sl", 2, (1, 0.01, 0.0001)),
    ],
)
def test_thin_free_edges_keep_the_promise(kernel, periodicity, box):
    """Where kernels fade, at a cut-off of 10 widths or more, their size was taken too small."""
    rng = np.random.default_rng(0)
    src = rng.random((3, 40)) * np.array(box)[:, None]
    dens = rng.standard_normal((3, 3, 40) if kernel == "stokes_dipole" else (3, 40))
    dens -= dens.mean(axis=-1, keepdims=True)
    options = parki.EwaldOptions(periodicity, box, 1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = parki.Plan(kernel, src, src, options)
    exact = direct_sum(kernel, src, src, dens, options=options)
    assert rms(plan(dens) - exact) <= plan.promise(dens)
    assert (plan.box == box).all()


@pytest.mark.parametrize("apart", [0.1, 1e-3, 1e-9])
def test_boxes_are_as_wide_as_spheres_and_blobs(apart):
    """Spheres with centres 1e-5 apart were refused, with 1e-3 their velocities 0.5 % off."""
    trg, force = np.array([[apart], [0], [0]]), np.array([[1.0], [0], [0]])
    spheres = parki.Spheres(np.zeros((3, 1)), 0.5, periodicity=0, tolerance=1e-6)
    flow = spheres.flow(force, trg)[0, 0]
    assert abs(flow - 1 / (6 * np.pi * 0.5)) <= 1e-6
    blob = parki.kernel("stokes_sl", epsilon=0.5)
    plan = parki.Plan(blob, trg, np.zeros((3, 1)), periodicity=0, tolerance=1e-6)
    exact = 2 * math.erf(apart / 0.5) / apart  # of a Gaussian, along the force
    assert plan(force)[0, 0] == pytest.approx(exact, abs=1e-6)
    assert min(plan.box) >= 1.0


def test_float32_points_far_from_the_origin_keep_their_differences():
    rng = np.random.default_rng(4)
    src = (rng.integers(0, 4096, (3, 100)) / 64 + 1000).astype("f4")  # exact, and so shifted
    dens = rng.standard_normal((3, 100)).astype("f4")
    plan = parki.Plan("stokes_sl", src, src, parki.EwaldOptions(periodicity=0, tolerance=1e-4))
    ref = direct_sum("stokes_sl", src, src, dens, box=plan.box, periodicity=0)
    assert rms(plan(dens) - ref) <= plan.promise(dens) + 32 * np.finfo("f4").eps * rms(ref)


def with_a_far_point(n, distance):
    points = np.random.default_rng(0).random((3, n + 1))
    points[:, -1] = distance
    return points, parki.EwaldOptions(periodicity=0, tolerance=1e-6, deterministic=True)


CALLS = (
    lambda x, f, options: parki.Plan("stokes_sl", x, x, options),
    lambda x, f, options: parki.stokes_sl(x, x, f, options),
    lambda x, f, options: parki.Plan("stokes_sl", x[:, :0], x[:, :0], options).update_points(x, x),
)


def test_a_few_far_points_that_cost_are_warned_of():
    """With what they cost, at the user's line."""
    points, options = with_a_far_point(30000, 100.0)
    near = parki.Plan("stokes_sl", points[:, :-1], points[:, :-1], options).parameters.total
    whole = None
    for call in CALLS:
        with pytest.warns(parki.ParkiWarning) as heard:
            made = call(points, points, options)
        whole = whole or made.parameters.total  # of the plan, which comes first
        assert len(heard) == 1 and heard[0].filename == __file__
        said = str(heard[0].message)
        words = re.search(r"a call take (\S+) s, as predicted, in place of (\S+) s", said)
        assert float(words[1]) == pytest.approx(whole, rel=0.1)
        assert float(words[2]) == pytest.approx(near, rel=0.2)
        assert "within [0.0" in said and "of [0, 100]" in said


def test_what_the_warning_proposes_takes_little_and_gives_the_same():
    points, options = with_a_far_point(30000, 100.0)
    near, far = points[:, :-1], points[:, -1:]
    dens = np.random.default_rng(1).standard_normal(points.shape)
    parts = [(near, near, dens[:, :-1]), (near, far, dens[:, -1:]), (far, points, dens)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plans = [parki.Plan("stokes_sl", trg, src, options) for trg, src, _ in parts]
    sums = [plan(f) for plan, (_, _, f) in zip(plans, parts, strict=True)]
    found = np.hstack([sums[0] + sums[1], sums[2]])
    some = [*range(20), -1]
    ref = direct_sum("stokes_sl", points[:, some], points, dens, box=[1, 1, 1], periodicity=0)
    assert rms(found[:, some] - ref) <= plans[0].promise(dens[:, :-1])
    assert plans[1].parameters.total + plans[2].parameters.total < plans[0].parameters.total


@pytest.mark.parametrize(("n", "distance"), [(2000, 1000.0), (10000, 3.0), (30000, 1.5)])
def test_far_points_that_cost_little_are_not_warned_of(n, distance):
    points, options = with_a_far_point(n, distance)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parki.Plan("stokes_sl", points, points, options)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_points_too_close_together_for_their_precision(dtype):
    """The inverse of a length is infinite: points would be NaN, and their cells anywhere."""
    tiny = float(np.finfo(dtype).tiny)
    points = (np.random.default_rng(0).random((3, 5)) * tiny / 16).astype(dtype)
    options = parki.EwaldOptions(0, None, 1e-3)
    with pytest.raises(parki.ParkiValueError, match="does not hold; give lengths in another unit"):
        parki.Plan("laplace", points, points, options)
    scaled = points * points.dtype.type(2.0 ** (60 if dtype == "f4" else 800))
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


LENGTHS = (5e-324, 1e-320, 1e-310, 1e-160, 1e-95, 1e95, 1e155, 1e160, 1e300, 1.7e308)


@pytest.mark.parametrize("box", ["none", "given", "some"])
@pytest.mark.parametrize("length", LENGTHS)
def test_lengths_whose_powers_are_no_numbers(length, box):
    """Results, promises and checks of them would be infinite, zero or NaN."""
    points = np.zeros((3, 2))
    points[0, 1] = length
    edges = {"none": None, "given": [length] * 3, "some": [length, None, None]}[box]
    periodicity = {"none": 0, "given": 3, "some": 1}[box]
    options = {"periodicity": periodicity, "box": edges, "tolerance": 1e-3}
    for kernel, dens in (("laplace", np.ones(2)), ("stokes_dipole", np.ones((3, 3, 2)))):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(parki.ParkiValueError, match=r"of about .*, whose powers float64"):
                getattr(parki, kernel)(points, points, dens, **options)


@pytest.mark.parametrize("length", [2e-90, 1e-60, 1e60, 1e89])
def test_lengths_at_the_ends(length):
    """Sums, promises and checks are numbers, and nothing is warned of."""
    points = length * np.random.default_rng(0).random((3, 20))
    options = parki.EwaldOptions(3, [length] * 3, 1e-3)
    dens = np.ones((3, 3, 20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = parki.Plan("stokes_dipole", points, points, options, want=("u", "grad_u"))
        results, checks, bounds = plan(dens), plan.check(dens), plan.promise(dens)
        parki.vjp("stokes_dipole", points, points, dens, options, values=points, wrt=("dens",))
    for result, check, bound in zip(results, checks, bounds, strict=True):
        assert np.isfinite(result).all() and np.isfinite(check.flow) and check.flow > 0
        assert check.error < bound < np.inf


def test_extents_that_overflow():
    points = np.array([[-1e308, 1e308]] * 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(parki.ParkiValueError, match="edges of about inf, whose powers"):
            parki.laplace(points, points, np.ones(2), parki.EwaldOptions(0))
        single = np.random.default_rng(0).random((3, 5)).astype("f4")
        with pytest.raises(parki.ParkiValueError, match="whose powers float32 does not hold"):
            parki.laplace(single, single, single[0], parki.EwaldOptions(0, [1e60] * 3, 1e-3))


@pytest.mark.parametrize("exponent", [-60, -45, -38, 38, 46, 60])
def test_powers_in_single_precision(exponent):
    """Gradients that could be held lost their digits where the cube of the unit did."""
    rng, length = np.random.default_rng(0), 2.0**exponent
    points, dens = rng.random((3, 10)).astype("f4"), rng.standard_normal((3, 3, 10)).astype("f4")
    sums = functools.partial(parki.stokes_dipole, periodicity=3, tolerance=1e-3, want="grad_u")
    asked = points * np.float32(length), dens * np.float32(length**1.5)
    if abs(exponent) > 40:
        with pytest.raises(parki.ParkiValueError, match="whose powers float32 does not hold"):
            sums(asked[0], asked[0], asked[1], box=[length] * 3)
    else:
        found = sums(asked[0], asked[0], asked[1], box=[length] * 3)
        exact = length**-1.5 * sums(points, points, dens, box=[1, 1, 1]).astype("f8")
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5 * np.abs(exact).max())
