"""Translated kernels against NumPy: every construct of the dialect, on Serial and OpenMP."""

from __future__ import annotations

import os
import textwrap

import numpy as np
import pytest
from scipy.special import erf, erfc
from small_kernels import small_kernel, write_kernel

from parki.errors import KernelError
from parki.runtime.specialise import specialise
from parki.runtime.translate import translate

N = 10_000
DTYPES = {"double": np.float64, "float": np.float32}
spaces = pytest.mark.parametrize("space", ["Serial", "OpenMP"])
precisions = pytest.mark.parametrize("real", ["double", "float"])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@spaces
@precisions
def test_expressions(tmp_path, space, real, rng):
    names = ("sqrt", "floor", "fabs", "erfc", "erf")
    text = """
    @pk.workunit
    def f(i: int, x: pk.View2D[REAL], k: pk.View1D[pk.int64], y: pk.View2D[REAL], a: REAL):
        y[0][i] = a * x[1][i] - x[0][k[i]] / 3 + i / 2
        y[1][i] = 0.1 / (x[2][i] / 3.0)
        y[2][i] = pk.exp(x[3][i])
        y[3][i] = pk.fmin(x[2][i], 1.0)
        y[4][i] = pk.fmax(x[2][i], 1.0)
        y[5][i] = 1.0 / pk.sqrt(x[2][i])
    """
    for row, name in enumerate(names, 6):
        text += f"    y[{row}][i] = pk.{name}(x[2][i])\n    "
    kernel, dtype = small_kernel(tmp_path, text, space, REAL=real), DTYPES[real]
    eps = np.finfo(dtype).eps
    low, high = (-700, 700) if real == "double" else (-86, 87)
    some = np.concatenate([rng.uniform(low, high, N // 2), rng.uniform(-1, 1, N // 2)])
    x = np.array([*rng.standard_normal((2, N)), np.linspace(0.1, 3, N), some], dtype=dtype)
    x[3, :3] = -np.inf, -1e30, np.nan
    k, y = rng.integers(0, N, N), np.full((11, N), np.nan, dtype=dtype)
    kernel(N, x=x, k=k, y=y, a=0.25)
    expected = 0.25 * x[1] - x[0, k] / 3 + np.arange(N) / 2
    assert np.allclose(y[0], expected, rtol=0, atol=N / 2 * eps)
    # A float32 kernel computes in float32: its result is that of NumPy to the last bit.
    assert np.array_equal(y[1], dtype(0.1) / (x[2] / dtype(3)))
    promoted = (0.1 / (x[2].astype(float) / 3)).astype(dtype)
    assert real == "double" or not np.array_equal(y[1], promoted)
    # To the last bit or two at all sizes, about zero below normal numbers, and NaN is kept.
    assert (y[2, :2] <= 2 * np.finfo(dtype).tiny).all() and np.isnan(y[2, 2])
    assert np.abs(y[2, 3:] / np.exp(x[3, 3:].astype(np.longdouble)) - 1).max() <= 1.5 * eps
    given = x[2]
    expected = [np.minimum(given, 1), np.maximum(given, 1), 1 / np.sqrt(given)]
    expected += [np.sqrt(given), np.floor(given), np.fabs(given), erfc(given), erf(given)]
    assert np.allclose(y[3:], expected, rtol=8 * eps, atol=0)


def test_integers_and_control_flow(tmp_path):
    """Integers divide as in C."""
    text = """
        @pk.workunit
        def f(
            i: int, a: pk.View1D[pk.int32], b: pk.View1D[pk.int32], q: pk.View2D[pk.int64],
            y: pk.View1D[pk.int64],
        ):
            q[0][i] = a[i] // b[i]
            q[1][i] = a[i] % b[i]
            q[2][i] = int(a[i] / b[i])
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

    pairs = [(a, b) for a in range(-15, 15) for b in (-3, -1, 2, 5)]
    a, b = np.array(pairs, dtype=np.int32).T.copy()
    q, y = np.empty((3, 120), dtype=np.int64), np.empty(120, dtype=np.int64)
    small_kernel(tmp_path, text)(120, a=a, b=b, q=q, y=y)
    quotient = np.trunc(a / b).astype(int)
    assert np.array_equal(q, [quotient, a - b * quotient, quotient])
    # The rest means the same in Python.
    python, expected = {}, np.empty_like(y)
    text = textwrap.dedent(text).replace("@pk.workunit", "")
    exec(f"from __future__ import annotations\n{text}", python)
    for i in range(120):
        python["f"](i, a, b, np.empty_like(q), expected)
    assert np.array_equal(y, expected)


def test_local_arrays_functions_and_names(tmp_path, rng):
    """Arguments and locals may be called what the entry point calls its own."""
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

    @pk.function
    def workunit_of(x: REAL) -> REAL:
        return x + 1.0

    @pk.workunit
    def f(
        j: int, x: pk.View1D[REAL], y: pk.View1D[REAL], i: int, count: int, slot: pk.View2D[REAL],
        threads: REAL, chunk: int,
    ):
        powers: List[REAL] = [0.0] * N
        weights: List[int] = [3, 1, 4, 1, 5]
        for k in range(N):
            powers[k] = y0(x[j], k)
        total: REAL = 0.0
        for k in range(N):
            total += weights[k] * powers[k]
        y[j] = total
        slot_1: int = 0
        scratch: REAL = workunit_of(threads)
        slot[j][slot_1] = scratch + 100 * i + 10 * count + chunk
    """
    x, y, slot = rng.standard_normal(5), np.empty(5), np.zeros((5, 3))
    small_kernel(tmp_path, text)(5, x=x, y=y, i=1, count=2, slot=slot, threads=0.5, chunk=3)
    expected = np.polynomial.polynomial.polyval(x, [3, 1, 4, 1, 5])
    assert np.allclose(y, expected, rtol=1e-13, atol=1e-13)
    assert slot.tolist() == [[124.5, 0, 0]] * 5


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


ORDERED = (
    "a += b * x[j]\n            b += 1.0",  # b is read while it changes
    "a *= x[j]",  # a product
    "a += x[j]\n            y[{0}][j] = a",  # stores
    "a += x[j]\n            if a > 3.0:\n                break",  # leaves early
    "b = x[j]\n            a += b",  # the last value lives on
)


def test_other_loops_keep_their_order(tmp_path, rng):
    text = """
    @pk.workunit
    def f(i: int, x: pk.View1D[REAL], y: pk.View2D[REAL], n: int):
        a: REAL = 0.0
        b: REAL = 0.0
    """
    expected, names = np.zeros((5, 10)), {"x": rng.random(9), "n": 9}
    for row, loop in enumerate(ORDERED):
        lines = f"a = 1.0\n        b = 0.0\n        for j in range(n):\n            {loop}\n"
        lines = f"{lines}        y[{{0}}][n] = a + b\n".format(row)
        text += f"    {lines}    "
        exec(textwrap.dedent(f"        {lines}"), names | {"y": expected})
    kernel, y = small_kernel(tmp_path, text), np.zeros((5, 10))
    assert "PK_SIMD" not in kernel.translated.text
    kernel(1, x=names["x"], y=y, n=9)
    assert np.allclose(y, expected, rtol=1e-14)


def test_offsets_pass_32_bits(tmp_path):
    """Elements beyond 2**31, in files that exist only where they are touched."""
    shapes = {1: (3 * 2**30,), 2: (3, 2**30), 3: (3, 2**15, 2**15)}
    views, keys, places, text = {}, {}, {}, ""
    for rank, shape in shapes.items():
        first, last = (0,) * rank, tuple(n - 1 for n in shape)
        places[rank] = [first, last, tuple(2 * n // 3 for n in shape)]
        assert np.ravel_multi_index(places[rank][2], shape) > 2**31 - 2**29
        file = tmp_path / f"sparse{rank}"
        views[f"v{rank}"] = np.memmap(file, dtype=np.float32, mode="w+", shape=shape)
        os.unlink(file)
        keys[f"k{rank}"] = np.array(places[rank], dtype=np.int64).T.copy()
        index = [f"k{rank}[{axis}][i]" for axis in range(rank)]
        text += f"        v{rank}{''.join(f'[{each}]' for each in index)} = i + 1\n"
        text += f"        pk.atomic_add(v{rank}, [{', '.join(index)}], 0.5)\n"
    arguments = [
        f"k{rank}: pk.View2D[pk.int64], v{rank}: pk.View{rank}D[pk.float]" for rank in shapes
    ]
    text = f"    @pk.workunit\n    def f(i: int, {', '.join(arguments)}):\n{text}"
    small_kernel(tmp_path, text)(3, **keys, **views)
    for rank, each in places.items():
        assert [float(views[f"v{rank}"][p]) for p in each] == [1.5, 2.5, 3.5]


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
