"""The choice of parameters: the search for grids, the cost model, and its numbers from `tune`."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial import cKDTree

import parki
from parki import cli, tune
from parki.arrays import USUAL
from parki.ewald import cost, machines, parameters
from parki.ewald.clustering import pair_density
from parki.ewald.grids import POINTS, Search, Windows
from parki.ewald.lengths import NO_TABLES, SMOOTH, Lengths, Tables
from parki.ewald.p2g import owner_tiles
from parki.ewald.padding import Passes, pad
from parki.ewald.parameters import _at_cutoff, alternatives, select
from parki.ewald.problem import FAR, Problem
from parki.runtime import get_execution_space


@pytest.fixture(scope="module")
def uniform():
    points = np.random.default_rng(0).random((3, 20_000))
    return pair_density(points, points, np.ones(3))


def problem(density, **changes):
    machine = machines.Machine("test", machines.CORE["float64"])
    given = Problem(
        "stokes_comb",
        ("u",),
        "prolate",
        3,
        np.ones(3),
        1e-5,
        density,
        100_000,
        100_000,
        machine,
        ("staged",),
        ("owner",),
        ("target",),
    )
    return replace(given, **changes)


@pytest.mark.parametrize("split", ["prolate", "hasimoto"])
@pytest.mark.parametrize("periodicity", [0, 1, 3])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-6, 1e-10])
def test_the_grid_is_among_the_cheapest_that_suffice(uniform, split, periodicity, tolerance):
    given = problem(uniform, split=split, periodicity=periodicity, tolerance=tolerance)
    found = select(given)
    search = Search(given, found.split, found.cutoff, POINTS)
    best = math.inf
    for row, steps in search.grids.items():
        truncation = given.truncation(found.split, steps)
        if truncation**2 > FAR:
            continue
        windows = Windows(given, found.split, found.cutoff, steps, POINTS[-1])
        room = math.sqrt(FAR - truncation**2)
        enough = (p for p in POINTS if p <= windows.most and windows(p)[0] <= room)
        p = next(enough, None)
        if p is not None:
            best = min(best, search._times(row, p).total)
    assert found.errors["window"] ** 2 + found.errors["truncation"] ** 2 <= FAR
    far = sum(found.seconds[stage] for stage in ("P2G", "FGC", "G2P"))
    assert far <= 1.2 * best


@pytest.mark.parametrize("periodicity", [1, 3])
@pytest.mark.parametrize("points", [1000, 1_000_000])
def test_no_other_cutoff_is_much_better(uniform, periodicity, points):
    given = problem(uniform, periodicity=periodicity, sources=points, targets=points)
    chosen = select(given)
    total = chosen.total
    for factor in (0.6, 0.75, 0.9, 1.1, 1.3, 1.6):
        other = _at_cutoff(given, factor * chosen.cutoff, POINTS)
        assert other is None or total <= 1.15 * other.total


@pytest.mark.parametrize("periodicity", [0, 1, 2, 3])
@pytest.mark.parametrize("cutoff", [0.1, 0.35, 0.7, 1.1])
def test_pairs_of_uniform_points(periodicity, cutoff):
    """Also where the box has less of the ball around its points than the whole."""
    box, n = np.array([0.8, 1.0, 1.25]), 1500
    points = np.random.default_rng(0).random((3, n)) * box[:, None]
    shifts = [(-1, 0, 1) if axis < periodicity else (0,) for axis in range(3)]
    tree, found = cKDTree(points.T), -n  # a point is no pair with itself
    for shift in itertools.product(*shifts):
        found += tree.count_neighbors(cKDTree(points.T + box * shift), cutoff)
    density = pair_density(points, points, box)
    given = problem(density, periodicity=periodicity, box=box, targets=n, sources=n)
    # Some of the balls reach two boxes away.
    assert given.pairs(cutoff) == pytest.approx(found, rel=0.05 if cutoff < 0.8 else 0.25)


def test_clusters_that_the_cutoff_encloses_take_less():
    """Staged tiles compute the pairs around the cut-off too: of even points many more than within.

    On a CPU a pair of such clusters took 0.65 to 0.7 of the time of one of even points.
    """
    n, cutoff, rng = 10_000, 0.15, np.random.default_rng(0)
    even, tight = rng.random((3, n)), np.empty((3, n))
    tight[:, : n // 2] = rng.random((3, 8))[:, rng.integers(0, 8, n // 2)]
    tight += 0.02 * rng.standard_normal((3, n))
    tight[:, n // 2 :] = even[:, n // 2 :]
    each = []
    for points in (even, np.clip(tight, 0, 1 - 1e-9)):
        given = problem(pair_density(points, points, np.ones(3)), sources=n, targets=n)
        pairs = given.near_pairs(cutoff)
        targets, computed, operations = given.work.near("staged", pairs, 10)
        assert (targets, computed) == (n, pairs.around)
        each.append(operations / pairs.within)
    assert each[1] < 0.6 * each[0]


def test_one_target_takes_its_time(uniform):
    """However few there are: operations of one are a count of tiles, beside those of all."""
    few, many = (
        problem(uniform, targets=n).work.near("tile", cost.Pairs(1e6, 3e6), 10)
        for n in (1000, 100_000)
    )
    assert few[2] == many[2]
    assert few[3] == pytest.approx(few[2] / 1000)
    assert many[3] == pytest.approx(few[3] / 100)


def test_values_that_spill_from_registers(uniform):
    """Four components of a window of 18 points are more than a device's thread can keep."""
    work = problem(uniform).work
    for kernel, least, most in (("stokes_comb", 1.6, 2.2), ("stokes_sl", 1.0, 1.3)):
        sums = replace(work, kernel=kernel)
        ratio = sums.spread("tile", 18, 1e6, (4, 4))[2] / sums.spread("tile", 17, 1e6, (4, 4))[2]
        assert least < ratio < most


