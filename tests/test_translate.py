"""Translated kernels against NumPy: every construct of the dialect, on Serial and OpenMP."""

from __future__ import annotations

import os

import numpy as np
import pytest
from small_kernels import small_kernel, write_kernel

from parki.errors import KernelError
from parki.runtime.specialise import specialise
from parki.runtime.translate import translate

N = 1000
DTYPES = {"double": np.float64, "float": np.float32}
spaces = pytest.mark.parametrize("space", ["Serial", "OpenMP"])
precisions = pytest.mark.parametrize("real", ["double", "float"])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@spaces
@precisions
def test_range(tmp_path, space, real, rng):
    text = """
    @pk.workunit
    def f(i: int, x: pk.View2D[REAL], k: pk.View1D[pk.int64], y: pk.View1D[REAL], a: REAL):
        y[i] = a * x[1][i] - x[0][k[i]] / 3 + i / 2
    """
    kernel = small_kernel(tmp_path, text, space, REAL=real)
    x = rng.standard_normal((2, N)).astype(DTYPES[real])
    k = rng.integers(0, N, N)
    y = np.full(N, np.nan, dtype=DTYPES[real])
    kernel(N, x=x, k=k, y=y, a=0.25)
    assert np.allclose(
        y, 0.25 * x[1] - x[0, k] / 3 + np.arange(N) / 2, rtol=0, atol=500 * np.finfo(y.dtype).eps
    )


@precisions
def test_functions_of_the_library(tmp_path, real):
    names = ("sqrt", "floor", "fabs", "exp", "erfc", "erf")
    lines = [f"    y[{row}][i] = pk.{name}(x[i])" for row, name in enumerate(names)]
    lines += ["    y[6][i] = pk.fmin(x[i], 1.0)", "    y[7][i] = pk.fmax(x[i], 1.0)"]
    lines += ["    y[8][i] = 1.0 / pk.sqrt(x[i])"]
    kernel = small_kernel(
        tmp_path,
        "@pk.workunit\ndef f(i: int, x: pk.View1D[REAL], y: pk.View2D[REAL]):\n" + "\n".join(lines),
        REAL=real,
    )
    from scipy.special import erf, erfc

    x = np.linspace(0.1, 3.0, N).astype(DTYPES[real])
    y = np.empty((9, N), dtype=x.dtype)
    kernel(N, x=x, y=y)
    expected = [np.sqrt(x), np.floor(x), np.fabs(x), np.exp(x), erfc(x), erf(x)]
    expected += [np.minimum(x, 1), np.maximum(x, 1), 1 / np.sqrt(x)]
    assert np.allclose(y, expected, rtol=8 * np.finfo(x.dtype).eps, atol=0)


@precisions
def test_the_exponential(tmp_path, real):
    """It is to the last bit or two at all sizes, about zero below normal numbers, and keeps NaN."""
    text = "@pk.workunit\ndef f(i: int, x: pk.View1D[REAL], y: pk.View1D[REAL]):\n"
    kernel = small_kernel(tmp_path, text + "    y[i] = pk.exp(x[i])", REAL=real)
    dtype = np.dtype(DTYPES[real])
    low, high = (-700, 700) if dtype.itemsize == 8 else (-86, 87)
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(low, high, 5000), rng.uniform(-1, 1, 5000)]).astype(dtype)
    x[:3] = -np.inf, -1e30, np.nan
    y = np.empty_like(x)
    kernel(x.size, x=x, y=y)
    assert (y[:2] <= 2 * np.finfo(dtype).tiny).all() and np.isnan(y[2])
    exact = np.exp(x[3:].astype(np.longdouble))
    assert np.abs(y[3:] / exact - 1).max() <= 1.5 * np.finfo(dtype).eps


def test_float_stays_float(tmp_path, rng):
    """A float32 kernel computes in float32: its result is that of NumPy to the last bit."""
    text = """
    @pk.workunit
    def f(i: int, x: pk.View1D[REAL], y: pk.View1D[REAL]):
        y[i] = 0.1 / (x[i] / 3.0)
    """
    kernel = small_kernel(tmp_path, text, REAL="float")
    x = 1 + rng.random(N).astype(np.float32)
    y = np.empty_like(x)
    kernel(N, x=x, y=y)
    expected = np.float32(0.1) / (x / np.float32(3))
    promoted = (0.1 / (x.astype(float) / 3)).astype(np.float32)
    assert np.array_equal(y, expected)
    assert not np.array_equal(y, promoted)


