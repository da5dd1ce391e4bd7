"""Sums are linear in their densities."""

from __future__ import annotations

import numpy as np
from faces import law


@law("linear", joined=False)
def test_linear(face, kernel, periodicity):
    given, other = (face.given(kernel, periodicity, seed) for seed in range(2))
    made = face.make(given)
    one, two = (np.array(face.apply(made, each.dens)) for each in (given, other))
    both = face.apply(made, 2 * given.dens - 3 * other.dens)
    size = abs(one).max() + abs(two).max()
    np.testing.assert_allclose(both, 2 * one - 3 * two, rtol=0, atol=1e-12 * size)
