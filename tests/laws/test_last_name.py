"""A plan ends with its last name, and gives its memory back then: it does not refer to itself."""

from __future__ import annotations

import gc
import weakref

import numpy as np
from faces import law


@law("memory")
def test_last_name(face, kernel, periodicity):
    given = face.given(kernel, periodicity)
    made = face.make(given)
    found = face.apply(made, given.dens)
    if not face.without("adjoint", kernel):
        face.adjoint(made, np.ones_like(found))
    left = weakref.ref(made)
    gc.disable()
    try:
        del made
        assert left() is None
    finally:
        gc.enable()
