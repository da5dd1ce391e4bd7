"""What plans need is predicted, and what does not fit is refused at once, with what would fit."""

from __future__ import annotations

import importlib.util
import itertools
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

import parki
from parki import settings
from parki.ewald.choice import machines, memory
from parki.ewald.choice.clustering import PairDensity
from parki.ewald.choice.grids import POINTS
from parki.ewald.choice.parameters import select
from parki.ewald.choice.problem import Problem
from parki.ewald.far import buffers, p2g, transforms
from parki.ewald.far.padding import Level
from parki.ewald.lattice import Lattice
from parki.ewald.task import Task
from parki.runtime.spaces import free_memory

SCRIPT = Path(__file__).parents[1] / "scripts" / "check_memory.py"
_spec = importlib.util.spec_from_file_location("check_memory", SCRIPT)
check_memory = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(check_memory)


class Device:
    """Stands for a device that is not here."""

    name, on_device, array_module = "Cuda", True, np


def plan(n=2000, tolerance=1e-4, dtype="f8", **options):
    points = np.random.default_rng(0).random((3, n)).astype(dtype)
    return parki.Plan(
        "stokes_sl", points, points, parki.EwaldOptions(3, [1, 1, 1], tolerance, **options)
    )


# ---------------------------------------------------------------------- predicted and measured
@pytest.mark.parametrize(
    ("number", "points"),
    [
        (1, 120_000),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in itertools.product(range(len(check_memory.CASES)), (200_000, 1_000_000))
        ),
    ],
)
def test_peaks(number, points):
    """Each in a process of its own."""
    command = [sys.executable, str(SCRIPT), "--points", str(points), "--only", str(number)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    predicted, measured = map(float, run.stdout.strip("[]\n").split(","))
    assert 0.85 <= predicted / measured <= 1.25


# Periodicity, tolerance, dtype; grid points of a period (or of the box and a window), P, cut-off
# over step; GB in CuPy's pool with points, normals and density. Measured, N = 4e6: see
# docs/performance.md.
MEASURED = [
    (1, 1e-4, "f8", 378, 9, 14, 5.7),
    (3, 1e-4, "f8", 378, 9, 14, 4.7),
    (2, 1e-4, "f8", 378, 9, 14, 5.7),
    (0, 1e-4, "f8", 237, 10, 14, 4.8),
    (1, 1e-9, "f8", 432, 15, 21, 10.5),
    (3, 1e-9, "f8", 480, 15, 21, 8.4),
    (1, 1e-4, "f4", 360, 9, 14, 3.4),
    (1, 1e-1, "f8", 280, 6, 10, 3.4),
]


@pytest.mark.parametrize("case", MEASURED)
def test_on_a_device(case):
    periodicity, tolerance, dtype, cells, points, reach, gigabytes = case
    dtype, n = np.dtype(dtype), 4_000_000
    machine = machines.of_file(machines.shipped("h200.json"), dtype.name)
    density = PairDensity(np.ones(10), np.ones((2, 10)), 1 / n)
    usual, lattice = "tile", Lattice(np.ones(3), periodicity)
    problem = Problem(
        "stokes_comb", ("u",), "prolate", lattice, tolerance, density, n, n,
        machine, usual, usual, usual, POINTS, 0.05,
    )  # fmt: skip
    chosen = replace(
        select(replace(problem, same=True)),
        steps=np.full(3, 1 / cells),
        points=points,
        cutoff=reach / cells,
    )
    task = Task("stokes_comb", Device(), dtype, parki.EwaldOptions(periodicity, [1, 1, 1]))
    found = memory.predict(chosen, task)
    given, results = 12 * dtype.itemsize * n, 3 * dtype.itemsize * n
    total = sum(found.parts.values()) - results + given
    assert 0.85 <= total / 1e9 / gigabytes <= 1.2


def test_results_of_stresses():
    """Beside the gradient a stress has memory of its own; else it takes the gradient's, and p."""
    points = np.random.default_rng(0).random((3, 2000))
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-4)
    rows = {"grad_u": 9, "stress": 10, ("stress", "grad_u"): 19, ("stress", "p"): 10}
    for want, count in rows.items():
        found = parki.Plan("stokes_dipole", points, points, options, want=want).memory
        assert found.parts["densities and results"] == (9 + count) * 8 * 2000
    assert set(found.parts) >= {"points", "grid", "modes", "multiplier", "transforms"}
    assert "predicted memory: " in plan().describe() and "memory" in plan()._repr_html_()


