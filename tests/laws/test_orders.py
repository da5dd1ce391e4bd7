"""Neither the order of points matters, nor how arrays lie in memory, nor whose they are."""

from __future__ import annotations

import numpy as np
import pytest
from faces import law


@law("permuted", joined=False)
def test_permuted(face, kernel, periodicity):
    given, rng = face.given(kernel, periodicity), np.random.default_rng(1)
    to, of = (rng.permutation(points.shape[1]) for points in (given.trg, given.src))
    other = face.permuted(given, to, of)
    places = of if given.trg is given.src else to
    expected = face.results(face.apply(face.make(given), given.dens), places)
    found = face.apply(face.make(other), other.dens)
    np.testing.assert_allclose(found, expected, rtol=0, atol=face.permuting * abs(expected).max())


class Exchanged:
    """An array of a library that has DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    @property
    def shape(self):
        return self.array.shape

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


def strided(array):
    """Return every other number of a longer array."""
    longer = np.full((*array.shape[:-1], 2 * array.shape[-1]), np.nan)
    longer[..., ::2] = array
    return longer[..., ::2]


def read_only(array):
    """Return an array that nobody writes to."""
    found = array.copy()
    found.flags.writeable = False
    return found


def backwards(array):
    """Return an array whose last axis runs through memory from its end."""
    return np.ascontiguousarray(array[..., ::-1])[..., ::-1]


LAYOUTS = {
    "columns": np.asfortranarray,
    "strided": strided,
    "backwards": backwards,
    "broadcast": lambda array: np.broadcast_to(array, (2, *array.shape))[1],
    "subclass": lambda array: array.view(type("Mine", (np.ndarray,), {})),
    "list": lambda array: array.tolist(),
    "read-only": read_only,
}


@law("foreign", joined=False)
@pytest.mark.parametrize("layout", [*LAYOUTS, "exchanged"])
def test_arrays(face, kernel, periodicity, layout):
    given = face.given(kernel, periodicity)
    expected = face.apply(face.make(given), given.dens)
    own = face.laid(given, LAYOUTS.get(layout, Exchanged))
    before = [np.array(each) for each in (*own.points, own.dens) if isinstance(each, np.ndarray)]
    found = face.apply(face.make(own), own.dens)
    found = found if isinstance(found, np.ndarray) else np.from_dlpack(found)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, expected)
    after = [each for each in (*own.points, own.dens) if isinstance(each, np.ndarray)]
    assert all(map(np.array_equal, before, after))  # nothing was written there


@law("moves", joined=False)
def test_arrays_that_change(face, kernel, periodicity):
    """What is made has the points that it was given, whatever becomes of their arrays."""
    given = face.given(kernel, periodicity, tolerance=1e-4)
    fresh = face.make(given)
    expected = face.apply(fresh, given.dens)
    for moved in (False, True):
        own = given.on(np.array)
        made = face.make(own)
        if moved:
            face.apply(made, own.dens)
            made = face.move(made, own)
        for array in (each for each in own.points if each is not None):
            array *= 0.5
        found = face.apply(made, own.dens)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * abs(expected).max())
        if "adjoint" not in face.lacks:
            one, two = (face.adjoint(each, expected) for each in (made, fresh))
            np.testing.assert_allclose(one, two, rtol=0, atol=1e-9 * abs(two).max())
        promises = (face.promise(each, given.dens) for each in (made, fresh))
        assert next(promises) == pytest.approx(next(promises), rel=1e-9)
    if not face.without("check", kernel):
        one, two = ([each.error for each in face.checks(of, given)] for of in (made, fresh))
        assert one == pytest.approx(two, rel=1e-6)
