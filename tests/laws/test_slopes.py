"""Derivatives are those of the exact results, in both modes: by points, densities and normals."""

from __future__ import annotations

import numpy as np
import pytest
from faces import law
from frameworks import difference

STEP = 2e-4


@law("derivatives")
@pytest.mark.parametrize("same", [False, True], ids=["apart", "same"])
def test_derivatives(face, kernel, periodicity, same):
    given = face.given(kernel, periodicity, tolerance=1e-8, same=same)
    made, rng = face.make(given), np.random.default_rng(1)
    # Blobs end at some pairs, across which differences are less accurate.
    allowed = face.differences * (3 if "epsilon" in kernel else 1)
    inputs = face.inputs(given)
    moves = {name: rng.standard_normal(array.shape) for name, array in inputs.items()}
    if "trg" in moves:  # points that coincide stay together: such pairs are left out
        together = slice(None if same else 4)
        moves["trg"][:, together] = moves["src"][:, together]
    none = {name: 0 * move for name, move in moves.items()}
    slope = difference(lambda at: face.exact(face.changed(given, at)), none, moves, STEP)
    values, size = rng.standard_normal(slope.shape), np.linalg.norm(slope)
    pushed, pulled = face.push(made, given, moves), face.pull(made, given, values)
    assert np.linalg.norm(pushed - slope) <= allowed * size
    assert {name: array.shape for name, array in pulled.items()} == {
        name: array.shape for name, array in inputs.items()
    }
    product = sum((pulled[name] * move).sum() for name, move in moves.items())
    assert abs(product - (values * slope).sum()) <= allowed * size * np.linalg.norm(values)
