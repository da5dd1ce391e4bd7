"""Machines with no compiler, and what a user hears while kernels compile."""

from __future__ import annotations

import contextlib
import logging
import os
import pty
import shutil
import textwrap

import numpy as np
import pytest
from small_kernels import (
    RUN,
    SQUARE,
    executable,
    run_python,
    small_kernel,
    start_python,
    write_kernel,
)

import parki
from parki.cli import info
from parki.errors import KernelError, ParkiValueError, UnavailableError
from parki.runtime import cache, host, messages, spaces, zig
from parki.runtime import kernel as kernel_module

# Kernels of several stages, in several batches.
SPREAD = """
    import numpy as np
    import parki
    points = np.random.default_rng(0).random((3, 60))
    grid = parki.mesh.Grid((12, 13, 14), spacing=1 / 12)
    for _ in range(2):
        print(repr(float(parki.mesh.SpreadPlan(points, grid)(points[0]).std())))
    """
LINE = "parki: compiling kernels for OpenMP (once, kept in {})\n"


@pytest.fixture
def program():
    """The compiler's full path."""
    return host.compiler().command[0]


@pytest.fixture
def empty(tmp_path):
    """A folder with nothing in it."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


def forget() -> None:
    """Have this process know no more of compilers than a new one."""
    for known in (host._find, host._builds_in, spaces._usable):
        known.cache_clear()


@pytest.fixture
def bare(monkeypatch, empty):
    """Make this process like a new one that finds no compiler, and has the cache of a folder."""

    def make(folder, cxx=None):
        monkeypatch.setenv("PATH", str(empty))
        monkeypatch.setenv("PARKI_CACHE_DIR", str(folder))
        monkeypatch.setenv("CXX", cxx or "")
        monkeypatch.setattr(zig, "command", list)
        monkeypatch.setattr(kernel_module, "_loaded", {})
        forget()

    yield make
    forget()


def spread() -> None:
    """Run `SPREAD` in this process."""
    exec(textwrap.dedent(SPREAD), {})


# ---------------------------------------------------------------------- no compiler
@pytest.mark.parametrize(
    ("cxx", "what"),
    [
        (None, "no C++ compiler was found"),
        ("/nowhere/g++", "CXX is '/nowhere/g++', which cannot be run"),
        ("true", "CXX is 'true', which cannot be run"),
    ],
)
def test_no_compiler(bare, empty, monkeypatch, cxx, what):
    def never(*_):
        raise AssertionError("work was begun")

    bare(empty, cxx)
    monkeypatch.setattr(parki.cells.sorted_points.SortedPoints, "__init__", never)
    points = np.zeros((3, 4))
    with pytest.raises(UnavailableError) as caught:
        parki.laplace(points, points, points[0], parki.EwaldOptions(3, [1, 1, 1]))
    message = str(caught.value)
    assert message.startswith(f"{what}; parki compiles its CPU kernels once, on first use. Install")
    remedies = ("apt install g++", "dnf install gcc-c++", "xcode-select --install")
    for remedy in (*remedies, "pip install ziglang", "set CXX"):
        assert remedy in message
    assert parki.available_spaces() == []
    assert not list(empty.iterdir())


def test_import_needs_no_compiler_and_no_pykokkos(empty):
    code = "import sys, parki, parki.runtime.upstream; print('pykokkos' in sys.modules)"
    assert run_python(code, PATH=str(empty), CXX=None) == (0, "False\n", "")


def c_compiler() -> str:
    """Return one, or skip the test."""
    found = shutil.which("gcc") or shutil.which("clang")
    if not found:
        pytest.skip("there is no C compiler")
    return found


def without_cxx(tmp_path) -> str:
    """Return a C compiler beside which that of C++ is not installed."""
    refuse = 'case "$*" in *"-x c "*|*--version*) ;; *) exit 1;; esac'
    return executable(tmp_path / "cc", f'{refuse}\nexec {c_compiler()} "$@"')


@pytest.mark.parametrize("alone", [False, True])
def test_a_c_compiler_is_refused(monkeypatch, tmp_path, alone):
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path / "cache"))
    cxx = without_cxx(tmp_path) if alone else c_compiler()
    monkeypatch.setenv("CXX", cxx)
    with pytest.raises(ParkiValueError, match=f"CXX is '{cxx}', a C compiler: .*; set CXX to"):
        host.check_compiler()
    assert "a C compiler" in spaces.why_unavailable("OpenMP")


def test_a_broken_compiler_is_no_c_compiler(monkeypatch, tmp_path):
    """Its own words say more."""
    broken = executable(tmp_path / "broken", '[ "$1" = --version ]')
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", broken)
    assert host.compiler().path == broken


def test_ziglang_comes_last(monkeypatch, tmp_path, empty, caplog):
    """It is taken where PATH has no compiler, and says what its first use takes."""
    assert not zig.is_zig(host.compiler().command)  # another one is here
    if not zig.command():
        pytest.skip("ziglang is not installed (pip install 'parki[compiler]')")
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(kernel_module, "_loaded", {})
    messages.notice.cache_clear()
    kernel, v = small_kernel(tmp_path, SQUARE), np.arange(5.0)
    with caplog.at_level(logging.INFO, "parki"):
        kernel(5, v=v)
    assert np.array_equal(v, np.arange(5.0) ** 2 + 0.25)
    assert zig.is_zig(kernel._object.compiler.command)
    assert caplog.text.count("takes some ten seconds longer") == 1


# ---------------------------------------------------------------------- a bad compiler
TOY = 'extern "C" __attribute__((visibility("default"))) int parki_entry() { return 7; }'


@pytest.fixture
def toy(monkeypatch, tmp_path, program):
    """Make a compiler of the shell's commands, which know what is made as $out; return a kernel."""
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    wrapper = tmp_path / "cxx.sh"
    monkeypatch.setenv("CXX", "./cxx.sh")

    def make(commands, first="#!/bin/sh\n"):
        head = f'{first}for out; do :; done\n[ "$1" = --version ] && exec {program} --version\n'
        wrapper.write_text(f'{head}{program} "$@" || exit\n{commands}\n', encoding="utf-8")
        wrapper.chmod(0o755)
        return host.HostObject("toy", TOY)

    forget()
    yield make
    forget()


