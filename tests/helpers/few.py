"""The sums of tests of what all sums have in common: one with each kind of source."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from parki.ewald.sums import SUMS

# Whether slow tests are wanted, which `conftest.py` finds out: else they are not made at all.
LONG_RUN = [False]
# Scalars, forces with normals, and tensors; the long run has the other sums too.
USUAL = ("laplace", "stokes_comb", "stokes_dipole")
FEW = [name if name in USUAL else pytest.param(name, marks=pytest.mark.slow) for name in SUMS]


def wanted(cases: Iterable[Any], number: int) -> Iterable[Any]:
    """Return the first cases of many, which take time to make; in the long run all."""
    return cases if LONG_RUN[0] else itertools.islice(cases, number)
