"""The factors of stages that `parki tune` fits, their files, and built-in lengths."""

import io
import json
import math
import os
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

import parki
from parki.cli import main as cli
from parki.cli import timing, tune
from parki.ewald.choice import cost, machines
from parki.ewald.far.padding import EQUAL, MOST, SMOOTH, Lengths, TransformLengths
from parki.reference import direct_sum
from parki.runtime import get_execution_space
from parki.settings import cache_directory

SECONDS = machines.shipped("avx512.json")["seconds"]


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A machine of no other name, in the cache folder that has the kernels."""
    monkeypatch.setattr(machines, "identity", lambda _: f"{tmp_path.name} of {os.getpid()}")
    machines.clear()
    yield cache_directory()
    machines.path(get_execution_space("Serial")).unlink(missing_ok=True)
    machines.clear()


def test_tune(own_cache, monkeypatch, capsys):
    few = [tune.TimedPlan("laplace", 3, 1e-2, 500, dtype) for dtype in tune.PRECISIONS]
    monkeypatch.setattr(tune, "plans", lambda *_: few)
    real = timing.run  # kernels of one precision are enough

    def run(task, space):
        return replace(real(few[0] if task in few else task, space), task=task)

    monkeypatch.setattr(timing, "run", run)
    monkeypatch.setattr(tune, "FREE", 0.0)  # tests may share the machine
    monkeypatch.setattr(tune, "AGREE", math.inf)
    space = get_execution_space("Serial")
    before = machines.machine(space, "float64")
    assert cli.main(["tune", "--space", "Serial"]) == 0
    words = capsys.readouterr().out
    assert str(own_cache) in words.replace("\n", "") and "off before" in words
    assert "by which predicted seconds are wrong" in words and "seconds" in words
    after = machines.machine(space, "float64")
    assert "measured" in after.name
    assert "measured" not in before.name
    factors = json.loads(machines.path(space).read_text())["factors"]["float64"]
    assert {*factors} == {*cost.STAGES}
    for variant, numbers in before.seconds.items():
        factor = factors[cost.stage_of(variant)]
        assert after.seconds[variant] == pytest.approx([factor * s for s in numbers])
    points = np.random.default_rng(0).random((3, 500))
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-2, execution_space="Serial")
    assert after.name in parki.Plan("laplace", points, points, options).describe()
    # A task's neighbourhood counts, too: lists that are kept have a factor of their own by it.
    assert factors["kept"] == factors["p2p"]
    words = "--measure --kernel laplace --points 300 --tolerance 1e-2".split()
    assert cli.main(["tune", "--space", "Serial", *words]) == 0
    words = capsys.readouterr().out
    assert "ratio" in words and "P2P, kept lists" in words
    again = json.loads(machines.path(space).read_text())["factors"]["float64"]
    assert again["kept"] != again["p2p"]


@pytest.fixture
def built_in():
    return machines.of_file(machines.shipped("avx512.json"), "float64")


def times_of(machine, factors, noise, dtype="float64"):
    """Return timings that take ``factors`` of what a machine predicts, times ``noise``."""
    rng, variants = np.random.default_rng(1), ("p2p_staged", "p2g_owner", "fgc", "g2p_target")
    task, timings = tune.TimedPlan("laplace", 3, 1e-2, 500, dtype), []
    for slow in noise:
        samples = []
        for variant in variants:
            counts = tuple(10 ** rng.uniform(3, 6, len(cost.COUNTS[variant])))
            seconds = slow * factors[cost.stage_of(variant)] * machine.time(variant, counts)
            samples.append(timing.StageTime(variant, counts, seconds))
        seconds = dict(zip(timing.STAGES, (s.seconds for s in samples), strict=True))
        timings.append(tune.Timing(task, None, seconds, samples))
    return timings


FACTORS = {"p2p": 0.8, "p2g": 2.0, "fgc": 3.0, "g2p": 1.0}


def test_fit_finds_the_factor_of_each_stage(built_in):
    """Slow moments of a shared machine do not move it, nor do times of the other precision."""
    timings = times_of(built_in, FACTORS, noise=(1, 1, 7, 1, 0.9, 1, 30))
    timings += times_of(built_in, dict.fromkeys(FACTORS, 50.0), noise=(1,) * 20, dtype="float32")
    found = tune.fit(timings, "float64", built_in)
    assert found == pytest.approx(FACTORS | {"kept": FACTORS["p2p"]})  # no lists were timed


def test_predictions_are_never_worse_by_factors(built_in, own_cache):
    """Of each stage, however times scatter, and whatever was measured before."""
    space = get_execution_space("Serial")
    noise = np.exp(np.random.default_rng(5).normal(0, 0.5, 31))
    timings = times_of(built_in, FACTORS, noise=noise)
    found = tune.fit(timings, "float64", built_in)
    content = machines.multiplied(machines.tuned(space, dict.fromkeys(tune.PRECISIONS, found)))
    after = tune.ratios(timings, "float64", machines.of_file(content, "float64"))
    others = [FACTORS | {"kept": 1.0}, {stage: 1.1 * f for stage, f in found.items()}]
    for factors in (dict.fromkeys(cost.STAGES, 1.0), *others):
        file = machines.tuned(space, dict.fromkeys(tune.PRECISIONS, factors))
        machine = machines.of_file(machines.multiplied(file), "float64")
        before = tune.ratios(timings, "float64", machine)
        assert {*before} == {*FACTORS, "all"}
        for stage in FACTORS:
            assert tune.off(after[stage]) <= tune.off(before[stage]) * (1 + 1e-12)


def test_off_counts_up_and_down_equally():
    assert tune.off([2.0, 0.5]) == pytest.approx(2) and tune.off([1.0, 1.0]) == 1


def test_what_factors_mean_is_said():
    alike = dict.fromkeys(cost.STAGES, 5.0)
    assert "nearly what they would choose without" in tune.meaning({"float64": alike})
    words = tune.meaning({"float64": alike, "float32": alike | {"fgc": 15.0, "kept": 99.0}})
    assert words.startswith("FGC takes 3.0 times as long as built in, relative to ")


@pytest.mark.parametrize("device", [False, True])
def test_plans_of_tune_have_every_precision_and_stage(device):
    plans = tune.plans(SimpleNamespace(on_device=device), 2)
    assert len({*plans}) == len(plans)
    for precision in tune.PRECISIONS:
        few = [plan for plan in plans if plan.dtype == precision]
        assert len({plan.tolerance for plan in few}) > 1 and len({p.points for p in few}) > 2
        assert any(plan.repeated for plan in few) == device


def test_factors_belong_to_the_numbers_that_they_multiply(own_cache, monkeypatch):
    """Times of more threads are those of one, over their number."""
    factors = dict.fromkeys(tune.PRECISIONS, FACTORS | {"kept": 1.0})
    for name, threads in (("Serial", 1), ("OpenMP", 3)):
        monkeypatch.setenv("PARKI_NUM_THREADS", "3")
        space = get_execution_space(name)
        machines.use(space, machines.multiplied(machines.tuned(space, factors)))
        machine = machines.machine(space, "float64")
        assert machine.threads == machine.workers == threads
        for variant, numbers in SECONDS["float64"].items():
            factor = factors["float64"][cost.stage_of(variant)]
            assert machine.seconds[variant] == pytest.approx([factor * s for s in numbers])
    machines.clear()


def timed(task, seconds):
    """Return a timing of a task, of one stage."""
    return tune.Timing(task, None, {"P2P": seconds}, [])


@pytest.fixture
def said():
    """A console, and what was printed to it."""
    return Console(file=io.StringIO(), width=200)


@pytest.fixture
def free(monkeypatch):
    """A machine that no one else uses."""
    monkeypatch.setattr(tune, "free_part", lambda _: 1.0)


@pytest.mark.usefixtures("free")
def test_rounds_go_on_until_times_agree(said, monkeypatch):
    """The two shortest ones of each plan are kept, and slow moments are not."""
    first, second = (tune.TimedPlan("laplace", p, 1e-2, 500) for p in (2, 3))
    times = {first: iter([1.0, 4.0, 3.0, 1.1]), second: iter([2.0, 2.1, 5.0, 2.0])}
    monkeypatch.setattr(timing, "run", lambda plan, _: timed(plan, next(times[plan])))
    found = tune.in_rounds([first, second], get_execution_space("Serial"), said)
    assert [one.total for one in found] == [1.0, 1.1, 2.0, 2.0]
    assert said.file.getvalue().count("differ by a factor of") == 2


@pytest.mark.usefixtures("free")
def test_a_machine_whose_times_differ_is_refused(said, monkeypatch):
    space, plan = get_execution_space("Serial"), tune.TimedPlan("laplace", 3, 1e-2, 500)
    times = iter([1.0, 2.0, 4.0, 8.0, 16.0])
    monkeypatch.setattr(timing, "run", lambda plan, _: timed(plan, next(times)))
    with pytest.raises(parki.UnavailableError, match=r"busy: after 5 rounds.*nothing was written"):
        tune.in_rounds([plan], space, said)


def test_a_machine_that_others_use_is_refused(said, monkeypatch):
    monkeypatch.setattr(tune, "free_part", lambda _: 0.4)
    monkeypatch.setattr(tune, "PAUSE", 0.0)
    with pytest.raises(parki.UnavailableError, match="other programs take 60 % of the cores"):
        tune.require_free(get_execution_space("Serial"), said)
    assert said.file.getvalue().count("waiting") == tune.TRIES


def test_threads_that_only_compute_say_how_free_a_machine_is():
    assert 0 < tune.free_part(1) <= 1.01


def test_a_busy_machine_keeps_its_file(own_cache, monkeypatch):
    """And what was built in is not left in its place."""
    space = get_execution_space("Serial")
    tune.save(space, dict.fromkeys(tune.PRECISIONS, dict.fromkeys(cost.STAGES, 2.0)))
    text = machines.path(space).read_text()
    monkeypatch.setattr(tune, "free_part", lambda _: 0.4)
    monkeypatch.setattr(tune, "PAUSE", 0.0)
    with pytest.raises(parki.UnavailableError, match="nothing was written"):
        tune.show(space, None)
    assert machines.path(space).read_text() == text
    assert "measured" in machines.machine(space, "float64").name


def whole(**changes):
    """Return the content of a file of `parki tune`, with changes."""
    factors = dict.fromkeys(tune.PRECISIONS, dict.fromkeys(cost.STAGES, 2.0))
    return machines.tuned(get_execution_space("Serial"), factors) | changes


def wrong(value):
    """Return factors of which one is wrong."""
    factors = whole()["factors"]
    return factors | {"float32": factors["float32"] | {"fgc": value}}


OLD = {"machine": "x", "counts": 15, "seconds": SECONDS, "usual": {}, "samples": {"float64": [1]}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *(("", "cannot be read"), ("{", "cannot be read"), ("[]", "no factor for each stage")),
        (OLD | {"lengths": {"float64": {}, "float32": {}}}, "no factor for each stage"),
        (lambda: whole(numbers="others"), "the costs that come with parki are others now"),
        (lambda: whole(built_in="/etc/passwd"), "the costs that come with parki are others"),
        (lambda: whole(threads=0), "threads"),
        (lambda: whole(factors={}), "float64"),
        (lambda: whole(factors=wrong(0.0)), "factors of float32"),
        (lambda: whole(factors=wrong(-1.0)), "factors of float32"),
        (lambda: whole(factors=wrong(math.nan)), "factors of float32"),
        (lambda: whole(factors=wrong(math.inf)), "factors of float32"),
        (lambda: whole(factors=wrong("2")), "not supported"),
        (lambda: whole(factors={"float64": {}, "float32": {}}), "p2p"),
    ],
)
def test_a_spoilt_file_is_reported_and_not_used(own_cache, content, message, caplog):
    """One of an earlier version, too."""
    space = get_execution_space("Serial")
    content = content() if callable(content) else content
    text = content if isinstance(content, str) else json.dumps(content)
    machines.path(space).write_text(text)
    assert "AVX-512" in machines.machine(space, "float64").name
    assert message in caplog.text and "run 'parki tune' again" in caplog.text
    with pytest.raises(parki.ParkiValueError, match="no measurements of 'parki tune'"):
        machines.of_path(machines.path(space))


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
    tables = dict.fromkeys(("float64", "float32"), TransformLengths(*(Lengths(TABLE),) * 3))
    machines.use(space, machines.built_in(space) | {"lengths": tables})
    rng = np.random.default_rng(3)
    points = rng.random((3, 400))
    dens = rng.standard_normal(400)
    options = parki.EwaldOptions(periodicity, [1, 1, 1], 1e-4, cutoff=0.2, execution_space="Serial")
    plan = parki.Plan("laplace", points, points, None, options)
    machines.clear()
    chosen = plan.parameters
    padding = plan.setup.mesh.padding
    assert chosen.padding == padding
    for axis in range(3):
        for lengths in (padding.plain, padding.local):
            n = lengths[axis]
            assert n in dict(TABLE) or not 32 <= n <= 96
            assert n != 60
    exact = direct_sum("laplace", points, points, dens, box=[1, 1, 1], periodicity=periodicity)
    error = np.sqrt(np.mean((plan(dens) - exact) ** 2))
    assert error <= 1e-4 * np.linalg.norm(dens)
