"""Lists of P2P by tiles: kept from the second density on, taken by all later ones."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from helpers.recording import let_the_host_record

import parki
from parki.cli import timing
from parki.ewald.choice import machines
from parki.ewald.choice.cost import COUNTS
from parki.ewald.near import p2p_lists, sizes
from parki.ewald.near.p2p_lists import COUNTS as COUNTED
from parki.ewald.near.p2p_lists import FORGETS, KEEPS, TAKES, TEAM
from parki.ewald.near.sizes import near_tile
from parki.ewald.pipeline.one_device import SERIAL
from parki.ewald.pipeline.one_shot import place_and_sum
from parki.ewald.points import take_cloud
from parki.ewald.sums import SUMS
from parki.runtime.spaces import host

# Around the points that need more than one batch of looks.
CROWD = 1500


def cloud(n, seed=0):
    """Return points, of which the first CROWD are close together, and charges."""
    rng = np.random.default_rng(seed)
    points = rng.random((3, n))
    points[:, :CROWD] = 0.4 + 0.1 * points[:, :CROWD]
    return points, rng.standard_normal(n)


def plan_of(points, kernel="laplace", norms=None, space="CPU", trg=None, **more):
    options = parki.EwaldOptions(
        box=[1, 1, 1],
        tolerance=1e-4,
        expert=parki.Expert(p2p_method="tile"),
        execution_space=space,
        **{"periodicity": 3, **more},
    )
    return parki.Plan(kernel, points if trg is None else trg, points, norms, options)


def close(a, b, dtype="f8"):
    return float(abs(a - b).max()) <= 300 * np.finfo(dtype).eps * float(abs(b).max())


LONG = (
    *(("stokes_comb", 0, "f4"), ("stokes_dl", 2, "f4"), ("stokes_rotlet", 1, "f8")),
    *(("laplace_dipole", 2, "f4"), ("stokes_sl", 1, "f8"), ("stokes_dipole", 2, "f4")),
)


@pytest.mark.parametrize(
    ("kernel", "periodicity", "dtype"),
    [
        *(("stokes_comb", 1, "f8"), ("laplace", 3, "f4")),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in LONG),
    ],
)
def test_sums_that_take_lists(kernel, periodicity, dtype, space, to_space, monkeypatch):
    """Equal the first one, which does not, to rounding, whatever the density."""
    if kernel == "stokes_comb":  # by tiles of which upstream's tests have kernels
        monkeypatch.setattr(sizes, "FEW_READ", np.inf)
    points = to_space(cloud(2500)[0].astype(dtype))
    rng, normals = np.random.default_rng(1), SUMS[kernel].normals
    norms = to_space(rng.standard_normal((3, 2500)).astype(dtype)) if normals else None
    dens = to_space(rng.standard_normal(SUMS[kernel].density_shape(2500)).astype(dtype))
    how = {"periodicity": periodicity, "trg": points[:, ::7].copy()}
    plan = plan_of(points, kernel, norms, space, **how)
    lists, uses = plan.pipeline.lists, []
    first = plan(dens)  # which test_p2p_cells.py compares with the host's own variant
    assert lists.size is None and "lists" not in plan.describe()
    for factor in (-2.0, 3.0, 0.5):
        uses.append(lists.use)
        assert close(plan(factor * dens), factor * first, dtype)
    assert uses == [FORGETS, TAKES, TAKES]
    assert lists.kept
    assert lists.size == lists.lists.nbytes > 0
    assert f"lists of pairs: {lists.size / 1e6:.3g} MB, kept" in plan.describe()


def largest(plan):
    """Return the number of targets in the largest tile of a plan."""
    tiles = plan.pipeline.stages.p2p.tiles
    return (tiles[2] - tiles[1]).max()


@pytest.mark.each
@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("crowded", [True, False])
def test_tiles_of_all_clouds(few, crowded, space, to_space, monkeypatch):
    """Small tiles for few targets and for crowded ones; sums that take lists equal the first."""
    points, dens = cloud(2500)
    if not crowded:
        points = np.random.default_rng(5).random(points.shape)
    dtype = "f4" if few else "f8"
    points, dens = (to_space(a.astype(dtype)) for a in (points, dens))
    monkeypatch.setattr(sizes, "FEW", 2500 if few else 0)
    monkeypatch.setattr(sizes, "FEW_READ", 4500)
    monkeypatch.setattr(sizes, "MANY_READ", 4500 * 8)
    plan = plan_of(points, space=space)
    assert (plan.parameters.read > 4500) == crowded
    tile = {(False, False): 8, (True, True): 2}.get((few, crowded), 4)
    assert largest(plan) == tile
    first = plan(dens)
    for _ in range(2):
        assert close(plan(dens), first, dtype)
    assert plan.pipeline.lists.kept


def test_few_targets_with_long_lists_have_small_tiles(monkeypatch):
    points = np.random.default_rng(5).random((3, 3000))
    for cutoff, tile in ((0.3, 4), (0.45, 2)):  # of 3000 points 340 and 1145
        plan = plan_of(points, cutoff=cutoff)
        assert largest(plan) == tile
    monkeypatch.setattr(sizes, "FEW", 2999)  # of many they may be long
    assert largest(plan_of(points, cutoff=0.45)) == 8


def test_tiles_follow_the_sources_near_targets(space):
    """Those of even targets around clusters are small; of as many bytes, or of few targets."""
    tile = partial(near_tile, space, "tile")
    double, single = np.dtype(np.float64), np.dtype(np.float32)
    many, few = sizes.FEW + 1, sizes.FEW
    assert tile(many, 9_999.0, double).targets == 8 > tile(many, 10_001.0, double).targets
    assert tile(many, 19_999.0, single).targets == 8 > tile(many, 20_001.0, single).targets
    for dtype in (double, single):
        assert tile(few, 6_999.0, dtype).targets == 4 > tile(few, 7_001.0, dtype).targets


def test_long_lists_begin_first(monkeypatch):
    """The tiles are all there, by whole teams, and those of lists twice as long come before."""
    monkeypatch.setattr(sizes, "FEW_READ", 4500)
    points, dens = (a.astype("f4") for a in cloud(2401))
    plan = plan_of(points)
    for _ in range(2):
        plan(dens)
    lists = plan.pipeline.lists
    before, after = plan.pipeline.stages.p2p.tiles, lists.ordered
    assert sorted(map(tuple, before.T)) == sorted(map(tuple, after.T))
    full = lists.tiles // TEAM
    assert lists.tiles > full * TEAM  # there is a rest,
    np.testing.assert_array_equal(before[:, full * TEAM :], after[:, full * TEAM :])
    teams = after[1, : full * TEAM].reshape(full, -1)
    starts = before[1, : full * TEAM].reshape(full, -1)
    assert sorted(map(tuple, teams)) == sorted(map(tuple, starts))
    rows = np.diff(lists.rows)[: full * TEAM]
    lengths = rows.reshape(full, -1).sum(axis=1) + 1.0
    assert np.all(np.diff(np.floor(np.log2(lengths.max() / lengths))) >= 0)
    assert lengths.max() > 4 * lengths.min()


@pytest.mark.parametrize("in_one_piece", [True, False])
def test_no_room(in_one_piece, monkeypatch):
    """Lists take a third of the free memory at most, of which there may be no piece so large."""
    points, dens = cloud(2000)
    plan = plan_of(points)
    for _ in range(2 if in_one_piece else 1):
        first = plan(dens)
    lists = plan.pipeline.lists
    if in_one_piece:
        free, plan = 2 * lists.size, plan_of(points)
        first, lists = plan(dens), plan.pipeline.lists
        monkeypatch.setattr(p2p_lists, "free_memory", lambda space: free)
    empty = np.empty

    def full(shape, *args, **kwargs):
        if not in_one_piece and isinstance(shape, tuple) and shape[1:] == (lists.lanes,):
            raise MemoryError
        return empty(shape, *args, **kwargs)

    monkeypatch.setattr(np, "empty", full)
    for _ in range(3):
        np.testing.assert_array_equal(plan(dens), first)
    assert lists.size and not lists.kept
    assert lists.lists is lists.rows is None
    assert "MB, not kept" in plan.describe()


def test_deterministic_plans_keep_none():
    points, dens = cloud(2000)
    plan = plan_of(points, deterministic=True)
    first = plan(dens)
    for _ in range(3):
        np.testing.assert_array_equal(plan(dens), first)
    assert plan.pipeline.lists.size is None


def test_other_points_have_other_lists():
    points, dens = cloud(2000)
    plan = plan_of(points)
    for _ in range(3):
        plan(dens)
    old = plan.pipeline.lists
    moved = points[:, 1::2] + 0.01
    plan.update_points(moved, moved)
    assert plan.pipeline.lists is not old
    rows = dens[1::2]
    sums = [plan(rows) for _ in range(4)]
    assert plan.pipeline.lists.kept
    assert all(close(u, sums[0]) for u in sums)
    once = parki.laplace(moved, moved, rows, plan.options)
    assert np.sqrt(((sums[3] - once) ** 2).mean()) <= 2 * plan.promise(rows)


def test_rows_as_for_the_points_before(monkeypatch):
    """Lists of points that moved are not counted first; where they are longer they are."""
    points = np.random.default_rng(5).random((3, 2000))
    plan, rows = plan_of(points), cloud(2000)[1]
    first, lists, used = plan(rows), plan.pipeline.lists, []
    launch = lists._launch
    monkeypatch.setattr(lists, "_launch", lambda use, *how: used.append(use) or launch(use, *how))
    assert close(plan(rows), first)
    for stride, expected in ((None, [KEEPS, TAKES]), (2, [KEEPS, COUNTED, KEEPS, TAKES])):
        lists.drop()
        lists.begun, lists._stride, used[:] = True, stride or lists._stride, []
        for _ in range(2):
            assert close(plan(rows), first)
        assert used == expected
        assert lists.kept
        assert lists.size == lists.lists.nbytes


def test_a_failure_while_lists_are_made_leaves_none(monkeypatch):
    points, dens = cloud(2000)
    plan = plan_of(points)
    first = plan(dens)
    lists = plan.pipeline.lists
    right = lists.kernel

    def broken(use, many):
        if use == KEEPS:
            raise RuntimeError("out of order")
        return right(use, many)

    monkeypatch.setattr(lists, "kernel", broken)
    with pytest.raises(RuntimeError, match="out of order"):
        plan(dens)
    monkeypatch.setattr(lists, "kernel", right)
    assert not lists.kept
    for _ in range(3):
        assert close(plan(dens), first)
    assert lists.kept


def test_recorded_sums_of_several_densities_begin_no_lists(monkeypatch):
    """They would wait for the device, which ended the recording of all later sums."""
    let_the_host_record(monkeypatch)
    recorded = []

    def record(work):
        def launch():  # as within a recording, on arrays that have values
            with pytest.MonkeyPatch.context() as within:
                within.setattr(host, "capturing", lambda: True)
                within.setattr(p2p_lists, "to_host", None)
                work()

        recorded.append(work)
        return launch

    monkeypatch.setattr(host, "record", record)
    points, _ = cloud(2000)
    dens = np.random.default_rng(1).standard_normal((5, 2000))
    plan = plan_of(points)
    for step in range(6):
        plan.update_points(points + 1e-6 * step, points + 1e-6 * step)
        found = plan(dens)
    assert len(recorded) == 2  # of placing, and of the sums
    assert close(found[4], plan_of(points + 5e-6)(dens[4]))


def test_targets_out_of_reach():
    """Whose lists are empty."""
    rng = np.random.default_rng(3)
    src, dens, trg = 0.1 * rng.random((3, 300)), rng.random(300), 0.55 + 0.05 * rng.random((3, 40))
    plan = plan_of(src, trg=trg, cutoff=0.2)
    sums = [plan(dens) for _ in range(4)]
    assert plan.pipeline.lists.kept
    assert all(close(u, sums[0]) for u in sums)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_repeated_sums_have_numbers_of_their_own(precision):
    assert COUNTS["kept_tile"] == COUNTS["p2p_tile"]
    seconds = machines.shipped("h200.json")["seconds"][precision]
    for pairs, degree in ((3e5, 8), (2e9, 22)):
        operations = 50 + 6 * degree
        counts = (1.0, pairs / 250, pairs, pairs * operations, 250 * operations)
        kept, without = (np.dot(seconds[v], counts) for v in ("kept_tile", "p2p_tile"))
        assert 0.4 < kept / without < 0.95


def test_plans_are_chosen_for_repeated_sums():
    points, dens = cloud(2000)
    plan = plan_of(points, cutoff=0.3)
    assert plan.parameters.problem.kept > plan.parameters.pairs
    arrived = take_cloud("laplace", points, points, None, plan.options)
    once, _ = place_and_sum(SERIAL.engine(), "laplace", arrived, dens)
    setup = once.pipeline.setup
    assert setup.parameters.problem.kept == 0
    assert setup.parameters.seconds["P2P"] > plan.parameters.seconds["P2P"]


def test_pairs_of_which_lists_are_kept(monkeypatch):
    """As many as there will be room for, on a device; any, where none has so many."""

    class Device:
        on_device = True

    found = []
    for free in (40e9, 40.5e9, 60e9, 0.0):
        monkeypatch.setattr(p2p_lists, "free_memory", lambda _, free=free: free)
        found.append(p2p_lists.most_pairs(Device, 10_000_000))
        assert found[-1] <= max(1, free / 20) < 1.19 * found[-1]
    assert found[0] == found[1] < found[2]
    monkeypatch.setattr(p2p_lists, "free_memory", lambda _: 40e9)
    assert p2p_lists.most_pairs(Device, 1000) == 1e7
    assert p2p_lists.most_pairs(Device, 2, ranks=3) == 2e4  # as of one rank
    assert p2p_lists.most_pairs(Device, 10_000_000, ranks=3) == 3 * found[0]
    assert p2p_lists.most_pairs(parki.get_execution_space("Serial"), 1000) == np.inf


@pytest.mark.parametrize(("repeated", "runs"), [(True, 3), (False, 2)])
def test_what_tune_times(repeated, runs, monkeypatch):
    """Sums that take lists, or those that have none; long ones once, after the first."""
    made, timed = [], parki.Plan.timed
    monkeypatch.setattr(parki.Plan, "timed", lambda *given: made.append(0) or timed(*given))
    task = timing.TimedPlan("laplace", 3, 1e-3, 300, p2p="tile", repeated=repeated)
    for long in (False, True):
        if long:
            made.clear()
            monkeypatch.setattr(timing, "LONG", {False: 0.0})
        found = timing.run(task, parki.get_execution_space("Serial"))
        assert found.samples[0].variant == ("kept_tile" if repeated else "p2p_tile")
        assert found.total > 0
    assert len(made) == runs
