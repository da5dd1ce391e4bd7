"""A plan is a matrix for the solvers of SciPy, with its transpose; also for complex vectors."""

from __future__ import annotations

import numpy as np
from faces import law


@law("operator", joined=False)
def test_operator(face, kernel, periodicity):
    given = face.given(kernel, periodicity)
    made = face.make(given)
    matrix, found = face.operator(made), face.apply(made, given.dens)
    assert matrix.shape == (found.size, given.dens.size)
    size = abs(found).max()
    np.testing.assert_allclose(matrix @ given.dens.ravel(), found.ravel(), atol=1e-12 * size)
    for some in np.array([1.0, -2.0]), np.array([-2 + 3j]):  # both are two sums at a time
        columns = np.outer(given.dens, some), np.outer(found, some)
        np.testing.assert_allclose(matrix @ columns[0], columns[1], atol=1e-12 * size)
    back = face.adjoint(made, found).ravel()
    atol = 1e-9 * abs(back).max()
    np.testing.assert_allclose(matrix.H @ found.ravel(), back, atol=atol)
    np.testing.assert_allclose(matrix.H @ (1j * found.ravel()), 1j * back, atol=atol)
