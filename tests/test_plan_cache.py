"""Sums in a loop: what a finished sum leaves for the next one like it."""

from __future__ import annotations

import numpy as np
import pytest

import parki
from parki import EwaldOptions
from parki.cli import info
from parki.ewald.pipeline import protocol as recent
from parki.ewald.pipeline.one_device import OneDevice
from parki.ewald.pipeline.protocol import _cache, describe_cache
from parki.ewald.pipeline.stages import Stages
from parki.memory import in_words

OPTIONS = EwaldOptions(periodicity=3, box=[1, 1, 1], tolerance=1e-5)


@pytest.fixture
def cloud(rng, to_space):
    """Return what gives targets, sources and densities."""
    return lambda n=400: (
        [to_space(rng.random((3, n))) for _ in range(2)] + [to_space(rng.standard_normal((3, n)))]
    )


def close(found, trg, src, dens):
    """Whether a sum keeps the promise of its tolerance, by a plan of a smaller one."""
    exact = parki.Plan("stokes_sl", trg, src, EwaldOptions(3, [1, 1, 1], 1e-9))
    error = float(((found - exact(dens)) ** 2).sum(axis=0).mean()) ** 0.5
    return error <= exact.promise(dens) * OPTIONS.tolerance / 1e-9


def test_next_sums_keep_parameters(space, cloud, monkeypatch):
    chosen = []
    choose = parki.ewald.pipeline.arrival.choose
    monkeypatch.setattr(
        "parki.ewald.pipeline.arrival.choose",
        lambda *a, **k: chosen.append(1) or choose(*a, **k),
    )
    for n in (400, 400, 400, 430, 430, 430, 430, 410, 1, 3000, 390, 390):
        trg, src, dens = cloud(n)
        assert close(parki.stokes_sl(trg, src, dens, OPTIONS), trg, src, dens)
        if n == 400:  # one of the sums, and one of the exact ones'
            assert len(chosen) == 2


def test_results_are_the_callers(space, cloud):
    """No later sum writes to them."""
    trg, src, dens = cloud()
    first = [parki.stokes_sl(trg, src, dens, OPTIONS) for _ in range(5)]
    before = [each.copy() for each in first]
    parki.stokes_sl(*cloud(), OPTIONS)
    for each, copy in zip(first, before, strict=True):
        assert bool((each == copy).all())


def test_crowded_points_choose_anew(space, cloud):
    _, src, dens = cloud(2000)
    for scale in (1.0, 1.0, 1.0, 1.0, 0.2, 0.2):
        points = src * scale
        found = parki.stokes_sl(points, points, dens, OPTIONS)
        assert close(found, points, points, dens)


def test_deterministic_sums_leave_nothing(space, cloud):
    options = EwaldOptions(3, [1, 1, 1], 1e-5, deterministic=True)
    trg, src, dens = cloud()
    parki.stokes_sl(trg, src, dens, options)
    parki.Plan("stokes_sl", trg, src, options)
    assert not _cache


def test_boxes_of_the_points_are_not_kept(cloud, space):
    trg, src, dens = cloud()
    options = EwaldOptions(0, tolerance=1e-5)
    for factor in (1, 1, 3):
        found = parki.stokes_sl(factor * trg, factor * src, dens, options)
        assert found.shape == (3, 400)
    assert not _cache


