"""Random sources of each sum, for the reference."""

from __future__ import annotations

import numpy as np
import pytest

from parki.reference import direct_sum

KERNELS = {
    "laplace": 1,
    "laplace_dipole": 3,
    "stokes_sl": 3,
    "stokes_dl": 3,
    "stokes_comb": 6,
    "stokes_rotlet": 3,
    "stokes_dipole": 9,
}
BOX = np.array([1.2, 1.0, 0.8])
TOLERANCE = 1e-13  # what the module promises, of the rms; it reaches about 1e-14

# The combined layer is the sum of both layers.
SWEPT = [name for name in KERNELS if name not in ("stokes_sl", "stokes_dl")]
every_kernel = pytest.mark.parametrize("kernel", SWEPT)
every_periodicity = pytest.mark.parametrize("periodicity", [0, 1, 2, 3])

# Central differences of eighth order: weights that give the value and the slope in the middle.
PLACES = np.array([-4, -3, -2, -1, 1, 2, 3, 4])
VALUE, SLOPE = np.linalg.solve(np.vander(PLACES, increasing=True).T, np.eye(8)[:, :2]).T
STEP = 0.005


def system(kernel, count=25, seed=0):
    """Targets, sources, densities and normals: some targets on sources, on images, and outside."""
    rng = np.random.default_rng(seed)
    src = rng.random((3, count)) * BOX[:, None]
    trg = np.concatenate([rng.random((3, 12)) * BOX[:, None], src[:, :4], src[:, 4:6]], axis=1)
    trg[0, -2:] += [BOX[0], -2 * BOX[0]]
    trg[:, 0] *= -0.5
    dens = rng.standard_normal((KERNELS[kernel], count))
    return trg, src, shaped(kernel, dens), rng.standard_normal((3, count))


def shaped(kernel, dens):
    """Return a density (rows, sources) as `direct_sum` takes it."""
    shape = {"laplace": (), "stokes_dipole": (3, 3)}.get(kernel, dens.shape[:1])
    return dens.reshape(*shape, -1)


def fields(kernel):
    return ("u", "grad_u") if kernel.startswith("laplace") else ("u", "p", "grad_u", "stress")


def clear_system(kernel):
    """The same with few points; each target is at least 0.4 from all sources and their images."""
    rng = np.random.default_rng(11)
    src = 0.3 * BOX[:, None] * rng.random((3, 6))
    trg = BOX[:, None] * (0.55 + 0.2 * rng.random((3, 4)))
    dens = rng.standard_normal((KERNELS[kernel], 6))
    return trg, src, shaped(kernel, dens), rng.standard_normal((3, 6))


def summed(kernel, given, periodicity, **how):
    """Return the sum of targets, sources, densities and normals."""
    return direct_sum(kernel, *given, **{"box": BOX, "periodicity": periodicity} | how)


def around(points, step=STEP):
    """The points displaced to all places along all axes: shape (3, points x axes x places)."""
    offsets = np.eye(3)[:, :, None] * (step * PLACES)
    return (points[:, :, None, None] + offsets[:, None]).reshape(3, -1)


def differences(values, step=STEP):
    """Gradients (..., 3, points) of fields (..., points x axes x places) laid out by `around`."""
    return np.moveaxis(values.reshape(*values.shape[:-1], -1, 3, 8) @ SLOPE, -1, -2) / step


def rms(values):
    return np.sqrt(np.mean(np.square(values)))


def assert_close(result, expected, tolerance=TOLERANCE, scale=None):
    assert result.shape == expected.shape
    scale = rms(expected) if scale is None else scale
    assert np.max(np.abs(result - expected)) <= tolerance * scale
