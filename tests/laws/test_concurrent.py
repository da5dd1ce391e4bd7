"""Threads share what sums: each result is that of the points before or after an update."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from faces import law

READERS, UPDATES = 2, 8  # an even number: it ends as it began


@pytest.fixture(autouse=True)
def take_turns_often():
    """Let Python change threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@law("threads", joined=False)
def test_readers_and_an_updater(face, kernel, periodicity):
    moves = "moves" not in face.lacks
    given = [face.given(kernel, periodicity, seed) for seed in range(1 + moves)]
    made, dens, expected = face.make(given[0]), given[0].dens, []
    for now in given[::-1]:
        made = face.move(made, now) if moves else made
        expected.append(face.apply(made, dens))
    near = 1e-9 * max(abs(each).max() for each in expected)
    end, barrier = threading.Event(), threading.Barrier(READERS + moves)

    def read():
        found = face.apply(made, dens)
        assert any(abs(found - each).max() <= near for each in expected), "neither one nor other"

    def update(n):
        face.move(made, given[n % 2])

    def work(updates):
        barrier.wait(60)
        try:
            for n in range(UPDATES):
                if end.is_set():
                    break
                update(n) if updates else read()
        finally:
            if updates or sys.exc_info()[0]:
                end.set()

    with ThreadPoolExecutor(READERS + moves) as pool:
        tasks = [pool.submit(work, n == READERS) for n in range(READERS + moves)]
        for task in tasks:
            task.result()
    np.testing.assert_allclose(face.apply(made, dens), expected[0], rtol=0, atol=near)
