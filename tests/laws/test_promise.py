"""Every face keeps its promise against the reference, in every space of this machine."""

from __future__ import annotations

from faces import law


@law("promise")
def test_promise(face, kernel, periodicity, space, to_space):
    given = there = face.given(kernel, periodicity)
    if "spaces" not in face.lacks:
        there = given.on(to_space, execution_space=space.name)
    made = face.make(there)
    found = face.apply(made, there.dens)
    assert type(found) is type(there.dens)
    assert face.off(given, found, face.exact(given)) <= 1
