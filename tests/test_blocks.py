"""Statements that kernels share are written out where they are called."""

from __future__ import annotations

import ast
import gc
import threading
import time
from functools import partial

import pytest

from parki.errors import KernelError
from parki.runtime import specialise as specialise_module
from parki.runtime.blocks import expand, parsed
from parki.runtime.specialise import kernel_directory, specialise

BLOCK = """
@block()
def add_twice(array, at, total):
    '''Add a value twice.'''
    value: REAL = array[at]
    total += value
    total += SCALE * value
"""


def expanded(folder, text, **blocks):
    """Return a file's tree with the statements of blocks, those of BLOCK or others."""
    (folder / "blocks").mkdir()
    for name, block in ({"sums": BLOCK} | blocks).items():
        (folder / "blocks" / f"{name}.py").write_text(block, encoding="utf-8")
    (folder / "sums.py").write_text(BLOCK, encoding="utf-8")  # in no folder
    return expand(ast.parse(text), folder / "file.py", folder)


USE = "from kernels.blocks.sums import {}\n\ndef f(i):\n    {}\n    done = 1\n"


def test_a_call_becomes_its_statements(tmp_path):
    """Arguments may be expressions, and names that are written; other names are the caller's."""
    tree = expanded(tmp_path, USE.format("add_twice", "add_twice(view, i + 1, u0)"))
    assert ast.unparse(tree).split("\n") == [
        "def f(i):",
        "    value: REAL = view[i + 1]",
        "    u0 += value",
        "    u0 += SCALE * value",
        "    done = 1",
    ]
    assert {node.lineno for node in tree.body[0].body[:3]} == {4}  # the call's


def test_blocks_call_blocks(tmp_path):
    """Of the files that their own file imports, too; arguments are handed down."""
    block = """from kernels.blocks.sums import add_twice

@block(reads="i")
def add_all(array, total):
    if PAIRS:
        add_twice(array, 2 * i, total)
"""
    text = "from kernels.blocks.all import add_all\n\ndef f(i):\n    add_all(view, u0)\n"
    tree = expanded(tmp_path, text, all=block)
    assert ast.unparse(tree).split("\n") == [
        "def f(i):",
        "    if PAIRS:",
        "        value: REAL = view[2 * i]",
        "        u0 += value",
        "        u0 += SCALE * value",
    ]
    assert {node.lineno for node in tree.body[0].body} == {4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (USE.format("add_twice", "add_twice(v, i)"), r"file.py:4: add_twice takes 3 arguments"),
        (USE.format("add_twice", "add_twice(v, i, total=u)"), "without keywords"),
        (USE.format("other", "pass"), "file.py:1: sums.py has no other"),
        ("from kernels.blocks.none import f\n", r"there is no file kernels\.blocks\.none"),
        # Translations that are kept depend on files of folders, and on the kernel's own.
        ("from kernels.sums import add_twice\n", r"there is no file kernels\.\*\.sums"),
    ],
)
def test_refused(tmp_path, text, message):
    with pytest.raises(KernelError, match=message):
        expanded(tmp_path, text)


WORKUNIT = """from kernels.blocks.pair import distance

@pk.workunit
def f(i: int, v: pk.View1D[REAL], w: pk.View1D[REAL]):
    x: REAL = v[i]
    distance(r)
    w[i] = r{more}
"""
DISTANCE = """
def distance(value):
    '''Take the distance.'''
    square: REAL = x * x
    value: REAL = pk.sqrt(square + v[1])
    w[0] = 0.0
"""
DECLARED = '@block(reads="v x", writes="w")'


@pytest.mark.parametrize(
    ("declared", "more", "message"),
    [
        (
            "",
            "",
            r'pair.py:3: distance reads v, x and writes w of its .*; expected @block\(reads="v',
        ),
        ('@block(reads="v", writes="w")', "", "distance reads x of its caller"),
        ('@block(reads="v x")', "", "distance writes w of its caller"),
        ('@block(reads="v x y", writes="w")', "", "distance does not read y"),
        ('@block(reads="v x", writes="w y")', "", "distance does not write y"),
        (
            DECLARED,
            " + square",
            "f uses square, and distance, which it calls, writes square withou",
        ),
        (DECLARED, " + z", "file.py:4: f uses z, which it does not declare, nor does any block"),
        (DECLARED, "", ""),
        ('@block(reads="v x", writes="square w")', " + square", ""),
    ],
)
def test_blocks_say_what_they_read_and_write(tmp_path, declared, more, message):
    """No more of their caller, and no less; workunits have all their variables from somewhere."""
    call = partial(expanded, tmp_path, WORKUNIT.format(more=more), pair=f"\n{declared}{DISTANCE}")
    if not message:
        assert "square: REAL = x * x" in ast.unparse(call())
        return
    with pytest.raises(KernelError, match=message):
        call()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            "",
            r'twice takes r from blocks that it calls, .*; expected @block\(reads=.*, takes="r"\)',
        ),
        (', takes="r square"', "twice does not take square from blocks that it calls"),
        (', takes="r"', ""),
    ],
)
def test_blocks_say_what_they_take_from_blocks(tmp_path, declared, message):
    """What the blocks that they call leave, and they use and do not leave in turn."""
    pair = f"""
{DECLARED}{DISTANCE}
@block(reads="v x", writes="both w"{declared})
def twice():
    distance(r)
    both: REAL = 2.0 * r
"""
    call = partial(
        expanded,
        tmp_path,
        WORKUNIT.format(more="")
        .replace("distance(r)", "twice()")
        .replace("distance", "twice")
        .replace("= r", "= both"),
        pair=pair,
    )
    if message:
        with pytest.raises(KernelError, match=message):
            call()
    else:
        assert "both: REAL = 2.0 * r" in ast.unparse(call())


def test_what_bodies_declare_is_their_own(tmp_path):
    """Bodies of parallel loops and variables of loops are not the caller's."""
    block = """
@block(reads="team", writes="v")
def fill(count):
    def body(k: int):
        twice: int = 2 * k
        v[twice] += 1.0
    pk.parallel_for(pk.TeamThreadRange(team, count), body)
    for n in range(count):
        v[n] = 0.0
"""
    text = (
        "from kernels.blocks.all import fill\n\n"
        "@pk.workunit\ndef f(team: pk.TeamMember, v: pk.View1D[REAL]):\n    fill(3)\n"
    )
    assert "v[twice] += 1.0" in ast.unparse(expanded(tmp_path, text, all=block))


KERNEL = """from kernels.shapes.line import measure
import pykokkos as pk

REAL = pk.double
N = 2


@pk.workunit
def f(i: int, v: pk.View1D[REAL]):
    measure()
"""
SHAPES = {
    "line": '@block(reads="i", writes="v")\ndef measure():\n    v[i] = 1.0\n',
    "square": "SIDE = N + 1\n\n\n"
    '@block(writes="v")\ndef measure():\n    v[SIDE] = 2.0\n    more()\n\n\n'
    '@block(writes="v")\ndef more():\n    v[N] = SIDE\n',
    "doubled": 'N = 3\n\n\n@block(writes="v")\ndef measure():\n    v[N] = 1.0\n',
    "again": "from kernels.shapes.square import more\n\n\n"
    '@block(writes="v")\ndef measure():\n    more()\n',
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
        done.append(len([parsed(file, text) for _ in range(10)]))

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
    assert done == [10] * 4
