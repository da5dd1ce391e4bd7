"""A refused update leaves all as it was; so does one that fails half-way, or that is refused late.

A device places points before the host has looked at them: then the next call refuses them. A host
may take its place.
"""

from __future__ import annotations

import numpy as np
import pytest
from faces import ON_RANKS, law
from helpers.recording import let_the_host_record

import parki
from parki.ewald.far.g2p import G2P
from parki.ewald.far.gauge import Constants
from parki.ewald.far.p2g import P2G
from parki.ewald.near.p2p import P2P
from parki.interchange import to_host
from parki.runtime import get_execution_space
from parki.runtime.spaces import why_unavailable


def spoilt(given, name, value=np.nan):
    """Return what is given, with one number of one array spoilt."""
    array = getattr(given, name).copy()
    array[1, 7] = value
    arrays = {name: array}
    if given.trg is given.src:
        arrays = {"trg": array, "src": array}
    return given._replace(**arrays)


def impossible(given):
    """Yield impossible changes of what is given."""
    yield spoilt(given, "src")
    yield spoilt(given, "trg", np.inf)
    yield given._replace(src=given.src[:2])
    yield given.on(lambda array: array.astype("f4"))
    if given.norms is not None:
        yield spoilt(given, "norms")
        yield given._replace(norms=given.norms[:2])
        yield given._replace(norms=None)
        if not ON_RANKS:  # where each takes its own columns
            yield given._replace(norms=given.norms[:, 1:])
    if not all(given.options.periodic):
        yield given._replace(trg=given.trg + 1e3 * given.unit, src=given.src + 1e3 * given.unit)


@law("rollback")
def test_impossible_arguments(face, kernel, periodicity):
    given, other = (face.given(kernel, periodicity, seed) for seed in range(2))
    made = face.make(given)
    expected, told = face.apply(made, given.dens), face.promise(made, given.dens)
    for bad in impossible(other):
        with pytest.raises(parki.ParkiError):
            face.move(made, bad)
        np.testing.assert_array_equal(face.apply(made, given.dens), expected)
        assert face.promise(made, given.dens) == pytest.approx(told, rel=1e-12)


@law("rollback")
@pytest.mark.parametrize("stage", [P2P, P2G, G2P, Constants])
def test_failures_half_way(face, kernel, periodicity, stage, monkeypatch):
    """Of the first sum that is placed, of the second one, and so on."""
    given, other = (face.given(kernel, periodicity, seed) for seed in range(2))
    made, make = face.make(given), stage.__init__
    expected = face.apply(made, given.dens)
    for number in (1, 2, 3, 5, 8, 13, 21, 34):
        placed = []

        def counted(self, *given, placed=placed, number=number, **how):
            placed.append(self)
            if len(placed) == number:
                raise MemoryError("no room")
            make(self, *given, **how)

        with monkeypatch.context() as patch:
            patch.setattr(stage, "__init__", counted)
            try:
                face.move(made, other)
            except (MemoryError, parki.ParkiError):  # the latter is what other ranks hear
                pass
            else:
                break  # there are fewer sums
        np.testing.assert_array_equal(face.apply(made, given.dens), expected)
    new = face.apply(face.make(other), other.dens)
    assert (number > 1) >= (stage is not Constants)
    assert face.off(other, face.apply(made, other.dens), new) <= 2


@pytest.fixture
def send(monkeypatch):
    """Return what sends an array to a device, or to a host that does as if it recorded."""
    if not why_unavailable("Cuda"):
        return get_execution_space("Cuda").array_module.asarray
    let_the_host_record(monkeypatch)
    return np.array


@law("late", joined=False)
def test_late_refusals(face, kernel, periodicity, send):
    """Each is followed by a right answer: for the points before, and then for new ones."""
    given = [face.given(kernel, periodicity, seed).on(send) for seed in range(2)]
    made = face.make(given[0])
    for n in range(4):
        made = face.move(made, given[n % 2])
        expected = face.apply(made, given[n % 2].dens)
    names = ["src", "trg"] + ["norms"] * (given[0].norms is not None)
    for name, value in zip(names, (np.nan, np.inf, np.nan), strict=False):
        with pytest.raises(parki.ParkiValueError):
            face.apply(face.move(made, spoilt(given[0], name, value)), given[0].dens)
        found = face.apply(made, given[1].dens)
        assert face.off(given[1], found, to_host(expected)) <= 1e-3
        made = face.move(made, given[0])
        new = to_host(face.apply(face.make(given[0]), given[0].dens))
        assert face.off(given[0], face.apply(made, given[0].dens), new) <= 2
        made = face.move(made, given[1])
