"""Single and mixed precision keep the promise up to rounding."""

from __future__ import annotations

from faces import law


def few(face, kernel, periodicity):
    """Return arguments with cut-offs that single precision takes, also of few points."""
    return face.given(kernel, periodicity, tolerance=1e-3, cutoff=None)


def check(face, given, dtype, precision):
    own = given.on(lambda array: array.astype(dtype), precision=precision)
    found = face.apply(face.make(own), own.dens)
    assert found.dtype == dtype
    assert face.off(own, found, face.exact(given)) <= 1


@law("precisions", joined=False)
def test_single(face, kernel, periodicity):
    check(face, few(face, kernel, periodicity), "f4", "full")


@law("mixed", joined=False)
def test_mixed(face, kernel, periodicity):
    check(face, few(face, kernel, periodicity), "f8", "mixed")
