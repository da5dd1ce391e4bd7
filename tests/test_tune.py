"""The numbers of the cost model: what `parki tune` fits, and the files they are kept in."""

import json
import math
import os
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from problems import problem

import parki
from parki.cli import main as cli
from parki.cli.tune import command
from parki.cli.tune import measure as tune
from parki.ewald.choice import cost, machines
from parki.ewald.choice.clustering import pair_density
from parki.ewald.choice.cost import USUAL
from parki.ewald.choice.parameters import select
from parki.ewald.far.padding import EQUAL, MOST, SMOOTH, Lengths, Tables
from parki.reference import direct_sum
from parki.runtime import get_execution_space
from parki.settings import cache_directory

SECONDS = machines.shipped("avx512.json")["seconds"]
USUAL_OF = machines.shipped("avx512.json")["usual"]


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
            cutoff=cutoff,
        )
        if task.window_points:
            given = replace(given, windows=(task.window_points,))
        found = select(given)
        grid = math.prod(given.pad(found.steps, found.points, found.cutoff, found.split).grid)
        if task.g2p == "target":
            uncached = given.work.gather("target", found.points, grid)[2]
            if uncached > 4 * cost.CACHED:
                beyond.add((task.points, task.clustered))
    assert len(beyond) >= 2


def test_fit_finds_the_numbers_of_its_samples():
    rng = np.random.default_rng(1)
    true = {"fgc": (1e-4, 3e-9), "p2g_owner": (1e-5, 2e-8, 4e-10)}
    samples = []
    for variant, numbers in true.items():
        for _ in range(12):
            counts = tuple(10 ** rng.uniform(3, 6, len(numbers) - 1))
            samples.append((variant, counts, float(np.dot((1.0, *counts), numbers))))
    start = {"fgc": (0.0, 1e-9), "p2g_owner": (0.0, 1e-8, 1e-9), "g2p_tile": (0.0, 0.0, 1e-9)}
    fitted = tune.fit(samples, start)
    machine = cost.Machine("test", {k: tuple(v) for k, v in fitted.items()}, USUAL[False])
    for variant, counts, seconds in samples:
        assert machine.time(variant, counts) == pytest.approx(seconds, rel=0.1)
    # Never measured: as much slower than built in as the others.
    assert fitted["g2p_tile"][2] > 1e-9


def test_fit_of_times_that_scatter_keeps_what_was_built_in():
    """Half of them from slow moments, which took tight sums most."""
    true = np.array([2e-4, 4e-7, 8e-10, 1.5e-11])
    counts = [(n, 400.0 * n, 400.0 * n * o) for n in (1e3, 4e4) for o in (60, 100, 140, 200)]
    times = [(c, float(np.dot((1.0, *c), true))) for c in counts]
    slow = [(c, t * (1 + 0.6 * (c[2] / c[1] > 120))) for c, t in times]
    samples = [("p2p_staged", c, t) for c, t in times + slow]
    fitted = np.array(tune.fit(samples, {"p2p_staged": tuple(2 * true)})["p2p_staged"])
    # Evenly more expensive, rather than by its operations.
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
    fitted = {k: tuple(v) for k, v in tune.fit(samples, start).items()}
    machine = cost.Machine("test", fitted, USUAL[False])
    for variant, each, seconds in samples:
        assert machine.time(variant, each) == pytest.approx(seconds, rel=0.1)


