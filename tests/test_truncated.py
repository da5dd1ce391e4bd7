"""Multipliers of kernels that fade, against quadrature of the kernels."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import erfc, j0, k0, k1

import parki
from parki.ewald.far import sizes, truncated
from parki.ewald.far.padding import pad
from parki.ewald.far.truncated import zero_mode
from parki.ewald.options import EwaldOptions
from parki.ewald.task import Task
from parki.reference import direct_sum
from parki.runtime import get_execution_space

SERIAL = get_execution_space("Serial")
STEP = 1 / 32
# Edges of the box, window points, cut-off, tolerance.
LAYOUTS = [
    ((10.0, 1.0, 1.0), 18, 0.15, 1e-11),
    ((10.0, 1.0, 1.0), 5, 0.3, 1e-2),
    ((1.0, 1.0, 1.0), 14, 0.2, 1e-8),
    ((1.0, 1.0, 0.125), 8, 0.3, 1e-4),
    ((256.0, 1.0, 0.5), 18, 0.15, 1e-12),
]


def setup(periodicity, box, points, cutoff, tolerance, modes=4):
    """Return the padding, wavenumbers of the first modes along each axis, and the largest."""
    padding = pad(periodicity, np.array(box), np.full(3, STEP), points, cutoff, math.inf, tolerance)
    # Wide enough that nothing of the fading is left at the grid's largest wavenumber.
    width = 1.7 * padding.steepness**2 * STEP
    padding = dataclasses.replace(padding, kept=max(cutoff, 2 / 3 * width), width=width)
    waves = [2 * np.pi / (n * STEP) * np.arange(n // 2 + 1) for n in padding.local]
    largest = float(np.linalg.norm([k[-1] for k in waves[periodicity:]]))
    return padding, [waves[0][:modes], *waves[1:]], largest


def fading(padding, r):
    middle, half = (padding.radius + padding.onset) / 2, (padding.radius - padding.onset) / 2
    return erfc(padding.steepness * (r - middle) / half) / 2


def kernel(laplace, periodicity, k, r, radius):
    """Return the kernels of the module's table; of the 2-periodic flow that is constant, l."""
    if periodicity == 0:
        return 1 / r if laplace else radius / 2 + r**2 / (2 * radius) - r
    if periodicity == 1 and k > 0:
        return 2 * k0(k * r) if laplace else 2 * r * k1(k * r) / k
    if periodicity == 1:
        log = np.log(r / radius)
        return -2 * log if laplace else r**2 * (log - 0.5) + radius**2 / 2
    if k > 0:
        decay = np.exp(-k * r)
        return 2 * np.pi / k * decay if laplace else 2 * np.pi / k**3 * (1 + k * r) * decay
    return (2 if laplace else 4) * np.pi * (radius - r)


def faded(laplace, periodicity, waves, largest, padding):
    """Return the transforms of a kernel that fades."""
    options = EwaldOptions(periodicity, [1, 1, 1])
    task = Task("laplace" if laplace else "stokes_sl", SERIAL, np.dtype(np.float64), options)
    along, free = waves[:periodicity] or [np.zeros(1)], waves[periodicity:]
    modes, across = (
        np.sqrt(sum(k**2 for k in np.meshgrid(*axes, indexing="ij"))).ravel()
        for axes in (along, free)
    )
    volume = np.prod([n * STEP for n in padding.local[periodicity:]])
    values = truncated.transforms(task, modes, across, largest, padding, volume)
    return values.reshape([k.size for k in waves])


def rule(largest, end):
    """Gauss's rule on panels that shrink towards 0, where kernels have logarithms."""
    edges = np.concatenate([[0.0], np.geomspace(1e-12, 0.01, 30), np.linspace(0.01, end, 80)[1:]])
    t, weight = np.polynomial.legendre.leggauss(20 + int(largest * end / 80))
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (t + 1)).ravel(), (half * weight).ravel()


def transform(periodicity, k, r):
    """Return what a function of r is multiplied by and integrated for its transform at k."""
    if periodicity == 0:
        return 4 * np.pi * r**2 * np.sinc(k * r / np.pi)
    return 2 * np.pi * r * j0(k * r) if periodicity == 1 else 2 * np.cos(k * r)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("periodicity", [0, 1, 2])
