"""Lengths of transforms: the choice by cost, and plans that follow a machine's table."""

import json

import numpy as np
import pytest

import parki
from parki.cli.tune import lengths as tune_lengths
from parki.cli.tune import measure as tune
from parki.ewald.choice import machines
from parki.ewald.far.lengths import EQUAL, MOST, SMOOTH, Lengths, Tables
from parki.reference import direct_sum
from parki.runtime import get_execution_space

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
def test_a_plan_follows_the_table(periodicity, tmp_path, monkeypatch):
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path))
    machines.clear()
    space = get_execution_space("Serial")
    content = {
        "machine": "a table",
        "counts": machines.VERSION,
        "seconds": machines.shipped("avx512.json")["seconds"],
        "usual": machines.shipped("avx512.json")["usual"],
        "samples": {},
        "lengths": {"float64": dict.fromkeys(("planes", "lines", "boxes"), TABLE), "float32": {}},
    }
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
    planes, lines, boxes = tune_lengths.measure(space, precision, (16, 18, 20), 4096)
    assert sorted(planes.costs) == sorted(lines.costs) == sorted(boxes.costs) == [16, 18, 20]
    assert sorted(planes.costs.values())[1] == 1
    assert planes.at_least(17, 3) in (18, 20)
    assert min(*lines.costs.values(), *boxes.costs.values()) > 0


def test_measured_costs_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path))
    machines.clear()
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
