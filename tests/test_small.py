"""Small sums wait for Python: their steps run few calls, and little work wakes no threads."""

from __future__ import annotations

import cProfile
import os
import pstats

import numpy as np
import pytest

import parki
from parki import settings
from parki.cells.cell_grid import FEW
from parki.ewald import EwaldOptions
from parki.runtime.kernel import Kernel

OPTIONS = EwaldOptions(3, [1, 1, 1], 1e-3, execution_space="OpenMP")
N = 1000


@pytest.fixture
def clouds(rng):
    """The points of several time steps, and a density."""
    clouds = [rng.random((3, N), dtype=np.float32) for _ in range(6)]
    return clouds, rng.standard_normal((3, N)).astype(np.float32)


def calls(step, clouds) -> float:
    """Return the calls of functions in a step, in the mean, once the first ones are done."""
    for points in clouds[:2]:
        step(points)
    with cProfile.Profile() as profile:
        for points in clouds[2:]:
            step(points)
    return pstats.Stats(profile).total_calls / len(clouds[2:])


def test_calls_of_a_step_and_of_a_sum(clouds):
    """Counts, as times depend on the machine. Each is a tenth above what it was."""
    clouds, dens = clouds
    plan = parki.Plan("stokes_sl", clouds[0], clouds[0], OPTIONS)

    def step(points):
        plan.update_points(points, points)
        plan(dens)

    assert calls(step, clouds) < 2050
    assert calls(lambda points: parki.stokes_sl(points, points, dens, OPTIONS), clouds) < 2180
    assert calls(lambda points: parki.Plan("stokes_sl", points, points, OPTIONS), clouds) < 1690


def test_the_environment_is_read_once_in_a_step(clouds, monkeypatch):
    clouds, dens = clouds
    plan = parki.Plan("stokes_sl", clouds[0], clouds[0], OPTIONS)
    plan.update_points(clouds[1], clouds[1])
    read, get = [], os.environ.get

    def spy(name, *default):
        if name in settings.SETTINGS:
            read.append(name)
        return get(name, *default)

    monkeypatch.setattr(os.environ, "get", spy)
    plan(dens)
    assert len(read) == len(set(read))
    read.clear()
    plan(dens)
    assert not read  # the plan has its kernels now
    plan.update_points(clouds[0], clouds[0])
    assert read
    assert len(read) == len(set(read))
    # The next call reads it again, and so does all that is no call.
    monkeypatch.setenv("PARKI_NUM_THREADS", "3")
    before = len(read)
    plan.update_points(clouds[1], clouds[1])
    assert len(read) > before
    assert settings.thread_count() == 3


def launched(monkeypatch):
    """Return a list that takes the threads of each launch."""
    threads, launch = [], Kernel.__call__

    def call(kernel, count, most=settings.MOST_THREADS, /, **arguments):
        threads.append(min(count, most, kernel._threads))
        launch(kernel, count, most, **arguments)

    monkeypatch.setattr(Kernel, "__call__", call)
    return threads


@pytest.mark.parametrize(("count", "threaded"), [(100, 0), (N, 1), (20 * N, 9)])
def test_launches_that_wake_threads(count, threaded, monkeypatch, rng):
    """A few points have all stages in the calling thread, and a thousand all but P2P."""
    monkeypatch.setenv("PARKI_NUM_THREADS", "2")
    points, dens = rng.random((2, 3, count), dtype=np.float32)
    options = EwaldOptions(3, [1, 1, 1], 1e-1, execution_space="OpenMP")
    plan = parki.Plan("stokes_sl", points, points, options)
    expected = plan(dens)
    threads = launched(monkeypatch)
    found = plan(dens)
    assert threads.count(2) >= threaded if threaded > 1 else threads.count(2) == threaded
    np.testing.assert_array_equal(found, expected)


def test_little_work_stays_in_the_calling_thread(clouds, monkeypatch):
    (points, *_), _ = clouds
    monkeypatch.setenv("PARKI_NUM_THREADS", "2")
    threads = launched(monkeypatch)
    cells = {"shape": (3, 3, 3), "execution_space": "OpenMP"}
    few = parki.CellList(points, None, [1, 1, 1], **cells)
    assert {*threads} == {1}
    threads.clear()
    many = np.tile(points, 2 * FEW // N + 1)
    sorted_many = parki.CellList(many, None, [1, 1, 1], **cells)
    assert 2 in threads
    np.testing.assert_array_equal(sorted_many.points, many[:, sorted_many.order])
    np.testing.assert_array_equal(few.points, points[:, few.order])
