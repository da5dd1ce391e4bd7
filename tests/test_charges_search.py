"""The search of `scripts/papers/charges.py` for a library's fastest parameters, without a clock."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

from papers.charge_peers import Choice, Peer
from papers.charge_search import CUTOFFS, Search

EDGE, RMS = 30.0, 2.0


class Model(Peer):
    """A library whose errors and seconds are formulas; in steps of a grid, as real ones."""

    package, needs, orders = "model", (), (4, 6)

    def __init__(self, dyadic=False, own=None):
        self.dyadic, self.own, self.mesh_seconds = dyadic, own, 1e-5

    @staticmethod
    def error(choice):
        """Errors as of pairs beyond the cut-off (Kolafa and Perram), and of windows."""
        pairs = (
            2 / math.sqrt(choice.cutoff) * math.exp(-((choice.alpha * choice.cutoff) ** 2)) / RMS
        )
        return math.hypot(pairs, (0.8 * choice.alpha * EDGE / choice.mesh) ** choice.order)

    def seconds(self, choice):
        """Seconds as of pairs, mesh points and windows."""
        return choice.cutoff**3 + self.mesh_seconds * choice.mesh**3 + 0.02 * choice.order**3

    def solver(self, given, dtype, choice, on_device):
        took = self.seconds(choice)
        return SimpleNamespace(
            forces=lambda: self.error(choice), moved=lambda: took, kept=lambda: took
        )

    def tuned(self, given, dtype, choice, accuracy, on_device):
        return self.own


CLOCK = SimpleNamespace(
    quick=False, device=False, search=None, now=lambda: 0.0, clock=lambda call: call()
)
GIVEN = SimpleNamespace(edge=EDGE, rms=RMS, error=lambda forces: forces)


def found(peer, asked, starts=None):
    return Search(CLOCK, GIVEN, peer, "f8", asked, {} if starts is None else starts).best()


@pytest.mark.parametrize(("asked", "mesh_seconds"), [(1e-3, 1e-5), (1e-3, 1e-3), (1e-5, 1e-5)])
def test_it_finds_the_fastest(asked, mesh_seconds):
    peer = Model()
    peer.mesh_seconds = mesh_seconds
    search = Search(CLOCK, GIVEN, peer, "f8", asked, {})
    row = search.best()
    assert row["error"] <= asked
    best = math.inf
    for cutoff, order in itertools.product(CUTOFFS, peer.orders):
        for mesh in search._meshes():
            choice = Choice(cutoff, search._alpha(cutoff), mesh, order)
            if peer.error(choice) <= asked:
                best = min(best, peer.seconds(choice))
                break
    assert row["moved"] <= 1.1 * best


def test_meshes_of_powers_of_two_have_cut_offs_that_fit():
    row = found(Model(dyadic=True), 1e-4)
    chosen = Choice(**row["chosen"])
    assert row["error"] <= 1e-4
    assert math.log2(chosen.mesh).is_integer()
    assert chosen.cutoff not in CUTOFFS


def test_its_own_function_is_taken_where_it_is_faster():
    own = Choice(2.0, 1.4, 120, 6)
    assert Model.error(own) < 1e-3
    peer = Model(own=own)
    peer.seconds = lambda choice: 1.0 if choice == own else 2.0
    row = found(peer, 1e-3)
    assert row["own"]
    assert Choice(**row["chosen"]) == own


def test_the_first_try_is_no_part_of_the_time_of_search(monkeypatch):
    """It may compile; later tries end at ``search`` seconds after it."""
    clock = itertools.count(step=60.0)
    now = SimpleNamespace(perf_counter=lambda: next(clock))
    monkeypatch.setattr("papers.charge_search.time", now)
    limited = SimpleNamespace(**{**vars(CLOCK), "search": 100.0})
    search = Search(limited, GIVEN, Model(), "f8", 1e-3, {})
    assert not search._late()
    row = search.best()
    assert row["error"] <= 1e-3
    assert [row["chosen"]["order"] for row in search.rows] == [4, 6]


def test_what_fails_is_said():
    peer = Model()
    peer.error = lambda choice: 0.3
    assert found(peer, 1e-3) == {"reason": "least error 3.0e-01"}

    def broken(*_):
        raise MemoryError("no room")

    peer.solver = broken
    assert found(peer, 1e-3) == {"reason": "MemoryError: no room"}


def test_more_charges_begin_where_fewer_ended():
    starts = {}
    row = found(Model(), 1e-3, starts)
    (choice, density), *others = starts.values()
    assert not others
    assert choice == Choice(**row["chosen"])
    assert density == pytest.approx(choice.mesh / choice.alpha / EDGE)
    peer = Model()
    orders = set()
    peer.error = lambda choice: orders.add(choice.order) or Model.error(choice)
    found(peer, 1e-3, starts)
    assert orders == {choice.order}
