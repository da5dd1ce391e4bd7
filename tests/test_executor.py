"""The embedded executor: launches, emulated teams, floating point that is left as it is."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from few import FEW
from flat import options
from small_kernels import SQUARE, run_python, small_kernel, start_python

import parki
from parki.errors import KernelError, ParkiValueError
from parki.ewald.near.sizes import P2P_METHODS
from parki.runtime import get_execution_space, load
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
    kernel(4, **good, unused=None)
    assert good["y"].tolist() == [[1.5 + 2**40] * 4]
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


def test_nothing_happens_for_no_work(tmp_path):
    kernel = small_kernel(tmp_path, SHIFT)
    kernel(0)
    kernel(-3)


def test_same_request_same_kernel(tmp_path):
    kernel = small_kernel(tmp_path, SHIFT)
    assert small_kernel(tmp_path, SHIFT) is kernel
    assert small_kernel(tmp_path, SHIFT, USED=False) is kernel  # nothing depends on it
    assert small_kernel(tmp_path, SHIFT, REAL="float") is not kernel
    assert small_kernel(tmp_path, SHIFT, space="Serial") is not kernel


def test_unknown_executor(tmp_path):
    with pytest.raises(ParkiValueError, match="executor is 'best'; expected one of embedded"):
        load("cell_list", "gather_rows", get_execution_space("Serial"), executor="best")


def test_what_the_compiler_refuses_is_shown(tmp_path):
    # A name of the else branch, used after it: the linter does not follow scopes.
    text = "@pk.workunit\ndef f(i: int, v: pk.View1D[REAL]):\n    if i > 0:\n        a: int = 1\n"
    kernel = small_kernel(tmp_path, text + "    v[i] = a\n")
    with pytest.raises(KernelError, match=r"(?s) failed on a kernel:.*error.*'?a'?"):
        kernel(1, v=np.zeros(1))


# ---------------------------------------------------------------------- emulated teams
NEIGHBOUR = """
    @pk.workunit
    def f(team: pk.TeamMember, v: pk.View2D[REAL]):
        row: int = team.league_rank()
        copy: pk.ScratchView1D[REAL] = pk.ScratchView1D(team.team_scratch(0), 8)

        def write(t: int):
            copy[t] = v[row][t]

        pk.parallel_for(pk.TeamThreadRange(team, 8), write)
        team.team_barrier()

        def read(t: int):
            v[row][t] = copy[(t + STEP + 8) % 8]

        pk.parallel_for(pk.TeamThreadRange(team, 8), read)
    """


@pytest.fixture
def team_of_four(monkeypatch):
    monkeypatch.setenv("PARKI_EMULATED_TEAM", "4")


@pytest.mark.usefixtures("team_of_four")
@pytest.mark.parametrize("step", [1, -1])
def test_missing_barrier_gives_a_wrong_result(tmp_path, step):
    text = f"STEP = {step}\n" + "\n".join(line[4:] for line in NEIGHBOUR.splitlines())
    v = np.arange(48.0).reshape(6, 8)
    expected = np.roll(v, -step, axis=1)
    good = v.copy()
    small_kernel(tmp_path, text)(6, v=good)
    assert np.array_equal(good, expected)
    small_kernel(tmp_path, BARRIER.sub(r"\1pass", text))(6, v=v)
    assert not (v == expected).all(axis=1).any(), "a team got its result without the barrier"


@pytest.mark.usefixtures("team_of_four")
def test_what_one_thread_prepares_needs_a_barrier_whoever_runs_first(tmp_path):
    text = """
    @pk.workunit
    def f(team: pk.TeamMember, v: pk.View2D[REAL]):
        row: int = team.league_rank()
        shared: pk.ScratchView1D[REAL] = pk.ScratchView1D(team.team_scratch(0), 1)
        if team.team_rank() == 0:
            shared[0] = 3.0
        team.team_barrier()
        v[row][team.team_rank()] = shared[0] * team.team_size()
    """
    v = np.zeros((2, 4))
    small_kernel(tmp_path, text)(2, v=v)
    assert (v == 12).all()
    small_kernel(tmp_path, BARRIER.sub(r"\1pass", text))(2, v=v)
    assert not (v == 12).all()


@pytest.mark.usefixtures("team_of_four")
@pytest.mark.parametrize("who", ["== 0", "> 0", "== 3"])
def test_barriers_that_not_all_meet_are_an_error(tmp_path, who):
    text = f"""
    @pk.workunit
    def f(team: pk.TeamMember, v: pk.View1D[REAL]):
        if team.team_rank() {who}:
            team.team_barrier()
        v[team.league_rank()] = 1.0
    """
    with pytest.raises(KernelError, match="f: the threads of a team met different barriers"):
        small_kernel(tmp_path, text)(2, v=np.zeros(2))


@pytest.mark.usefixtures("team_of_four")
def test_scratch_memory_starts_as_nan(tmp_path):
    text = """
    @pk.workunit
    def f(team: pk.TeamMember, v: pk.View1D[REAL], n: pk.View1D[pk.int32]):
        real: pk.ScratchView1D[REAL] = pk.ScratchView1D(team.team_scratch(0), 4)
        whole: pk.ScratchView1D[pk.int32] = pk.ScratchView1D(team.team_scratch(0), 4)
        v[team.team_rank()] = real[team.team_rank()]
        n[team.team_rank()] = whole[team.team_rank()]
    """
    v, n = np.zeros(4), np.zeros(4, dtype=np.int32)
    for real in ("double", "float"):
        v = np.zeros(4, dtype={"double": "f8", "float": "f4"}[real])
        small_kernel(tmp_path, text, REAL=real)(1, v=v, n=n)
        assert np.isnan(v).all() and (n == -1).all()


def solve(kernel, method="tile", periodicity=3, want=("u",), window=6, **more):
    """Sum a small system whose tiles hold several batches and shares of sources."""
    rng = np.random.default_rng(3)
    src = 0.02 + 0.96 * rng.random((3, 500))
    src[:, :300] *= 0.3  # crowded tiles
    dens, norms = rng.standard_normal((6, 500)), rng.standard_normal((3, 500))
    rows = {"stokes_comb": dens, "stokes_dl": dens[3:], "laplace": dens[0]}
    rows["stokes_dipole"] = dens[:3, None] * norms
    given = options(
        periodicity,
        [1] * periodicity + [None] * (3 - periodicity),
        1e-2,
        cutoff=0.41,  # for which all variants get the same grid
        window_points=window,
        p2g_method=method,
        **more,
    )
    norms = norms if kernel in ("stokes_comb", "stokes_dl") else None
    plan = parki.Plan(kernel, src[:, :120].copy(), src, norms, given, want=want)
    return np.concatenate([each.reshape(-1, 120) for each in plan(rows.get(kernel, dens[:3]))])


def close(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.allclose(a, b, rtol=0, atol=1e-11 * np.abs(b).max()))


@pytest.mark.each
@pytest.mark.parametrize("want", [("u",), ("u", "grad_u")])
@pytest.mark.parametrize("team", ["1", "4"])
@pytest.mark.parametrize("kernel", FEW)
def test_near_field_of_devices(kernel, team, want, monkeypatch):
    """p2p_tile, which hosts leave to devices, gives what the host's own kernels give."""
    asked = {"want": want, "window": 8}
    expected = solve(kernel, **asked)
    monkeypatch.setenv("PARKI_EMULATED_TEAM", team)
    assert close(solve(kernel, p2p_method="tile", **asked), expected)


