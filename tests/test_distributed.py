"""`parki.distributed` on 1 to 4 ranks, started by mpirun; what has no ranks of its own, in here.

`tests/helpers/ranks.py` is what the ranks run, in as few starts as can be. Where there is a GPU,
device arrays too: ranks may share it. What every sum keeps over ranks, `tests/laws/test_ranks.py`
has.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ranks
from started import MISSING, NO_GPU, mpirun, parallel

import parki
from parki.distributed import plan as distributed
from parki.distributed.far import SlabFar
from parki.distributed.slabs import Slabs, divide, longest_first, near_work
from parki.distributed.team import Team
from parki.ewald.far.transforms import transforms_of
from parki.ewald.pipeline.setup import Setup
from parki.memory import in_words

# Two sums with the same parameters differ by rounding: of single numbers by less than this many
# units. Most is seen in double layers of points 1e-3 apart.
ROUNDING = 2000
# The difference in parts of the promise: where slabs are along the second of two periodic axes,
# other modes are those whose images may be left out (0.12 was seen); free axes that are padded by
# other lengths have other images of where kernels fade (0.002); with other parameters, each of the
# two sums keeps the promise.
APART = {"exchanged": 0.3, "padded": 0.01, "sampled": 1.5}
SECONDS = 30  # within which a failure ends everywhere
# All modes of a start; on a device each rank compiles its kernels itself.
LIMIT = {"CPU": 300, "Cuda": 900}
# The modes of the default run, by the number of ranks: starting them takes longer than most do.
TOGETHER = {
    2: ("needed:1", "sums:CPU:usual", "moves:CPU:usual", "threads"),
    3: ("failures:CPU", "spheres", "wall", "derived", "tiles", "ending:early"),
    4: ("sums:CPU:usual", "moves:CPU:usual"),
}

SPACES = {"CPU": parallel} | ({} if NO_GPU else {"Cuda": [*parallel, pytest.mark.gpu]})
SCALING = Path(__file__).parents[1] / "scripts" / "scaling.py"


def on_ranks(every: Sequence[Any]) -> list[Any]:
    """Return the parameters of all numbers of ranks; those of the long run are marked as slow."""
    return [
        pytest.param(size, space, part, case, marks=more, id=f"{size} ranks, {space}, {case}")
        for size in ranks.STEPS_OF
        for space, marks in SPACES.items()
        for part, slow in zip(ranks.PARTS, ([], [pytest.mark.slow]), strict=True)
        for case in ranks.of_part(every, size, part)
        for more in [[*marks, *slow]]
    ]


@functools.lru_cache(maxsize=32)
def started(size: int, *modes: str) -> dict[str, list[dict[str, Any]]]:
    """Return what ranks print that end well, by mode."""
    ran = mpirun(size, *modes, seconds=LIMIT["Cuda" if "Cuda" in str(modes) else "CPU"])
    assert ran.returncode == 0, ran.stderr[-3000:]
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    found: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        if "mode" in line:
            said = found[line["mode"]] = []
        else:
            said.append(line)
    return found


def told(size: int, *modes: str) -> list[dict[str, Any]]:
    """Return what ranks print in some modes."""
    together = TOGETHER.get(size, ())
    found = started(size, *(together if {*modes} <= {*together} else modes))
    return [line for mode in modes for line in found[mode]]


def result_of(case: Any, size: int, space: str, part: str) -> dict[str, Any]:
    """Return what ranks found of a sum, or of points that move."""
    lines = told(size, f"sums:{space}:{part}", f"moves:{space}:{part}")
    return next(line for line in lines if line["case"] == str(case))


@pytest.mark.gpu
@pytest.mark.skipif(bool(NO_GPU), reason=NO_GPU)
@pytest.mark.parametrize("length", [96, 147, 378, 1470, 1500])
def test_lines_of_a_slab_on_a_device(length):
    """For some lengths the transform takes several passes over memory, and is transposed."""
    import cupy

    real, imaginary = cupy.random.random((2, length, 7, 12))
    modes = real + 1j * imaginary
    transforms = transforms_of(parki.get_execution_space("GPU"))((length, 7, 22), length, True)
    found = modes.copy()
    transforms.along(found, forward=True)
    exact = cupy.fft.fft(modes, axis=0)
    assert float(abs(found - exact).max()) < 1e-13 * float(abs(exact).max())
    transforms.along(found, forward=False)
    assert float(abs(found / length - modes).max()) < 1e-13


@pytest.mark.parametrize(("size", "space", "part", "case"), on_ranks(ranks.cases()))
def test_ranks_sum_as_one_does(size, space, part, case):
    """Same parameters, and the same numbers but for rounding, whatever the ranks have."""
    found = result_of(case, size, space, part)
    assert found["finite"] and found["promise"] and found["transposed"] < 1
    assert found["parameters"] or found["kind"] == "sampled"
    if found["kind"] == "rounding":
        assert max(found["ratios"].values()) < ROUNDING
    else:
        assert max(found["apart"]) < APART[found["kind"]]
    assert len(found["slabs"]) == size + 1


@pytest.mark.parametrize(("size", "space", "part", "walk"), on_ranks(ranks.WALKS))
def test_points_move(size, space, part, walk):
    """As a new plan would have them; slabs and grids stay unless points crowd."""
    found = result_of(walk, size, space, part)
    assert len(found["off"]) == ranks.STEPS and found["transposed"] < 1
    assert max(found["off"]) < (ROUNDING if found["kind"] == "rounding" else APART[found["kind"]])
    assert (found["meshes"] > 1) == (walk.how == "crowd")
    # Three slabs, each of a window's planes or more, have no room to be cut otherwise.
    if walk.how != "lean" or size < 3:
        leans = walk.how == "lean" and size > 1
        assert (found["slabs"] > 1) == (walk.how == "crowd" or leans)
    # Points that are given on the rank of their slab cross no network.
    assert all(found["crossed"]) == (size > 1 and walk.how != "home")
    assert any(found["crossed"]) == (size > 1 and walk.how != "home")


@pytest.mark.parametrize("space", [pytest.param(s, marks=m) for s, m in SPACES.items()])
@pytest.mark.parametrize("size", [3])
def test_an_error_on_one_rank_is_raised_on_all(size, space):
    """And leaves ranks that can go on."""
    found = told(size, f"failures:{space}")
    expected = {
        "points": ("ParkiValueError", "rank 2 of 3: trg contains NaN"),
        "density": ("ParkiValueError", "rank 2 of 3: dens has shape (3, 49); expected (3, 50)"),
        "promise": ("ParkiValueError", "rank 2 of 3: dens has shape (3, 49); expected (3, 50)"),
        "adjoint": ("ParkiValueError", "rank 2 of 3: values has shape (3, 49); expected (3, 50)"),
        # Ranks are named that share memory: all of a node, or those of one of its devices.
        "memory": ("ParkiMemoryError", "on ranks 0, " + "1, 2 of 3, but " * (space == "CPU")),
        "options": ("ParkiValueError", "tolerance is 0.0001 on rank 2, but 0.001 on rank 0"),
        "vjp": ("ParkiValueError", "rank 2 of 3: dens has shape (3, 49); expected (3, 50)"),
        "wrt": ("ParkiValueError", "but rank 2 is at vjp by ('src',) of plan"),
        "check": ("ParkiValueError", "rank 2 of 3: dens has shape (3, 49); expected (3, 50)"),
        "targets": ("ParkiValueError", "but rank 2 is at check at 5 targets of plan"),
        "operator": ("ParkiValueError", "but rank 2 is at as_linear_operator of plan"),
        "new points": ("ParkiValueError", "rank 2 of 3: trg contains NaN"),
        "new density": ("ParkiValueError", "dens has shape (3, 50); expected (3, 60)"),
        "migration": ("ParkiValueError", "rank 2 of 3: array 1 has shape (3, 49); expected (..."),
        "owners": ("ParkiValueError", "rank 2 of 3: points contains NaN"),
        "arrays": ("ParkiValueError", "at migrate of 2 arrays of plan"),
        "vector": ("ParkiValueError", "rank 2 brings another vector than rank 0"),
        "length": ("ParkiValueError", "but shape (449,) and dtype <f8 on rank 2"),
        "transpose": ("ParkiValueError", "rank 2 brings another vector than rank 0"),
        "transposed length": ("ParkiValueError", "but shape (449,) and dtype <f8 on rank 2"),
        "axes": ("ParkiValueError", "but shape (450, 1, 1) and dtype <f8 on rank 2"),
        "columns": ("ParkiValueError", "rank 2 brings another vector than rank 0"),
        "rows": ("ParkiValueError", "migration: 3 x float64), but rank 2 is at migrate of"),
        "calls": ("ParkiValueError", "rank 2 is at promise of plan"),
        "plans": ("ParkiValueError", "ranks are in different calls: rank 0 of 3 is at plan(dens)"),
        "made": ("ParkiValueError", "but rank 2 is at options of plan"),
        "good": ("", ""),
        "compiling": ("ParkiError", "rank 0 of 3: RuntimeError: injected"),
    }
    derived = ("scaled", "negative", "sum", "difference", "product", "power")
    derived += ("transposed", "sum transposed", "product adjoint")
    more = ("from the left", "length: divided") if space == "CPU" else ()
    derived = (*(f"length: {each}" for each in derived), *more)
    expected |= dict.fromkeys(derived, expected["length"])
    inner = ("ParkiError", "rank 2 of 3: RuntimeError: injected")
    for result in found:
        kind, words = expected.get(result["case"], inner)
        for seen in result["seen"]:
            assert seen[0] == kind and words in seen[1], result
    names = {result["case"] for result in found}
    stages = {"spreading", "near field", "halo", "transform", "results", "placing"}
    assert names == {*expected, *stages}


@pytest.mark.parametrize(
    "size", [pytest.param(3, marks=parallel), pytest.param(2, marks=[*parallel, pytest.mark.slow])]
)
def test_spheres_walls_and_boxes(size):
    """As one rank has them, to rounding; what one rank refuses is refused on all."""
    found = told(size, "spheres", "wall", "derived")
    apart = {each["case"]: each["apart"] for each in found if "apart" in each}
    by_box = {"by kappa", "by lattice", "by box"}
    assert set(apart) == {"0P", "2P", "3P", "tilted wall, 2P"} | by_box
    for case, each in apart.items():
        # Slabs exchange axes, so that spheres near a wall leave other modes out.
        assert np.max(each) <= (1e-7 if "wall" in case or case in by_box else 1e-11), case
    last = f"rank {size - 1} of {size}: "
    words = {
        "rng": "rng draws the same numbers on several ranks",
        "forces": last + "forces has shape (2, ",
        "points": last + "points has shape (2, ",
        "radii": last + "radii has negative",
        "viscosity": f"viscosity is 2.0 on rank {size - 1}, but 1.0 on rank 0",
        "wrt": last + "wrt is ('x',)",
        "torques": f"rank {size - 1} is at forces and torques of Spheres",
        "flow": f"rank {size - 1} is at flow of 'p' of Spheres",
        "kT": f"rank 0 of {size} is at displacements by kT=0.0",
        "accuracy": "is at noise to 0.01 of Spheres",
        "names": f"rank {size - 1} is at vjp by ['points'] of Spheres",
        "box": f"rank {size - 1} is at update_points and box of Spheres",
        "good": "",
        "below": last + "trg reaches to -1 along axis 2, below the wall at 0",
        "one rank": f"wall is no-slip on rank {size - 1}, but None on rank 0",
        "slit": "comm was given, but wall is ('no-slip', 'no-slip'); between two walls a plan has",
        "spheres in a slit": "comm was given, but wall is ('no-slip', 'no-slip')",
    }
    seen = {each["case"]: each["seen"] for each in found if "seen" in each}
    assert {*seen} == {*words}
    for case, each in seen.items():
        assert len(each) == size and all(words[case] in text for _, text in each), (case, each)
        assert any(text for _, text in each) == (case != "good"), each


@pytest.mark.parametrize(
    "periodicity",
    [pytest.param("1", marks=parallel), pytest.param("3", marks=[*parallel, pytest.mark.slow])],
)
def test_ranks_take_the_memory_that_is_predicted(periodicity):
    ratios = told(2, f"needed:{periodicity}")[0]["ratios"]
    assert all(0.85 <= ratio <= 1.25 for ratio in ratios), ratios


@pytest.mark.parametrize("size", [pytest.param(3, marks=parallel)])
def test_tiles_that_are_compiled_are_launched(size):
    """They follow the targets of the slab, whichever rank was given them."""
    seen = told(size, "tiles")[0]["seen"]
    assert [len(plans) for plans in seen] == [size] * size
    for tiles in (tiles for plans in seen for tiles in plans):
        assert len(tiles) >= 2 and all(tile == tiles[0] for tile in tiles), seen


@pytest.mark.parametrize("space", [pytest.param(s, marks=m) for s, m in SPACES.items()])
@pytest.mark.parametrize("how", ["raise", "kill", "refuse", "exit"])
def test_no_rank_waits_for_one_that_is_gone(how, space):
    """Also where a device's ranks exchange by NCCL; once its kernels are compiled."""
    if space != "CPU":
        told(2, f"ending:none:{space}")
    ran = mpirun(2, f"ending:{how}:{space}", seconds=SECONDS)
    assert ran.returncode != 0
    if how == "kill":
        assert "kill" in (ran.stdout + ran.stderr).lower()  # says the launcher
    else:
        words = {"raise": "ValueError: outside of the sum", "refuse": "rank 1 of 2: dens has shape"}
        words["exit"] = "but rank 1 is at the end of its program"
        assert words[how] in ran.stderr