def test_integers_divide_as_in_c(tmp_path):
    text = """
    @pk.workunit
    def f(i: int, a: pk.View1D[pk.int32], b: pk.View1D[pk.int32], q: pk.View2D[pk.int64]):
        q[0][i] = a[i] // b[i]
        q[1][i] = a[i] % b[i]
        q[2][i] = int(a[i] / b[i])
    """
    kernel = small_kernel(tmp_path, text)
    a, b = np.array([(a, b) for a in range(-7, 8) for b in (-3, -1, 2, 5)], dtype=np.int32).T.copy()
    q = np.empty((3, a.size), dtype=np.int64)
    kernel(a.size, a=a, b=b, q=q)
    quotient = np.trunc(a / b).astype(int)
    assert np.array_equal(q, [quotient, a - b * quotient, quotient])


def test_control_flow(tmp_path):
    text = """
        @pk.workunit
        def f(i: int, y: pk.View1D[pk.int64]):
            total: pk.int64 = 0
            k: int = 0
            while k < 100:
                k += 1
                if k % 3 == 0:
                    continue
                if k == 90:
                    break
                if k > i and k % 2 == 1:
                    break
                for j in range(k, 2 * k, 3):
                    if j == i:
                        total -= 1
                    elif j > 3 * i:
                        break
                    else:
                        total += j
                total *= 1
            if total > 5000:
                y[i] = 5000
                return
            y[i] = total
        """
    kernel = small_kernel(tmp_path, text)

    def expected(i: int) -> int:
        total = k = 0
        while k < 100:
            k += 1
            if k % 3 == 0:
                continue
            if k == 90 or (k > i and k % 2 == 1):
                break
            for j in range(k, 2 * k, 3):
                if j == i:
                    total -= 1
                elif j > 3 * i:
                    break
                else:
                    total += j
        return min(total, 5000)

    y = np.empty(120, dtype=np.int64)
    kernel(120, y=y)
    assert y.tolist() == [expected(i) for i in range(120)]


def test_local_arrays_and_functions(tmp_path, rng):
    text = """
    N = 5

    @pk.function
    def y0(x: REAL, k: int) -> REAL:
        if k == 0:
            return 1.0
        power: REAL = x
        for m in range(1, k):
            power *= x
        return power

    @pk.workunit
    def f(i: int, x: pk.View1D[REAL], y: pk.View1D[REAL]):
        powers: List[REAL] = [0.0] * N
        weights: List[int] = [3, 1, 4, 1, 5]
        for k in range(N):
            powers[k] = y0(x[i], k)
        total: REAL = 0.0
        for k in range(N):
            total += weights[k] * powers[k]
        y[i] = total
    """
    kernel = small_kernel(tmp_path, text)
    x = rng.standard_normal(N)
    y = np.empty(N)
    kernel(N, x=x, y=y)
    assert np.allclose(
        y, np.polynomial.polynomial.polyval(x, [3, 1, 4, 1, 5]), rtol=1e-13, atol=1e-13
    )


@precisions
def test_atomic_add(tmp_path, real, rng):
    ranks = range(1, 5)
    views = ", ".join(f"v{rank}: pk.View{rank}D[REAL]" for rank in ranks)
    text = f"""
    @pk.workunit
    def f(i: int, k: pk.View2D[pk.int32], n: pk.View1D[pk.int32], {views}):
        old: int = pk.atomic_fetch_add(n, [0], 1)
        n[1 + old] = i
    """
    for rank in ranks:
        index = ", ".join(f"k[{axis}][i]" for axis in range(rank))
        text += f"    pk.atomic_add(v{rank}, [{index}], 0.5)\n    "
    kernel, shape, count = small_kernel(tmp_path, text, REAL=real), (3, 4, 2, 5), 20_000
    k = np.array([rng.integers(0, extent, count) for extent in shape], dtype=np.int32)
    found = {f"v{rank}": np.zeros(shape[:rank], dtype=DTYPES[real]) for rank in ranks}
    n = np.zeros(1 + count, dtype=np.int32)
    kernel(count, k=k, n=n, **found)
    for rank, values in zip(ranks, found.values(), strict=True):
        expected = np.zeros(shape[:rank])
        np.add.at(expected, tuple(k[:rank]), 0.5)
        assert np.array_equal(values, expected)
    assert n[0] == count
    assert np.array_equal(np.sort(n[1:]), np.arange(count))  # each work item had a number


