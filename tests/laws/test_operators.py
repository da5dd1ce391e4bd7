"""A plan is a matrix for the solvers of SciPy, with its transpose."""

from __future__ import annotations

import numpy as np
from faces import law


@law("operator", joined=False)
def test_operator(face, kernel, periodicity):
    given = face.given(kernel, periodicity)
    made = face.make(given)
    matrix, found = face.operator(made), face.apply(made, given.dens)
    assert matrix.shape == (found.size, given.dens.size)
    size, two = abs(found).max(), np.stack([given.dens.ravel(), -2 * given.dens.ravel()], axis=1)
    np.testing.assert_allclose(matrix @ given.dens.ravel(), found.ravel(), atol=1e-12 * size)
    columns = np.stack([found.ravel(), -2 * found.ravel()], axis=1)
    np.testing.assert_allclose(matrix @ two, columns, atol=1e-12 * size)
    back = face.adjoint(made, found)
    np.testing.assert_allclose(matrix.H @ found.ravel(), back.ravel(), atol=1e-9 * abs(back).max())
