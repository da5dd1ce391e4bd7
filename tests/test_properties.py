"""What holds for every sum, on inputs that nobody would write down, which Hypothesis finds.

A `Sum` is drawn with its box, its cloud of points (many of them degenerate), its density and what
is wanted. The normal run draws the same examples every time, of one precision, tolerance and
number of periodic axes (or two) for each sum, so that there are few kernels to compile. The slow
one draws from all, anew each time; PARKI_TEST_EXAMPLES says how many examples each test has.
"""

from __future__ import annotations

import itertools
import math
import os
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import USUAL_AXES
from contract import fields_of, promise, rms
from hypothesis import HealthCheck, Phase, assume, event, given, settings, target
from hypothesis import strategies as st

import parki
from examples import example
from parki.ewald.points import result_shape
from parki.ewald.sums import SUMS
from parki.reference import direct_sum

Array = np.ndarray[Any, np.dtype[Any]]

KERNELS = tuple(SUMS)
# Normal runs: precision and tolerance of each kernel, over and over again.
ASKED = (
    *(("f4", 1e-3), ("f8", 1e-5), ("f8", 1e-3), ("f4", 1e-2)),
    *(("f8", 1e-8), ("f4", 1e-3), ("f8", 1e-5), ("f8", 1e-5)),
)
USUAL = dict(zip(KERNELS, itertools.cycle(ASKED), strict=False))
# Sums along one axis hang on the logarithm of the unit, if they have one: `docs/gauges.md`.
NO_LOGARITHM = tuple(n for n in KERNELS if SUMS[n].gauge is None or example(n).sized)
# At 1e-12 pressures and gradients of a few double layers are at 2500 roundings of themselves.
TOLERANCES = {"f4": (1e-1, 1e-3, 1e-5), "f8": (1e-2, 1e-5, 1e-9, 1e-11)}
# Edges of boxes. Direct sums take minutes for the longest, free sums gigabytes; others seconds.
SHORT = ((1, 1, 1), (1.5, 1, 0.5), (1, 10, 1), (12, 1, 3))
LONG = (*SHORT, *SHORT, *SHORT, (1, 1, 1000), (1000, 1, 1), (1, 1000, 30))
# Roundings of the typical size of a result that may add up.
ROUNDINGS = 256
# The promise is an average: errors of few targets, or from few sources, scatter about it.
SCATTER = 4
SLOW = int(os.environ.get("PARKI_TEST_EXAMPLES", "1000"))


def examples(normal: int, slow: bool = False):
    """Return the settings of a test."""
    return settings(
        max_examples=SLOW if slow else normal,
        derandomize=not slow,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.target, Phase.shrink] if slow else [Phase.generate],
    )


class Sum(NamedTuple):
    """One sum: the arguments of a plan, and a density."""

    kernel: str
    trg: Array
    src: Array
    norms: Array | None
    dens: Array
    options: parki.EwaldOptions
    want: Any
    names: tuple[str, ...]

    def plan(self, **changes: Any) -> parki.Plan:
        """Return a plan; ``changes`` take the place of points or normals."""
        arguments = {"trg": self.trg, "src": self.src, "norms": self.norms, **changes}
        try:
            plan = parki.Plan(self.kernel, options=self.options, want=self.want, **arguments)
        except parki.ParkiValueError as error:
            assume("in another unit" not in str(error))  # a box of denormal numbers
            raise
        # A gradient of a double layer in a box of 1e-13 has no place in float32.
        size = max(self.promise(plan, 1.0, name) for name in self.names)
        size += min(1.0, *map(float, plan.box)) ** -3
        assume(size < 1e-9 * np.finfo(self.src.dtype).max)
        return plan

    def values(self, plan: parki.Plan, dens: Any = None) -> dict[str, Array]:
        """Return the results by name."""
        found = plan(self.dens if dens is None else dens)
        found = (found,) if isinstance(self.want, str) else found
        return dict(zip(self.names, found, strict=True))

    def promise(self, plan: parki.Plan, tolerance: float, name: str) -> float:
        """Return the bound of a result's rms error."""
        return promise(self.kernel, self.dens, self.norms, plan.box, tolerance, name)

    def slack(self, plan: parki.Plan, name: str, *results: Array) -> float:
        """Return what rounding may change in a result: of the grid's values, and of its own."""
        box = plan.box
        size = self.promise(plan, 1.0, name)
        # Near and far parts of a gradient are far larger than what they leave where they cancel.
        growth = 30 * max(1.0, math.prod(box) ** (1 / 3) / min(box)) if name != "u" else 1.0
        # Next to a charged plane, at the end of a long box, large parts of the flow cancel.
        large = 4 * math.pi * max(box) ** 2 / math.prod(box) * float(np.abs(self.dens).sum())
        large /= min(box) ** (name != "u")
        size = growth * size + large + sum(rms(values) for values in results)
        return ROUNDINGS * float(np.finfo(self.src.dtype).eps) * size


