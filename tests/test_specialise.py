"""Specialisation: constants, folding, pruning, precision, arrays and arguments, as source text."""

from __future__ import annotations

import ast
import textwrap

import numpy as np
import pytest
from small_kernels import HEADER, write_kernel

from parki.errors import KernelError
from parki.runtime.specialise import specialise


def body(folder, text: str, header: str = HEADER, **constants) -> str:
    """Return the specialised body of a workunit with the given body."""
    text = "@pk.workunit\ndef f(i: int, v: pk.View1D[REAL], n: int):\n" + textwrap.indent(
        textwrap.dedent(text), "    "
    )
    done = specialise(write_kernel(folder, text, header), "f", constants)
    ast.parse(done.text)  # it is a Python file, which upstream will import
    return textwrap.dedent(done.text.split("):\n", 1)[1]).strip()


@pytest.mark.parametrize(
    ("constants", "expression", "expected"),
    [
        ("N = 3", "v[N]", "v[3]"),
        ("N = 3\nM = 2 * N + 1", "v[M]", "v[7]"),
        ("N: int = 3", "v[N]", "v[3]"),
        ("N = -3", "v[i - N]", "v[i - -3]"),
        ("N = -3", "v[-N]", "v[3]"),
        ("A = True", "v[3 * A]", "v[3]"),
        ("N = 7", "v[N // 2 + N % 2]", "v[4]"),
        # As in C, which is what the same text means with values known only when it runs.
        ("N = -7", "v[N // 2]", "v[-3]"),
        ("N = -7", "v[N % 2 + n]", "v[-1 + n]"),
        ("N = 7", "v[N // (0 - 2)]", "v[-3]"),
        ("N = 1", "N / 2", "1 / 2"),  # a quotient is real: not folded
        ("X = 0.5", "X * v[0]", "0.5 * v[0]"),
    ],
)
def test_constants_and_folding(tmp_path, constants, expression, expected):
    text = body(tmp_path, f"v[i] = {expression}\n", f"{HEADER}{constants}\n")
    assert text == f"v[i] = {expected}"


def test_given_values_replace_defaults_and_derived_ones_follow(tmp_path):
    header = HEADER + "N = 3\nM = N + 1\nHAS = N > 4\n"
    text = "v[N] = 1.0\nif HAS:\n    v[M] = 2.0\n"
    assert body(tmp_path, text, header) == "v[3] = 1.0"
    assert body(tmp_path, text, header, N=5) == "v[5] = 1.0\nv[6] = 2.0"
    assert body(tmp_path, text, header, N=5, M=0) == "v[5] = 1.0\nv[0] = 2.0"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if A:\n    v[0] = 1.0\nelse:\n    v[1] = 1.0\n", "v[0] = 1.0"),
        ("if B:\n    v[0] = 1.0\nelse:\n    v[1] = 1.0\n", "v[1] = 1.0"),
        ("if B:\n    v[0] = 1.0\nelif A:\n    v[1] = 1.0\n", "v[1] = 1.0"),
        ("if A and B:\n    v[0] = 1.0\n", "pass"),
        ("if A or n > 1:\n    v[0] = 1.0\n", "v[0] = 1.0"),
        ("if A and n > 1:\n    v[0] = 1.0\n", "if n > 1:\n    v[0] = 1.0"),
        ("if B or n > 1:\n    v[0] = 1.0\n", "if n > 1:\n    v[0] = 1.0"),
        ("if B and n > 1:\n    v[0] = 1.0\n", "pass"),
        ("if N == 3:\n    v[0] = 1.0\n", "v[0] = 1.0"),
        ("if n > 1:\n    if B:\n        v[0] = 1.0\n", "if n > 1:\n    pass"),
        ("for k in range(n):\n    if B:\n        v[k] = 1.0\n", "for k in range(n):\n    pass"),
        ("while n > i:\n    if B:\n        v[0] = 1.0\n", "while n > i:\n    pass"),
        ("for k in range(N - 3):\n    v[k] = 1.0\n", "pass"),
        ("for k in range(N, 3):\n    v[k] = 1.0\n", "pass"),
        ("def g(t: int):\n    if B:\n        v[t] = 1.0\n", "def g(t: int):\n    pass"),
        ('"""What it does."""\nv[0] = 1.0\n', "v[0] = 1.0"),
    ],
)
def test_pruning(tmp_path, text, expected):
    assert body(tmp_path, text, HEADER + "A = True\nB = False\nN = 3\n") == expected


