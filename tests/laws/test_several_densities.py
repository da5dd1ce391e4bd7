"""Several densities at once are each summed as alone, and transposed; also into given arrays."""

from __future__ import annotations

import numpy as np
import pytest
from faces import law


@law("several", joined=False)
def test_several(face, kernel, periodicity):
    given = [face.given(kernel, periodicity, seed) for seed in range(2)]
    made, several = face.make(given[0]), np.stack([each.dens for each in given])
    found, told = face.apply(made, several), face.promise(made, several)
    back = None if face.without("adjoint", kernel) else face.adjoint(made, found)
    for n, dens in enumerate(several):
        one = face.apply(made, dens)
        np.testing.assert_allclose(found[n], one, rtol=0, atol=1e-12 * abs(one).max())
        if np.ndim(told):
            assert told[n] == pytest.approx(face.promise(made, dens), rel=1e-12)
        if back is not None:
            one = face.adjoint(made, found[n])
            np.testing.assert_allclose(back[n], one, rtol=0, atol=1e-12 * abs(one).max())


@law("out", joined=False)
def test_out(face, kernel, periodicity):
    given = face.given(kernel, periodicity)
    made = face.make(given)
    expected = face.apply(made, given.dens)
    out = np.full_like(expected, np.nan)
    assert face.apply(made, given.dens, out=out) is out
    np.testing.assert_array_equal(out, expected)
