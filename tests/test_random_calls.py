"""Random calls of every public function: a right number or a `ParkiError`, nothing else.

`scripts/random_calls.py` makes thousands of them, of all sums.
"""

from __future__ import annotations

import numpy as np
import pytest
from random_case import Case, outcome
from random_moving import Moving, Room
from random_rooms import ROOMS

import parki

CASES = range(100)


@pytest.fixture(autouse=True)
def few_kernels(monkeypatch):
    monkeypatch.setattr(Case, "names", ("laplace",))
    monkeypatch.setattr(Case, "periodicities", (3,))
    monkeypatch.setattr(Room, "axes", (3, 3))
    monkeypatch.setattr(ROOMS["brinkman"], "names", ("brinkman_sl",))
    monkeypatch.setattr(ROOMS["derivatives"], "names", ("laplace",))


def test_calls(space):
    found = {case: outcome(1, case, space.name) for case in CASES}
    assert not {case: said for case, said in found.items() if said[0]}
    assert {said for _, said in found.values()} == {"right", "refused"}


@pytest.mark.parametrize("room", [name for name in ROOMS if name != "sums"])
def test_rooms(room, space):
    found = {case: outcome(1, case, space.name, ROOMS[room]) for case in range(20)}
    assert not {case: said for case, said in found.items() if said[0]}
    assert "right" in {said for _, said in found.values()}


def test_cases_do_not_depend_on_those_before(monkeypatch):
    monkeypatch.setattr("random_case.ODD", ([1],))
    for _ in range(2):
        case = Case(1, 0, "CPU")
        case.odd = 1
        odd = case.oddly({"epsilon": 0.5})["epsilon"]
        assert odd == [1]
        odd.append(2)


def test_broken_laws_are_found(monkeypatch):
    """A velocity that is not linear, and a valid argument that is refused."""
    motion = Moving.motion
    monkeypatch.setattr(Moving, "motion", lambda *given, **own: np.abs(motion(*given, **own)))
    found = [outcome(1, case, "CPU", ROOMS["spheres"])[1] for case in range(60)]
    assert any("linear: error" in said for said in found)
    assert any("symmetric: error" in said for said in found)

    def refuses(*given, **own):
        raise parki.ParkiValueError("no")

    monkeypatch.setattr(Moving, "motion", refuses)
    found = [outcome(1, case, "CPU", ROOMS["spheres"])[1] for case in range(20)]
    assert "refused, though valid: ParkiValueError: no" in found


def test_what_is_wrong_is_found(monkeypatch):
    """A bare error, a warning of NumPy's, and a wrong number."""

    def fails(self):
        raise KeyError(self.name)

    def warns(self):
        self.xp.ones(2) / 0

    def errs(self):
        given = self.sizes()
        given["dens"] = self.random(given["src"].shape[1])
        self.compare("laplace", given, 1.01 * self.random(given["trg"].shape[1]))

    for method, words in ((fails, "KeyError at"), (warns, "RuntimeWarning: div"), (errs, "u: err")):
        monkeypatch.setattr(Case, "run", method)
        assert words in outcome(1, 0, "CPU")[1]
