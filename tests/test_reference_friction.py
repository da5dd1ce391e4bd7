"""`parki.reference` of Brinkman's equation in boxes of any unit and with little friction."""

from __future__ import annotations

import numpy as np
import pytest
from contract import rms

from parki.reference import direct_sum

BOX = np.array([1.2, 1.0, 0.8])
TOLERANCE = 1e-13  # what the module promises, of the rms; it reaches about 1e-14


def clear_system(name):
    """Few points; each target is at least 0.3 from all sources and their images."""
    rng = np.random.default_rng(11)
    src = 0.3 * BOX[:, None] * rng.random((3, 6))
    trg = BOX[:, None] * (0.55 + 0.2 * rng.random((3, 4)))
    dens = rng.standard_normal((3, 3, 6) if name == "dipole" else (3, 6))
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


@pytest.mark.parametrize("alpha", [1e-8, 1e-4, 0.02])
@pytest.mark.parametrize("want", ["u", "grad_u"])
@pytest.mark.parametrize("name", ["sl", "dl", "dipole"])
def test_little_friction_with_three_periodic_axes(name, want, alpha):
    """By two splits, and against flows without friction, from which it is of order alpha^2."""
    trg, src, dens, norms = clear_system(name)
    given = {"box": BOX, "periodicity": 3, "want": want}
    kernel = f"brinkman_{name}(alpha={alpha})"
    one, other = (direct_sum(kernel, trg, src, dens, norms, **given, xi=xi) for xi in (4.0, 7.0))
    plain = direct_sum(f"stokes_{name}", trg, src, dens, norms, **given)
    assert np.abs(one - other).max() <= TOLERANCE * rms(one)
    assert np.abs(one - plain).max() <= (TOLERANCE + alpha**2) * rms(plain)
