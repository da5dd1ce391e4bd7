"""The compile cache: many processes, killed processes, damaged entries, keys and folders."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import random
import shutil
import signal
import stat
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from small_kernels import RUN, SQUARE, run_python, small_kernel, start_python, write_kernel

from parki.errors import UnavailableError
from parki.runtime import cache, get_execution_space, host, messages
from parki.runtime import kernel as kernel_module
from parki.runtime.kernel import load
from parki.runtime.specialise import specialise
from parki.runtime.translate import translate


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache, for this process and those it starts."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("PARKI_CACHE_DIR", str(folder))
    monkeypatch.setattr(kernel_module, "_loaded", {})
    host._builds_in.cache_clear()
    yield folder
    host._builds_in.cache_clear()


def right(kernel) -> bool:
    v = np.arange(5.0)
    kernel(5, v=v)
    return np.array_equal(v, np.arange(5.0) ** 2 + 0.25)


def objects(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.so")}


def test_many_processes_at_once(folder, tmp_path):
    file = write_kernel(tmp_path, SQUARE)
    processes = [start_python(RUN, file) for _ in range(4)]
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert (out, process.returncode) == ("right\n", 0), err
    # The kernel and the compiler's trials, each once, and nothing half-made.
    built = objects(folder)
    assert not list(folder.glob("*.tmp"))
    assert run_python(RUN, file) == (0, "right\n", "")
    assert objects(folder) == built


@pytest.mark.slow
def test_killed_processes(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where they leave the sources
    file = write_kernel(tmp_path, SQUARE)
    start = time.perf_counter()
    run_python(RUN, file)
    full = time.perf_counter() - start
    for path in folder.iterdir():
        path.unlink()
    chance = random.Random(1)
    unfinished = 0
    for _ in range(20):
        process = start_python(RUN, file)
        time.sleep(full * chance.uniform(0.3, 1.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        unfinished += process.returncode == -signal.SIGKILL
        for path in folder.glob("*.so"):
            assert cache._content(path), "a process that was killed left half an entry"
            with contextlib.suppress(OSError):
                path.unlink()  # so that the next one compiles again
    assert unfinished, "every process finished before it was killed"
    status, out, err = run_python(RUN, file)
    assert (status, out) == (0, "right\n"), err


@pytest.mark.parametrize(
    "damage",
    [
        *("truncated", "empty", "flipped"),
        *(pytest.param(damage, marks=pytest.mark.slow) for damage in ("zeros", "garbage")),
    ],
)
def test_damaged_entry(folder, tmp_path, damage):
    kernel = small_kernel(tmp_path, SQUARE)
    assert right(kernel)
    path = folder / f"{kernel._object.key}.so"
    whole = path.read_bytes()
    path.unlink()  # this process keeps what it has loaded; the file is a new one
    half = len(whole) // 2
    path.write_bytes(
        {
            "truncated": whole[:half],
            "empty": b"",
            "flipped": whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :],
            "zeros": bytes(len(whole)),
            "garbage": b"not an object at all" * 10,
        }[damage]
    )
    assert not kernel._object.cached()
    assert run_python(RUN, tmp_path / "small.py")[:2] == (0, "right\n")
    assert path.read_bytes() == whole
    seal = path.with_name(path.name + ".seal")
    assert seal.read_bytes() == hashlib.sha256(path.name.encode() + b"\0" + whole).digest()
    assert kernel._object.cached()
    seal.unlink()
    assert not kernel._object.cached()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_entry_of_another_user_is_not_loaded(folder, tmp_path):
    kernel = small_kernel(tmp_path, SQUARE)
    assert right(kernel)
    path = folder / f"{kernel._object.key}.so"
    os.chown(path, 12345, -1)
    assert not kernel._object.cached()
    assert run_python(RUN, tmp_path / "small.py")[:2] == (0, "right\n")
    assert path.stat().st_uid == os.geteuid()


def test_folder_is_made_for_its_user_alone(folder, tmp_path):
    assert right(small_kernel(tmp_path, SQUARE))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert objects(folder)


def test_folder_follows_the_environment(folder, tmp_path, monkeypatch):
    for name in ("one", "two"):
        monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path / name))
        monkeypatch.setattr(kernel_module, "_loaded", {})
        assert right(small_kernel(tmp_path, SQUARE))
    assert objects(tmp_path / "one") & objects(tmp_path / "two")
    monkeypatch.setenv("PARKI_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(kernel_module, "_loaded", {})
    assert right(small_kernel(tmp_path, SQUARE))
    assert objects(tmp_path / "xdg" / "parki") and not folder.exists()


def test_what_enters_the_key(folder, tmp_path, monkeypatch):
    def key(text: str = SQUARE, serial: bool = False, team: int = 1, **constants) -> str:
        done = translate(specialise(write_kernel(tmp_path, text), "f", constants))
        return host.HostObject("f", host.source_text(done), serial, team).key

    keys = [key(), key(SQUARE.replace("0.25", "0.5")), key(REAL="float"), key(serial=True)]
    keys.append(key(team=4))
    found = host.compiler()
    with monkeypatch.context() as patch:
        patch.setattr(host, "compiler", lambda: host.Compiler(found.command, "another version"))
        keys.append(key())
    with monkeypatch.context() as patch:
        patch.setattr(host, "FLAGS", [*host.FLAGS, "-O2"])
        keys.append(key())
    with monkeypatch.context() as patch:
        patch.setattr(host, "_machine", lambda: "another machine")
        keys.append(key())
    assert len(set(keys)) == len(keys)
    assert key() == keys[0]


def test_two_compilers_two_entries(folder, tmp_path, monkeypatch):
    program = host.compiler().path
    file = write_kernel(tmp_path, SQUARE)
    kernels = []
    for name in ("one", "two"):
        wrapper = tmp_path / name
        wrapper.write_text(f'#!/bin/sh\nexec {program} "$@"\n', encoding="utf-8")
        wrapper.chmod(0o755)
        monkeypatch.setenv("CXX", str(wrapper))
        kernels.append(load(file, "f", get_execution_space("Serial")))
        assert right(kernels[-1])
    assert kernels[0] is not kernels[1]
    assert kernels[0]._object.key != kernels[1]._object.key
    assert {f"{k._object.key}.so" for k in kernels} <= objects(folder)


def test_compiler_with_words(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", f"{host.compiler().path} -DUNUSED='a b'")
    assert host.compiler().command[1:] == ("-DUNUSED=a b",)
    assert right(load(write_kernel(tmp_path, SQUARE), "f", get_execution_space("Serial")))


@pytest.mark.parametrize("why", ["below a file", "not writable"])
def test_folder_that_cannot_be_written(tmp_path, why):
    blocked = tmp_path / "blocked"
    if why == "below a file":
        blocked.write_text("", encoding="utf-8")
        target, reason = blocked / "cache", "it is a file, or in one"
    elif os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    else:
        blocked.mkdir(mode=0o500)
        target, reason = blocked, "it is not writable"
    code = RUN.rstrip() + "\n    from parki.runtime import cache; print(cache.directory())\n"
    status, out, err = run_python(
        code, write_kernel(tmp_path, SQUARE), PARKI_CACHE_DIR=str(target), TMPDIR=str(tmp_path)
    )
    result, stand_in = out.split()
    assert (status, result) == (0, "right"), err
    assert err.count(f"the cache folder {target} cannot be used ({reason})") == 1
    assert err.count("PARKI_CACHE_DIR") == 1
    assert Path(stand_in).parent == tmp_path and not Path(stand_in).exists(), "left behind"


def warned(caplog) -> bool:
    """Return whether the cache has been given up, with one warning."""
    said = [r.getMessage() for r in caplog.records if "cannot be used (" in r.getMessage()]
    assert len(said) <= 1
    return bool(said)


NAME = cache.key("of these tests")


@pytest.mark.parametrize("number", ["ENOSPC", "EDQUOT", "EPERM", "ESTALE", "EIO"])
@pytest.mark.parametrize("of", [tempfile.mkstemp, os.replace])
def test_folder_that_takes_no_more(folder, monkeypatch, caplog, number, of):
    """A temporary folder takes what comes from then on; what was kept before is still found."""
    assert cache.entry(cache.key("before"), lambda: b"kept", cache.plain) == b"kept"
    module, code = (tempfile if of is tempfile.mkstemp else os), getattr(errno, number)

    def refuse(*words, **how):
        if str(folder) in str((words, how)):
            raise OSError(code, os.strerror(code))
        return of(*words, **how)

    monkeypatch.setattr(module, of.__name__, refuse)
    assert cache.entry(NAME, lambda: b"new", cache.plain) == b"new"
    assert warned(caplog) and os.strerror(code) in cache.why_unusable()
    assert cache.content(NAME) == b"new" and (cache.directory() / f"{NAME}.so").exists()
    assert cache.content(cache.key("before")) == b"kept"
    assert not list(folder.glob("*.tmp"))


@pytest.mark.parametrize("what", [os.mkfifo, os.mkdir])
@pytest.mark.parametrize("suffix", [".so", ".so.seal", ".lock"])
def test_what_is_no_file_in_the_place_of_one(folder, caplog, what, suffix):
    folder.mkdir(mode=0o700)
    what(folder / f"{NAME}{suffix}")
    assert cache.entry(NAME, lambda: b"new", cache.plain) == b"new" == cache.content(NAME)
    assert warned(caplog) == (what is os.mkdir and suffix != ".lock")  # it replaces a FIFO
    host.compilers()  # asks for records


def test_folder_that_vanishes_while_it_compiles(folder, caplog):
    def build() -> bytes:
        shutil.rmtree(folder)
        return b"new"

    assert cache.entry(NAME, build, cache.plain) == b"new" == cache.content(NAME)
    assert not warned(caplog) and (folder / f"{NAME}.so").exists()


def test_no_folder_at_all(folder, monkeypatch, caplog):
    """What is compiled is used; what needs a folder says that there is none."""
    folder.write_bytes(b"")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    cache._temporary.cache_clear()
    assert cache.entry(NAME, lambda: b"new", cache.plain) == b"new"
    with pytest.raises(UnavailableError, match="no temporary folder takes its place"):
        cache.directory()
    with pytest.raises(UnavailableError, match="the compiler needs a temporary folder"):
        host._compile(host.compiler(), [], "")
    assert warned(caplog)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_that_do_not_belong_to_who_writes_them(folder, monkeypatch, caplog):
    """As where a server takes root for nobody: they would be compiled again and again."""
    real = tempfile.mkstemp

    def squashed(**how):
        handle, name = real(**how)
        if str(folder) in name:
            os.chown(name, 65534, -1)
        return handle, name

    monkeypatch.setattr(tempfile, "mkstemp", squashed)
    assert cache.entry(NAME, lambda: b"new", cache.plain) == b"new" == cache.content(NAME)
    assert warned(caplog) and "it belongs to another user" in cache.why_unusable()


def test_other_processes_that_hold_a_lock_are_named(folder, monkeypatch, caplog):
    monkeypatch.setattr(messages, "PATIENCE", 0.05)
    folder.mkdir(mode=0o700)
    held = (folder / f"{NAME}.lock").open("w")
    fcntl.flock(held, fcntl.LOCK_EX)
    timer = threading.Timer(0.5, held.close)
    timer.start()
    cache.entry(NAME, lambda: b"new", cache.plain)
    timer.join()
    assert f"another process holds {folder / NAME}.lock" in caplog.text


def test_a_child_leaves_folders_and_locks_to_its_parent(tmp_path):
    """Those in which its parent compiles, and those that stand in for the cache."""
    code = """
    import os, sys, threading
    from parki.runtime import cache, private
    def compiling():
        with private.temporary_folder() as folder, cache._locked(name):
            found.append(folder)
            begun.wait()
            done.wait()
    begun, done, found, name = threading.Barrier(2), threading.Event(), [], cache.key("name")
    before = cache.directory()
    thread = threading.Thread(target=compiling)
    thread.start()
    begun.wait()
    waiting, told = os.pipe()
    child = os.fork()
    if not child:  # it has the lock's file open
        os.close(told)
        os.read(waiting, 1)
        print(cache.directory() == before)
        sys.exit(0)
    if not os.fork():
        sys.exit(0)
    os.wait()
    print(found[0].exists(), before.exists())
    done.set()
    with cache._locked(name):
        os.close(told)
    print(os.wait() == (child, 0), before.exists())
    """
    blocked = tmp_path / "blocked"
    blocked.touch()
    status, out, err = run_python(code, PARKI_CACHE_DIR=str(blocked), TMPDIR=str(tmp_path))
    assert (status, out.split()) == (0, ["True", "True", "False", "True", "True"]), err
    assert err.count("cannot be used") == 1
    assert list(tmp_path.iterdir()) == [blocked]


def test_remains_of_killed_processes_are_swept(folder):
    folder.mkdir(mode=0o700)
    name = cache.key("killed")
    old, young, users = (folder / f"{x}.tmp" for x in (f"{name}abc_01", f"{name}.seal", "mine"))
    for path in (old, young, users):
        path.write_bytes(b"half an object")
    for path in (old, users):
        os.utime(path, (time.time() - 2 * cache._STALE_SECONDS,) * 2)
    cache.entry("new", lambda: b"whole", cache.plain)
    assert not old.exists() and young.exists() and users.exists()
    assert (folder / "new.so").read_bytes().startswith(b"whole")


def test_a_failed_build_leaves_nothing(folder):
    def fail() -> bytes:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.entry("new", fail, cache.plain)
    assert not cache.exists("new")
    assert not list(folder.glob("*.tmp")) and not list(folder.glob("*.so"))
