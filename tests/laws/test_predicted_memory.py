"""A plan tells the memory that it takes."""

from __future__ import annotations

import tracemalloc

from faces import law

import parki
from parki.ewald.far import p2g


@law("memory", joined=False)
def test_memory(face, kernel, periodicity, monkeypatch):
    monkeypatch.setattr(type(face), "counts", ((8000, 8000),))
    # The memory that a sum leaves to the next one is not traced.
    monkeypatch.setattr(p2g, "LEAST", 1 << 60)
    given = face.given(kernel, periodicity, cutoff=None, tolerance=1e-3)
    face.apply(face.make(given), given.dens)  # kernels take memory while they are compiled
    parki.clear_cache()  # of tables that are left
    tracemalloc.start()
    try:
        made = face.make(given)
        face.apply(made, given.dens)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    memory = made.memory
    assert 0 <= memory.held <= memory.peak  # a rank may hold none
    # Of few points, objects of Python take as much; tests/test_memory.py has many.
    assert 0.4 * peak <= memory.peak
    # Whether threads hold the results of their transforms at the same time is a matter of chance.
    by_chance = sum(held for part, held in memory.parts.items() if part.endswith("transforms"))
    assert memory.peak - by_chance <= 2.5 * peak
