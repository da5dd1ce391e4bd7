"""Statements that kernels share are written out where they are called."""

from __future__ import annotations

import ast
import gc
import threading
import time

import pytest

from parki.errors import KernelError
from parki.runtime import specialise as specialise_module
from parki.runtime.blocks import expand, parsed
from parki.runtime.specialise import kernel_directory, specialise

BLOCK = """
def add_twice(array, at, total):
    '''Add a value twice.'''
    value: REAL = array[at]
    total += value
    total += SCALE * value
"""


def expanded(tmp_path, call, block=BLOCK, names="add_twice"):
    (tmp_path / "blocks").mkdir()
    (tmp_path / "blocks" / "sums.py").write_text(block, encoding="utf-8")
    text = f"from kernels.blocks.sums import {names}\n\ndef f(i):\n    {call}\n    done = 1\n"
    return ast.unparse(expand(ast.parse(text), tmp_path / "file.py", tmp_path))


def test_a_call_becomes_its_statements(tmp_path):
    """Arguments may be expressions, and names that are written; other names are the caller's."""
    assert expanded(tmp_path, "add_twice(view, i + 1, u0)").split("\n") == [
        "def f(i):",
        "    value: REAL = view[i + 1]",
        "    u0 += value",
        "    u0 += SCALE * value",
        "    done = 1",
    ]


def test_blocks_call_blocks(tmp_path):
    """Of the files that their own file imports, too; arguments are handed down."""
    (tmp_path / "blocks").mkdir()
    (tmp_path / "blocks" / "sums.py").write_text(BLOCK, encoding="utf-8")
    text = """from kernels.blocks.sums import add_twice

def add_all(array, total):
    if PAIRS:
        add_twice(array, 2 * i, total)
"""
    (tmp_path / "blocks" / "all.py").write_text(text, encoding="utf-8")
    text = "from kernels.blocks.all import add_all\n\ndef f(i):\n    add_all(view, u0)\n"
    tree = expand(ast.parse(text), tmp_path / "file.py", tmp_path)
    assert ast.unparse(tree).split("\n") == [
        "def f(i):",
        "    if PAIRS:",
        "        value: REAL = view[2 * i]",
        "        u0 += value",
        "        u0 += SCALE * value",
    ]
    assert {node.lineno for node in tree.body[0].body} == {4}


def test_what_is_written_out_has_the_line_of_its_call(tmp_path):
    (tmp_path / "blocks").mkdir()
    (tmp_path / "blocks" / "sums.py").write_text(BLOCK, encoding="utf-8")
    text = "from kernels.blocks.sums import add_twice\n\n\ndef f(i):\n    add_twice(v, i, u)\n"
    tree = expand(ast.parse(text), tmp_path / "file.py", tmp_path)
    assert {node.lineno for node in tree.body[0].body} == {5}


@pytest.mark.parametrize(
    ("call", "names", "message"),
    [
        (
            "add_twice(v, i)",
            "add_twice",
            r"file.py:4: add_twice takes 3 arguments \(array, at, tot",
        ),
        ("add_twice(v, i, total=u)", "add_twice", "without keywords"),
        ("pass", "other", "file.py:1: sums.py has no other"),
    ],
)
def test_refused(tmp_path, call, names, message):
    with pytest.raises(KernelError, match=message):
        expanded(tmp_path, call, names=names)


def test_a_file_that_is_not_there(tmp_path):
    text = "from kernels.blocks.none import f\n"
    with pytest.raises(KernelError, match=r"there is no file kernels\.blocks\.none"):
        expand(ast.parse(text), tmp_path / "file.py", tmp_path)


def test_blocks_are_in_folders(tmp_path):
    """Translations that are kept depend on the files there alone, beside the kernel's own."""
    (tmp_path / "sums.py").write_text(BLOCK, encoding="utf-8")
    with pytest.raises(KernelError, match=r"there is no file kernels\.\*\.sums"):
        expand(ast.parse("from kernels.sums import add_twice\n"), tmp_path / "file.py", tmp_path)


KERNEL = """from kernels.shapes.line import measure
import pykokkos as pk

REAL = pk.double
N = 2


@pk.workunit
def f(i: int, v: pk.View1D[REAL]):
    measure()
"""
SHAPES = {
    "line": "def measure():\n    v[i] = 1.0\n",
    "square": "SIDE = N + 1\n\n\ndef measure():\n    v[SIDE] = 2.0\n    more()\n\n\n"
    "def more():\n    v[N] = SIDE\n",
    "doubled": "N = 3\n\n\ndef measure():\n    v[N] = 1.0\n",
    "again": "from kernels.shapes.square import more\n\n\ndef measure():\n    more()\n",
}


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A kernel that imports one file of a folder."""
    (tmp_path / "shapes").mkdir()
    for name, text in SHAPES.items():
        (tmp_path / "shapes" / f"{name}.py").write_text(text, encoding="utf-8")
    (tmp_path / "kernel.py").write_text(KERNEL, encoding="utf-8")
    monkeypatch.setattr(specialise_module, "kernel_directory", lambda: tmp_path)
    return tmp_path / "kernel.py"


def test_a_constant_chooses_the_file_that_is_imported(kernel):
    """Blocks call others of their file; constants of it may be made of the kernel's."""

    def body(**constants):
        return specialise(kernel, "f", constants).text.split("):\n")[1].split()

    assert body() == body(SHAPES="line") == "v[i] = 1.0".split()
    assert body(SHAPES="square") == "v[3] = 2.0 v[2] = 3".split()
    assert body(SHAPES="square", N=4) == "v[5] = 2.0 v[4] = 5".split()
    assert body(SHAPES="again") == "v[2] = 3".split()  # of the file that this one imports
    assert body(SHAPES="square", SIDE=7) == "v[7] = 2.0 v[2] = 7".split()


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"SHAPES": "ring"}, r"kernel.py:1: there is no file kernels\.shapes\.ring"),
        ({"SHAPES": "square", "EDGE": 1}, r"unknown constants \['EDGE'\]; it has .*'SIDE'"),
        ({"SIDE": 1}, r"unknown constants \['SIDE'\]"),  # of a file that is not chosen
        ({"PAIRS": "line"}, "kernel.py: the constant PAIRS is 'line'; expected a finite number"),
        ({"SHAPES": "doubled"}, "kernel.py: N is a constant twice, here or of a block"),
    ],
)
def test_choices_that_cannot_be(kernel, constants, message):
    with pytest.raises(KernelError, match=message):
        specialise(kernel, "f", constants)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_files_are_parsed_by_many_threads():
    """Python 3.11 counts the depth of trees for all threads together; collectors switch threads."""
    file, done = kernel_directory() / "p2p_tile.py", []
    text = file.read_text(encoding="utf-8")

    def work():
        done.append(len([parsed(file, text) for _ in range(30)]))

    def switch(*_):
        time.sleep(0)

    before = gc.get_threshold()
    gc.callbacks.append(switch)
    gc.set_threshold(50)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.callbacks.remove(switch)
        gc.set_threshold(*before)
    assert done == [30] * 4