def test_fit_of_what_was_built_in_as_nothing():
    """A sum without planes, by numbers that count planes alone."""
    samples = [("fgc", (n, 0.0), 1e-4 + 2e-9 * n) for n in (1e4, 1e5, 1e6)]
    fitted = tune.fit(samples, {"fgc": (0.0, 0.0, 1e-9), "g2p_tile": (0.0, 0.0, 1e-9)})
    machine = cost.Machine("test", {k: tuple(v) for k, v in fitted.items()}, USUAL[False])
    for variant, counts, seconds in samples:
        assert machine.time(variant, counts) == pytest.approx(seconds, rel=0.3)
    assert fitted["g2p_tile"] == [0.0, 0.0, 1e-9]


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A machine of no other name, in the cache folder that has the kernels."""
    monkeypatch.setattr(machines, "identity", lambda _: f"{tmp_path.name} of {os.getpid()}")
    machines.clear()
    yield cache_directory()
    machines.path(get_execution_space("Serial")).unlink(missing_ok=True)
    machines.clear()


def test_tune(own_cache, monkeypatch, capsys):
    few = [tune.TimedPlan("laplace", 3, 1e-2, 500)]
    monkeypatch.setattr(tune, "tasks", lambda *_: few)
    monkeypatch.setattr(command, "FREE", 0.0)  # tests may share the machine
    monkeypatch.setattr(command, "AGREE", math.inf)
    space = get_execution_space("Serial")
    before = machines.machine(space, "float64")
    assert cli.main(["tune", "--space", "Serial"]) == 0
    assert str(own_cache) in capsys.readouterr().out.replace("\n", "")
    after = machines.machine(space, "float64")
    assert "measured" in after.name
    assert "measured" not in before.name
    points = np.random.default_rng(0).random((3, 500))
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-2, execution_space="Serial")
    assert after.name in parki.Plan("laplace", points, points, options).describe()
    # A second run with a task keeps the first one's samples.
    samples = json.loads(machines.path(space).read_text())["samples"]
    words = "--measure --kernel laplace --points 300 --tolerance 1e-2".split()
    assert cli.main(["tune", "--space", "Serial", *words]) == 0
    assert "ratio" in capsys.readouterr().out
    again = json.loads(machines.path(space).read_text())["samples"]
    assert again["float64"][: len(samples["float64"])] == samples["float64"]
    assert len(again["float64"]) > len(samples["float64"]) + 12


def timed(task, seconds):
    """Return a timing of a task, of one stage."""
    return tune.Timing(task, None, {"P2P": seconds}, [])


@pytest.fixture
def free(monkeypatch):
    """A machine that no one else uses."""
    monkeypatch.setattr(command, "free_part", lambda _: 1.0)


@pytest.mark.usefixtures("free")
def test_rounds_go_on_until_times_agree():
    """The two shortest ones of each task are kept, and slow moments are not."""
    space, said = get_execution_space("Serial"), []
    first, second = (tune.TimedPlan("laplace", p, 1e-2, 500) for p in (2, 3))
    times = {first: iter([1.0, 4.0, 3.0, 1.1]), second: iter([2.0, 2.1, 5.0, 2.0])}
    found = command.in_rounds(
        [first, second], space, lambda t: timed(t, next(times[t])), lambda t: t, said.append
    )
    assert [each.total for each in found] == [1.0, 1.1, 2.0, 2.0]
    assert len(said) == 2 and "differ by a factor of" in said[0]


@pytest.mark.usefixtures("free")
def test_a_machine_whose_times_differ_is_refused():
    space, task = get_execution_space("Serial"), tune.TimedPlan("laplace", 3, 1e-2, 500)
    times = iter([1.0, 2.0, 4.0, 8.0, 16.0])
    with pytest.raises(parki.UnavailableError, match=r"busy: after 5 rounds.*nothing was written"):
        command.in_rounds(
            [task], space, lambda t: timed(t, next(times)), lambda t: t, lambda _: None
        )


def test_a_machine_that_others_use_is_refused(monkeypatch):
    monkeypatch.setattr(command, "free_part", lambda _: 0.4)
    monkeypatch.setattr(command, "PAUSE", 0.0)
    said = []
    with pytest.raises(parki.UnavailableError, match="other programs take 60 % of the cores"):
        command.require_free(get_execution_space("Serial"), said.append)
    assert len(said) == command.TRIES


def test_threads_that_only_compute_say_how_free_a_machine_is():
    assert 0 < command.free_part(1) <= 1.01


WHOLE = {"machine": "x", "counts": machines.VERSION, "seconds": SECONDS, "usual": USUAL_OF}
WHOLE |= {"samples": {"float64": [1]}}


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]"),
        {"machine": "x", "seconds": {"float64": {"fgc": [1]}}},
        {"counts": machines.VERSION, "seconds": {"float64": {"fgc": [1]}}},
        {"counts": machines.VERSION, "seconds": {}},
        {"machine": "x", "counts": 1, "seconds": SECONDS},
        {**WHOLE, "lengths": {}},
        {**WHOLE, "lengths": {"float64": []}},
        {**WHOLE, "lengths": {"float64": {"planes": [[7, 1]]}, "float32": {}}},
    ],
)
def test_a_spoilt_file_is_reported_and_not_used(own_cache, content, caplog):
    space = get_execution_space("Serial")
    text = content if isinstance(content, str) else json.dumps(content)
    machines.path(space).write_text(text)
    assert "AVX-512" in machines.machine(space, "float64").name
    assert "parki tune" in caplog.text


def test_the_usual_variants_of_a_machine():
    """Another one is usual where it took less in every task that compares them."""
    space = get_execution_space("CPU")
    todo = [task for task in tune.tasks(space, 1) if task.dtype == "float64"]

    def timing(task, slow):
        seconds = {"P2P": 1.0, "P2G": 1.0, "FGC": 1.0, "G2P": 1.0}
        seconds["G2P"] = 2.0 if task.g2p == slow or (task.tolerance < 1e-6 and not slow) else 1.5
        return SimpleNamespace(task=task, seconds=seconds)

    for slow, expected in (("tile", "target"), ("target", "tile"), ("", "target")):
        found = tune.usual_of(space, [timing(task, slow) for task in todo])
        assert found == {"p2p": "staged", "p2g": "owner", "g2p": expected}


# ---------------------------------------------------------------------- lengths of transforms
TABLE = ((32, 1.0), (36, 2.0), (40, 0.4), (48, 1.5), (54, 0.9), (60, 2.2), (64, 0.5), (96, 1.0))


@pytest.mark.parametrize("axes", [2, 3])
def test_without_a_table_the_next_smooth_number_is_taken(axes):
    for length in (1, 17.2, 22, 97, 300.0000000001, 19000):
        assert EQUAL.at_least(length, axes) == next(n for n in SMOOTH if n >= length - 1e-9)
    assert EQUAL.at_least(30001, axes) == 30002
    assert EQUAL.cost(30, 36, 42) == 1


@pytest.mark.parametrize("axes", [2, 3])
def test_the_cheapest_length_in_reach_is_taken(axes):
    lengths = Lengths(TABLE)
    costs = dict(TABLE)
    for least in range(33, 97):
        after = [n for n in costs if n >= least]
        reach = [n for n in after if n**axes <= MOST * after[0] ** axes]
        best = min(reach, key=lambda n: n**axes * costs[n])
        assert lengths.at_least(least, axes) == best
    assert lengths.at_least(37, axes) == 40
    assert lengths.at_least(58, axes) == 64
    # Beyond the table: smooth numbers of one cost.
    assert lengths.at_least(97, axes) == 98
    assert lengths.at_least(11, axes) == 12
    assert lengths.cost(98, 64) == pytest.approx((np.mean(list(costs.values())) + 0.5) / 2)
    assert lengths.cost(12) == 1


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(("kind", "axes", "most"), [("PLANES", 2, 1.2), ("BOXES", 3, 1.15)])
def test_built_in_tables_leave_no_wide_gap(kind, axes, most, precision):
    table = machines.shipped("h200.json")["lengths"][precision]._asdict()[kind.lower()].costs
    lengths = Lengths(table.items())
    chosen = {n: lengths.at_least(n, axes) for n in range(min(table), max(table) + 1)}
    assert max(length / n for n, length in chosen.items()) < most
    # 1 is what a value costs on average.
    work = [(length / n) ** axes * lengths.cost(length) for n, length in chosen.items()]
    assert 0.7 < np.mean(work) < 1.4


def test_lengths_of_slow_lines_are_avoided():
    lengths = machines.shipped("h200.json")["lengths"]["float64"].lines
    for n in range(128, 600):
        assert lengths.cost(lengths.at_least(n, 1)) < 3
        assert lengths.at_least(n, 1) < 1.36 * n


@pytest.mark.parametrize("periodicity", [0, 1, 2, 3])
def test_a_plan_follows_the_table(periodicity, own_cache):
    space = get_execution_space("Serial")
    tables = dict.fromkeys(("planes", "lines", "boxes"), TABLE)
    content = WHOLE | {"samples": {}, "lengths": {"float64": tables, "float32": {}}}
    machines.path(space).write_text(json.dumps(content))
    rng = np.random.default_rng(3)
    points = rng.random((3, 400))
    dens = rng.standard_normal(400)
    options = parki.EwaldOptions(periodicity, [1, 1, 1], 1e-4, cutoff=0.2, execution_space="Serial")
    plan = parki.Plan("laplace", points, points, None, options)
    machines.clear()
    chosen = plan.parameters
    padding = plan.setup.mesh.padding
    assert (
        plan.setup.problem.pad(chosen.steps, chosen.points, chosen.cutoff, chosen.split) == padding
    )
    for axis in range(3):
        for lengths in (padding.plain, padding.local):
            n = lengths[axis]
            assert n in dict(TABLE) or not 32 <= n <= 96
            assert n != 60
    exact = direct_sum("laplace", points, points, dens, box=[1, 1, 1], periodicity=periodicity)
    error = np.sqrt(np.mean((plan(dens) - exact) ** 2))
    assert error <= 1e-4 * np.linalg.norm(dens)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_measured_costs_are_relative(precision):
    space = get_execution_space("Serial")
    planes, lines, boxes = command.measure(space, precision, (16, 18, 20), 4096)
    assert sorted(planes.costs) == sorted(lines.costs) == sorted(boxes.costs) == [16, 18, 20]
    assert sorted(planes.costs.values())[1] == 1
    assert planes.at_least(17, 3) in (18, 20)
    assert min(*lines.costs.values(), *boxes.costs.values()) > 0


def test_measured_costs_are_kept(own_cache):
    space = get_execution_space("Serial")
    table = Lengths(TABLE)
    given = {"float64": Tables(table, EQUAL, EQUAL), "float32": Tables(EQUAL, table, table)}
    usual = {"p2p": "staged", "p2g": "owner", "g2p": "tile"}
    tune.save(space, {name: [] for name in given}, given, usual)
    for name, lengths in given.items():
        found = machines.machine(space, name)
        assert found.usual == ("staged", "owner", "tile")
        for kind in range(3):
            assert found.lengths[kind].costs == lengths[kind].costs
    machines.clear()
