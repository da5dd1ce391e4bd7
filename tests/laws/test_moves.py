"""What is given other points is what is made of them: also others in number, and in another box."""

from __future__ import annotations

import pytest
from faces import law


def follows(face, made, now, box=False):
    """Move, and compare with what is made anew, and its transpose; return what has moved."""
    made = face.move(made, now, box=box)
    fresh = face.make(now)
    new = face.apply(fresh, now.dens)
    assert face.off(now, face.apply(made, now.dens), new) <= 2
    if not face.without("adjoint", now.kernel):
        one, two = (face.adjoint(each, new) for each in (made, fresh))
        assert abs(one - two).max() <= 1e-4 * abs(two).max()
    told, expected = face.promise(made, now.dens), face.promise(fresh, now.dens)
    assert told == pytest.approx(expected, rel=1e-9)
    return made


@law("moves")
def test_points(face, kernel, periodicity):
    others = int("counts" not in face.lacks)
    first, *steps = (face.given(kernel, periodicity, n, counts=others * (n % 2)) for n in range(3))
    made = face.make(first)
    face.apply(made, first.dens)  # which leaves nothing behind
    for now in steps:
        made = follows(face, made, now)


@law("box", joined=False)
def test_boxes(face, kernel, periodicity):
    made = face.make(face.given(kernel, periodicity))
    for seed, tilt in ((1, -0.3), (2, 0.0)):
        made = follows(face, made, face.given(kernel, periodicity, seed, tilt=tilt), box=True)