@pytest.mark.parametrize(
    ("tiles", "points", "rounds", "times", "idle"),
    [
        ((1, 1), 9, 1, 1.36, 0.0),
        ((1, 1), 2, 1, 2.24, 1.12),  # a source has two planes, two threads have none
        ((1, 2), 9, 2, 1.36, 0.0),
        ((2, 2), 9, 4, 1.36, 0.0),
        ((2, 3), 9, 4, 1.2, 0.0),
        ((4, 4), 9, 4, 1.0, 0.0),
        ((6, 6), 9, 4, 5 * 1.12 * 4 / 18, 1.12 / 9),  # nine tiles in halves, five at a time
        ((5, 4), 9, 4, (3 * 1.12 + 2) / 5, 0.0),
    ],
)
def test_few_tiles_are_shared_out(tiles, points, rounds, times, idle):
    """Tiles of two colours along each axis, on four threads: those of one at a time."""
    work = cost.Work("stokes_comb", ("u",), 100, 100, threads=4)
    alone = cost.Work("stokes_comb", ("u",), 100, 100)
    one = alone.spread("owner", points, 1e5, tiles)
    colours, sources, updates, waits, values = work.spread("owner", points, 1e5, tiles)
    assert (colours, sources, values) == (rounds, 100, 4e5) == (one[0], one[1], one[4])
    assert one[3] == 0.0
    assert waits / one[2] == pytest.approx(idle, abs=1e-12)
    assert (updates + waits) / one[2] == pytest.approx(times)
    assert work.spread("grid", points, 1e5, tiles) == alone.spread("grid", points, 1e5, tiles)


@pytest.mark.parametrize(
    ("periodicity", "tiles"), [(0, (3, 5)), (1, (2, 5)), (2, (2, 4)), (3, (2, 4))]
)
def test_tiles_of_more_steps_than_a_window(periodicity, tiles):
    """And an even number of them along periodic axes, one where there is no room for two."""
    assert owner_tiles((36, 71, 8), 11, periodicity) == tiles
    assert owner_tiles((23, 11.9, 8), 11, periodicity) == (1, 1)