# The options that have a kernel file's barriers met, where the default ones do not.
BY_OPTION = {
    "p2p_derivatives": {"want": ("u", "grad_u"), "window": 8},
    "p2p_tile": {"p2p_method": "tile"},
    "literature/p2p_cells": {"p2p_method": "sm2d"},
    "literature/p2g_paper": {"method": "hybrid"},
    "g2p_tile": {"g2p_method": "tile"},
}


def barriers() -> list[tuple[str, int]]:
    """Return (kernel file, number) of every barrier in the package's kernels."""
    return [
        (str(path.relative_to(kernel_directory()).with_suffix("")), number)
        for path in sorted(kernel_directory().rglob("*.py"))
        for number in range(len(BARRIER.findall(path.read_text(encoding="utf-8"))))
    ]


def solve_without(file: str, number: int, folder: Path) -> None:
    """Solve without one of the barriers, and save the result."""
    copy = folder / "kernels"
    shutil.copytree(kernel_directory(), copy)
    text = (copy / f"{file}.py").read_text(encoding="utf-8")
    match = list(BARRIER.finditer(text))[number]
    without = text[: match.start()] + f"{match[1]}pass" + text[match.end() :]
    (copy / f"{file}.py").write_text(without, encoding="utf-8")
    specialising.kernel_directory = lambda: copy
    np.save(folder / "result.npy", solve("stokes_sl", **BY_OPTION.get(file, {})))


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """Start a process for each barrier, since they mostly wait for each other's threads.

    In processes of their own, since what a thread reads too early may be the index of a store.
    """
    code = """
    import pathlib, sys
    from degrees import few_degrees
    from test_executor import solve_without
    few_degrees()
    solve_without(sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3]))
    """

    def start(file, number):
        folder = tmp_path_factory.mktemp("barrier")
        return folder, start_python(code, file, number, folder, PARKI_EMULATED_TEAM="4")

    usual = {each: start(*each) for each in barriers() if not each[0].startswith("literature")}
    yield lambda *each: usual.pop(each, None) or start(*each)
    for _, process in usual.values():
        process.kill()