TEAM = """
    WIDTH = 8

    @pk.workunit
    def f(team: pk.TeamMember, x: pk.View2D[REAL], y: pk.View2D[REAL], total: pk.View1D[REAL]):
        row: int = team.league_rank()
        copy: pk.ScratchView2D[REAL] = pk.ScratchView2D(team.team_scratch(0), 2, WIDTH)
        odd: pk.ScratchView1D[pk.int32] = pk.ScratchView1D(team.team_scratch(0), WIDTH + 1)

        def stage(t: int):
            copy[0][t] = x[row][t]
            copy[1][t] = 2.0 * x[row][t]
            odd[t] = t % 2

        pk.parallel_for(pk.TeamThreadRange(team, WIDTH), stage)
        team.team_barrier()

        def reverse(t: int):
            y[row][t] = copy[0][WIDTH - 1 - t] + copy[1][(t + 1) % WIDTH] * odd[t]

        pk.parallel_for(pk.TeamThreadRange(team, WIDTH), reverse)

        def add(v: int, acc: pk.Acc[REAL]):
            acc += copy[0][v] * copy[1][v]

        sum: REAL = pk.parallel_reduce(pk.ThreadVectorRange(team, WIDTH), add)

        def two(v: int):
            y[row][v] = 2.0 * y[row][v]

        team.team_barrier()
        if team.team_rank() == 0:
            pk.parallel_for(pk.ThreadVectorRange(team, WIDTH), two)
            total[row] = sum
    """


@spaces
@precisions
def test_team(tmp_path, space, real, rng):
    kernel = small_kernel(tmp_path, TEAM, space, REAL=real)
    x = rng.standard_normal((50, 8)).astype(DTYPES[real])
    y, total = np.empty_like(x), np.empty(50, dtype=x.dtype)
    kernel(50, x=x, y=y, total=total)
    odd = np.arange(8) % 2
    eps = np.finfo(x.dtype).eps
    assert np.allclose(
        y, 2 * (x[:, ::-1] + 2 * np.roll(x, -1, axis=1) * odd), rtol=4 * eps, atol=eps
    )
    assert np.allclose(total, 2 * (x**2).sum(axis=1), rtol=16 * eps, atol=0)
    assert kernel.translated.scratch == 2 * 8 * x.itemsize + 48  # 9 integers fill three times 16


SUMS = """
    N = 3

    @pk.workunit
    def f(i: int, x: pk.View2D[REAL], y: pk.View2D[REAL], n: int):
        a: REAL = 0.0
        b: REAL = 1.0
        c: int = 0
        for j in range(i, n):
            r: REAL = x[0][j] - x[1][i]
            p: REAL = 1.0
            for k in range(N):
                p = p * r + k
            if r > 0.0:
                a += p
                c += 1
            b -= r * p
        y[0][i] = a
        y[1][i] = b
        y[2][i] = c
    """


@spaces
@precisions
def test_simd_sums(tmp_path, space, real, rng):
    kernel = small_kernel(tmp_path, SUMS, space, REAL=real)
    assert "PK_SIMD(a, b, c)" in kernel.translated.text
    x = rng.standard_normal((2, 200)).astype(DTYPES[real])
    y = np.empty((3, 200), dtype=x.dtype)
    kernel(200, x=x, y=y, n=200)
    r = np.triu(x[0][None, :].astype(float) - x[1][:, None])
    p = np.triu(((r + 0) * r + 1) * r + 2)
    expected = [(p * (r > 0)).sum(axis=1), 1 - (r * p).sum(axis=1), (r > 0).sum(axis=1)]
    scale = 1 + np.abs(r * p).sum(axis=1) + np.abs(p).sum(axis=1)
    assert (np.abs(y - expected) <= 32 * np.finfo(x.dtype).eps * scale).all()