WRONG = {
    "exit 3": "failed on a kernel:\nit ended with 3, and wrote nothing",
    "head -c 9000 $out > half; cp half $out": r"cannot be loaded \(it is cut off\): .* 9000 b",
    ": > $out": r"cannot be loaded \(.*wrote 0 bytes without an error",
    "rm $out": r"cannot be loaded \(.*wrote 0 bytes without an error",
    "kill -9 $$": r"failed on a kernel:\nit was ended by signal 9",
    "printf 'wrong: \\377' >&2; exit 3": "failed on a kernel:\nwrong: \ufffd",
}


def test_what_a_bad_compiler_made_is_not_kept(toy, monkeypatch, empty, caplog):
    for commands, message in WRONG.items():
        kernel = toy(commands)
        with pytest.raises(KernelError, match=message):
            kernel.entry()
        assert not kernel.cached()
    # What was kept and cannot be loaded is made again, in any working folder.
    cache.keep(kernel.key, b"no library", ".so")
    assert kernel.cached()
    monkeypatch.setattr(messages, "PATIENCE", 0.05)
    kernel, wrapper = toy("sleep 0.2"), f"{os.getcwd()}/cxx.sh"
    monkeypatch.chdir(empty)
    assert kernel.entry()() == 7
    assert f"the compiler {wrapper} is at work" in caplog.text


def test_a_compiler_that_the_system_does_not_run(toy):
    with pytest.raises(
        UnavailableError, match=r"CXX is './cxx.sh', which cannot be run \(.*format"
    ):
        toy("", first="")


