"""The compile cache: many processes, killed processes, damaged entries, keys and folders."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import stat
import time
from pathlib import Path

import numpy as np
import pytest
from small_kernels import RUN, SQUARE, run_python, small_kernel, start_python, write_kernel

from parki.runtime import cache, get_execution_space, host
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
