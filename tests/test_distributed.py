"""`parki.distributed` on 1 to 4 ranks, started by mpirun; what has no ranks of its own, in here.

`tests/ranks.py` is what the ranks run: all sums of a number of ranks in one start, as starting
takes longer than summing.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ranks

import parki
from parki.distributed.slabs import Slabs, divide, near_work
from parki.distributed.team import Team
from parki.reference import direct_sum

# Two sums with the same parameters differ by rounding: of single numbers by less than this many
# units. Most is seen in double layers of points 1e-3 apart.
ROUNDING = 2000
SECONDS = 30  # within which a failure ends everywhere

# That of the environment first: pip install mpich puts it beside Python.
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
MPIRUN = shutil.which("mpirun", path=PATH)
MISSING = "" if importlib.util.find_spec("mpi4py") else "mpi4py is not installed"
if not MISSING and MPIRUN is None:
    MISSING = "mpirun is not on the path"
parallel = [
    pytest.mark.parallel,
    pytest.mark.skipif(bool(MISSING), reason=f"{MISSING}; pip install parki[mpi]"),
]


EXAMPLE = Path(__file__).parents[1] / "examples" / "distributed_stokes.py"


def mpirun(
    size: int,
    *arguments: str,
    seconds: float,
    script: str | Path = ranks.__file__,
    **environment: str,
) -> Any:
    """Run a script; each rank in one thread, on as many cores as there are."""
    settings = {
        "OMP_NUM_THREADS": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",  # Open MPI 4 and 5
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    return subprocess.run(
        [str(MPIRUN), "-n", str(size), sys.executable, str(script), *arguments],
        env={**os.environ, **settings, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
    )


@functools.lru_cache(maxsize=8)
def sums(size: int) -> tuple[dict[str, Any], str]:
    """Return what the ranks found, by case, and what they said on stderr."""
    ran = mpirun(size, "sums", seconds=170)
    found = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    return {result["case"]: result for result in found}, ran.stderr


@pytest.mark.parametrize(
    ("size", "case"),
    [
        pytest.param(size, str(case), marks=parallel, id=f"{size} ranks, {case}")
        for size in (1, 2, 3, 4)
        for case in ranks.cases_of(size)
    ],
)
def test_ranks_sum_as_one_does(size, case):
    """Same parameters, and the same numbers but for rounding, whatever the ranks have."""
    results, said = sums(size)
    assert case in results, said[-3000:]
    found = results[case]
    assert found["finite"] and found["parameters"] and found["promise"]
    assert max(found["ratios"].values()) < ROUNDING
    assert len(found["slabs"]) == size + 1


@pytest.mark.parametrize("size", [pytest.param(3, marks=parallel)])
def test_an_error_on_one_rank_is_raised_on_all(size):
    """And leaves ranks that can go on."""
    ran = mpirun(size, "failures", seconds=3 * SECONDS)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    expected = {
        "points": ("ParkiValueError", "rank 2 of 3: trg contains NaN"),
        "density": ("ParkiValueError", "rank 2 of 3: dens has shape (3, 49); expected (3, 50)"),
        "options": ("ParkiValueError", "tolerance is 0.0001 on rank 2, but 0.001 on rank 0"),
        "sources": ("ParkiValueError", "src is empty"),
        "operator": ("ParkiValueError", "no meaning over many ranks"),
        "good": ("", ""),
    }
    inner = ("ParkiError", "rank 2 of 3: RuntimeError: injected")
    for result in found:
        kind, words = expected.get(result["case"], inner)
        for seen in result["seen"]:
            assert seen[0] == kind and words in seen[1], result
    names = {result["case"] for result in found}
    assert names == {*expected, "spreading", "near field", "halo", "transform", "results"}


@pytest.mark.parametrize(
    "how", [pytest.param(h, marks=parallel) for h in ("raise", "kill", "refuse")]
)
def test_no_rank_waits_for_one_that_is_gone(how):
    ran = mpirun(3, "ending", how, seconds=SECONDS)
    assert ran.returncode != 0
    if how != "kill":
        words = {"raise": "ValueError: outside of the sum", "refuse": "rank 2 of 3: dens has shape"}
        assert words[how] in ran.stderr


@pytest.mark.parametrize("size", [pytest.param(3, marks=parallel)])
def test_kernels_are_compiled_once(size, tmp_path):
    """Ranks that start on an empty cache together share the work out."""
    log, compiler = tmp_path / "log", tmp_path / "c++"
    real = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *.so*|*.tmp*) echo "$@" >> {log};; esac\nexec {real} "$@"\n'
    )
    compiler.chmod(0o755)
    ran = mpirun(
        size, "ending", "none", seconds=100, CXX=str(compiler), PARKI_CACHE_DIR=str(tmp_path / "k")
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    kernels = list((tmp_path / "k").rglob("*.so"))
    assert kernels and len(log.read_text().splitlines()) == len(kernels)


@pytest.mark.parametrize("size", [pytest.param(3, marks=parallel)])
def test_example(size, tmp_path):
    """One file has what all ranks computed."""
    path = tmp_path / "velocities.npz"
    ran = mpirun(size, "200", str(path), seconds=60, script=EXAMPLE)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout.count("done") == 1 and "3 ranks by MPI" in ran.stdout
    with np.load(path) as found:
        points, force, velocity = (found[name] for name in ("points", "force", "velocity"))
    assert velocity.shape == (3, 600)
    exact = direct_sum("stokes_sl", points[:, ::50], points, force, box=[1.0] * 3, periodicity=3)
    error = 8 * np.pi * velocity[:, ::50] - exact
    assert np.sqrt((error**2).sum(axis=0).mean()) < 1e-6 * np.linalg.norm(force)


# --- without ranks --------------------------------------------------------------------------------


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
    with pytest.raises(parki.UnavailableError, match=r"pip install parki\[mpi\]"):
        Team()
