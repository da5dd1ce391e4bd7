"""The linter: each construct outside the dialect is refused with file, line and remedy."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from parki.errors import KernelError
from parki.ewald.sums import SUMS
from parki.runtime.blocks import expand
from parki.runtime.linter import lint
from parki.runtime.specialise import kernel_directory, specialise

HEADER = "import pykokkos as pk\n\nREAL = pk.double\nN = 4\n\n\n"
RANGE = HEADER + "@pk.workunit\ndef f(i: int, v: pk.View1D[REAL], m: pk.View2D[REAL], n: int):\n"
TEAM = HEADER + "@pk.workunit\ndef f(team: pk.TeamMember, v: pk.View1D[REAL], n: int):\n"
NESTED = TEAM + "    def body(t: int):\n        v[t] = 0.0\n\n"

OVER = "pk.parallel_for(pk.TeamThreadRange(team, {}), {})"

# source up to the offending line, the offending line, what is found, the remedy
MODULE = {
    "other import": ("", "import numpy", "this import", "only 'import pykokkos as pk'"),
    "second name": ("", "import pykokkos as pk, os", "this import", "on its own"),
    "other from": ("", "from math import sqrt", "this import", "from typing import List"),
    "variable": (HEADER, "size = 3", "a module variable", "in capitals"),
    "statement": (HEADER, "print(N)", "a module-level statement", "kernels only"),
    "plain function": (HEADER, "def f(i: int): pass", "an undecorated function", "@pk.workunit"),
}
SIGNATURES = {
    "default": ("(i: int, n: int = 3)", "a signature with defaults or stars", "annotated arg"),
    "star": ("(i: int, *rest: int)", "a signature with defaults or stars", "annotated arguments"),
    "annotation": ("(i: int, x: str)", "the annotation of 'x'", "pk.ViewND"),
    "no annotation": ("(i: int, x)", "the annotation of 'x'", "use int"),
    "rank": ("(i: int, x: pk.View5D[REAL])", "the annotation of 'x'", "pk.ViewND"),
    "element": ("(i: int, x: pk.View1D[int])", "the annotation of 'x'", "pk.ViewND"),
    "keyword": ("(i: int, long: int)", "the name 'long'", "C++ keyword"),
    "capitals": ("(i: int, K: int)", "the name 'K'", "constants of the file"),
    "prefix": ("(i: int, pk_count: int)", "the name 'pk_count'", "belong to the translator"),
    "upstream's": ("(i: int, space: int)", "the argument 'space'", "choose another"),
}
STATEMENTS = {
    "chained assignment": ("a = b = 1", "a chained assignment", "one name at a time"),
    "tuple assignment": ("v[0], v[1] = v[1], v[0]", "this assignment target", "local name"),
    "undeclared": ("a = 1", "assigning undeclared 'a'", "annotate it at first use"),
    "division in place": ("v[i] /= 2.0", "this augmented assignment", "use +=, -= or"),
    "argument": ("n = 3", "assigning the argument 'n'", "copy it to a local"),
    "again": ("i: int = 0", "declaring 'i' again", "assign without annotation"),
    "local named as argument": ("n: int = 1", "declaring 'n' again", "assign without"),
    "keyword": ("new: int = 0", "the name 'new'", "C++ keyword"),
    "capitals": ("N: int = 0", "the name 'N'", "constants of the file"),
    "no value": ("a: int", "a declaration without a value", "give it a value"),
    "annotated element": ("v[0]: REAL = 1.0", "an annotated non-name", "local names only"),
    "type": ("a: str = 0", "this local's type", "use int, pk.int64, REAL"),
    "array of a variable": ("a: List[REAL] = [0.0] * n", "this array", "CONSTANT"),
    "array from a call": ("a: List[REAL] = list(v)", "this array", "write [0.0, ...]"),
    "scratch": ("s: pk.ScratchView1D[REAL] = v", "this scratch view", "team.team_scratch(0)"),
    "loop over a view": ("for x in v: pass", "a loop over anything but range()", "use range()"),
    "loop with else": ("for k in range(3): pass\n    else: pass", "this loop", "no else"),
    "two loop variables": ("for a, b in range(3): pass", "this loop", "one loop variable"),
    "step": ("for k in range(0, n, n): pass", "this step", "positive constant"),
    "negative step": ("for k in range(n, 0, -1): pass", "this step", "positive constant"),
    "while else": ("while n > 0: pass\n    else: pass", "while ... else", "drop the else"),
    "returned value": ("return n", "a returned value in a workunit", "write to a view"),
    "expression": ("v[0] + 1.0", "an expression statement", "only calls"),
    "assertion": ("assert n", "Assert", "dialect.md"),
    "with": ("with n: pass", "With", "dialect.md"),
}
EXPRESSIONS = {
    "string": ("'a'", "the literal 'a'", "use numbers"),
    "unknown name": ("w", "the unknown name 'w'", "declare it"),
    "power": ("v[0] ** 2", "this operator", "use + - * / // %"),
    "bits": ("n & 1", "this operator", "truncate as in C"),
    "chained comparison": ("0 < n < 3", "a chained comparison", "a < b and b < c"),
    "comparison of conditions": ("(n > 1) == (n > 2)", "a comparison of conditions", "nest the if"),
    "or inside and": ("(n > 1 or n < 0) and n > 2", "and/or inside and/or", "nest the if"),
    "not": ("not n > 1", "not", "turn the comparison around"),
    "sign": ("-(n + 1)", "a sign before an expression", "0 - (...)"),
    "comma": ("m[0, 1]", "v[i, j] or a slice", "write v[i][j]"),
    "slice": ("v[0:1]", "v[i, j] or a slice", "write v[i][j]"),
    "indexing": ("f[0]", "indexing this", "views, scratch views"),
    "conditional": ("1.0 if n > 1 else 2.0", "IfExp", "use an if statement"),
    "tuple": ("(1, 2)", "Tuple", "one value at a time"),
    "attribute": ("v.shape", "Attribute", "only pk.<name>"),
    "keyword argument": ("pk.sqrt(x=1.0)", "a keyword argument", "by position"),
    "max": ("max(1, 2)", "calling max", "dialect.md"),
    "float": ("float(n)", "calling float", "cast with REAL(x)"),
    "int32": ("pk.int32(n)", "calling pk.int32", "cast with REAL(x) or int(x)"),
    "unknown function": ("pk.tan(v[0])", "calling pk.tan", "dialect.md"),
}
TEAMS = {
    "barrier": ("team.team_barrier(1)", "arguments of team_barrier", "it takes none"),
    "range": ("pk.parallel_for(n, body)", "this parallel_for", "pk.TeamThreadRange(team, n)"),
    "lambda": (OVER.format("n", "lambda t: t"), "this parallel_for", "a nested body"),
    "no such body": (OVER.format("n", "other"), "the unknown body 'other'", "define it above"),
    "bound": (OVER.format("w", "body"), "the unknown name 'w'", "declare it"),
    "atomic": ("pk.atomic_add(v, 0, 1.0)", "this atomic_add", "pk.atomic_add(v, [i, j], x)"),
    "fetch": ("m: int = pk.atomic_fetch_add(v, 0, 1)", "this atomic_fetch_add", "(v, [i, j], x)"),
    "nested signature": ("def g(t): pass", "this nested signature", "(t: int)"),
    "decorator": ("@pk.function\n    def g(t: int): pass", "this nested function", "def body"),
    "nested keyword": ("def new(t: int): pass", "the name 'new'", "C++ keyword"),
    "body's argument": ("def g(n: int): pass", "the body's argument 'n'", "rename it"),
}
FUNCTIONS = {
    "no type": ("(x: REAL): return x", "a function without a return type", "-> REAL"),
    "view": ("(v: pk.View1D[REAL]) -> REAL: return v[0]", "the argument 'v'", "scalars only"),
}


# What comes before, the offending lines, what is found, the remedy.
OTHERS = {
    "parallel in a function": (
        HEADER + "@pk.function\ndef g(x: REAL) -> REAL:\n",
        "    pk.atomic_add(x, [0], 1.0)\n    return x",
        "atomic_add in a function",
        "in workunits only",
    ),
    # What upstream misreads without a word, like several of the above.
    "captured local": (
        TEAM + "    x: int = 0\n    def body(t: int):\n",
        "        x += t",
        "assigning 'x' in a nested body",
        "use a local",
    ),
    "inner declaration": (
        RANGE + "    x: int = 0\n    if n > 1:\n",
        "        x: int = 1",
        "declaring 'x' again",
        "assign without annotation",
    ),
    "inner loop variable": (
        RANGE + "    for k in range(3):\n",
        "        for k in range(2):\n            v[k] = 0.0",
        "declaring 'k' again",
        "assign without annotation",
    ),
}
TABLES = (
    (SIGNATURES, HEADER + "@pk.workunit\n", "def f{}:\n    pass"),
    (STATEMENTS, RANGE, "    {}"),
    (EXPRESSIONS, RANGE + "    v[0] = 1.0\n", "    v[i] = {}"),
    (TEAMS, NESTED, "    {}"),
    (FUNCTIONS, HEADER + "@pk.function\n", "def g{}"),
)
CASES = [*(MODULE | OTHERS).items()]
CASES += [
    (name, (before, form.format(line), *words))
    for table, before, form in TABLES
    for name, (line, *words) in table.items()
]


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_refused(case, tmp_path):
    """In this line and with these words."""
    before, lines, what, remedy = case
    path = tmp_path / "trap.py"
    path.write_text(f"{before}{lines}\n", encoding="utf-8")
    with pytest.raises(KernelError) as caught:
        lint(ast.parse(path.read_text(encoding="utf-8")), path)
    number = before.count("\n") + 1 + lines.lstrip().startswith("@")  # of a function's def
    message = str(caught.value)
    assert message.startswith(f"trap.py:{number}: {what} is not in the kernel dialect; "), message
    assert remedy in message.split("; ", 1)[1]


def test_names_that_only_look_alike():
    body = (
        "    if n > 1:\n        x: int = 0\n    else:\n        x: int = 1\n"
        "    for k in range(3):\n        v[k] = 0.0\n"
        "    for k in range(0, 4, 2):\n        v[k] = 1.0\n"
        "    y: REAL = 0.0\n"
        "    def body(t: int):\n        y: REAL = v[t]\n        y += 1.0\n        v[t] = y\n"
        "    pk.parallel_for(pk.TeamThreadRange(team, n), body)\n"
    )
    lint(ast.parse(TEAM + body), Path("fine.py"))


def test_every_refusal_is_tested():
    """A rule that is added without a test fails here."""
    import parki.runtime.linter as module

    source = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    written = []
    for node in ast.walk(source):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("self.refuse", "_refuse"):
            what = node.args[-2]
            parts = what.values if isinstance(what, ast.JoinedStr) else [what]
            written.append([p.value for p in parts if isinstance(p, ast.Constant)])
    tested = [case[2] for _, case in CASES]
    for words in written:
        pattern = ".*".join(re.escape(str(w)) for w in words)
        assert any(re.search(pattern, t) for t in tested), words


CHOICES = {
    folder: sorted(file.stem for file in (kernel_directory() / folder).glob("*.py"))
    for folder in ("pairs", "symbols")
}
FILES = [
    (path, folder, file)
    for path in sorted(kernel_directory().rglob("*.py"))
    if path.parent.name not in ("blocks", *CHOICES)
    for folder, files in CHOICES.items()
    for file in (files if f"kernels.{folder}." in path.read_text(encoding="utf-8") else [""])
]
# Pair functions that are written for a sum, too.
WRITTEN = {record.name: record.p2p()["PAIRS"] for record in SUMS.examples() if not record.pair.file}
FILES += [
    (path, "pairs", name)
    for path, folder, file in FILES
    if folder == "pairs" and file == CHOICES["pairs"][0]
    for name, text in WRITTEN.items()
    if "def differentiate" in text or "differentiate" not in path.read_text(encoding="utf-8")
]


@pytest.mark.each
@pytest.mark.parametrize(
    ("path", "folder", "file"), FILES, ids=lambda part: getattr(part, "stem", part)
)
def test_kernels_are_in_the_dialect(path, folder, file):
    """With each file that they may import; in the default run each file with one at least."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    chosen = {folder: WRITTEN.get(file, file)} if file else {}
    lint(expand(tree, path, kernel_directory(), chosen), path)


def test_refused_when_loaded(tmp_path):
    path = tmp_path / "trap.py"
    path.write_text(RANGE + "    v[i] = max(1, 2)\n", encoding="utf-8")
    with pytest.raises(KernelError, match=rf"trap.py:{RANGE.count(chr(10)) + 1}: calling max"):
        specialise(path, "f", {})