@pytest.mark.parametrize("size", [pytest.param(3, marks=parallel)])
def test_a_rank_may_end_before_others(size):
    """Where it takes no part in what they sum."""
    assert told(size, "ending:early") == []


@pytest.mark.parametrize("size", [pytest.param(2, marks=parallel)])
def test_threads_of_ranks(size):
    """Their sums do not mix: with a communicator for each they are right, on one or refused."""
    one, own = told(size, "threads")
    assert one["calls"] == own["calls"] == [60] * size
    assert own["seen"] == [["right"]] * size
    assert {*one["seen"][0]} <= {"right", "ranks are in different calls"}, one


@pytest.mark.parametrize("size", [pytest.param(2, marks=parallel)])
def test_kernels_are_compiled_once(size, tmp_path):
    """Ranks that start on an empty cache together share the work out."""
    log, compiler = tmp_path / "log", tmp_path / "c++"
    real = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *.so*|*.tmp*) echo "$@" >> {log};; esac\nexec {real} "$@"\n'
    )
    compiler.chmod(0o755)
    ran = mpirun(
        size, "ending:none", seconds=100, CXX=str(compiler), PARKI_CACHE_DIR=str(tmp_path / "k")
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    kernels = list((tmp_path / "k").rglob("*.so"))
    assert kernels and len(log.read_text().splitlines()) == len(kernels)


@pytest.mark.parametrize("size", [pytest.param(2, marks=parallel)])
@pytest.mark.parametrize(
    "scaling", [pytest.param(["--weak"], marks=pytest.mark.slow), ["--periodicity", "3"]]
)
def test_scaling_is_measured(size, scaling, tmp_path):
    """Runs of the script in one file, shown side by side."""
    path, weak = tmp_path / "scaling.json", "--weak" in scaling
    for _ in range(1 + weak):
        arguments = ("--quick", "--json", str(path), *scaling)
        ran = mpirun(size, *arguments, seconds=60, script=SCALING)
        assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout.count("2, random | 2, home") == 1 + weak
    assert f"points {'a rank, weak' if weak else 'in all, strong'}\n" in ran.stdout
    assert ("263.2" in ran.stdout) == weak  # the paper's
    records = json.loads(path.read_text())
    assert len(records) == 1 + weak and "mpi" in records[0]["versions"]
    assert records[0]["settings"]["seed"] == 7
    for found in (records[0]["results"][way] for way in ("random", "home")):
        assert set(found["seconds"]) >= {"plan", "update", "sort", "ghosts", "FGC", "apply"}
        assert all(seconds >= 0 for seconds in found["seconds"].values())
    assert "densities" not in records[0]["results"]["home"]["sent"]


# --- without ranks --------------------------------------------------------------------------------


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
@pytest.mark.parametrize("periodicity", range(4))
def test_one_rank_needs_about_what_a_plan_does(periodicity):
    points = np.random.default_rng(0).random((3, 20_000))
    given = ("stokes_sl", points, points, parki.EwaldOptions(periodicity, (1, 1, 1), 1e-4))
    alone, plan = parki.Plan(*given).memory, distributed.Plan(*given)
    assert 0.9 <= plan.memory.peak / alone.peak <= 2.5
    assert set(alone.parts) < set(plan.memory.parts)
    assert "predicted memory" in plan.describe()


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_what_ranks_lack_is_refused_before_any_work(monkeypatch):
    points = np.random.default_rng(0).random((3, 20_000))
    given = ("stokes_sl", points, points, parki.EwaldOptions(3, (1, 1, 1), 1e-4))
    needed = distributed.Plan(*given).memory
    room = 0.6 * needed.peak - needed.held
    monkeypatch.setattr("parki.distributed.memory.free_memory", lambda space: room)
    monkeypatch.delattr(Setup, "kernels")
    monkeypatch.delattr(SlabFar, "__init__")
    words = r"the plan needs .* on rank 0 of 1, but .* are free there.*What would fit: cutoff="
    with pytest.raises(parki.ParkiMemoryError, match=words) as info:
        distributed.Plan(*given)
    assert in_words(needed.peak) in str(info.value)


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
@pytest.mark.parametrize("missing", ["targets", "both"])
def test_nothing_is_sent_without_points(missing):
    points, none = np.random.default_rng(0).random((3, 50)), np.empty((3, 0))
    given = (none, points if missing == "targets" else none)
    options = parki.EwaldOptions(3, (1, 1, 1), 1e-3)
    plan = distributed.Plan("stokes_sl", *given, options)
    assert plan.sent == {} and "0 targets" in plan.describe()
    assert plan(given[1]).shape == (3, 0) and plan.sent == {}
    plan.update_points(points, points)
    plan(points)
    plan.sent["densities"] = 7  # as other ranks would have it
    plan.update_points(*given)
    plan(given[1])
    assert plan.sent == {}


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
@pytest.mark.parametrize("periodicity", range(4))
def test_the_far_field_may_run_beside_the_near_one(periodicity, monkeypatch):
    """Neither sees what the other writes: their order does not matter."""
    rng = np.random.default_rng(0)
    points, dens = rng.random((3, 300)), rng.standard_normal((6, 300))
    options = parki.EwaldOptions(periodicity, (1, 1, 1), 1e-4)
    plan = distributed.Plan("stokes_comb", points, points, points, options)
    assert not plan.pipeline.overlap  # of no use on one rank
    plan.pipeline.overlap = True
    expected = plan(dens)

    @contextlib.contextmanager
    def far_first(work):
        work()
        yield

    monkeypatch.setattr(plan.space.adapter, "beside", far_first)
    np.testing.assert_array_equal(plan(dens), expected)
    monkeypatch.undo()
    plan.pipeline.overlap = False
    np.testing.assert_array_equal(plan(dens), expected)


@pytest.mark.parametrize("planes", [1, 4, 17])
@pytest.mark.parametrize("window", [1, 4, 8])
@pytest.mark.parametrize("size", [1, 2, 5, 20])
@pytest.mark.parametrize("periodic", [True, False])
def test_slabs_touch_all_that_windows_reach(planes, window, size, periodic):
    """Every plane of every window is one that its slab owns, or is listed with its owner."""
    if periodic and window - 1 > planes:
        pytest.skip("windows are not longer than the period")
    work = np.random.default_rng(0).random(planes) ** 4
    last = planes if periodic else planes + window - 1
    slabs = Slabs.balanced(work, last, size, window)
    assert slabs.size == size and slabs.cells[-1] == planes and slabs.planes[-1] == last
    assert np.diff(slabs.cells).min() >= min(window, planes // size)
    expected = np.zeros(last)
    found = np.zeros(last)
    for rank in range(size):
        first, end = slabs.cells[rank], slabs.cells[rank + 1]
        grid = np.zeros(max(end - first + window - 1, slabs.planes[rank + 1] - first))
        for cell in range(first, end):
            expected[np.arange(cell, cell + window) % last] += cell + 1
            grid[cell - first : cell - first + window] += cell + 1
        owned = slice(slabs.planes[rank], slabs.planes[rank + 1])
        found[owned] += grid[: slabs.planes[rank + 1] - slabs.planes[rank]]
        for part in slabs.touched(rank):
            begin = slabs.planes[part.owner] + part.owned
            assert begin + part.planes <= slabs.planes[part.owner + 1]
            found[begin : begin + part.planes] += grid[part.touched : part.touched + part.planes]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("periodic", [True, False])
def test_what_is_near_a_slab(periodic):
    slabs = Slabs((0, 3, 3, 10), (0, 3, 3, 10), periodic, 1)
    np.testing.assert_array_equal(
        np.flatnonzero(slabs.near(0, 2)), [0, 1, 2, 3, 4, 8, 9] if periodic else [0, 1, 2, 3, 4]
    )
    assert not slabs.near(1, 5).any()
    assert slabs.near(2, 50).all()


@pytest.mark.parametrize(
    ("box", "periodicity", "axes"),
    [
        ((1, 1, 1), 3, [0, 1, 2]),
        ((1, 2, 3), 3, [2, 0, 1]),
        ((1, 3, 2), 0, [1, 2, 0]),
        ((1, 2, 3), 2, [1, 0, 2]),
        ((1, 2, 3), 1, [0, 1, 2]),
    ],
)
def test_slabs_are_along_the_longest_axis(box, periodicity, axes):
    assert longest_first(np.array(box, dtype=float), periodicity) == axes


def test_stretches_hold_a_slab_and_its_neighbours():
    """Without a break where the positions are wrapped."""
    slabs = Slabs((0, 2, 5, 8, 10), (0, 2, 5, 8, 10), True, 1)
    # The second and the third reach the middle of the box, where the period of the others breaks.
    assert [slabs.stretch(rank, 1) for rank in range(4)] == [
        (-1, 3, -5),
        (1, 6, 0),
        (4, 9, 0),
        (-3, 1, -5),
    ]
    assert slabs.stretch(1, 4) is None
    assert Slabs((0, 2, 10), (0, 2, 10), False, 1).stretch(1, 3) == (-1, 13, 0)


def test_work_is_divided():
    assert divide(np.ones(10), 5) == (0, 2, 4, 6, 8, 10)
    assert divide(np.array([8.0, 1, 1, 1, 1]), 2) == (0, 1, 5)
    assert divide(np.array([8.0, 1, 1, 1, 1]), 2, least=2) == (0, 2, 5)
    assert divide(np.zeros(4), 2, least=1) == (0, 1, 4)
    assert divide(np.ones(2), 4) == (0, 1, 1, 2, 2)


def test_near_work_counts_pairs():
    trg, src = np.array([1.0, 0, 0, 1]), np.array([0.0, 3, 0, 1])
    np.testing.assert_allclose(near_work(trg, src, 1, True), [0.8, 0, 0, 0.2])
    np.testing.assert_allclose(near_work(trg, src, 1, False), [0.75, 0, 0, 0.25])
    np.testing.assert_allclose(near_work(trg, src, 9, True), [0.5, 0, 0, 0.5])


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
@pytest.mark.parametrize("comm", [1, "world"])
def test_communicators_are_checked(comm):
    with pytest.raises(parki.ParkiTypeError, match="expected a communicator of mpi4py"):
        Team(comm)


def test_mpi4py_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(parki.MissingPackageError, match=r"pip install mpi4py mpich"):
        Team()
