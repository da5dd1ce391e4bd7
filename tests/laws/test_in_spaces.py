"""Every space of this machine keeps the promise."""

from __future__ import annotations

from faces import law


@law("spaces")
def test_spaces(face, kernel, periodicity, space, to_space):
    given = face.given(kernel, periodicity)
    there = given.on(to_space, execution_space=space.name)
    made = face.make(there)
    found = face.apply(made, there.dens)
    assert type(found) is type(there.dens)
    assert face.off(given, found, face.exact(given)) <= 1
