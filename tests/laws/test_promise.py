"""Every face keeps its promise against the reference."""

from __future__ import annotations

from faces import law


@law("promise")
def test_promise(face, kernel, periodicity):
    given = face.given(kernel, periodicity)
    made = face.make(given)
    assert face.off(given, face.apply(made, given.dens), face.exact(given)) <= 1