@pytest.mark.parametrize("periodicity", range(4))
def test_rounds_that_are_foreseen_are_those_that_run(periodicity, monkeypatch):
    points = np.random.default_rng(0).random((3, 4000)) * [[0.6], [1.0], [0.8]]
    options = parki.EwaldOptions(
        periodicity=periodicity,
        box=[0.6, 1.0, 0.8],
        tolerance=1e-6,
        cutoff=0.09,
        window_points=11,
        p2g_method="owner",
        execution_space="CPU",
    )
    for threads in (1, 2, 3):
        monkeypatch.setenv("PARKI_NUM_THREADS", str(threads))
        plan = parki.Plan("stokes_sl", points, points, options)
        items = [(n, *numbers[2::2]) for n, numbers in plan.p2g.variant.colours]
        assert len(items) == 4
        assert all(n == tiles * shares for n, tiles, shares in items)
        every = sum(tiles for _, tiles, _ in items)
        more = [1 + 0.12 * (shares - 1) for _, _, shares in items]
        does = sum(t * m for (_, t, _), m in zip(items, more, strict=True)) / every
        takes = sum(-(-n // threads) / s * m for (n, _, s), m in zip(items, more, strict=True))
        work, tiles = plan._problem.work, plan._problem.tiles(plan.mesh.padding.cells, 11)
        rounds = replace(work, threads=threads).rounds(tiles, 11)
        assert rounds == (4, pytest.approx(does), pytest.approx(takes * threads / every - does))


@pytest.mark.parametrize("kernel", ["stokes_comb", "stokes_sl", "laplace"])
@pytest.mark.parametrize("periodicity", [1, 3])
def test_threads_change_no_digit_of_spreading(kernel, periodicity, monkeypatch):
    """However planes are shared out, a value of the grid sums the same in the same order."""
    rng = np.random.default_rng(3)
    points = rng.random((3, 300))
    rows = {"stokes_comb": 6, "stokes_sl": 3, "laplace": 1}[kernel]
    dens, norms = rng.standard_normal((rows, 300)), rng.standard_normal((3, 300))
    options = parki.EwaldOptions(
        periodicity=periodicity,
        box=[1, 1, 1],
        cutoff=0.3,
        window_points=10,
        tolerance=1e-4,
        p2g_method="owner",
        execution_space="CPU",
    )
    grids, shares = [], []
    for threads in (1, 2, 5):
        monkeypatch.setenv("PARKI_NUM_THREADS", str(threads))
        given = [norms] if kernel == "stokes_comb" else []
        plan = parki.Plan(kernel, points, points, *given, options)
        buffer = np.empty_like(dens)
        grids.append(plan.p2g.apply(np.ascontiguousarray(dens), buffer).copy())
        shares.append([int(numbers[4]) for _, numbers in plan.p2g.variant.colours])
    assert shares[0] != shares[1] != shares[2]
    assert all(np.array_equal(grids[0], grid) for grid in grids[1:])


def test_free_directions_wake_threads():
    """G2P's, after a far field of more steps by others; devices and one thread have no such."""
    for periodicity, woken in ((0, 6), (1, 6), (2, 6), (3, 0)):
        work = cost.Work("stokes_comb", ("u",), 10, 10, periodicity, threads=6)
        assert work.far(Passes(0.0, 1.0, 2.0)) == (0, 7, 14, woken)
        assert work.gather("target", 8, 1e3)[-1] == work.gather("tile", 8, 1e3)[-1] == woken
    for name in ("fgc", "g2p_target"):
        many, one = (machines.Machine("test", machines.CORE["float64"], workers=n) for n in (6, 1))
        counts = len(cost.COUNTS[name]) - 1
        assert many.time(name, (*[0.0] * counts, 6)) == one.time(name, (*[0.0] * counts, 1))


def test_windows_are_computed_in_vectors(uniform):
    four, one = (cost.Work("laplace", ("u",), 10, 10, lanes=n) for n in (4, 1))
    assert four.gather("target", 9, 1e3) == (10, 10 * 9 * 9 * 12, 0, 0)
    assert one.gather("target", 9, 1e3) == (10, 10 * 9**3, 0, 0)
    # Of a host's grid what no cache holds.
    for variant in ("target", "base"):
        assert one.gather(variant, 9, 1e7)[2] == 1e7 - cost.CACHED
    # At P = 17 a warp takes 5 bands of 6 x 3 heights: 4 turns of 32 x 3 values, not 17 x 17.
    assert one.gather("tile", 17, 1e3)[1] == pytest.approx(10 * 17 * 384)


def test_sources_near_the_targets_of_a_multiprocessor(uniform):
    """By brute force: around a block of 512 targets, where both clouds are as dense as told."""
    cutoff, n = 0.05, 40_000

    def read(targets, sources):
        around = np.outer((targets, sources), np.ones(uniform.scales.size))
        density = replace(uniform, around=around)
        return problem(density, targets=n, sources=n).read(cutoff)

    points = np.random.default_rng(2).random((3, n))
    for targets in (1, 8):
        block = np.sort(abs(points - 0.5).max(axis=0))[512 // targets]  # half its edge
        found = (abs(points - 0.5).max(axis=0) < block + cutoff).sum()
        assert read(targets, 1) == pytest.approx(found, rel=0.1)
        assert read(targets, 5) == pytest.approx(5 * found, rel=0.1)


@pytest.mark.parametrize("threads", [2, 8])
def test_tune_sums_with_grids_that_pass_a_hosts_caches(uniform, threads):
    """Two at least, far beyond: with one alone, its time would be all that is known."""
    beyond = set()
    for task in tune.tasks(get_execution_space("CPU"), threads):
        if task.dtype != "float64" or task.kernel != "stokes_comb":
            continue
        density = uniform
        if task.clustered:
            points = tune.cloud(task.points, True)
            density = pair_density(points, points, np.ones(3))
        cutoff = task.cell_size and (task.cell_size / task.points) ** (1 / 3)
        given = problem(
            density,
            periodicity=task.periodicity,
            tolerance=task.tolerance,
            targets=task.points,
            sources=task.points,
        )
        found = select(given, cutoff, task.window_points)
        grid = math.prod(given.pad(found.steps, found.points, found.cutoff).grid)
        if task.g2p == "target":
            uncached = given.work.gather("target", found.points, grid)[2]
            if uncached > 4 * cost.CACHED:
                beyond.add((task.points, task.clustered))
    assert len(beyond) >= 2


@pytest.mark.parametrize("points", [1000, 100_000])
@pytest.mark.parametrize("p2g", [("owner", "tile", "grid"), ("tile",)])
def test_times_of_the_mesh_are_those_of_the_counts(uniform, points, p2g):
    machine = machines.Machine("test", machines.CORE["float64"], threads=4)
    given = problem(
        uniform, p2g=p2g, g2p=("tile",), sources=points, targets=points, machine=machine
    )
    tiles = {48.0: (4, 4), 30.0: (2, 3), 200.0: (18, 17)}
    assert given.work.rounds(tiles[48.0], 10)[1:] == (1.0, 0.0)
    assert given.work.rounds(tiles[30.0], 10)[1] > 1.0
    for n, g2p in itertools.product(tiles, ("tile", "target", "base")):
        given = replace(given, g2p=(g2p,))
        found = given.mesh_time(10, n**3, Passes(0.0, 3e5, 1e6), tiles[n])
        machine, work = given.machine, given.work
        spread = machine.time(f"p2g_{found.p2g}", work.spread(found.p2g, 10, n**3, tiles[n]))
        assert found.spread == pytest.approx(spread, rel=1e-6)
        gather = machine.time(f"g2p_{g2p}", work.gather(g2p, 10, n**3))
        assert found.gather == pytest.approx(gather, rel=1e-6)
    assert found.far == machine.time("fgc", work.far(Passes(0.0, 3e5, 1e6)))


@pytest.mark.parametrize("periodicity", [1, 3])
@pytest.mark.parametrize("tolerance", [1e-4, 1e-9])
@pytest.mark.parametrize(("points", "most"), [(4_000_000, 1.1), (16_000_000, 1.05)])
def test_long_sums_on_a_device_get_the_best_of_all_variants(
    uniform, periodicity, tolerance, points, most
):
    """None of which a rough guess may have ruled out, nor a length for its cost."""
    device = machines.Machine(
        "test", machines.H200["float64"], 1, machines._built_in_lengths("float64"), True, 0
    )
    stages = {stage: device.variants(stage, "auto", points) for stage in tune.METHODS}
    given = problem(uniform, periodicity=periodicity, tolerance=tolerance, machine=device)
    given = replace(given, sources=points, targets=points, **stages)
    chosen = select(given)
    others = (_at_cutoff(given, f * chosen.cutoff, POINTS) for f in (0.7, 0.85, 1.0, 1.2, 1.4))
    best = min(other.total for other in others if other is not None)
    assert chosen.total <= most * best


def test_dear_transforms_make_larger_cutoffs(uniform):
    cheap = problem(uniform)
    seconds = dict(cheap.machine.seconds, fgc=(0.0, 1e-6, 1e-6, 1e-6, 0.0))
    dear = replace(cheap, machine=machines.Machine("test", seconds))
    assert select(dear).cutoff > 1.2 * select(cheap).cutoff


def test_dear_pairs_make_smaller_cutoffs(uniform):
    cheap = problem(uniform)
    seconds = dict(cheap.machine.seconds)
    seconds["p2p_staged"] = tuple(30 * x for x in seconds["p2p_staged"])
    dear = replace(cheap, machine=machines.Machine("test", seconds))
    assert select(dear).cutoff < 0.6 * select(cheap).cutoff


def test_the_cheaper_variant_is_taken(uniform):
    both = problem(uniform, g2p=("target", "base"))
    for cheap, dear in (("target", "base"), ("base", "target")):
        seconds = dict(both.machine.seconds)
        for variant, each in ((cheap, 1e-10), (dear, 1e-9)):
            rest = len(seconds[f"g2p_{variant}"]) - 3
            seconds[f"g2p_{variant}"] = (0.0, 0.0, each, *rest * [0.0])
        given = replace(both, machine=machines.Machine("test", seconds))
        assert select(given).g2p == cheap


def test_which_variants_are_considered():
    names = [f"{stage}_{v}" for stage, each in tune.METHODS.items() for v in each[1:]]
    for on_device, usual in USUAL.items():
        few = cost.Machine("test", dict.fromkeys(names, ()), 1, NO_TABLES, on_device, 1000)
        for stage, methods, variant in zip(tune.METHODS, tune.METHODS.values(), usual, strict=True):
            assert few.variants(stage, methods[-1], 10) == (methods[-1],)
            # For fewer points than the others were timed for, the usual one.
            assert few.variants(stage, "auto", 249) == (variant,)
            assert variant in few.variants(stage, "auto", 250)
        # On a host, sums that come out the same every time.
        every = set(few.variants("p2g", "auto", 250))
        assert every == ({"owner", "grid"} if not on_device else set(tune.METHODS["p2g"][1:]))


def test_equal_problems_are_solved_once(uniform):
    given = problem(uniform)
    chosen = select(given)
    again = replace(given, box=given.box.copy(), machine=replace(given.machine, name="the same"))
    assert select(again) is chosen
    others = ({"tolerance": 0.9 * given.tolerance}, {"targets": 7}, {"box": 1.01 * given.box})
    assert all(select(replace(given, **changes)) is not chosen for changes in others)
    denser = replace(given.density, around=2 * given.density.around)
    assert select(replace(given, density=denser)).read > chosen.read
    seconds = {name: tuple(2 * s for s in each) for name, each in given.machine.seconds.items()}
    slower = replace(given, machine=replace(given.machine, seconds=seconds))
    assert select(slower) is not chosen
    # A little more of pairs, as another sample of the same cloud has.
    noise = replace(given.density, enhancement=1.0001 * given.density.enhancement + 0.001)
    noisier = replace(given.density, enhancement=noise.enhancement + 0.0005)
    first, second = (select(replace(given, density=d)) for d in (noise, noisier))
    assert first is second


def test_passes_of_transforms():
    box, steps = np.ones(3), np.full(3, 1 / 32)
    assert pad(3, box, steps, 8, 0.2, 1e-4).values() == (3 * 32**3, 0, 0)
    padding = pad(1, box, steps, 8, 0.2, 1e-4)
    twice = Tables(Lengths((n, 2.0) for n in SMOOTH if n < 2000))
    along = padding.local[0] * padding.grid[1] * padding.grid[2]
    assert padding.values()[:2] == (0, along)
    assert padding.values(twice) == pytest.approx((0, along, 2 * padding.values().planes))
    modes = [padding.n_local, padding.local[0] // 2 + 1 - padding.n_local]
    sizes = (padding.local[1:], padding.plain[1:])
    found = padding.values().planes
    assert found == sum(4 * m * math.prod(s) for m, s in zip(modes, sizes, strict=True))


def test_cut_offs_beside_the_choice(uniform, monkeypatch):
    """Where lengths of transforms cost different times, others are looked at for long sums."""
    tables = machines._built_in_lengths("float64")
    usual = {"p2p": ("tile",), "p2g": ("tile",), "g2p": ("tile",)}
    before, after = [], []
    for n in (10**6, 2 * 10**6, 4 * 10**6, 8 * 10**6):
        for tolerance in (1e-3, 1e-5, 1e-8):
            numbers = machines.H200["float64"]
            machine = machines.Machine("test", numbers, lengths=tables, on_device=True)
            changes = dict(usual, periodicity=1, tolerance=tolerance, machine=machine)
            given = problem(uniform, sources=n, targets=n, **changes)
            for limit, times in ((math.inf, before), (0.0, after)):
                monkeypatch.setattr(parameters, "UNEVEN", limit)
                parameters._select.cache_clear()
                times.append(select(given).total)
    parameters._select.cache_clear()
    assert all(b <= a for a, b in zip(before, after, strict=True))
    assert any(b < 0.99 * a for a, b in zip(before, after, strict=True))


def test_a_search_serves_others(uniform):
    """Forecasts at another cut-off start with what the judged grids of the first one taught."""
    given = problem(uniform, tolerance=1e-6)
    chosen = select(given)
    first = Search(given, chosen.split, chosen.cutoff, POINTS)
    first.best()
    taught = first.constants.copy()
    assert np.isfinite(taught).any()
    other = Search(given, chosen.split, 1.1 * chosen.cutoff, POINTS, first)
    assert np.array_equal(other.constants, taught, equal_nan=True)
    assert other.constant == first.constant
    other.best()
    assert np.array_equal(first.constants, taught, equal_nan=True)


def test_alternatives_are_dearer(uniform):
    given = problem(uniform, p2p=("staged", "tile"))
    words = alternatives(given, select(given))
    assert any("P2P by tile" in line for line in words)
    assert any("Hasimoto's split" in line for line in words)
    assert all(float(line.split()[-2]) >= 0.99 for line in words)


def test_fit_finds_the_numbers_of_its_samples():
    rng = np.random.default_rng(1)
    true = {"fgc": (1e-4, 3e-9), "p2g_owner": (1e-5, 2e-8, 4e-10)}
    samples = []
    for variant, numbers in true.items():
        for _ in range(12):
            counts = tuple(10 ** rng.uniform(3, 6, len(numbers) - 1))
            samples.append((variant, counts, float(np.dot((1.0, *counts), numbers))))
    start = {"fgc": (0.0, 1e-9), "p2g_owner": (0.0, 1e-8, 1e-9), "g2p_base": (0.0, 0.0, 1e-9)}
    fitted = tune.fit(samples, start)
    machine = cost.Machine("test", {k: tuple(v) for k, v in fitted.items()})
    for variant, counts, seconds in samples:
        assert machine.time(variant, counts) == pytest.approx(seconds, rel=0.1)
    # Never measured: as much slower than built in as the others.
    assert fitted["g2p_base"][2] > 1e-9


def test_fit_of_times_that_scatter_keeps_what_was_built_in():
    """Half of them from slow moments, which took tight sums most."""
    true = np.array([2e-4, 4e-7, 8e-10, 1.5e-11])
    counts = [(n, 400.0 * n, 400.0 * n * o) for n in (1e3, 4e4) for o in (60, 100, 140, 200)]
    times = [(c, float(np.dot((1.0, *c), true))) for c in counts]
    slow = [(c, t * (1 + 0.6 * (c[2] / c[1] > 120))) for c, t in times]
    samples = [("p2p_staged", c, t) for c, t in times + slow]
    fitted = np.array(tune.fit(samples, {"p2p_staged": tuple(2 * true)})["p2p_staged"])
    # Evenly dearer, rather than by its operations.
    ratio = [np.dot((1.0, *c), fitted) / t for c, t in times]
    assert max(ratio) < 1.2 * min(ratio)
    # By times that agree, what was built in is forgotten.
    wrong = tuple(true * (1, 3, 1, 0.5))
    exact = np.array(tune.fit(samples[:8], {"p2p_staged": wrong})["p2p_staged"])
    for c, t in times:
        assert np.dot((1.0, *c), exact) == pytest.approx(t, rel=0.1)


def test_fit_finds_launches_that_were_built_in_as_next_to_nothing():
    start = {"p2p_staged": (1e-7, 1e-7, 1e-9, 1e-11)}
    counts = [(n, 100.0 * n, 1e4 * n) for n in (2e2, 1e3, 2.5e3, 4e4, 4e5)]
    times = [3e-4 + 1e-7 * a + 1e-9 * b + 1e-11 * c for a, b, c in counts]
    samples = [("p2p_staged", c, t) for c, t in zip(counts, times, strict=True)]
    machine = cost.Machine("test", {k: tuple(v) for k, v in tune.fit(samples, start).items()})
    for variant, each, seconds in samples:
        assert machine.time(variant, each) == pytest.approx(seconds, rel=0.1)


def test_fit_of_what_was_built_in_as_nothing():
    """A sum without planes, by numbers that count planes alone."""
    samples = [("fgc", (n, 0.0), 1e-4 + 2e-9 * n) for n in (1e4, 1e5, 1e6)]
    fitted = tune.fit(samples, {"fgc": (0.0, 0.0, 1e-9), "g2p_base": (0.0, 0.0, 1e-9)})
    machine = cost.Machine("test", {k: tuple(v) for k, v in fitted.items()})
    for variant, counts, seconds in samples:
        assert machine.time(variant, counts) == pytest.approx(seconds, rel=0.3)
    assert fitted["g2p_base"] == [0.0, 0.0, 1e-9]


def test_counts_fit_the_numbers():
    for table in (machines.CORE, machines.H200):
        for numbers in table.values():
            assert {k: len(v) for k, v in numbers.items()} == {
                k: len(v) + 1 for k, v in cost.COUNTS.items()
            }


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path))
    machines.forget()
    yield tmp_path
    machines.forget()


def test_tune(own_cache, monkeypatch, capsys):
    few = [
        tune.Task("laplace", 3, 1e-2, 500),
        tune.Task("laplace", 3, 1e-2, 500, dtype="float32"),
    ]
    monkeypatch.setattr("parki.tune_report.tasks", lambda *_: few)
    space = get_execution_space("Serial")
    before = machines.machine(space, "float64")
    assert cli.main(["tune", "--space", "Serial"]) == 0
    assert str(own_cache) in capsys.readouterr().out.replace("\n", "")
    after = machines.machine(space, "float64")
    assert "measured" in after.name
    assert "measured" not in before.name
    points = np.random.default_rng(0).random((3, 500))
    options = parki.EwaldOptions(
        periodicity=3, box=[1, 1, 1], tolerance=1e-2, execution_space="Serial"
    )
    assert after.name in parki.Plan("laplace", points, points, options).describe()
    # A second run with a task keeps the first one's samples.
    samples = json.loads(machines.path(space).read_text())["samples"]
    words = "--measure --kernel laplace --points 300 --tolerance 1e-2".split()
    assert cli.main(["tune", "--space", "Serial", *words]) == 0
    assert "ratio" in capsys.readouterr().out
    again = json.loads(machines.path(space).read_text())["samples"]
    assert again["float64"][: len(samples["float64"])] == samples["float64"]
    assert len(again["float64"]) > len(samples["float64"]) + 20


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"machine": "x", "seconds": {"float64": {"fgc": [1]}}}',
        f'{{"counts": {machines.VERSION}, "seconds": {{"float64": {{"fgc": [1]}}}}}}',
        f'{{"counts": {machines.VERSION}, "seconds": {{}}}}',
        json.dumps({"machine": "x", "counts": 1, "seconds": machines.CORE}),
    ],
)
def test_a_spoilt_file_is_reported_and_not_used(own_cache, content, caplog):
    space = get_execution_space("Serial")
    machines.path(space).write_text(content)
    assert "AVX-512" in machines.machine(space, "float64").name
    assert "parki tune" in caplog.text