# ---------------------------------------------------------------------- what is drawn
def _grid(rng, n):
    """Return points with few digits, whose copies in other periods are exact in float32."""
    return rng.integers(0, 4096, (3, n)) / 4096


def _same(rng, n):
    return np.repeat(_grid(rng, 1), n, axis=1)


def _collinear(rng, n):
    points = _grid(rng, n)
    points[:2] = points[:2, :1]
    return points


def _coplanar(rng, n):
    points = _grid(rng, n)
    points[rng.integers(3)] = rng.choice([0, 0.5, 4095 / 4096])
    return points


def _close(rng, n):
    return 0.5 + rng.integers(0, 3, (3, n)) / 4096


def _corners(rng, n):
    return rng.choice([0, 0.25, 0.5], (3, n))


def _uniform(rng, n):
    return rng.random((3, n))


def _faces(rng, n):
    """On the faces of cells and box, and one rounding to either side."""
    places = rng.choice([0.0, 0.25, 0.5, 1.0], (3, n))
    return np.nextafter(places, rng.choice([-1.0, 0.5, 2.0], (3, n)))


def _tiny(rng, n):
    """Next to the origin: zeros, denormal numbers, and the smallest normal ones."""
    return rng.choice([0.0, 5e-324, 1e-310, 3e-308, 1e-45, 1e-38, 1e-30], (3, n))


EXACT = {f.__name__[1:]: f for f in (_grid, _same, _collinear, _coplanar, _close, _corners)}
CLOUDS = {**EXACT, **{f.__name__[1:]: f for f in (_uniform, _faces, _tiny)}}


