"""The choice of parameters: the search for grids, cut-offs and variants."""

import math
from dataclasses import replace

import numpy as np
import pytest
from problems import device, problem

from parki.ewald.choice import machines, parameters
from parki.ewald.choice.grids import POINTS, GridSearch
from parki.ewald.choice.parameters import _at_cutoff, select
from parki.ewald.choice.problem import FAR
from parki.ewald.choice.times import near_counts


def equal(chosen, other):
    """Return whether one choice served two problems."""
    return chosen.errors is other.errors


@pytest.mark.pairwise
@pytest.mark.parametrize("split", ["prolate", "hasimoto"])
@pytest.mark.parametrize("periodicity", [0, 1, 3])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-6, 1e-10])
def test_the_grid_is_among_the_cheapest_that_suffice(uniform, split, periodicity, tolerance):
    given = problem(uniform, split=split, periodicity=periodicity, tolerance=tolerance)
    found = select(given)
    search = GridSearch(given, found.split, found.cutoff)
    best = math.inf
    for row, steps in search.grids.items():
        truncation = given.truncation(found.split, steps)
        if truncation**2 > FAR:
            continue
        errors, most = search.window_errors(steps)
        margin = math.sqrt(FAR - truncation**2)
        points = (p for p in POINTS if p <= most)
        p = next((p for p in points if search.window(errors, steps, p)[0] <= margin), None)
        if p is not None:
            best = min(best, sum(search._times(row, p).values()))
    assert found.errors["window"] ** 2 + found.errors["truncation"] ** 2 <= FAR
    far = sum(found.seconds[stage] for stage in ("P2G", "FGC", "G2P"))
    assert far <= 1.2 * best


@pytest.mark.each
@pytest.mark.parametrize("periodicity", [1, 3])
@pytest.mark.parametrize("points", [1000, 1_000_000])
def test_no_other_cutoff_is_much_better(uniform, periodicity, points):
    given = problem(uniform, periodicity=periodicity, sources=points, targets=points)
    chosen = select(given)
    total = chosen.total
    for factor in (0.6, 0.75, 0.9, 1.1, 1.3, 1.6):
        other = _at_cutoff(given, factor * chosen.cutoff)
        assert other is None or total <= 1.15 * other.total


def test_expensive_stages_move_the_cutoff(uniform):
    """Transforms make it larger, pairs smaller."""
    usual = problem(uniform)
    seconds, cutoffs = usual.machine.seconds, []
    pairs = tuple(30 * x for x in seconds["p2p_staged"])
    for changes in ({}, {"fgc": (0.0, 1e-6, 1e-6, 1e-6, 0.0)}, {"p2p_staged": pairs}):
        machine = replace(usual.machine, seconds=seconds | changes)
        cutoffs.append(select(replace(usual, machine=machine)).cutoff)
    assert cutoffs[1] > 1.2 * cutoffs[0] and cutoffs[2] < 0.6 * cutoffs[0]


def test_the_literatures_variants_are_chosen_for_as_the_usual_ones(uniform):
    usual = select(problem(uniform))
    for stage, variant in (("p2p", "gm1d"), ("p2g", "hybrid"), ("g2p", "base")):
        found = select(problem(uniform, **{stage: variant}))
        assert getattr(found, stage) == variant
        of_usual = usual.cutoff, usual.points, usual.seconds
        assert (found.cutoff, found.points, found.seconds) == of_usual


def test_equal_problems_are_solved_once(uniform):
    given = problem(uniform)
    chosen = select(given)
    machine = replace(given.machine, name="the same")
    assert equal(select(replace(given, lattice=given.lattice.over(1), machine=machine)), chosen)
    larger = given.lattice.over(0.99)
    others = ({"tolerance": 0.9 * given.tolerance}, {"targets": 7}, {"lattice": larger})
    assert not any(equal(select(replace(given, **changes)), chosen) for changes in others)
    denser = replace(given.density, around=2 * given.density.around)
    assert select(replace(given, density=denser)).read > chosen.read
    seconds = {name: tuple(2 * s for s in each) for name, each in given.machine.seconds.items()}
    slower = replace(given, machine=replace(given.machine, seconds=seconds))
    assert not equal(select(slower), chosen)
    # A little more of pairs, as another sample of the same cloud has.
    noise = replace(given.density, enhancement=1.0001 * given.density.enhancement + 0.001)
    noisier = replace(given.density, enhancement=noise.enhancement + 0.0005)
    first, second = (select(replace(given, density=d)) for d in (noise, noisier))
    assert equal(first, second)


