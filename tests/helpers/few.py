"""The sums of tests of what all sums have in common: one with each kind of source."""

from __future__ import annotations

import pytest

from parki.ewald.sums import SUMS

# Scalars, forces with normals, and tensors; the long run has the other sums too.
# Whether slow tests are wanted, which `conftest.py` finds out: else laws do not make them at all.
LONG_RUN = [False]
USUAL = ("laplace", "stokes_comb", "stokes_dipole")
FEW = [name if name in USUAL else pytest.param(name, marks=pytest.mark.slow) for name in SUMS]