# ---------------------------------------------------------------------- left and taken again
def test_a_sum_takes_the_memory_that_was_left(monkeypatch):
    monkeypatch.setattr(p2g, "_left", [])
    space, size = parki.get_execution_space("Serial"), p2g.LEAST // 8 + 12

    def address(array):
        return array.__array_interface__["data"][0]

    first = p2g.zeros(space, size, "f8")
    assert first.shape == (size,) and not first.any()
    first[:] = np.nan
    part, place = first[size // 2 :].reshape(2, -1), address(first)
    del first
    # A view of it is still there.
    other = p2g.zeros(space, size, "f8")
    assert address(other) != place and np.isnan(part).all()
    del part
    again = p2g.zeros(space, 2 * size - 5, "f4")
    assert address(again) == place
    assert again.dtype == np.float32 and again.shape == (2 * size - 5,) and not again.any()
    # The larger one of two that are left is kept; what is too small is not taken.
    larger = p2g.zeros(space, 2 * size, "f8")
    place = address(larger)
    del again, larger, other
    assert len(p2g._left) == 1
    assert address(p2g.zeros(space, size, "f8")) == place
    assert address(p2g.zeros(space, size, "f8")) == place
    assert p2g.zeros(space, 3 * size, "f8").size == 3 * size


def test_repeated_sums_take_the_same_memory(monkeypatch):
    monkeypatch.setattr(p2g, "LEAST", 1)
    monkeypatch.setattr(p2g, "_left", [])
    before = plan()
    dens = np.random.default_rng(0).standard_normal((3, before.n_sources))
    exact, memory = before(dens), before.pipeline.stages.p2g.memory.ctypes.data
    del before
    assert len(p2g._left) == 1
    after = plan()
    assert not p2g._left
    assert after.pipeline.stages.p2g.memory.ctypes.data == memory
    np.testing.assert_array_equal(after(dens), exact)


# ---------------------------------------------------------------------- refused
@pytest.fixture
def free_bytes(monkeypatch):
    """Return what sets the memory that is free, and is asked for by the smallest plans, too."""
    monkeypatch.setattr(memory, "LITTLE", 0)
    return lambda size: monkeypatch.setattr(memory, "free_memory", lambda space: size)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_fill_memory_with_zeros(monkeypatch, threads):
    """All of it, and nothing beside it."""
    monkeypatch.setattr(p2g, "thread_count", lambda: threads)
    monkeypatch.setattr(p2g, "PIECE", 8)
    whole = np.ones(1000)
    p2g.clear(whole[100:801].reshape(1, 701))
    assert not whole[100:801].any()
    assert whole.sum() == 299


def test_nobody_asks_for_little_memory(monkeypatch):
    """As asking takes a small plan a tenth of its time; the second plan takes the set-up."""
    monkeypatch.setattr(memory, "free_memory", lambda space: pytest.fail("asked"))
    for _ in range(2):
        assert plan(500).memory.peak <= memory.LITTLE


def test_what_does_not_fit_is_refused(free_bytes):
    needed = plan(20_000).memory
    free_bytes(needed.peak - 1e5 - needed.held)
    with pytest.raises(parki.ParkiMemoryError) as info:
        plan(20_000)
    message = str(info.value)
    assert message.startswith(f"the plan needs {memory.in_words(needed.peak)}, but ")
    assert needed.largest in message
    assert isinstance(info.value, MemoryError) and isinstance(info.value, parki.ParkiError)


def test_what_it_proposes_does_fit(free_bytes):
    needed = plan(60_000).memory
    free_bytes(0.65 * needed.peak - needed.held)
    with pytest.raises(parki.ParkiMemoryError) as info:
        plan(60_000)
    message = str(info.value)
    free_bytes(math.inf)
    cutoff = float(re.search(r"cutoff=([\d.e-]+),", message)[1])
    assert plan(60_000, cutoff=cutoff).memory.peak <= 0.65 * needed.peak
    fewer = float(re.search(r"about ([\d.e+-]+) sources", message)[1])
    assert plan(int(fewer), 1e-4).memory.peak <= 0.65 * needed.peak
    assert "float32 (" in message
    plan(60_000, dtype="f4")


@pytest.mark.parametrize(("number", "down"), [(12_499, 12_000), (11_990, 11_000), (9.57, 9.5)])
def test_what_it_proposes_is_rounded_down(number, down):
    assert memory._down(number) == pytest.approx(down)


def test_a_cutoff_that_is_too_small(free_bytes):
    free_bytes(1e9)
    with pytest.raises(parki.ParkiMemoryError, match="What would fit: cutoff=") as info:
        plan(cutoff=0.002)
    assert "sources" not in str(info.value)
    free_bytes(0.0)
    with pytest.raises(parki.ParkiMemoryError, match="What would fit: nothing near"):
        plan()


@pytest.mark.chosen_degrees
@pytest.mark.parametrize(
    ("dtype", "asked", "windows"),
    [("f4", None, range(2, 13)), ("f8", None, range(2, 19)), ("f8", 11, [11])],
)
def test_what_it_proposes_has_the_windows_of_the_plan(
    free_bytes, monkeypatch, dtype, asked, windows
):
    seen = []

    def watched(problem):
        seen.append(problem.windows)
        return select(problem)

    monkeypatch.setattr(memory, "select", watched)
    free_bytes(0.0)
    with pytest.raises(parki.ParkiMemoryError):
        plan(2000, dtype=dtype, expert=parki.Expert(window_points=asked))
    assert set(seen) == {tuple(windows)}


def test_float32_is_proposed_for_windows_that_it_holds(free_bytes):
    free_bytes(0.6 * plan(60_000, expert=parki.Expert(window_points=18)).memory.peak)
    with pytest.raises(parki.ParkiMemoryError) as info:
        plan(60_000, expert=parki.Expert(window_points=18))
    assert "float32" not in str(info.value)


def test_a_plan_stays_as_it_was(free_bytes):
    kept = plan(2000)
    dens = np.ones((3, 2000))
    before = kept(dens)
    free_bytes(0.0)
    more = np.random.default_rng(1).random((3, 50_000))
    with pytest.raises(parki.ParkiMemoryError):
        kept.update_points(more, more)
    np.testing.assert_array_equal(kept(dens), before)


def test_indices_of_a_device():
    chosen = plan().parameters
    task = Task("stokes_sl", Device(), np.dtype("f4"), parki.EwaldOptions(3, [1, 1, 1]))
    large = replace(chosen, steps=np.full(3, 1 / 1300))
    with pytest.raises(
        parki.ParkiValueError, match=r"raise the cut-off \(cutoff, or sources_per_cell"
    ):
        memory._check_values(large, task)
    memory._check_values(chosen, task)


def test_transforms_of_a_device_share_a_work_area():
    def area(item, *local, lines=40.0):
        padding = SimpleNamespace(local=local, levels=[Level(0, local, True)])
        return buffers.work_area(padding, lines, 100.0, item)

    # Short planes have none, nor have those of some lengths; lines have, and long ones twice.
    assert area(8, 64, 1024, 1024) == area(8, 64, 2048, 2048) == area(4, 64, 1120, 1120) == 40
    assert area(8, 64, 1120, 1120) == area(8, 64, 1024, 1120) == area(4, 64, 1296, 1296) == 100
    assert area(8, 1152, 64, 64) == 80
    assert area(8, 1152, 64, 64, lines=1e12) == 2 * transforms.LINES


# ---------------------------------------------------------------------- free memory
@pytest.fixture
def system(tmp_path, monkeypatch):
    """A system with 5 MB, and files of its own in the place of /proc and the control groups."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=5_000_000))
    monkeypatch.setattr(settings, "PROC", tmp_path / "proc")
    monkeypatch.setattr(settings, "GROUPS", tmp_path / "groups")
    return tmp_path


def free():
    return free_memory(parki.get_execution_space("Serial"))


def test_what_the_host_says(system, monkeypatch):
    """Or nothing."""

    def fail():
        raise FileNotFoundError("/proc/meminfo")

    assert free() == 5_000_000
    monkeypatch.setattr(psutil, "virtual_memory", fail)
    assert free() == math.inf


FIRST = {  # of the first version
    "proc/self/cgroup": "5:cpu:/x\n4:memory:/x\n",
    "groups/memory/x/memory.limit_in_bytes": "800000\n",
    "groups/memory/x/memory.usage_in_bytes": "300000\n",
    "groups/memory/x/memory.stat": "total_inactive_file 0\n",
}


def second(path: str) -> dict[str, str]:
    """Return the files of a control group of the second version."""
    group = "groups/" + path.strip("/").split("/")[0]
    return {
        "proc/self/cgroup": f"0::{path}\n",
        f"{group}/memory.max": "1000000\n",
        f"{group}/memory.current": "700000\n",
        f"{group}/memory.stat": "anon 1\ninactive_file 200000\n",
        f"{group}/b/memory.max": "max\n",
    }


@pytest.mark.parametrize("files", [FIRST, second("/a/b"), second("/")])
def test_control_groups(system, files):
    for name, text in files.items():
        path = system / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert free() == 500_000