def test_choices_are_kept_for_clouds_that_differ_at_scales_not_read(uniform):
    """Close pairs are few and scatter: what a choice has not read does not make it another one."""
    given = device(uniform, sources=1000, targets=1000)
    chosen = select(given)

    def at(place, factor):
        values = given.density.enhancement.copy()
        values[place:] *= factor
        return replace(given, density=replace(given.density, enhancement=values))

    read = next(n for n in range(10) if equal(select(at(n, 1.5)), chosen))
    assert 2 <= read <= 6
    others = [select(at(read - 1, factor)) for factor in (3.0, 1.5, 3.0)]
    assert equal(others[0], others[2])
    assert not equal(chosen, others[0]) and not equal(others[0], others[1])
    parameters._kept.cache_clear()
    assert select(at(read - 1, 3.0)).errors == others[0].errors
    assert select(at(read, 1.5)).errors == chosen.errors


def test_cut_offs_beside_the_choice(uniform, monkeypatch):
    """Where lengths of transforms cost different times, others are looked at for long sums."""
    before, after = [], []
    for n in (10**6, 2 * 10**6, 4 * 10**6, 8 * 10**6):
        for tolerance in (1e-3, 1e-5, 1e-8):
            machine = machines.of_file(machines.shipped("h200.json"), "float64")
            changes = {"periodicity": 1, "tolerance": tolerance, "machine": machine}
            given = device(uniform, sources=n, targets=n, **changes)
            for limit, times in ((math.inf, before), (0.0, after)):
                monkeypatch.setattr(parameters, "UNEVEN", limit)
                parameters._kept.cache_clear()
                times.append(select(given).total)
    parameters._kept.cache_clear()
    assert all(b <= a for a, b in zip(before, after, strict=True))
    assert any(b < 0.99 * a for a, b in zip(before, after, strict=True))


def test_a_search_serves_others(uniform):
    """Forecasts at another cut-off start with what the judged grids of the first one taught."""
    given = problem(uniform, tolerance=1e-6)
    chosen = select(given)
    first = GridSearch(given, chosen.split, chosen.cutoff)
    first.best()
    taught = first.constants.copy()
    assert np.isfinite(taught).any()
    cutoff = 1.1 * chosen.cutoff
    other = GridSearch(given, parameters._split(given, cutoff), cutoff, first)
    assert np.array_equal(other.constants, taught, equal_nan=True)
    assert other.constant == first.constant
    other.best()
    assert np.array_equal(first.constants, taught, equal_nan=True)


@pytest.mark.parametrize("share", [0.05, 0.7, 0.95, 1.1])
def test_lists_that_find_no_room(uniform, share):
    """Kept lists are counted on where they will be, and may be worth a smaller cut-off."""
    given = device(uniform, targets=10_000_000, sources=10_000_000, tolerance=1e-9)
    all_kept, none = select(replace(given, kept=math.inf)), select(given)
    assert none.total > 1.05 * all_kept.total
    kept = share * all_kept.pairs
    found = select(replace(given, kept=kept))
    # But for what a search leaves.
    assert 0.99 * all_kept.total <= found.total <= 1.01 * none.total
    counts = near_counts(given.rounded(), "tile", found.near, found.degree)
    times = {name: given.machine.time(name, counts) for name in ("kept_tile", "p2p_tile")}
    fits = found.pairs <= kept
    assert found.seconds["P2P"] == times["kept_tile" if fits else "p2p_tile"]
    # A third less pairs are worth less than lists; a twentieth of the pairs are too few.
    assert fits == (share > 0.5)
    if share > 1:
        assert found.total <= 1.03 * all_kept.total  # the scan has a step
