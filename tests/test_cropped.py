"""Kernels that fade at the faces of a box are, within it, those that fade at a radius."""

from __future__ import annotations

import math

import numpy as np
import pytest

from parki.ewald.far import truncated
from parki.ewald.far.multiplier import cropped
from parki.ewald.far.padding import pad
from parki.ewald.options import EwaldOptions
from parki.ewald.task import Task
from parki.runtime import get_execution_space
from parki.runtime.spaces import why_unavailable

SERIAL = get_execution_space("Serial")
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
    options = EwaldOptions(periodicity, box, tolerance)
    task = Task("laplace" if laplace else "stokes_sl", SERIAL, np.dtype(np.float64), options)
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
    options = EwaldOptions(periodicity, box, 1e-6)
    task = Task("stokes_sl", get_execution_space("Cuda"), np.dtype(np.float64), options)
    padding = pad(periodicity, box, STEPS, 8, 0.4, math.inf, 1e-6)
    lengths = zip(padding.local, STEPS, strict=True)
    waves = [2 * np.pi / (n * h) * np.arange(n // 2 + 1) for n, h in lengths]
    found = []
    for few in (2**30, 0):
        monkeypatch.setattr("parki.ewald.far.multiplier.FEW", few)
        found.append(cropped(task, padding, box, STEPS, waves).get())
    assert np.abs(found[0] - found[1]).max() <= 1e-12 * np.abs(found[1]).max()
