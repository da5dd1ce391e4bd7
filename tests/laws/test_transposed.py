"""The transpose is exact, up to rounding; within the tolerance where it is another sum."""

from __future__ import annotations

import numpy as np
import pytest
from faces import law
from faces.base import TOLERANCE


@law("adjoint")
def test_adjoint(face, kernel, periodicity):
    given = face.given(kernel, periodicity)
    made = face.make(given)
    found = face.apply(made, given.dens)
    values = np.random.default_rng(1).standard_normal(found.shape)
    back = face.adjoint(made, values)
    assert back.shape == given.dens.shape
    error = face.transposed if given.example.transposed else TOLERANCE
    size = np.linalg.norm(values) * np.linalg.norm(found)
    assert (values * found).sum() == pytest.approx((back * given.dens).sum(), abs=error * size)
