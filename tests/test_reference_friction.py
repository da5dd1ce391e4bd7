"""`parki.reference` of Brinkman's equation in boxes of any unit and with little friction."""

from __future__ import annotations

import numpy as np
import pytest
from contract import rms

from parki.reference import direct_sum

BOX = np.array([1.2, 1.0, 0.8])
TOLERANCE = 5e-14  # of the rms; the module reaches about 1e-14


def clear_system(name):
    """Few points; each target is at least 0.3 from all sources and their images."""
    rng = np.random.default_rng(11)
    src = 0.3 * BOX[:, None] * rng.random((3, 6))
    trg = BOX[:, None] * (0.55 + 0.2 * rng.random((3, 4)))
    dens = rng.standard_normal((3, 3, 6) if name == "dipole" else (3, 6))
    dens[..., 3:] = -dens[..., :3]  # else the sum moves all fluid, the more the less friction
    return trg, src, dens, rng.standard_normal((3, 6)) if name == "dl" else None


@pytest.mark.parametrize("size", [1e-12, 1e-3, 1e5])
def test_boxes_of_any_unit(size):
    """Powers of the split parameter made it NaN in boxes of 1e-3 and smaller."""
    trg, src, dens, _ = clear_system("dipole")
    given = {"periodicity": 3, "want": "grad_u"}
    one = direct_sum("brinkman_dipole(alpha=2.0)", trg, src, dens, box=BOX, **given)
    kernel = f"brinkman_dipole(alpha={2 / size!r})"
    scaled = direct_sum(kernel, size * trg, size * src, dens, box=size * BOX, **given)
    assert np.abs(size**3 * scaled - one).max() <= TOLERANCE * rms(one)


def beyond(periodicity, alpha):
    """The order of what little friction changes of fields that are about 1."""
    return {1: -(alpha**2) * np.log(alpha), 2: alpha, 3: alpha**2}[periodicity]


@pytest.mark.pairwise
@pytest.mark.parametrize("alpha", [1e-8, 1e-4, 0.02])
@pytest.mark.parametrize("want", ["u", "grad_u"])
@pytest.mark.parametrize("name", ["sl", "dl", "dipole"])
@pytest.mark.parametrize("periodicity", [1, 2, 3])
def test_little_friction(periodicity, name, want, alpha):
    """By two splits, and against flows without friction; kernels that end were subtracted."""
    trg, src, dens, norms = clear_system(name)
    given = {"box": BOX, "periodicity": periodicity, "want": want}
    kernel = f"brinkman_{name}(alpha={alpha})"
    one, other = (direct_sum(kernel, trg, src, dens, norms, **given, xi=xi) for xi in (4.0, 7.0))
    plain = direct_sum(f"stokes_{name}", trg, src, dens, norms, **given)
    assert np.abs(one - other).max() <= TOLERANCE * rms(one)
    assert np.abs(one - plain).max() <= (TOLERANCE + beyond(periodicity, alpha)) * rms(plain)


@pytest.mark.parametrize("alpha", [1e-7, 1e-3, 0.5])
def test_planes_of_forces_against_their_modes(alpha):
    """Without a split: two forces and a target far above them feel few modes of the plane."""
    src, force = np.array([[0.1, 0.5], [0.7, 0.2], [0.0, 0.3]]), np.array([1.0, 2.0, 3.0])
    forces, area = np.stack([force, -force], axis=1), BOX[0] * BOX[1]
    trg, first = np.array([[0.9], [0.4], [1.5]]), np.arange(-8, 9) * 2 * np.pi
    waves = np.stack(np.meshgrid(first / BOX[0], first / BOX[1])).reshape(2, -1)
    waves = waves[:, waves.any(axis=0)]
    exact = np.zeros(3)
    for source, force in zip(src.T, forces.T, strict=True):
        away = trg[:, 0] - source
        height, plain = away[2], np.hypot(*waves)
        decay = np.hypot(plain, alpha)
        apart = 1 / (decay + plain)  # decays differ by alpha^2 times this
        less = -np.expm1(-(alpha**2) * apart * height) / alpha**2 * np.exp(-plain * height)
        more = apart * np.exp(-decay * height)
        # Derivatives along z of the difference of charges and screened ones, over alpha^2 / 2.
        orders = less / plain + more / (decay * plain), -less, plain * less - more
        b, b1, b2 = (4 * np.pi * each for each in orders)
        h = 4 * np.pi * np.exp(-decay * height) / decay
        across = waves.T @ force[:2]
        flow = h * force[:2, None] + waves * (1j * b1 * force[2] - b * across)
        rise = (h + b2) * force[2] + 1j * b1 * across
        phase = np.exp(1j * away[:2] @ waves) / area
        exact[:2] += (phase * flow).sum(axis=1).real
        exact[2] += (phase * rise).sum().real
        exact[:2] += 4 * np.pi / (area * alpha) * np.expm1(-alpha * height) * force[:2]
    found = direct_sum(f"brinkman_sl(alpha={alpha})", trg, src, forces, box=BOX, periodicity=2)
    assert np.abs(found[:, 0] - exact).max() <= TOLERANCE * np.abs(exact).max()
