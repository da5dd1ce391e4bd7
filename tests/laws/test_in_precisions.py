"""Single and mixed precision keep the promise up to rounding; the default run has them by turns."""

from __future__ import annotations

import pytest
from faces import cases

CASES = [
    pytest.param(*case.values, law, marks=case.marks, id=f"{law}-{case.id}")
    for law in ("precisions", "mixed")
    for case in cases(law, joined=False)
]


@pytest.mark.each
@pytest.mark.parametrize(("face", "kernel", "periodicity", "law"), CASES)
def test_precisions(face, kernel, periodicity, law):
    """With cut-offs that single precision takes, also of few points."""
    given = face.given(kernel, periodicity, tolerance=1e-3, cutoff=None)
    dtype, precision = ("f8", "mixed") if law == "mixed" else ("f4", "full")
    own = given.on(lambda array: array.astype(dtype), precision=precision)
    found = face.apply(face.make(own), own.dens)
    assert found.dtype == dtype
    assert face.off(own, found, face.exact(given)) <= 1
