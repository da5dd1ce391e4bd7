"""Lengths may be far from 1: the promise is of any unit."""

from __future__ import annotations

import pytest
from faces import law


@law("units", joined=False)
@pytest.mark.parametrize("unit", [1e-12, 1e-3, 30.0, 1e6])
def test_units(face, kernel, periodicity, unit):
    given = face.given(kernel, periodicity, unit=unit)
    made = face.make(given)
    assert face.off(given, face.apply(made, given.dens), face.exact(given)) <= 1
