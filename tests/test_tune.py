"""The numbers of the cost model: what `parki tune` fits, and the files they are kept in."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from problems import problem

import parki
from parki.arrays import USUAL
from parki.cli import main as cli
from parki.cli.tune import measure as tune
from parki.ewald.choice import cost, machines
from parki.ewald.choice.clustering import pair_density
from parki.ewald.choice.parameters import select
from parki.runtime import get_execution_space

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
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path))
    machines.clear()
    yield tmp_path
    machines.clear()


def test_tune(own_cache, monkeypatch, capsys):
    few = [
        tune.TimedPlan("laplace", 3, 1e-2, 500),
        tune.TimedPlan("laplace", 3, 1e-2, 500, dtype="float32"),
    ]
    monkeypatch.setattr(tune, "tasks", lambda *_: few)
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
