"""Random calls of every public function: a right number or a `ParkiError`, nothing else.

`scripts/random_calls.py` makes thousands of them, of all sums.
"""

from __future__ import annotations

import pytest
from random_case import Case, outcome

CASES = range(100)


@pytest.fixture(autouse=True)
def few_kernels(monkeypatch):
    monkeypatch.setattr(Case, "names", ("laplace",))
    monkeypatch.setattr(Case, "periodicities", (3,))


def test_calls(space):
    found = {case: outcome(1, case, space.name) for case in CASES}
    assert not {case: said for case, said in found.items() if said[0]}
    assert {said for _, said in found.values()} == {"right", "refused"}


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
