"""Single and mixed precision keep the promise, but for rounding."""

from __future__ import annotations

import pytest
from faces import law


@law("precisions")
@pytest.mark.parametrize(("dtype", "precision"), [("f4", "double"), ("f8", "mixed")])
def test_precisions(face, kernel, periodicity, dtype, precision):
    given = face.given(kernel, periodicity, tolerance=1e-3)
    own = given.on(lambda array: array.astype(dtype), precision=precision)
    found = face.apply(face.make(own), own.dens)
    assert found.dtype == dtype
    assert face.off(own, found, face.exact(given)) <= 1