@pytest.mark.parametrize(
    "loop",
    [
        "a += b * x[j]\n            b += 1.0",  # b is read while it changes
        "a *= x[j]",  # a product
        "a += x[j]\n            y[j] = a",  # stores
        "a += x[j]\n            if a > 3.0:\n                break",  # leaves early
        "b = x[j]\n            a += b",  # the last value lives on
    ],
)
def test_other_loops_keep_their_order(tmp_path, loop, rng):
    text = f"""
    @pk.workunit
    def f(i: int, x: pk.View1D[REAL], y: pk.View1D[REAL], n: int):
        a: REAL = 1.0
        b: REAL = 0.0
        for j in range(n):
            {loop}
        y[n] = a + b
    """
    kernel = small_kernel(tmp_path, text)
    assert "PK_SIMD" not in kernel.translated.text
    x, y = rng.random(9), np.zeros(10)
    kernel(1, x=x, y=y, n=9)
    names = {"x": x, "y": np.zeros(10), "n": 9, "a": 1.0, "b": 0.0}
    exec(f"for j in range(n):\n            {loop}\ny[n] = a + b", names)
    assert np.allclose(y, names["y"], rtol=1e-14)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_offsets_pass_32_bits(tmp_path, rank):
    """Elements beyond 2**31, in a file that exists only where it is touched."""
    shape = {1: (3 * 2**30,), 2: (3, 2**30), 3: (3, 2**15, 2**15)}[rank]
    places = [(0,) * rank, tuple(n - 1 for n in shape), tuple(2 * n // 3 for n in shape)]
    v = np.memmap(tmp_path / "sparse", dtype=np.float32, mode="w+", shape=shape)
    os.unlink(tmp_path / "sparse")
    assert np.ravel_multi_index(places[2], shape) > 2**31 - 2**29
    element = "v" + "".join(f"[k[{axis}][i]]" for axis in range(rank))
    index = ", ".join(f"k[{axis}][i]" for axis in range(rank))
    text = f"""
    @pk.workunit
    def f(i: int, k: pk.View2D[pk.int64], v: pk.View{rank}D[pk.float]):
        {element} = i + 1
        pk.atomic_add(v, [{index}], 0.5)
    """
    kernel = small_kernel(tmp_path, text)
    k = np.array(places, dtype=np.int64).T.copy()
    kernel(3, k=k, v=v)
    assert [float(v[p]) for p in places] == [1.5, 2.5, 3.5]


def test_names_of_the_launcher_are_free(tmp_path):
    """Arguments and locals may be called what the entry point calls its own."""
    text = """
    @pk.function
    def workunit_of(x: REAL) -> REAL:
        return x + 1.0

    @pk.workunit
    def f(j: int, i: int, count: int, slot: pk.View2D[REAL], threads: REAL, chunk: int):
        slot_1: int = 0
        scratch: REAL = workunit_of(threads)
        slot[j][slot_1] = scratch + 100 * i + 10 * count + chunk
    """
    kernel = small_kernel(tmp_path, text)
    slot = np.zeros((4, 3))
    kernel(4, i=1, count=2, slot=slot, threads=0.5, chunk=3)
    assert slot.tolist() == [[124.5, 0, 0]] * 4


VIEW = "@pk.workunit\ndef f(i: int, v: pk.View1D[REAL]):\n    v[i] = 0.0\n"
TEAM_OF = "@pk.workunit\ndef f(team: pk.TeamMember, v: pk.View1D[REAL], n: int):\n"
TEAM_OF += "    def body(t: int, acc: pk.Acc[REAL]):\n        acc += v[t]\n"
SCRATCH = "    s: pk.ScratchView{0}D[REAL] = pk.ScratchView{0}D(team.team_scratch(0), {1})\n"
REDUCED = "    x: REAL = 0.0\n    x = pk.parallel_reduce(pk.ThreadVectorRange(team, n), body)\n"


@pytest.mark.parametrize(
    ("head", "line", "message"),
    [
        (VIEW, "    v[i][i] = 1.0\n", "'v' has rank 1, not 2"),
        (VIEW, "    a: List[REAL] = [0.0, 0.0]\n    a[0][1] = 1.0\n", "'a' has rank 1, not 2"),
        (VIEW, "    a: List[REAL] = [0.0]\n    pk.atomic_add(a, [0], 1.0)\n", "'a' is not a view"),
        (VIEW, "    pk.atomic_add(v, [i, i], 1.0)\n", "'v' has rank 1, not 2"),
        (TEAM_OF, SCRATCH.format(1, "n"), "needs 1 compile-time extents"),
        (TEAM_OF, SCRATCH.format(2, "3"), "needs 2 compile-time extents"),
        (TEAM_OF, REDUCED, "declare its result"),
    ],
)
def test_what_the_translator_refuses(tmp_path, head, line, message):
    with pytest.raises(KernelError, match=message):
        translate(specialise(write_kernel(tmp_path, head + line), "f", {}))