@st.composite
def sums(draw, slow=False, boxes=SHORT, clouds=CLOUDS, least=1, given_box=False, units=False):
    """Draw a sum of at least ``least`` sources; with ``units``, one that has no logarithm."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kernel = draw(st.sampled_from(KERNELS))
    dtype, tolerance = USUAL[kernel]
    space = "Serial" if kernel == "stokes_sl" else "OpenMP"
    if slow:
        dtype = draw(st.sampled_from(["f4", "f8"]))
        tolerance = draw(st.sampled_from(TOLERANCES[dtype]))
        space = "Serial" if dtype == "f8" else "OpenMP"
    every = USUAL_AXES.get(kernel, (KERNELS.index(kernel) % 4,))
    periodicity = draw(st.sampled_from(range(4) if slow else every))
    if units and kernel not in NO_LOGARITHM:
        periodicity = (0, 2, 3, 3)[periodicity]
    if periodicity == 0:
        boxes = [box for box in boxes if max(box) < 20 * min(box)]
    box = np.array(draw(st.sampled_from(boxes)), dtype=float)[:, None]
    n = draw(st.sampled_from([least, 1, 2, 3, 7, 30, 100]))
    name = draw(st.sampled_from(sorted(clouds)))
    src = _placed(clouds[name], rng, n, box, periodicity, dtype)
    trg = src
    where = draw(st.sampled_from(["same", "copy", "cloud", "cloud", "apart"]))
    if where == "copy":
        trg = src.copy()
    elif where == "cloud" and n:
        other = clouds[draw(st.sampled_from(sorted(clouds)))]
        trg = _placed(other, rng, draw(st.sampled_from([1, 2, 20])), box, periodicity, dtype)
    elif where == "apart" and n:
        trg = _placed(_corners, rng, 4, box, periodicity, dtype)
    lengths: list[float | None] = box.ravel().tolist()
    if not given_box and draw(st.booleans()) and (periodicity or _thick(trg, src)):
        lengths[periodicity:] = [None] * (3 - periodicity)
    dens, norms = example(kernel).taken(_density(draw, rng, n), rng.standard_normal((3, n)))
    dens, norms = dens.astype(dtype), None if norms is None else norms.astype(dtype)
    names = fields_of(kernel)
    want: Any = draw(st.sampled_from(["u", names]))
    if slow:
        want = draw(st.sampled_from([*names, names, names[1:], ("grad_u", "u")]))
    event(f"{kernel} {dtype} {periodicity}P {name} {where}")
    options = parki.EwaldOptions(periodicity, lengths, tolerance, execution_space=space)
    found = (want,) if isinstance(want, str) else want
    return Sum(kernel, trg, src, norms, dens, options, want, found)


def _placed(cloud, rng, n, box, periodicity, dtype):
    """Return points of a box: those that are outside along a free axis are moved to its face."""
    points = (cloud(rng, n) * box).astype(dtype)
    for axis in range(periodicity, 3):
        points[axis] = np.clip(points[axis], 0, box[axis].astype(dtype))
    return points


def _thick(*clouds):
    """Whether the extent of points is no needle: free sums in boxes of 1:1:1000 take gigabytes."""
    points = np.concatenate(clouds, axis=1)
    if points.shape[1] == 0:
        return True
    extent = points.max(axis=1) - points.min(axis=1)
    return bool(extent.max() <= 20 * extent.min())


def _density(draw, rng, n):
    values = rng.standard_normal((6, n))
    kind = draw(st.sampled_from(["normal", "normal", "uneven", "zero", "one"]))
    if kind == "uneven":
        values *= 10.0 ** rng.uniform(-12, 0, n)
    elif kind == "zero":
        values[:] = 0
    elif kind == "one" and n:
        values[:, 1:] = 0
    return values


# ---------------------------------------------------------------------- what holds
def check_linear(case, rng_seed):
    """Shapes and dtypes, no NaN, linear, and exact for powers of two."""
    plan = case.plan()
    rng = np.random.default_rng(rng_seed)
    other = rng.standard_normal(case.dens.shape).astype(case.dens.dtype)
    a = case.values(plan)
    b = case.values(plan, other)
    both = case.values(plan, case.dens - 2 * other)
    for name, values in a.items():
        assert values.shape == result_shape(case.kernel, name, case.trg.shape[1])
        assert values.dtype == case.src.dtype
        assert np.isfinite(values).all(), name
        if not values.size:
            continue
        slack = case.slack(plan, name, values, b[name])
        slack += case._replace(dens=other).slack(plan, name)
        assert rms(both[name] - (values - 2 * b[name])) <= 4 * slack, name
    for power in (-20, 40):
        factor = case.dens.dtype.type(2.0**power)
        for name, values in case.values(plan, other * factor).items():
            np.testing.assert_array_equal(values, b[name] * factor, err_msg=name)


def _without_underflow(points):
    """Return points in float64, in one place where squares of their distances underflow."""
    least = float(np.finfo(points.dtype).tiny) ** 0.5
    return np.where(np.abs(points) < least, 0.0, points.astype("f8"))


def check_reference(case, watched=False):
    """Compare with the direct sum: within the promise, and rounding."""
    plan = case.plan()
    found = case.values(plan)
    if not case.trg.size:
        return
    trg, src = _without_underflow(case.trg), _without_underflow(case.src)
    fields = tuple(dict.fromkeys(("u", *case.names)))
    exact = direct_sum(
        case.kernel,
        trg,
        trg if case.trg is case.src else src,
        case.dens.astype("f8"),
        None if case.norms is None else case.norms.astype("f8"),
        box=plan.box,
        periodicity=case.options.periodicity,
        want=fields,
    )
    exact = dict(zip(fields, exact, strict=True))
    # Powers of tiny distances overflow.
    assume(all(np.isfinite(values).all() for values in exact.values()))
    for name, values in found.items():
        bound = case.promise(plan, case.options.tolerance, name)
        flow = exact[name]
        size = [flow] if name == "u" else [flow, exact["u"] / min(plan.box)]
        error, slack = rms(values - flow), case.slack(plan, name, *size)
        if watched:
            target(float(error / max(bound + slack, 1e-300)), label=name)
        assert error <= SCATTER * bound + slack, (
            f"{name}: error {error:.3g}, promise {bound:.3g}, flow {rms(flow):.3g}\n"
            + plan.describe()
        )


def check_periods(case, seed):
    """Points in other periods give the same result, bit for bit."""
    rng = np.random.default_rng(seed)
    axes = np.arange(3) < case.options.periodicity
    box = np.array([b if p else 0 for b, p in zip(case.options.box, axes, strict=True)])

    def moved(points):
        periods = rng.integers(-3, 4, points.shape)
        return (points + periods * box[:, None]).astype(points.dtype)

    src = moved(case.src)
    trg = src if case.trg is case.src else moved(case.trg)
    a, b = case.values(case.plan()), case.values(case.plan(trg=trg, src=src))
    for name, values in a.items():
        np.testing.assert_array_equal(values, b[name], err_msg=name)


def check_units(case, power):
    """Lengths in another unit, a power of two, give the same digits."""
    power = power if case.src.dtype == np.float64 else power // 12
    scale = case.src.dtype.type(2.0**power)
    box = [b * 2.0**power for b in case.options.box]
    src = case.src * scale
    trg = src if case.trg is case.src else case.trg * scale
    # The velocities of both layers are then in one unit.
    norms = None if case.norms is None else case.norms * scale
    kernel, kind = SUMS.in_unit(case.kernel, 2.0**-power), SUMS[case.kernel]
    dens = case.dens if kind.lengths is None else case.dens * scale**kind.lengths
    other = case._replace(kernel=kernel, dens=dens, options=replace(case.options, box=box))
    a = case.values(case.plan())
    b = case.values(other.plan(trg=trg, src=src, norms=norms))
    for name, values in a.items():
        steps = kind.pair.power + (name != "u")
        expected = values
        for _ in range(steps):  # the scale's powers may have no place in float32
            expected = expected / scale
        np.testing.assert_array_equal(b[name], expected, err_msg=name)


SEEDS = st.integers(0, 2**32 - 1)


@examples(30)
@given(sums(boxes=LONG, least=0), SEEDS)
def test_finite_and_linear(case, seed):
    check_linear(case, seed)


@examples(40)
@given(sums(given_box=True))
def test_direct_sum(case):
    check_reference(case)


@examples(30)
@given(sums(boxes=LONG, clouds=EXACT), SEEDS)
def test_other_periods(case, seed):
    check_periods(case, seed)


@examples(30)
@given(sums(clouds=EXACT, units=True, given_box=True), st.integers(-250, 250))
def test_other_units(case, power):
    check_units(case, power)


@pytest.mark.slow
@examples(0, slow=True)
@given(sums(slow=True, boxes=LONG, least=0), SEEDS)
def test_finite_and_linear_at_length(case, seed):
    check_linear(case, seed)


@pytest.mark.slow
@examples(0, slow=True)
@given(sums(slow=True, given_box=True))
def test_direct_sum_at_length(case):
    check_reference(case, watched=True)


@pytest.mark.slow
@examples(0, slow=True)
@given(sums(slow=True, boxes=LONG, clouds=EXACT), SEEDS)
def test_other_periods_at_length(case, seed):
    check_periods(case, seed)


@pytest.mark.slow
@examples(0, slow=True)
@given(sums(slow=True, clouds=EXACT, units=True, given_box=True), st.integers(-250, 250))
def test_other_units_at_length(case, power):
    check_units(case, power)