@pytest.mark.parametrize(
    "lengths", [{}, {"float64": []}, {"float64": {"planes": [[7, 1]]}, "float32": {}}]
)
def test_spoilt_lengths_are_reported(own_cache, lengths, caplog):
    space = get_execution_space("Serial")
    content = {"machine": "x", "seconds": machines.CORE, "lengths": lengths}
    content["counts"] = machines.VERSION
    machines.path(space).write_text(json.dumps(content))
    measured = "measured" in machines.machine(space, "float64").name
    # A file without lengths is one of a machine where all cost the same.
    assert measured is (lengths == {})
    assert ("parki tune" in caplog.text) is not measured


# --- lists of pairs, and what is worth a look --------------------------------------------------
def device(density, **changes):
    machine = machines.Machine("H200", machines.H200["float64"], on_device=True)
    usual = ("tile",)
    changes = {"machine": machine, "p2p": usual, "p2g": usual, "g2p": usual, **changes}
    return problem(density, **changes)


@pytest.mark.parametrize("share", [0.05, 0.7, 0.95, 1.1])
def test_lists_that_find_no_room(uniform, share):
    """Kept lists are counted on where they will be, and may be worth a smaller cut-off."""
    given = device(uniform, targets=10_000_000, sources=10_000_000, tolerance=1e-9)
    all_kept, none = select(replace(given, kept=math.inf)), select(given)
    assert none.total > 1.05 * all_kept.total
    kept = share * all_kept.pairs.within
    found = select(replace(given, kept=kept))
    assert all_kept.total <= found.total <= none.total
    times = {
        name: given.machine.time(name, given.work.near("tile", found.pairs, found.degree))
        for name in ("kept_tile", "p2p_tile")
    }
    fits = found.pairs.within <= kept
    assert found.seconds["P2P"] == times["kept_tile" if fits else "p2p_tile"]
    # A third less pairs are worth less than lists; a twentieth of the pairs are too few.
    assert fits == (share > 0.5)
    if share > 1:
        assert found.total <= 1.03 * all_kept.total  # the scan has a step


def test_the_usual_variants_are_always_looked_at():
    """Of few points in clusters the grid is guessed far too large, and tiles stage all of it."""
    rng = np.random.default_rng(1)
    points = np.clip(0.5 + 0.02 * rng.standard_normal((3, 10_000)), 0, 1 - 1e-9)
    crowded = pair_density(points, points, np.ones(3))
    given = device(crowded, targets=10_000, sources=10_000, tolerance=1e-12, periodicity=1)
    given = replace(given, g2p=("tile", "target", "base"), p2g=("tile", "hybrid"))
    some = given.promising(0.02, 30, 17)
    assert "tile" in some.p2p and "tile" in some.p2g and "tile" in some.g2p
    guessed = (given.work.gather(variant, 17, (17 / 0.02) ** 3) for variant in ("tile", "target"))
    tile, target = map(given.machine.time, ("g2p_tile", "g2p_target"), guessed)
    assert tile > 2 * target  # by a guess that is far off
    assert select(given).g2p == "tile"