def test_points_of_two_numbers_in_turn_keep_a_placement_each(space, cloud, monkeypatch):
    """Systems in turn likewise. A third number takes the memory of the first one."""
    started, make = [], Stages.__init__
    monkeypatch.setattr(
        Stages,
        "__init__",
        lambda own, *a, **k: started.append(k.get("old") is None) or make(own, *a, **k),
    )
    for systems in (lambda n: None, lambda n: [0, n // 3, n]):
        clouds = {n: cloud(n) for n in (400, 300)}
        for turn in range(6):
            for n, (trg, src, dens) in clouds.items():
                del started[:]
                offsets = systems(n)
                found = parki.stokes_sl(trg, src, dens, OPTIONS, systems=offsets)
                assert any(started) == (turn == 0)
                trg *= 0.9999  # so little that parameters suit
                src *= 0.9999
        if space.on_device and not systems(3):
            assert all(each.graph is not None for each, *_ in _cache.values())
        finer = EwaldOptions(3, [1, 1, 1], 1e-9)
        exact = parki.Plan("stokes_sl", trg / 0.9999, src / 0.9999, finer, systems=offsets)(dens)
        assert float(abs(found - exact).max()) < 1e-4 * float(abs(exact).max())

    def numbers():
        return [counts for (*_, once, _), counts in _cache if once]

    assert numbers() == [(400, 400), (300, 300)] * 2
    parki.stokes_sl(*cloud(350), OPTIONS)
    assert numbers() == [(300, 300), (400, 400), (300, 300), (350, 350)]


def test_points_of_a_third_number_take_the_last_parameters(space, cloud, monkeypatch):
    """They took those of the first number, in its memory, which other points had outgrown."""
    chosen, choose = [], parki.ewald.pipeline.arrival.choose
    monkeypatch.setattr(
        "parki.ewald.pipeline.arrival.choose",
        lambda *a, **k: chosen.append(1) or choose(*a, **k),
    )
    parki.clear_cache()
    for n, extent, choices in ((400, 1, 1), (390, 1, 1), (390, 0.1, 2), (380, 0.1, 2)):
        trg, src, dens = cloud(n)
        parki.stokes_sl(extent * trg, extent * src, dens, OPTIONS)
        assert len(chosen) == choices, (n, extent)


def test_what_is_kept_is_said(space, cloud):
    parki.clear_cache()
    assert describe_cache().startswith("of 0 sums (at most 12), 0 sums of systems (at most 256)")
    trg, src, dens = cloud()
    parki.stokes_sl(trg, src, dens, OPTIONS)
    plan = parki.Plan("stokes_sl", trg, src, OPTIONS)
    said, held = describe_cache(), sum(each.holds for each, *_ in _cache.values())
    assert "1 sums" in said and "1 plans" in said and f" {in_words(held)} of at most" in said
    assert held > plan.memory.parts["multiplier"]
    assert info.facts()["kept"] == said


def test_only_the_last_are_kept(space, cloud, monkeypatch):
    monkeypatch.setattr(recent, "MOST", 4)
    trg, src, dens = cloud()
    for power in range(3, 10):
        parki.stokes_sl(trg, src, dens, EwaldOptions(3, [1, 1, 1], 10.0**-power))
    assert [task.options.tolerance for (task, *_), _ in _cache] == [1e-6, 1e-7, 1e-8, 1e-9]
    parki.stokes_sl(trg, src, dens, OPTIONS)
    assert _cache  # so little that nobody asks how much memory is free
    parki.clear_cache()
    assert not _cache
    parki.stokes_sl(trg, src, dens, OPTIONS)
    monkeypatch.setattr(recent, "LITTLE", 0)
    monkeypatch.setattr(recent, "free_memory", lambda _: 1e5)
    parki.stokes_sl(trg, src, dens, OPTIONS)
    assert not _cache


def test_plans_leave_their_set_up_alone(space, cloud):
    """Two plans share no memory that is written."""
    trg, src, dens = cloud()
    first = parki.Plan("stokes_sl", trg, src, OPTIONS)
    before = first(dens)
    second = parki.Plan("stokes_sl", *cloud()[:2], OPTIONS)
    second(dens)
    assert second.setup is first.setup
    assert bool((first(dens) == before).all()) or space.on_device
    (each, *_), stages = *_cache.values(), [plan.pipeline.stages for plan in (first, second)]
    assert isinstance(each, OneDevice) and each.stages is None
    # They share the multiplier, whose memory is what is kept.
    assert stages[0].fgc.whole is stages[1].fgc.whole
    assert each.holds == first.memory.parts["multiplier"] > 0


def test_plans_of_points_that_crowd_alike_count_no_close_pairs(space, cloud, monkeypatch):
    """Others do, and choose anew where the parameters do not suit them."""
    counted = []
    count = parki.ewald.pipeline.arrival.pair_density
    monkeypatch.setattr(
        "parki.ewald.pipeline.arrival.pair_density",
        lambda *a, **k: counted.append(1) or count(*a, **k),
    )
    dens = cloud(3000)[2]
    first = None
    for scale, n, counts in [(1, 3000, 1), (1, 3000, 1), (0.2, 3000, 2), (0.2, 2900, 3)]:
        (points, *_), values = cloud(n), dens[:, :n]
        plan = parki.Plan("stokes_sl", points * scale, points * scale, OPTIONS)
        first = first or plan
        assert len(counted) == counts
        assert (plan.setup is first.setup) == (scale == 1 and counts < 2)
        assert close(plan(values), points * scale, points * scale, values)
        counted[counts:] = []


def test_errors_leave_nothing_broken(space, cloud, monkeypatch):
    trg, src, dens = cloud()
    for _ in range(3):
        expected = parki.stokes_sl(trg, src, dens, OPTIONS)
    with pytest.raises(parki.ParkiValueError):
        parki.stokes_sl(trg, src, dens * np.nan, OPTIONS)
    with monkeypatch.context() as patch:
        patch.setattr(OneDevice, "apply", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            parki.stokes_sl(trg, src, dens, OPTIONS)
    found = parki.stokes_sl(trg, src, dens, OPTIONS)
    assert float(abs(found - expected).max()) < 1e-4 * float(abs(expected).max())


def test_points_that_are_placed_are_not_placed_again_on_a_cpu(monkeypatch, rng):
    """Other ones are, and so are the same arrays with other values."""
    made, make = [], Stages.__init__
    monkeypatch.setattr(
        Stages, "__init__", lambda own, *a, **k: made.append(1) or make(own, *a, **k)
    )
    points, dens = rng.random((3, 400)), rng.standard_normal((2, 3, 400))
    for values, times in ((dens[0], 1), (dens[1], 1), (dens, 1)):
        found = parki.stokes_sl(points, points, values, OPTIONS)
        assert len(made) == times
    points[:, 7] *= 0.5
    moved = parki.stokes_sl(points, points, dens[0], OPTIONS)
    assert len(made) == 2
    assert close(moved, points, points, dens[0]) and not close(found[0], points, points, dens[0])
    del made[:]
    apart = parki.stokes_sl(points, points[:, ::2].copy(), dens[0][:, ::2].copy(), OPTIONS)
    assert made and close(apart, points, points[:, ::2].copy(), dens[0][:, ::2].copy())


def test_systems_and_labels_that_are_equal_take_what_is_left(monkeypatch, rng):
    chosen, choose = [], parki.ewald.pipeline.arrival.choose
    monkeypatch.setattr(
        "parki.ewald.pipeline.arrival.choose",
        lambda *a, **k: chosen.append(1) or choose(*a, **k),
    )
    dens, labels = rng.standard_normal((3, 400)), np.arange(400) // 2
    for systems, times in (([0, 150, 400],) * 3, 1), (([0, 200, 400],), 1), ((None,), 1):
        del chosen[:]
        for offsets in systems:
            points = rng.random((3, 400))
            found = parki.stokes_sl(points, points, dens, OPTIONS, systems=offsets, exclude=labels)
        exact = parki.Plan(
            "stokes_sl",
            points,
            points,
            EwaldOptions(3, [1, 1, 1], 1e-9),
            systems=systems[0],
            exclude=labels,
        )(dens)
        scale = float(abs(exact).max())
        assert float(abs(found - exact).max()) < 1e-4 * scale
        assert len(chosen) <= times + 1  # and the exact one's