# ---------------------------------------------------------------------- a full cache
@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A cache with the kernels of SPREAD, and what that prints, and says meanwhile."""
    folder = tmp_path_factory.mktemp("full")
    status, *said = run_python(SPREAD, CXX=None, PARKI_CACHE_DIR=str(folder))
    assert status == 0, said
    return str(folder), *said


def test_a_full_cache_needs_no_compiler(full, empty, bare, monkeypatch, capsys):
    """Nor that it can be written; there is one line when it is cold, and none when it is warm."""
    folder, out, said = full
    assert said == LINE.format(folder)
    process = run_python(SPREAD, PATH=str(empty), CXX=None, PARKI_CACHE_DIR=folder)
    assert process == (0, out, "")
    bare(folder)
    monkeypatch.setattr(cache, "why_unusable", lambda: "it is not writable")
    spread()
    assert capsys.readouterr() == (out, "")


@pytest.mark.parametrize(("machine", "cxx"), [("a CPU without AVX", None), ("", "g++-99")])
def test_kernels_of_another_processor_or_compiler_are_not_loaded(
    full, bare, monkeypatch, machine, cxx
):
    bare(full[0], cxx)
    if machine:
        monkeypatch.setattr(host, "_machine", lambda: machine)
    with pytest.raises(UnavailableError, match=r"apt install g\+\+") as caught:
        spread()
    said = f"; the kernels in {full[0]} do not serve here, as they were compiled for"
    assert said in str(caught.value)


def test_info_of_a_full_cache(full, bare):
    version = host.compiler().version
    bare(full[0])
    out = info.text(info.facts())
    assert "compiler    none: no C++ compiler was found" in out
    assert f"kernels     those in the cache, compiled by {version}" in out


def test_a_kernel_that_is_not_in_a_full_cache(full, bare, tmp_path):
    bare(full[0])
    before, said = set(os.listdir(full[0])), f"the kernel f is not among those in {full[0]}; no C"
    with pytest.raises(UnavailableError, match=rf"{said}.*apt install g\+\+"):
        small_kernel(tmp_path, SQUARE)
    left = set(os.listdir(full[0])) - before
    assert {name.split(".")[1] for name in left} == {"translation"}  # needs no compiler


def test_a_damaged_record_is_not_believed(full, bare, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(full[0], folder)
    (record,) = folder.glob("*.compiler")
    record.write_bytes(record.read_bytes().replace(b"g++", b"c++"))
    bare(folder)
    with pytest.raises(UnavailableError, match=r"^no C\+\+ compiler was found"):
        spread()


def test_a_cache_that_two_versions_of_a_compiler_filled(tmp_path, program, bare):
    """One was replaced by the other, and each has compiled one kernel of two."""
    wrapper, search = tmp_path / "wrapper", os.environ["PATH"]

    def check(added):
        v = np.full(1, 3.0)
        bare(tmp_path / "cache", str(wrapper))
        small_kernel(tmp_path, SQUARE.replace("0.25", str(added)))(1, v=v)
        assert v[0] == 9 + added

    kernels = (("one", 0.25), ("two", 0.5))
    for version, added in kernels:
        named = f'[ "$1" = --version ] && echo {version} && exit'
        executable(wrapper, f'{named}\nPATH="{search}" exec {program} "$@"')
        check(added)
    wrapper.unlink()
    for _, added in kernels:
        check(added)


def test_an_object_that_vanished_cannot_be_compiled(tmp_path, bare, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("PARKI_CACHE_DIR", str(folder))
    monkeypatch.setenv("CXX", "")
    monkeypatch.setattr(kernel_module, "_loaded", {})
    small_kernel(tmp_path, SQUARE).build()
    bare(folder)
    kernel = small_kernel(tmp_path, SQUARE)
    assert kernel.cached()
    (folder / f"{kernel._object.key}.so").unlink()
    with pytest.raises(UnavailableError, match=r"no C\+\+ compiler was found"):
        kernel.build()


# ---------------------------------------------------------------------- progress
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


BLOCKED = "LOG WARNING parki: the cache folder {} cannot be used"


@pytest.mark.parametrize(
    ("level", "blocked", "expected"),
    [
        ("INFO", False, f"LOG INFO {LINE}"),
        ("WARNING", False, ""),
        ("WARNING", True, BLOCKED),
        (None, False, LINE),  # another logger has a handler
    ],
)
def test_each_line_is_said_once(tmp_path, monkeypatch, capsys, level, blocked, expected):
    """Through logging, if that is configured."""
    folder, before = tmp_path / "cache", logging.root.level
    monkeypatch.setenv("PARKI_CACHE_DIR", str(folder))
    monkeypatch.setattr(kernel_module, "_loaded", {})
    messages.notice.cache_clear()
    if blocked:
        folder.touch()
    with monkeypatch.context() as patch:
        patch.setattr(logging.root, "handlers", [])
        patch.setattr(logging.getLogger("other"), "handlers", [logging.StreamHandler()])
        if level:
            logging.basicConfig(level=level, format="LOG %(levelname)s %(message)s")
        for _ in range(2):
            small_kernel(tmp_path, SQUARE)(1, v=np.zeros(1))
    logging.root.setLevel(before)
    err = capsys.readouterr().err
    assert err.startswith(expected.format(folder)) and err.count("\n") == bool(expected)


def test_unknown_space_names_those_known():
    with pytest.raises(ParkiValueError, match="expected OpenMP, Serial, Cuda or HIP"):
        parki.get_execution_space("Sycl")
    assert parki.get_execution_space("threads").name == "OpenMP"  # Kokkos has both


# ---------------------------------------------------------------------- other systems
# Windows, faked by hiding what only POSIX has.
WINDOWS = r"""
    import importlib, os, sys, types
    from pathlib import Path

    def import_all():
        import parki
        root = Path(parki.__file__).parent
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root.parent).with_suffix("").parts
            # Not what needs packages that may be missing.
            if not {"jax", "torch", "distributed", "libmobility", "__main__"} & {*parts}:
                importlib.import_module(".".join(parts).removesuffix(".__init__"))

    import_all()  # with all that parki takes from others, which is then not imported again
    for name in [name for name in sys.modules if name.partition(".")[0] == "parki"]:
        del sys.modules[name]

    for name in ("register_at_fork", "fork", "geteuid", "O_NOFOLLOW", "O_CLOEXEC", "RTLD_NOLOAD",
                 "sched_getaffinity"):
        if hasattr(os, name):
            delattr(os, name)
    for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios"):
        sys.modules[name] = None
    tried = []

    def locking(handle, mode, count):
        tried.append((mode, count))
        if len(tried) == 1:
            raise PermissionError("another process has it")

    sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK="at once")
    sys.platform = "win32"
    import_all()

    from parki.runtime import cache, forks, spaces
    from parki.settings import split_command, thread_count

    command = r'"C:\Program Files\LLVM\clang++.exe" -O2'
    assert split_command(command) == [r"C:\Program Files\LLVM\clang++.exe", "-O2"]
    assert thread_count() >= 1
    forks.run_in_threads(lambda item: None, range(3), 2)
    folder = cache.directory()
    folder.chmod(0o777)  # as Windows says of every folder
    assert not cache.why_unusable()
    path = folder / "name.so"
    assert cache.entry("name", lambda: b"one", cache.plain) == b"one"
    assert tried == [("at once", 1)] * 2 and cache.exists("name"), tried

    # A library that is loaded can be renamed, but not replaced.
    path.write_bytes(b"damaged")
    replace = os.replace

    def refuse(source, target):
        if target == path and path.exists():
            raise PermissionError("in use")
        replace(source, target)

    os.replace = refuse
    cache.entry("name", lambda: b"two", cache.plain)
    assert path.read_bytes() == b"two" and cache.exists("name")
    old, = folder.glob("*.tmp")  # swept later
    assert old.read_bytes() == b"damaged"
    """


def test_windows_without_posix(tmp_path):
    status, _, err = run_python(WINDOWS, PARKI_CACHE_DIR=str(tmp_path / "cache"), CXX=None)
    assert status == 0, err
