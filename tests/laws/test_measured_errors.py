"""The measured error is below the promise, and what it says of itself is consistent."""

from __future__ import annotations

from faces import law


@law("check", joined=False)
def test_check(face, kernel, periodicity):
    given = face.given(kernel, periodicity, tolerance=1e-4)
    made = face.make(given)
    for check in face.checks(made, given):
        assert 0 < check.error <= check.promise
        assert check.flow > 0 and check.relative == check.error / check.flow