def test_against_quadrature(periodicity, laplace, layout):
    if periodicity == 0 and layout[0][0] > 1:
        layout = (1.0, 0.5, 0.5), *layout[1:]
    padding, waves, largest = setup(periodicity, *layout)
    found = faded(laplace, periodicity, waves, largest, padding)
    r, weight = rule(30.0, 2 * padding.radius)
    split = slice(periodicity), slice(periodicity, 3)
    rng = np.random.default_rng(1)
    worst, size = 0.0, 0.0
    for number in range(40):
        index = [rng.integers(min(len(k), 4 if number % 2 else 30)) for k in waves]
        if number < 4:  # the modes across which a kernel is constant
            index = [number if a < periodicity else 0 for a in range(3)]
        k = [wave[i] for wave, i in zip(waves, index, strict=True)]
        along, across = (float(np.linalg.norm(k[s])) for s in split)
        if not any(index) or across > 30:
            continue
        values = kernel(laplace, periodicity, along, r, padding.radius)
        shift = 0.0
        if along > 0 and not laplace:
            middle = (padding.radius + padding.onset) / 2
            shift = kernel(laplace, periodicity, along, middle, padding.radius)
        chi = fading(padding, r)
        expected = weight @ (transform(periodicity, across, r) * chi * (values - shift))
        if across == 0:
            expected += shift * np.prod([n * STEP for n in padding.local[periodicity:]])
        if along == 0 and periodicity == 2 and not laplace:
            expected = expected / across**2 if across > 0 else 0.0
        worst = max(worst, abs(found[tuple(index)] - expected))
        size = max(size, abs(expected))
    # Beyond rounding: ends of the fading are left out, far below the tolerance.
    assert worst <= (1e-11 + 1e-4 * layout[-1]) * size


@pytest.mark.parametrize("box", [(10.0, 1.0, 1.0), (256.0, 1.0, 1.0)])
@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("periodicity", [0, 1, 2])
def test_rounding_decays_with_the_multiplier(periodicity, laplace, box):
    """Where nothing of the fading is left, the multiplier is the plain one, to relative rounding.

    As a closed form less an integral it was wrong by 1 % of itself in the longest box.
    """
    box = box if periodicity else (1.0, 1.0, 1.0)
    padding, waves, largest = setup(periodicity, box, 18, 0.15, 1e-11)
    found = faded(laplace, periodicity, waves, largest, padding)
    k2 = waves[0][:, None, None] ** 2 + waves[1][:, None] ** 2 + waves[2] ** 2
    free = sum(
        waves[a].reshape([-1 if a == b else 1 for b in range(3)]) ** 2
        for a in range(periodicity, 3)
    )
    far = np.broadcast_to(free > (0.9 * np.pi / STEP) ** 2, k2.shape)
    assert far.any()
    plain = 4 * np.pi / k2[far] if laplace else 8 * np.pi / k2[far] ** 2
    # The box: as the change of m over the fading.
    assert np.abs(found[far] / plain - 1).max() < 1e-10 * box[0]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("periodicity", [0, 1, 2])
def test_zero_mode(periodicity, laplace, layout):
    if periodicity == 0 and layout[0][0] > 1:
        layout = (1.0, 0.5, 0.5), *layout[1:]
    padding, _, _ = setup(periodicity, *layout)
    r, weight = rule(0.0, 2 * padding.radius)
    values = kernel(laplace, periodicity, 0.0, r, padding.radius) * fading(padding, r)
    expected = weight @ (transform(periodicity, 0.0, r) * values)
    if not laplace and periodicity < 2:
        expected = 0.0
    assert zero_mode(1 if laplace else 2, periodicity, padding) == pytest.approx(
        expected, rel=1e-12 + 1e-4 * layout[-1]
    )


@pytest.mark.parametrize("periodicity", [0, 1, 2])
def test_blocks_of_single_modes(monkeypatch, periodicity):
    """As padded planes are that fill a block alone."""
    rng = np.random.default_rng(0)
    points, dens = rng.random((3, 50)), rng.standard_normal((3, 50))
    options = parki.EwaldOptions(periodicity, [1, 1, 1], 1e-4, execution_space="Serial")
    usual = parki.stokes_sl(points, points, dens, options)
    monkeypatch.setattr(sizes, "CPU", sizes.CPU._replace(block=1))
    plan = parki.Plan("stokes_sl", points, points, options)
    assert {block.last - block.first for block in plan.pipeline.stages.fgc.blocks} == {1}
    np.testing.assert_allclose(plan(dens), usual, rtol=0, atol=1e-11 * np.abs(usual).max())


@pytest.mark.parametrize("tolerance", [0.5, 0.1, 1e-3, 1e-12])
@pytest.mark.parametrize("steps", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("periodicity", [0, 1, 2])
def test_fading_begins_beyond_all_pairs(periodicity, steps, tolerance):
    """However coarse the grid: kernels have no values at distances below 0."""
    for band, box in [(math.inf, (3.0, 1.0, 1.0)), (2.0, (1.0, 1.0, 0.01))]:
        given = np.array(box), np.full(3, steps), 3, 0.1, band, tolerance
        padding = pad(periodicity, *given)
        assert truncated._fading(math.pi / steps, padding).r[0] >= padding.diameter * (1 - 1e-12)


def test_the_largest_tolerance():
    """Was NaN along one periodic axis: fading began below 0, where the logarithm ends."""
    points = np.random.default_rng(0).random((3, 10)) * [[3], [1], [1]]
    how = {"periodicity": 1, "box": [3, 1, 1]}
    found = parki.laplace(points, points, np.ones(10), tolerance=0.5, **how)
    exact = direct_sum("laplace", points, points, np.ones(10), **how)
    assert np.sqrt(np.mean((found - exact) ** 2)) <= 0.5 * (10**0.5 / 3 ** (1 / 3))
