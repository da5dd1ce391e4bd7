"""Without targets, or without sources, results and derivatives have their shapes, and are zero."""

from __future__ import annotations

import numpy as np
import pytest
from faces import law

NONE = np.arange(0)


@law("empty")
@pytest.mark.parametrize("lacking", ["targets", "sources", "both"])
def test_without_points(face, kernel, periodicity, lacking):
    whole = face.given(kernel, periodicity)
    every = [np.arange(points.shape[1]) for points in (whole.trg, whole.src)]
    to, of = (
        NONE if lacking in (name, "both") or whole.trg is whole.src else own
        for name, own in zip(("targets", "sources"), every, strict=True)
    )
    given = face.permuted(whole, to, of)
    made = face.make(given)
    found = face.apply(made, given.dens)
    expected = face.results(face.apply(face.make(whole), whole.dens), to)
    assert found.shape == expected.shape
    assert not found.any()
    assert not np.any(face.promise(made, given.dens)) or len(of)
    if not face.without("adjoint", kernel):
        back = face.adjoint(made, np.ones(found.shape))
        assert back.shape == given.dens.shape and (not back.any() or len(to))
    if not face.without("derivatives", kernel):
        inputs = face.inputs(given)
        pulled = face.pull(made, given, np.ones(found.shape))
        assert {n: a.shape for n, a in pulled.items()} == {n: a.shape for n, a in inputs.items()}
        assert not any(array.any() for array in pulled.values()) or (len(to) and len(of))
        assert not face.push(made, given, inputs).any()
    if "moves" not in face.lacks and "counts" not in face.lacks:
        made = face.move(face.move(made, whole), given)
        assert face.apply(made, given.dens).shape == found.shape
