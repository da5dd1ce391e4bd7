"""The embedded executor: launches, emulated teams, floating point that is left as it is."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from few import LONG_RUN
from flat import options
from small_kernels import SQUARE, run_python, small_kernel

import parki
from parki.errors import KernelError, ParkiValueError
from parki.runtime import get_execution_space, host, load
from parki.runtime import specialise as specialising
from parki.runtime.specialise import kernel_directory

BARRIER = re.compile(r"^( *)team\.team_barrier\(\)$", re.MULTILINE)


# ---------------------------------------------------------------------- launches
SHIFT = """
    USED = True

    @pk.workunit
    def f(i: int, x: pk.View1D[REAL], y: pk.View2D[REAL], n: int, far: pk.int64, a: REAL):
        y[0][i] = x[i] + a + n + far
    """


def test_arguments_are_checked(tmp_path):
    kernel = small_kernel(tmp_path, SHIFT)
    good = {"x": np.zeros(4), "y": np.zeros((1, 4)), "n": 1, "far": 2**40, "a": 0.5}
    for nothing in (0, -3):
        kernel(nothing)
    kernel(4, **good, unused=None)
    assert good["y"].tolist() == [[1.5 + 2**40] * 4]
    kernel(4, arguments=good, a=0.25)  # what has a name here comes before
    assert good["y"].tolist() == [[1.25 + 2**40] * 4]
    wrong = {
        "x is float32 of rank 1; expected float64 of rank 1": {"x": np.zeros(4, np.float32)},
        "x is >f8 of rank 1; expected float64 of rank 1": {"x": np.zeros(4, ">f8")},
        "y is float64 of rank 1; expected float64 of rank 2": {"y": np.zeros(4)},
        "y is not C-contiguous": {"y": np.zeros((4, 2)).T},
        "x is not C-contiguous": {"x": np.zeros(8)[::2]},
        "n is 2147483648, but an int has 32 bits": {"n": 2**31},
    }
    for message, change in wrong.items():
        with pytest.raises(ParkiValueError, match=re.escape(f"f: {message}")):
            kernel(4, **{**good, **change})
    del good["a"]
    with pytest.raises(ParkiValueError, match="f: missing argument 'a'"):
        kernel(4, **good)
    with pytest.raises(ParkiValueError, match=r"f: 2147483648 work items; at most 2\*\*31 - 1"):
        kernel(2**31, **good)
    with pytest.raises(ParkiValueError, match="executor is 'best'; expected one of embedded"):
        load("cell_list", "gather_rows", get_execution_space("Serial"), executor="best")


def test_same_request_same_kernel(tmp_path, monkeypatch):
    kernel = small_kernel(tmp_path, SHIFT)
    assert small_kernel(tmp_path, SHIFT) is kernel
    assert small_kernel(tmp_path, SHIFT, USED=False) is kernel  # nothing depends on it
    assert small_kernel(tmp_path, SHIFT, REAL="float") is not kernel
    assert small_kernel(tmp_path, SHIFT, space="Serial") is not kernel
    monkeypatch.setenv("CXX", f"{host.compiler().path} -g")
    assert small_kernel(tmp_path, SHIFT) is not kernel


def test_what_the_compiler_refuses_is_shown(tmp_path):
    # A name of the else branch, used after it: the linter does not follow scopes.
    text = "@pk.workunit\ndef f(i: int, v: pk.View1D[REAL]):\n    if i > 0:\n        a: int = 1\n"
    kernel = small_kernel(tmp_path, text + "    v[i] = a\n")
    with pytest.raises(KernelError, match=r"(?s) failed on a kernel:.*error.*'?a'?"):
        kernel(1, v=np.zeros(1))


# ---------------------------------------------------------------------- emulated teams
NEIGHBOUR = """
    @pk.workunit
    def f(team: pk.TeamMember, v: pk.View2D[REAL], step: int):
        row: int = team.league_rank()
        copy: pk.ScratchView1D[REAL] = pk.ScratchView1D(team.team_scratch(0), 8)

        def write(t: int):
            copy[t] = v[row][t]

        pk.parallel_for(pk.TeamThreadRange(team, 8), write)
        team.team_barrier()

        def read(t: int):
            v[row][t] = copy[(t + step + 8) % 8]

        pk.parallel_for(pk.TeamThreadRange(team, 8), read)
    """
# What one thread prepares needs a barrier, whoever runs first.
PREPARED = """
    @pk.workunit
    def f(team: pk.TeamMember, v: pk.View2D[REAL]):
        row: int = team.league_rank()
        shared: pk.ScratchView1D[REAL] = pk.ScratchView1D(team.team_scratch(0), 1)
        if team.team_rank() == 0:
            shared[0] = 3.0
        team.team_barrier()
        v[row][team.team_rank()] = shared[0] * team.team_size()
    """


@pytest.fixture
def team_of_four(monkeypatch):
    monkeypatch.setenv("PARKI_EMULATED_TEAM", "4")


@pytest.mark.usefixtures("team_of_four")
def test_missing_barrier_gives_a_wrong_result(tmp_path):
    rows = np.arange(48.0).reshape(6, 8)
    cases = [(NEIGHBOUR, {"step": n}, rows, np.roll(rows, -n, axis=1)) for n in (1, -1)]
    cases.append((PREPARED, {}, np.zeros((2, 4)), np.full((2, 4), 12.0)))
    for text, more, before, expected in cases:
        good, bad = before.copy(), before.copy()
        small_kernel(tmp_path, text)(len(good), v=good, **more)
        assert np.array_equal(good, expected)
        small_kernel(tmp_path, BARRIER.sub(r"\1pass", text))(len(bad), v=bad, **more)
        wrong = (bad != expected).any(axis=1)  # of each team, or of those whose others run first
        assert wrong.any() if text is PREPARED else wrong.all()


@pytest.mark.usefixtures("team_of_four")
def test_barriers_that_not_all_meet_are_an_error(tmp_path):
    text = """
    @pk.workunit
    def f(team: pk.TeamMember, v: pk.View1D[REAL], first: int, end: int):
        if team.team_rank() >= first and team.team_rank() < end:
            team.team_barrier()
        v[team.league_rank()] = 1.0
    """
    for first, end in ((0, 1), (1, 4), (3, 4)):
        with pytest.raises(KernelError, match="f: the threads of a team met different barriers"):
            small_kernel(tmp_path, text)(2, v=np.zeros(2), first=first, end=end)


@pytest.mark.usefixtures("team_of_four")
def test_scratch_memory_starts_as_nan(tmp_path):
    text = """
    @pk.workunit
    def f(team: pk.TeamMember, v: pk.View2D[REAL], n: pk.View1D[pk.int32]):
        real: pk.ScratchView1D[REAL] = pk.ScratchView1D(team.team_scratch(0), 4)
        single: pk.ScratchView1D[pk.float] = pk.ScratchView1D(team.team_scratch(0), 4)
        whole: pk.ScratchView1D[pk.int32] = pk.ScratchView1D(team.team_scratch(0), 4)
        v[0][team.team_rank()] = real[team.team_rank()]
        v[1][team.team_rank()] = single[team.team_rank()]
        n[team.team_rank()] = whole[team.team_rank()]
    """
    v, n = np.zeros((2, 4)), np.zeros(4, dtype=np.int32)
    small_kernel(tmp_path, text)(1, v=v, n=n)
    assert np.isnan(v).all() and (n == -1).all()


def solve(want=("u",), **more):
    """Sum a small system whose tiles hold several batches and shares of sources."""
    rng = np.random.default_rng(3)
    src = 0.02 + 0.96 * rng.random((3, 500))
    src[:, :300] *= 0.3  # crowded tiles
    # By this cut-off all variants get the same grid.
    given = options(3, [1, 1, 1], 1e-2, cutoff=0.41, window_points=8, **more)
    plan = parki.Plan("stokes_sl", src[:, :120].copy(), src, options=given, want=want)
    return np.concatenate([each.reshape(-1, 120) for each in plan(rng.standard_normal((3, 500)))])


# The options that have a kernel file's barriers met, where the default ones do not.
BY_OPTION = {
    "p2p_derivatives": {"want": ("u", "grad_u")},
    "p2p_tile": {"p2p_method": "tile"},
    "p2g_tile": {"p2g_method": "tile"},
    "literature/p2p_cells": {"p2p_method": "sm2d"},
    "literature/p2g_paper": {"p2g_method": "hybrid"},
    "g2p_tile": {"g2p_method": "tile"},
}
# (kernel file, number) of every barrier in the package's kernels.
BARRIERS = [
    (file, number)
    for path in sorted(kernel_directory().rglob("*.py"))
    for file in [str(path.relative_to(kernel_directory()).with_suffix(""))]
    for number in range(len(BARRIER.findall(path.read_text(encoding="utf-8"))))
    if LONG_RUN[0] or not file.startswith("literature")
]


def solve_without(file: str, number: int, folder: Path) -> None:
    """Solve without one of the barriers, and save the result, if there is one."""
    copy = folder / "kernels"
    shutil.copytree(kernel_directory(), copy)
    text = (copy / f"{file}.py").read_text(encoding="utf-8")
    match = list(BARRIER.finditer(text))[number]
    without = text[: match.start()] + f"{match[1]}pass" + text[match.end() :]
    (copy / f"{file}.py").write_text(without, encoding="utf-8")
    specialising.kernel_directory = lambda: copy
    try:
        found = solve(**BY_OPTION.get(file, {}))
    except KernelError as error:
        if "met different barriers" not in str(error):
            raise
    else:
        np.save(folder / "result.npy", found)


@pytest.mark.usefixtures("team_of_four")
def test_every_barrier_is_needed(tmp_path):
    """In processes of their own, since what a thread reads too early may be the index of a store.

    One is started, and its forks, which mostly wait for each other's threads, run at once.
    """
    code = """
    import multiprocessing, pathlib, sys
    from degrees import few_degrees
    from test_executor import solve_without
    few_degrees()
    fork, children = multiprocessing.get_context("fork"), []
    for place in sys.argv[2:]:
        folder = pathlib.Path(sys.argv[1], place)
        folder.mkdir()
        file, _, number = place.replace(":", "/").rpartition("-")
        children.append(fork.Process(target=solve_without, args=(file, int(number), folder)))
        children[-1].start()
    for child in children:
        child.join()
        print(child.exitcode)
    """
    places = [f"{file.replace('/', ':')}-{number}" for file, number in BARRIERS]
    status, out, error = run_python(code, tmp_path, *places)
    assert status == 0, error
    codes = dict(zip(places, map(int, out.split()), strict=True))
    assert max(codes.values()) == 0, (codes, error)  # negative where a signal ended it
    for (file, _), place in zip(BARRIERS, places, strict=True):
        if (tmp_path / place / "result.npy").exists():
            want = BY_OPTION.get(file, {}).get("want", ("u",))
            found, expected = np.load(tmp_path / place / "result.npy"), solve(want)
            assert not np.allclose(found, expected, rtol=0, atol=1e-11 * abs(expected).max()), place


# ---------------------------------------------------------------------- floating point
INVERSE = """
    @pk.workunit
    def f(i: int, v: pk.View1D[REAL], w: pk.View1D[pk.float]):
        v[i] = 1.0 / v[i]
        w[i] = 0.5 * w[i]
    """


def test_floating_point_state_is_left_alone(tmp_path):
    small_kernel(tmp_path, INVERSE).build()
    # In a process of its own, which finds the object compiled: the thread that loads a shared
    # object is the one whose floating-point state the object could change.
    code = """
    import sys
    import numpy as np
    from parki.runtime import get_execution_space, host, load
    for space in ("Serial", "OpenMP"):
        kernel = load(sys.argv[1], "f", get_execution_space(space))
        v, w = np.array([0.0, -1e-320, 1e300, np.nan]), np.full(4, 1e-40, dtype=np.float32)
        with np.errstate(all="raise"):
            kernel(4, v=v, w=w)
            assert (np.ones(3) + 1 == 2).all(), "the kernel's flags are taken for NumPy's"
            try:
                np.ones(1) / np.zeros(1)
            except FloatingPointError:
                print("raised")
        assert np.isinf(v[:2]).all() and np.isnan(v[3])
        assert (w > 0).all() and (w < 1e-40).all(), "denormal numbers are zero in kernels"
        assert (np.array([1e-310]) / 4 > 0).all(), "denormal numbers are zero in the process"
        assert (np.array([1e-40], np.float32) / np.float32(4) > 0).all(), "in single precision"
    """
    assert run_python(code, tmp_path / "small.py") == (0, "raised\nraised\n", "")


@pytest.mark.parametrize("real", ["double", "float"])
def test_sums_of_differences_are_not_reassociated(tmp_path, real):
    text = """
    @pk.workunit
    def f(i: int, x: pk.View1D[REAL], y: pk.View1D[REAL], out: pk.View1D[REAL], s: REAL, n: int):
        total: REAL = 0.0
        for j in range(n):
            total += (x[i] + s) - (y[j] - s)
        out[i] = total
    """
    kernel = small_kernel(tmp_path, text, REAL=real)
    assert "PK_SIMD" in kernel.translated.text
    dtype = {"double": np.float64, "float": np.float32}[real]
    # x is far below the rounding of 2 s, which the other order of adding would round it to.
    x = np.array([0.3, 0.7, 1.3], dtype=dtype) * dtype(np.finfo(dtype).eps ** 1.5)
    y = np.full(64, 1.0, dtype=dtype)
    out = np.empty_like(x)
    kernel(3, x=x, y=y, out=out, s=0.0, n=64)
    assert np.array_equal(out, [-64] * 3)
    kernel(3, x=-x, y=y - 1, out=out, s=0.0, n=64)
    assert np.allclose(out, -64 * x, rtol=64 * np.finfo(dtype).eps, atol=0)
    kernel(3, x=x - 0, y=np.full_like(y, 2), out=out, s=1.0, n=64)
    assert np.array_equal(out, 64 * ((x + dtype(1)) - dtype(1)))


def test_a_thread_launches_alone(tmp_path, monkeypatch):
    """Several may at a time; else each would bring all threads."""
    kernel = small_kernel(tmp_path, SQUARE)
    kernel.build()
    seen = []
    monkeypatch.setattr(kernel, "_threads", 3)
    monkeypatch.setattr(kernel, "_launch", lambda _, count, threads: seen.append((count, threads)))
    kernel(5, v=np.zeros(5))
    kernel(2, v=np.zeros(2))  # no more threads than work items
    kernel(2, 1, v=np.zeros(2))
    assert seen == [(5, 3), (2, 2), (2, 1)]
