"""The cost model: what it counts of a sum, stage by stage."""

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from problems import numbers, problem
from scipy.spatial import cKDTree

import parki
from parki.ewald.choice import cost, machines, times
from parki.ewald.choice.clustering import pair_density
from parki.ewald.choice.cost import USUAL
from parki.ewald.far.padding import SMOOTH, Lengths, TransformLengths, pad
from parki.ewald.far.sizes import owner_tiles


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
    per_pair = []
    for points in (even, np.clip(tight, 0, 1 - 1e-9)):
        cloud = problem(pair_density(points, points, np.ones(3)), sources=n, targets=n)
        targets, computed, operations = times.near_counts(cloud, "staged", cutoff, 10)
        assert (targets, computed) == (n, cloud.pairs(times.AROUND * cutoff))
        per_pair.append(operations / cloud.pairs(cutoff))
    assert per_pair[1] < 0.6 * per_pair[0]


def test_one_target_takes_its_time(uniform):
    """However few there are: operations of one are a count of tiles, beside those of all."""
    few, many = (
        times.near_counts(problem(uniform, targets=n, sources=10**8 // n), "tile", 0.05, 10)
        for n in (1000, 100_000)
    )
    assert few[2] == many[2]
    assert few[3] == pytest.approx(few[2] / 1000)
    assert many[3] == pytest.approx(few[3] / 100)


@pytest.mark.parametrize(
    ("tiles", "points", "rounds", "relative", "idle"),
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
def test_few_tiles_are_shared_out(uniform, tiles, points, rounds, relative, idle):
    """Tiles of two colours along each axis, on four threads: those of one at a time."""
    machine = numbers("avx512.json", threads=4)
    alone = problem(uniform, targets=100, sources=100)
    one = times.spread_counts(alone, "owner", points, 1e5, tiles)
    four = replace(alone, machine=machine)
    counts = times.spread_counts(four, "owner", points, 1e5, tiles)
    colours, sources, updates, waits, values = counts
    assert (colours, sources, values) == (rounds, 100, 4e5) == (one[0], one[1], one[4])
    assert one[3] == 0.0
    assert waits / one[2] == pytest.approx(idle, abs=1e-12)
    assert (updates + waits) / one[2] == pytest.approx(relative)


@pytest.mark.parametrize(
    ("periodicity", "tiles"), [(0, (3, 5)), (1, (2, 5)), (2, (2, 4)), (3, (2, 4))]
)
def test_tiles_of_more_steps_than_a_window(periodicity, tiles):
    """And an even number of them along periodic axes, one where there is no room for two."""
    wraps = [axis < periodicity for axis in range(3)]
    assert owner_tiles((36, 71, 8), 11, wraps) == tiles
    assert owner_tiles((23, 11.9, 8), 11, wraps) == (1, 1)


@pytest.mark.parametrize("periodicity", range(4))
def test_rounds_that_are_predicted_are_those_that_run(periodicity, monkeypatch):
    points = np.random.default_rng(0).random((3, 4000)) * [[0.6], [1.0], [0.8]]
    options = parki.EwaldOptions(
        periodicity,
        [0.6, 1.0, 0.8],
        1e-6,
        cutoff=0.09,
        expert=parki.Expert(window_points=11, p2g_method="owner"),
        execution_space="CPU",
    )
    for threads in (1, 2, 3):
        monkeypatch.setenv("PARKI_NUM_THREADS", str(threads))
        plan = parki.Plan("stokes_sl", points, points, options)
        items = [(n, *numbers[2::2]) for n, numbers in plan.pipeline.stages.p2g.colours]
        assert len(items) == 4
        assert all(n == tiles * shares for n, tiles, shares in items)
        every = sum(tiles for _, tiles, _ in items)
        more = [1 + 0.12 * (shares - 1) for _, _, shares in items]
        does = sum(t * m for (_, t, _), m in zip(items, more, strict=True)) / every
        takes = sum(-(-n // threads) / s * m for (n, _, s), m in zip(items, more, strict=True))
        mesh = plan.setup.mesh
        tiles = owner_tiles(mesh.cells, 11, mesh.wraps)
        rounds = times.rounds(tiles, 11, threads)
        assert rounds == (4, pytest.approx(does), pytest.approx(takes * threads / every - does))


def test_free_directions_wake_threads(uniform):
    """G2P's, after a far field of more steps by others; devices and one thread have no such."""
    for periodicity, woken in ((0, 6), (1, 6), (2, 6), (3, 0)):
        machine = numbers("avx512.json", threads=6)
        few = problem(uniform, periodicity, targets=10, sources=10, machine=machine)
        assert times.transform_counts(few, 0.0, 1.0, 2.0) == (0, 7, 14, woken)
        for variant in ("target", "tile"):
            assert times.gather_counts(few, variant, 8, 1e3)[-1] == woken
    for name in ("fgc", "g2p_target"):
        many, one = (numbers("avx512.json", workers=n) for n in (6, 1))
        counts = len(cost.COUNTS[name]) - 1
        assert many.time(name, (*[0.0] * counts, 6)) == one.time(name, (*[0.0] * counts, 1))


def test_windows_are_computed_in_vectors(uniform):
    four, one = (
        problem(uniform, kernel="laplace", targets=10, machine=numbers("avx512.json", lanes=n))
        for n in (4, 1)
    )
    assert times.gather_counts(four, "target", 9, 1e3) == (10, 10 * 9 * 9 * 12, 0, 0)
    assert times.gather_counts(one, "target", 9, 1e3) == (10, 10 * 9**3, 0, 0)
    # Of a host's grid what no cache holds.
    assert times.gather_counts(one, "target", 9, 1e7)[2] == 1e7 - times.CACHED
    # At P = 17 a warp takes 5 bands of 6 x 3 heights: 4 turns of 32 x 3 values, not 17 x 17.
    assert times.gather_counts(one, "tile", 17, 1e3)[1] == pytest.approx(10 * 17 * 384)


def test_sources_near_the_targets_of_a_multiprocessor(uniform):
    """By brute force: around a block of 512 targets, where both clouds are as dense as told."""
    cutoff, n = 0.05, 40_000

    def read(targets, sources):
        around = np.outer((targets, sources), np.ones(uniform.enhancement.size))
        density = replace(uniform, around=around)
        return problem(density, targets=n, sources=n).read(cutoff)

    points = np.random.default_rng(2).random((3, n))
    for targets in (1, 8):
        block = np.sort(abs(points - 0.5).max(axis=0))[512 // targets]  # half its edge
        found = (abs(points - 0.5).max(axis=0) < block + cutoff).sum()
        assert read(targets, 1) == pytest.approx(found, rel=0.1)
        assert read(targets, 5) == pytest.approx(5 * found, rel=0.1)


@pytest.mark.parametrize("points", [1000, 100_000])
@pytest.mark.parametrize("p2g", ["owner", "tile"])
def test_times_of_the_mesh_are_those_of_the_counts(uniform, points, p2g):
    machine = numbers("avx512.json", threads=4)
    given = problem(uniform, p2g=p2g, sources=points, targets=points, machine=machine)
    tiles = {48: (4, 4), 30: (2, 2), 200: (18, 18)}
    assert times.rounds(tiles[48], 10, machine.threads)[1:] == (1.0, 0.0)
    assert times.rounds(tiles[30], 10, machine.threads)[1] > 1.0
    for n, g2p in itertools.product(tiles, ("tile", "target")):
        given = replace(given, g2p=g2p)
        whole = SimpleNamespace(cells=(n, n, n), grid=(n, n, n))
        seconds = times.far_times(given, 10, whole, (0.0, 3e5, 1e6))
        spread = times.spread_counts(given, p2g, 10, n**3, tiles[n])
        assert seconds["P2G"] == pytest.approx(machine.time(f"p2g_{p2g}", spread), rel=1e-6)
        gather = times.gather_counts(given, g2p, 10, n**3)
        assert seconds["G2P"] == pytest.approx(machine.time(f"g2p_{g2p}", gather), rel=1e-6)
    assert seconds["FGC"] == machine.time("fgc", times.transform_counts(given, 0.0, 3e5, 1e6))


def test_passes_of_transforms():
    box, steps = np.ones(3), np.full(3, 1 / 32)
    assert pad(3, box, steps, 8, 0.2, math.inf, 1e-4).values() == (3 * 32**3, 0, 0)
    padding = pad(1, box, steps, 8, 0.2, math.inf, 1e-4)
    twice = TransformLengths(Lengths((n, 2.0) for n in SMOOTH if n < 2000))
    along = padding.local[0] * padding.grid[1] * padding.grid[2]
    assert padding.values()[:2] == (0, along)
    assert padding.values(twice) == pytest.approx((0, along, 2 * padding.values()[2]))
    spans = padding.spans()
    assert len(spans) > 1 and spans[0][0] == 0 and spans[-1][1] == padding.local[0] // 2 + 1
    assert all(before[1] == after[0] for before, after in itertools.pairwise(spans))
    sizes = [4 * (last - first) * math.prod(level.lengths[1:]) for first, last, level in spans]
    assert padding.values()[2] == sum(sizes)


@pytest.mark.parametrize("periodicity", [0, 1, 2])
@pytest.mark.parametrize("box", [(1, 1, 1), (1, 10, 2), (20, 1, 1), (1, 1, 30), (3, 2, 1)])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-6, 1e-12])
def test_levels_of_padding(periodicity, box, tolerance):
    """Periodic axes stay as they are; along free ones, images are as far away as modes need."""
    box, points, cells = np.array(box, dtype=float), 10, 99  # 99: no length that libraries like
    steps = box / np.round(cells * box / box.min())
    padding = pad(periodicity, box, steps, points, 0.1 * box.min(), math.inf, tolerance)
    spans = padding.spans()
    assert [level.ends for *_, level in spans] == [n == 0 for n in range(len(spans))]
    for (_, _, before), (first, _, level) in itertools.pairwise(spans):
        assert math.prod(level.lengths[1:]) < math.prod(before.lengths[1:])
        wave = 2 * np.pi / box[0] * first
        for axis in range(periodicity, 3):
            x = wave * (level.lengths[axis] * steps[axis] - box[axis])
            assert (1 + x) * np.exp(-x) < 1e-3 * tolerance
    for _, _, level in spans:
        assert level.lengths[:periodicity] == padding.grid[:periodicity]
        assert all(n >= m for n, m in zip(level.lengths, padding.grid, strict=True))


@pytest.mark.parametrize("file", machines.FILES.values())
def test_counts_fit_the_numbers(file):
    """Each file has all of parki's own variants, and names the usual ones."""
    content = machines.shipped(file)
    for precision, seconds in content["seconds"].items():
        assert {k: len(v) for k, v in seconds.items()} == {
            k: len(v) + 1 for k, v in cost.COUNTS.items()
        }
        on_device = file == machines.FILES[True]
        usual = machines.of_file(content, precision).usual
        assert content["device"] == on_device and usual == USUAL[on_device]
        for stage, method in zip(("p2p", "p2g", "g2p"), usual, strict=True):
            assert f"{stage}_{method}" in seconds
    assert {cost.stage_of(variant) for variant in cost.COUNTS} == {*cost.STAGES}
