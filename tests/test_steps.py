"""Energy and forces while a box strains and points cross cells: see `scripts/steps.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import parki

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

import steps


@pytest.mark.parametrize("kind", steps.BOXES)
def test_jumps_are_within_the_promise(kind):
    """Also where the grid changes, which it does while a box swells."""
    found = steps.walk(kind, 9)
    energy, force = found.bounds
    assert found.changes.any() and found.forces.min() > 0
    assert abs(found.energy).max() < energy and abs(np.diff(found.energy)).max() < energy
    assert found.forces.max() < force


def test_a_box_of_a_fixed_size_has_no_jumps():
    """The energy is as one over the length, in the same digits at all lengths."""
    rng = np.random.default_rng(0)
    fractions, charges = rng.random((3, 200)), np.tile([1.0, -1.0], 100)
    plan = parki.Plan("laplace", fractions, fractions, periodicity=3, box=[1, 1, 1], tolerance=1e-4)
    first = plan(charges)
    for edge in (10.0, 10.01, 9.97):
        points = edge * fractions
        plan.update_points(points / edge, points / edge)
        np.testing.assert_allclose(plan(charges), first, rtol=1e-9, atol=1e-9 * abs(first).max())
