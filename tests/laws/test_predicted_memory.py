"""A plan tells the memory that it takes."""

from __future__ import annotations

import tracemalloc

import pytest
from faces import law


@law("memory")
def test_memory(face, kernel, periodicity, monkeypatch):
    """Also one that was given other points, as many as it was made of."""
    monkeypatch.setattr(type(face), "counts", ((8000, 8000),))
    given = face.given(kernel, periodicity, cutoff=None, tolerance=1e-3)
    tracemalloc.start()
    try:
        made = face.make(given)
        face.apply(made, given.dens)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    told = made.memory
    assert 0 < told.held <= told.peak
    print(face, kernel, periodicity, told.peak / peak, told.held / held)
    assert 0.6 <= told.peak / peak <= 1.6
