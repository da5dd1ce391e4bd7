"""Multipliers of kernels that fade, against quadrature of the kernels.

Those that fade at the faces of a box are, within it, those that fade at a radius.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import erfc, j0, k0, k1

import parki
from parki.ewald.far import sizes, truncated
from parki.ewald.far.fading import fading_nodes, zero_mode
from parki.ewald.far.multiplier import cropped
from parki.ewald.far.padding import pad
from parki.ewald.options import EwaldOptions
from parki.ewald.task import Task
from parki.reference import direct_sum
from parki.runtime import get_execution_space
from parki.runtime.spaces import why_unavailable

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


def task_of(laplace, periodicity, box=(1, 1, 1), tolerance=1e-5, space="Serial"):
    """Return the task of a sum of charges, or of forces."""
    options = EwaldOptions(periodicity, box, tolerance)
    name, where = "laplace" if laplace else "stokes_sl", get_execution_space(space)
    return Task(name, where, np.dtype(np.float64), options)


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
    task = task_of(laplace, periodicity)
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
    # Ends of the fading are left out, far below the tolerance. Rounding is largest in the longest
    # box: there 8 pi less a sum of about 60 terms of one sign is divided by K^4, so that a unit of
    # roundoff is 7e-13 of the size. The bound has 15 of them; processors show 0.1 to 6.4.
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
    # A roundoff of m's change over the fading, at most pi (R^2 - r^2) / (2 K), whose transform is k
    # times that, over 8 pi / k^4 times k^2. Sums over nodes have up to 14 of them.
    change = box[0] / 2 * padding.width * (padding.onset + padding.width / 2)
    unit = 2.0**-53 * (np.pi / STEP) ** 3 * change / (8 * np.pi)
    assert np.abs(found[far] / plain - 1).max() < 30 * unit


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
        assert fading_nodes(math.pi / steps, padding).r[0] >= padding.diameter * (1 - 1e-12)


def test_the_largest_tolerance():
    """Was NaN along one periodic axis: fading began below 0, where the logarithm ends."""
    points = np.random.default_rng(0).random((3, 10)) * [[3], [1], [1]]
    how = {"periodicity": 1, "box": [3, 1, 1]}
    found = parki.laplace(points, points, np.ones(10), tolerance=0.5, **how)
    exact = direct_sum("laplace", points, points, np.ones(10), **how)
    assert np.sqrt(np.mean((found - exact) ** 2)) <= 0.5 * (10**0.5 / 3 ** (1 / 3))


# --- boxes ----------------------------------------------------------------------------------------
STEPS = np.array([0.1, 0.09, 0.08])
BOXES = [(1.0, 0.9, 0.8), (1.0, 3.6, 0.8), (0.5, 0.9, 4.0)]


def values_at(points, lengths, transform, mollifier):
    """Return what even modes make at points, by the sum of cosines along each axis."""
    result = mollifier * transform
    for x, length in zip(points[::-1], lengths[::-1], strict=True):
        k = 2 * np.pi / length * np.arange(result.shape[-1])
        weights = np.where(np.arange(k.size) == 0, 1.0, 2.0) / length
        result = result @ (weights[:, None] * np.cos(np.multiply.outer(k, x)))
        result = np.moveaxis(result, -1, 0)
    return result


@pytest.mark.pairwise
@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("tolerance", [1e-4, 1e-10])
@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("periodicity", [0, 1])
def test_within_the_box(periodicity, laplace, tolerance, box):
    """Except for rounding; mollified, as the grid needs it."""
    box = np.array(box)
    task = task_of(laplace, periodicity, box, tolerance)
    # The mollifier is 1e-12 at the largest wavenumber of the grid, and at the cut-off.
    damping = np.log(1e12) / (np.pi / STEPS.max()) ** 2
    cutoff = float(2 * np.sqrt(damping * np.log(1e12)))
    padding = pad(periodicity, box, STEPS, 8, cutoff, math.inf, tolerance)
    free = list(range(periodicity, 3))
    waves = [np.zeros(1)] * 3
    if periodicity:
        waves[0] = 2 * np.pi / box[0] * np.arange(3)
    lengths = np.array(padding.local) * STEPS
    for axis in free:
        waves[axis] = 2 * np.pi / lengths[axis] * np.arange(padding.local[axis] // 2 + 1)
    transforms = cropped(task, padding, box, STEPS, waves)
    modes = waves[0] if periodicity else np.zeros(1)
    counts = [int(padding.period / STEPS[axis] / 2) + 1 for axis in free]
    wide = [2 * np.pi / padding.period * np.arange(count) for count in counts]
    square = sum(k**2 for k in np.meshgrid(*wide, indexing="ij"))
    largest = float(np.sqrt(square.max()))
    volume = padding.period ** len(free)
    whole = truncated.transforms(task, modes, np.sqrt(square.ravel()), largest, padding, volume)
    places = [np.linspace(0, box[axis], 5) for axis in free]
    own = sum(k**2 for k in np.meshgrid(*(waves[axis] for axis in free), indexing="ij"))
    for mode in range(modes.size):
        found = transforms[mode] if periodicity else transforms
        near = values_at(places, lengths[free], found, np.exp(-damping * own))
        far = whole[mode].reshape(square.shape)
        far = values_at(places, [padding.period] * len(free), far, np.exp(-damping * square))
        assert np.abs(near - far).max() <= 1e-10 * np.abs(far).max()


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("tolerance", [1e-4, 1e-10])
@pytest.mark.parametrize("periodicity", [1, 2])
def test_images_of_modes_have_decayed(periodicity, tolerance, box):
    """That of a mode with the plain multiplier, at the nearest face: to 1e-3 of the tolerance."""
    padding = pad(periodicity, np.array(box), STEPS, 8, 0.3, math.inf, tolerance)
    plain = [level for level in padding.levels if not level.ends]
    assert plain and padding.levels[0].ends
    for level in plain:
        for axis in range(periodicity, 3):
            x = 2 * np.pi * level.first / box[0] * (level.lengths[axis] * STEPS[axis] - box[axis])
            assert (1 + x) * np.exp(-x) <= 1.01e-3 * tolerance


@pytest.mark.gpu
@pytest.mark.skipif(bool(why_unavailable("Cuda")), reason=why_unavailable("Cuda"))
@pytest.mark.parametrize("periodicity", [0, 1, 2])
def test_a_device_has_few_values_from_the_host(periodicity, monkeypatch):
    """They differ from those that it makes itself by rounding alone."""
    box = np.ones(3)
    task = task_of(False, periodicity, box, 1e-6, "Cuda")
    padding = pad(periodicity, box, STEPS, 8, 0.4, math.inf, 1e-6)
    lengths = zip(padding.local, STEPS, strict=True)
    waves = [2 * np.pi / (n * h) * np.arange(n // 2 + 1) for n, h in lengths]
    found = []
    for few in (2**30, 0):
        monkeypatch.setattr("parki.ewald.far.multiplier.FEW", few)
        found.append(cropped(task, padding, box, STEPS, waves).get())
    assert np.abs(found[0] - found[1]).max() <= 1e-12 * np.abs(found[1]).max()