@pytest.mark.usefixtures("team_of_four")
@pytest.mark.parametrize(
    ("file", "number"),
    [
        pytest.param(*each, marks=[pytest.mark.slow] * each[0].startswith("literature"))
        for each in barriers()
    ],
)
def test_every_barrier_is_needed(file, number, started):
    folder, process = started(file, number)
    _, error = process.communicate(timeout=120)
    status = process.returncode
    assert status <= 0 or "met different barriers" in error, error
    if status == 0:
        asked = {k: v for k, v in BY_OPTION.get(file, {}).items() if k in ("want", "window")}
        assert not close(np.load(folder / "result.npy"), solve("stokes_sl", **asked))


# ---------------------------------------------------------------------- floating point
INVERSE = """
    @pk.workunit
    def f(i: int, v: pk.View1D[REAL], w: pk.View1D[pk.float]):
        v[i] = 1.0 / v[i]
        w[i] = 0.5 * w[i]
    """


@pytest.mark.parametrize("space", ["Serial", "OpenMP"])
def test_floating_point_state_is_left_alone(tmp_path, space):
    small_kernel(tmp_path, INVERSE, space).build()
    # In a process of its own, which finds the object compiled: the thread that loads a shared
    # object is the one whose floating-point state the object could change.
    code = f"""
    import sys
    import numpy as np
    from parki.runtime import get_execution_space, load
    kernel = load(sys.argv[1], "f", get_execution_space("{space}"))
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
    assert (np.array([1e-40], np.float32) / np.float32(4) > 0).all(), "also in single precision"
    """
    assert run_python(code, tmp_path / "small.py") == (0, "raised\n", "")


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


@pytest.mark.pairwise
@pytest.mark.parametrize("method", P2P_METHODS[1:])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("side", [0, 1])
def test_close_pair_across_the_border(method, dtype, axis, side):
    """Its distance keeps the relative accuracy of the coordinates near zero."""
    eps = float(np.finfo(dtype).eps)
    # Points closer than 1e-14 of the box count as one.
    ulps = 256 if dtype is np.float64 else 1
    near = dtype(0.123456789 * ulps * eps)  # its last bits are lost beside 1, and kept beside 0
    far = dtype(1 - ulps * eps / 2)
    src = np.full((3, 3), 0.5, dtype=dtype)
    trg = np.full((3, 1), 0.25, dtype=dtype)
    src[:, 0] = trg[:, 0] = 0.25
    trg[axis], src[axis, 0] = (near, far) if side else (far, near)
    src[:, 2] = 0.75
    dens = np.array([1, -0.5, -0.5], dtype=dtype)
    options = parki.EwaldOptions(
        3, [1, 1, 1], 1e-4, cutoff=0.4, expert=parki.Expert(p2p_method=method)
    )
    pot = parki.laplace(trg, src, dens, options)
    distance = float(near) + ulps * eps / 2
    # The rest of the sum is of order one; what is lost beside 1 is eps / 2.
    assert abs(float(pot[0]) * distance - 1) < max(8 * eps, 20 * distance)


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
    assert kernel.by_many
    assert seen == [(5, 3), (2, 2), (2, 1)]
