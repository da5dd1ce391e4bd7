"""Work that threads share out."""

from __future__ import annotations

import os
import threading
import time

import pytest

from parki.runtime import pool


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_everything_is_done_once(threads):
    done, who = [], set()

    def work(item):
        time.sleep(1e-3)  # lets others have some
        done.append(item)
        who.add(threading.get_ident())

    for times in (1, 2, 3):
        who.clear()  # others may be at work the next time
        pool.run_in_threads(work, range(50), threads)
        assert len(who) <= threads
        assert threading.get_ident() in who
        assert sorted(done) == sorted([*range(50)] * times)


def test_threads_work_at_the_same_time():
    """Each waits for the other."""
    meeting = threading.Barrier(3, timeout=20)
    pool.run_in_threads(lambda _: meeting.wait(), range(3), 3)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("bad", [0, 5])
def test_what_fails_is_raised_and_ends_the_work(threads, bad):
    done = []

    def work(item):
        if item == bad:
            raise IndexError(f"item {item}")  # of the work, not of the list of items
        time.sleep(1e-3)
        done.append(item)

    with pytest.raises(IndexError, match=f"item {bad}"):
        pool.run_in_threads(work, range(1000), threads)
    assert len(done) < 100
    pool.run_in_threads(done.append, ["after"], threads)
    assert done[-1] == "after"


def test_many_callers():
    """Threads of the user's that each share out work."""
    sums = []

    def call():
        found = []
        pool.run_in_threads(found.append, range(100), 3)
        sums.append(sum(found))

    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=60)
    assert sums == [4950] * 8


@pytest.mark.parametrize(
    ("rows", "parts", "sizes"),
    [(10, 3, [3, 3, 4]), (3, 8, [1, 1, 1]), (0, 4, []), (5, 0, [5]), (1, 1, [1])],
)
def test_rows_in_parts(rows, parts, sizes):
    found = pool.cuts(rows, parts)
    assert [row for part in found for row in range(rows)[part]] == list(range(rows))
    assert [part.stop - part.start for part in found] == sizes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_has_threads_of_its_own():
    pool.run_in_threads(time.sleep, [0.01] * 4, 4)
    child = os.fork()
    if not child:
        try:
            found: list[int] = []
            pool.run_in_threads(found.append, range(20), 4)
            os._exit(0 if sorted(found) == list(range(20)) else 1)
        finally:
            os._exit(2)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the child waits for its parent's threads")