@pytest.mark.parametrize(
    ("text", "double", "single"),
    [
        ("v[i] = 0.1 * v[i]", "v[i] = 0.1 * v[i]", "v[i] = pk.float(0.1) * v[i]"),
        ("v[i] = HALF", "v[i] = 0.5", "v[i] = pk.float(0.5)"),
        ("v[i] = -1.5", "v[i] = -1.5", "v[i] = -pk.float(1.5)"),
        ("v[i] = REAL(2)", "v[i] = 2.0", "v[i] = pk.float(2.0)"),
        ("v[i] = REAL(n)", "v[i] = pk.double(n)", "v[i] = pk.float(n)"),
        ("v[i] = v[0] / v[1]", "v[i] = v[0] / v[1]", "v[i] = pk.float(v[0] / v[1])"),
        ("v[i] = 1 / n", "v[i] = 1 / n", "v[i] = pk.float(1 / n)"),
        ("x: REAL = v[i]", "x: pk.double = v[i]", "x: pk.float = v[i]"),
        (
            "w: List[REAL] = [0.0] * 2",
            "w: List[pk.double] = [0.0, 0.0]",
            "w: List[pk.float] = [pk.float(0.0), pk.float(0.0)]",
        ),
        (
            "w: List[REAL] = [1.0, 2.0] * (N + 1)",
            "w: List[pk.double] = [1.0, 2.0, 1.0, 2.0]",
            "w: List[pk.float] = [pk.float(1.0), pk.float(2.0), pk.float(1.0), pk.float(2.0)]",
        ),
    ],
)
def test_precision(tmp_path, text, double, single):
    header = HEADER + "HALF = 0.5\nN = 1\n"
    assert body(tmp_path, text + "\n", header, REAL="double") == double
    assert body(tmp_path, text + "\n", header, REAL="float") == single


def test_arguments_that_are_not_used_are_dropped(tmp_path):
    text = """
    A = True

    @pk.workunit
    def f(i: int, a: pk.View1D[REAL], b: pk.View2D[pk.int32], c: REAL, d: pk.int64):
        if A:
            a[i] = c
        else:
            a[i] = b[0][i] + d
    """
    path = write_kernel(tmp_path, text)
    done = specialise(path, "f", {"REAL": "float"})
    assert done.arguments == (("a", "pk.View1D[pk.float]"), ("c", "pk.float"))
    assert done.real == "float"
    other = specialise(path, "f", {"A": False})
    assert [name for name, _ in other.arguments] == ["a", "b", "d"]
    assert other.digest != done.digest


def test_only_what_is_called_is_kept_callees_first(tmp_path):
    text = """
    @pk.workunit
    def f(i: int, v: pk.View1D[REAL]):
        v[i] = outer(v[i])

    @pk.function
    def outer(x: REAL) -> REAL:
        return inner(x) + 1.0

    @pk.function
    def inner(x: REAL) -> REAL:
        return 2.0 * x

    @pk.function
    def unused(x: REAL) -> REAL:
        return x
    """
    path = write_kernel(tmp_path, text)
    names = [node.name for node in specialise(path, "f", {}).tree.body]
    assert names == ["inner", "outer", "f"]


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"WIDTH": 3}, r"small.py: unknown constants \['WIDTH'\]; it has \['N', 'REAL'\]"),
        ({"REAL": "half"}, r"REAL is 'half'; expected one of"),
        ({"N": "3"}, r"the constant N is '3'; expected a finite number"),
        ({"N": float("nan")}, r"the constant N is nan; expected a finite number"),
        ({"N": 0}, r"small.py:12: 8 is divided by zero"),
    ],
)
def test_constants_that_cannot_be(tmp_path, constants, message):
    text = """
    @pk.workunit
    def f(i: int, v: pk.View1D[REAL]):
        v[8 // N] = 1.0
    """
    with pytest.raises(KernelError, match=message):
        specialise(write_kernel(tmp_path, text, HEADER + "N = 1\n"), "f", constants)


def test_names_that_are_not_there(tmp_path):
    path = write_kernel(
        tmp_path, "@pk.workunit\ndef f(i: int, v: pk.View1D[REAL]):\n    v[M] = 1.0\n"
    )
    with pytest.raises(KernelError, match=r"small.py:\d+: unknown constant M"):
        specialise(path, "f", {})
    with pytest.raises(KernelError, match=r"small.py: no workunit named 'g'"):
        specialise(path, "g", {})
    with pytest.raises(KernelError, match=r"there is no kernel file nothing.py in"):
        specialise("nothing", "f", {})


def test_numpy_numbers_are_numbers(tmp_path):
    text = """
    N = 1
    X = 1.0

    @pk.workunit
    def f(i: int, v: pk.View1D[REAL]):
        v[N] = X
    """
    path = write_kernel(tmp_path, text)
    done = specialise(path, "f", {"N": np.int64(2), "X": np.float32(0.5)})
    assert "v[2] = 0.5" in done.text
    # 2 == 2.0, but they do not mean the same.
    assert "v[2] = 2\n" in specialise(path, "f", {"N": 2, "X": 2}).text
    assert "v[2] = 2.0\n" in specialise(path, "f", {"N": 2, "X": 2.0}).text
