"""Machines with no compiler, or one without OpenMP; and what a user hears while kernels compile."""

from __future__ import annotations

import contextlib
import logging
import os
import pty

import numpy as np
import pytest
from small_kernels import RUN, SQUARE, run_python, small_kernel, start_python, write_kernel

import parki
from parki.errors import UnavailableError
from parki.runtime import host, messages, spaces
from parki.runtime import kernel as kernel_module

SOLVE = """
    import numpy as np
    import parki
    rng = np.random.default_rng(0)
    points, dens = rng.random((3, 60)), rng.standard_normal(60)
    # Given, as what is chosen depends on the threads.
    options = parki.EwaldOptions(3, [1, 1, 1], 1e-2, cutoff=0.4, window_points=7)
    print(repr(float(np.abs(parki.laplace(points, points, dens, options)).sum())))
    print(repr(float(np.abs(parki.laplace(points, points, dens, options)).sum())))
    """
LINE = "parki: compiling kernels for OpenMP (once, kept in {})\n"


@pytest.fixture
def program() -> str:
    """The compiler's full path."""
    return host.compiler().command[0]


@pytest.fixture
def empty(tmp_path):
    """A folder with nothing in it."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


# ---------------------------------------------------------------------- no compiler
@pytest.mark.parametrize(
    ("cxx", "what"),
    [
        (None, "no C++ compiler was found"),
        ("/nowhere/g++", "CXX is '/nowhere/g++', which cannot be run"),
        ("true", "CXX is 'true', which cannot be run"),
    ],
)
def test_no_compiler(empty, cxx, what):
    code = """
    import numpy as np, parki
    def never(*args):
        raise AssertionError("work was begun")
    parki.ewald.plan.CellList = parki.cell_list.CellList.__init__ = never
    try:
        options = parki.EwaldOptions(3, [1, 1, 1])
        parki.laplace(np.zeros((3, 4)), np.zeros((3, 4)), np.zeros(4), options)
    except parki.UnavailableError as error:
        print(error)
    print(parki.available_spaces())
    """
    status, out, err = run_python(code, PATH=str(empty), CXX=cxx, PARKI_CACHE_DIR=str(empty))
    assert status == 0, err
    message, available = out.splitlines()
    assert message.startswith(f"{what}; parki compiles its CPU kernels once, on first use. Install")
    for remedy in ("apt install g++", "dnf install gcc-c++", "xcode-select --install", "set CXX"):
        assert remedy in message
    assert available == "[]"
    assert not list(empty.iterdir())


def test_import_needs_no_compiler(empty):
    code = "import parki, parki.distributed" if hasattr(parki, "distributed") else "import parki"
    assert run_python(code, PATH=str(empty), CXX=None)[0] == 0


# ---------------------------------------------------------------------- no OpenMP
@pytest.fixture
def without_openmp(tmp_path, program):
    """A compiler that refuses -fopenmp, as Apple's does."""
    wrapper = tmp_path / "c++"
    wrapper.write_text(
        "#!/bin/sh\n"
        'for word in "$@"; do\n'
        '    if [ "$word" = -fopenmp ]; then echo "unsupported option" >&2; exit 1; fi\n'
        "done\n"
        f'exec {program} "$@"\n',
        encoding="utf-8",
    )
    wrapper.chmod(0o755)
    return str(wrapper)


def test_compiler_without_openmp(without_openmp, tmp_path):
    cache = str(tmp_path / "cache")
    status, out, err = run_python(SOLVE, CXX=without_openmp, PARKI_CACHE_DIR=cache)
    assert status == 0, err
    assert err.count("has no OpenMP, so kernels run in one thread (Serial)") == 1
    assert err.count(without_openmp) == 1
    assert f"compiling kernels for Serial (once, kept in {cache})" in err
    assert out == run_python(SOLVE)[1]


def test_spaces_without_openmp(without_openmp, monkeypatch, tmp_path):
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", without_openmp)
    spaces._usable.cache_clear()
    assert spaces.why_unavailable("OpenMP") == "the C++ compiler has no OpenMP"
    assert spaces.why_unavailable("Serial") == ""
    assert spaces.get_execution_space("OpenMP").name == "Serial"
    spaces._usable.cache_clear()


# ---------------------------------------------------------------------- progress
def test_one_line_when_cold_none_when_warm(tmp_path):
    cache = str(tmp_path / "cache")
    cold = run_python(SOLVE, PARKI_CACHE_DIR=cache)  # several kernels, in several batches
    assert (cold[0], cold[2]) == (0, LINE.format(cache))
    assert run_python(SOLVE, PARKI_CACHE_DIR=cache) == (0, cold[1], "")


def test_display_on_a_terminal(tmp_path):
    main, side = pty.openpty()
    file = write_kernel(tmp_path, SQUARE)
    process = start_python(RUN, file, stderr=side, PARKI_CACHE_DIR=str(tmp_path / "cache"))
    os.close(side)
    shown = b""
    # Reading fails, or gives nothing, once the other side is closed.
    with contextlib.suppress(OSError):
        while data := os.read(main, 4096):
            shown += data
    os.close(main)
    assert process.wait(timeout=60) == 0
    assert shown.startswith(b"\rparki: compiling kernels for OpenMP: 0 of ")
    assert b"once, kept in" not in shown
    # The display counts to the end, then wipes itself.
    *_, count, blank, end = shown.split(b"\r")
    assert count.endswith(b": 1 of 1")
    assert (blank.strip(), end) == (b"", b"")


@pytest.mark.parametrize(
    ("configure", "expected"),
    [
        ("logging.basicConfig(level='INFO', format='LOG %(message)s')", "LOG "),
        ("logging.basicConfig(format='LOG %(message)s')", None),  # its level is WARNING
        ("logging.getLogger('parki').setLevel('WARNING')", None),
        ("logging.getLogger('other').addHandler(logging.StreamHandler())", ""),
    ],
)
def test_logging_gets_the_line_once(tmp_path, configure, expected):
    cache = str(tmp_path / "cache")
    code = f"\n    import logging\n    {configure}" + RUN
    _, _, err = run_python(code, write_kernel(tmp_path, SQUARE), PARKI_CACHE_DIR=cache)
    assert err == ("" if expected is None else expected + LINE.format(cache))


def test_warnings_go_through_logging_once(tmp_path):
    code = "\n    import logging\n    logging.basicConfig(format='LOG %(levelname)s %(message)s')"
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    file = write_kernel(tmp_path, SQUARE)
    _, _, err = run_python(code + RUN, file, PARKI_CACHE_DIR=str(blocked))
    assert err.startswith(f"LOG WARNING parki: the cache folder {blocked} cannot be used")
    assert err.count("\n") == 1


def test_first_launch_speaks_too(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_module, "_loaded", {})
    messages.notice.cache_clear()
    kernel = small_kernel(
        tmp_path, "@pk.workunit\ndef f(i: int, v: pk.View1D[REAL]):\n    v[i] = 7.0\n"
    )
    with caplog.at_level(logging.INFO, "parki"):
        kernel(1, v=np.zeros(1))
        kernel(1, v=np.zeros(1))
    assert [r.getMessage() for r in caplog.records] == [LINE.format(tmp_path / "cache").rstrip()]


def test_unknown_space_names_those_known():
    with pytest.raises(UnavailableError, match="expected OpenMP, Serial, Cuda or HIP"):
        parki.get_execution_space("Sycl")
