"""What is impossible is refused before any work, by the same words in every face."""

from __future__ import annotations

import re

import numpy as np
import pytest
from faces import cases, law

import parki
from parki.runtime.kernel import Kernel


def spoilt(array, value, place):
    """Return an array with another value at one place."""
    found = array.copy()
    found[place] = value
    return found


def points(change):
    """Return what changes all points; targets stay sources where they were."""

    def changed(given):
        src = change(given.src)
        return given._replace(src=src, trg=src if given.trg is given.src else given.trg)

    return changed


def density(change):
    """Return what changes the density."""
    return lambda given: given._replace(dens=change(given.dens))


VALUE, TYPE = parki.ParkiValueError, parki.ParkiTypeError
NAMES = "(trg|src|points|positions)"
# What is given, the kind of error, and its words.
POINTS = {
    "NaN": (points(lambda x: spoilt(x, np.nan, (1, 7))), VALUE, f"{NAMES} contains NaN"),
    "infinity": (points(lambda x: spoilt(x, np.inf, (1, 7))), VALUE, f"{NAMES} contains NaN"),
    "two rows": (points(lambda x: x[:2]), VALUE, rf"{NAMES} has shape \(2, \d+\); expected \(3, N"),
    "rows of points": (points(lambda x: x.T), VALUE, r"transpose it|expected \(3, N"),
    "whole numbers": (points(lambda x: x.astype(int)), TYPE, f"{NAMES} has dtype int64; expected"),
    "complex": (points(lambda x: x + 0j), TYPE, f"{NAMES} has dtype complex128"),
    "nothing": (points(lambda x: None), TYPE, f"{NAMES} is a NoneType; expected an array"),
    "masked": (points(np.ma.asarray), TYPE, f"{NAMES} is a masked array"),
}
DENSITIES = {
    "NaN": (density(lambda x: spoilt(x, np.nan, (..., 4))), VALUE, "contains NaN or infinity"),
    "too few": (density(lambda x: x[..., 1:]), VALUE, r"has shape \(.*; expected"),
    "single": (density(lambda x: x.astype("f4")), TYPE, "has dtype float32, but the points"),
    "text": (density(lambda x: x.astype(str)), TYPE, "has dtype <U32"),
    "complex": (density(lambda x: x * 1j), TYPE, "has dtype complex128"),
    "objects": (density(lambda x: x.astype(object)), TYPE, "is an array of objects"),
    "nothing": (density(lambda x: None), TYPE, "is a NoneType; expected|neither|are None"),
}


@pytest.fixture
def no_work(monkeypatch):
    """Return what forbids to make or to launch a kernel from now on."""

    def refuse(self, *_, **__):
        raise AssertionError("a kernel was made or launched before the arguments were checked")

    def forbid():
        monkeypatch.setattr(Kernel, "__init__", refuse)
        monkeypatch.setattr(Kernel, "__call__", refuse)

    return forbid


def words(error):
    """Return the words of an error, on one line."""
    return re.sub(r"\s+", " ", str(error))


@law("refusals")
@pytest.mark.parametrize("what", POINTS)
def test_points(face, kernel, periodicity, what, no_work):
    change, kind, message = POINTS[what]
    given = change(face.given(kernel, periodicity))
    no_work()
    with pytest.raises(kind) as info:
        face.apply(face.make(given), given.dens)
    assert re.search(message, words(info.value))


OF_DENSITIES = [
    pytest.param(*case.values, what, marks=case.marks, id=f"{what}-{case.id}")
    for what in DENSITIES
    for case in cases("refusals")
    if what not in case.values[0].takes
]


@pytest.mark.each
@pytest.mark.parametrize(("face", "kernel", "periodicity", "what"), OF_DENSITIES)
def test_densities(face, kernel, periodicity, what, no_work):
    change, kind, message = DENSITIES[what]
    given = face.given(kernel, periodicity)
    made, bad = face.make(given), change(given).dens
    no_work()
    with pytest.raises(kind) as info:
        face.apply(made, bad)
    assert re.search(message, words(info.value))
