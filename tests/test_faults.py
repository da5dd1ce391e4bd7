"""Faults from outside: processes killed at any moment, and entries that were tampered with."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import signal
import stat
import time

import numpy as np
import pytest
from small_kernels import RUN, SQUARE, run_python, small_kernel, start_python, write_kernel

from parki.runtime import cache
from parki.runtime import kernel as kernel_module

WRONG = SQUARE.replace("0.25", "0.5")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache, for this process and those it starts."""
    monkeypatch.setenv("PARKI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where killed processes leave their sources
    return tmp_path / "cache"


def entries(folder):
    """Return what the folder holds, except for trials of the compiler."""
    return {path for path in folder.glob("*.so") if path.stat().st_size}


def built(folder, tmp_path, text=SQUARE):
    """Run a kernel in a process of its own; return its entry."""
    before = entries(folder) if folder.exists() else set()
    status, out, err = run_python(RUN, write_kernel(tmp_path, text))
    assert (status, out) == (0, "right\n" if text == SQUARE else "wrong\n"), err
    return max(entries(folder) - before, key=lambda path: path.stat().st_mtime)


# ---------------------------------------------------------------------- kill -9
def kill(folder, tmp_path, times, at_once, latest=1.3):
    """Start processes that compile, several at once, and kill each at a random moment.

    ``latest`` is over the time that one takes alone. Returns how many had not ended by then.
    """
    file = write_kernel(tmp_path, SQUARE)
    start = time.perf_counter()
    run_python(RUN, file)
    full = time.perf_counter() - start
    chance, killed = random.Random(times), 0
    for done in range(0, times, at_once):
        if chance.random() < 0.7:  # else they find a whole entry, and read it
            # There may be none, or compilers of killed processes that still write to it.
            shutil.rmtree(folder, ignore_errors=True)
        running = [start_python(RUN, file) for _ in range(min(at_once, times - done))]
        begin, moments = time.perf_counter(), sorted(chance.uniform(0, latest) for _ in running)
        for process, moment in zip(running, moments, strict=True):
            time.sleep(max(0.0, begin + full * moment - time.perf_counter()))
            process.send_signal(signal.SIGKILL)
        for process in running:
            out, _ = process.communicate(timeout=60)
            assert out in ("", "right\n")
            killed += process.returncode == -signal.SIGKILL
        for path in entries(folder) if folder.exists() else ():
            assert cache.is_whole(path), "a process that was killed left half an entry"
    assert run_python(RUN, file)[:2] == (0, "right\n")
    return killed


def test_killed(folder, tmp_path):
    # On a machine whose load has just gone down, all may end before.
    latest = (1.3, 0.4, 0.1, 0.02)
    assert any(kill(folder, tmp_path, times=5, at_once=2, latest=part) for part in latest)


@pytest.mark.slow
def test_killed_a_hundred_times(folder, tmp_path):
    assert kill(folder, tmp_path, times=100, at_once=4) >= 50


# ---------------------------------------------------------------------- tampered entries
def test_link_in_the_place_of_an_entry(folder, tmp_path):
    """Even to a good one, which is where others may change it."""
    path, elsewhere = built(folder, tmp_path), tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = path.rename(elsewhere / path.name)
    path.symlink_to(moved)
    assert cache.is_whole(path) and not cache._content(path)
    assert run_python(RUN, write_kernel(tmp_path, SQUARE))[:2] == (0, "right\n")
    assert not path.is_symlink() and moved.exists()


def test_entry_that_everybody_may_write(folder, tmp_path):
    path = built(folder, tmp_path)
    path.chmod(0o777)
    assert not cache._content(path)
    assert run_python(RUN, write_kernel(tmp_path, SQUARE))[:2] == (0, "right\n")
    assert not path.stat().st_mode & stat.S_IWOTH
    assert cache._content(path)


def test_folder_that_everybody_may_write(folder, tmp_path):
    path = built(folder, tmp_path)
    folder.chmod(0o777)
    assert not cache._content(path)
    status, out, err = run_python(RUN, write_kernel(tmp_path, SQUARE))
    assert (status, out) == (0, "right\n")
    assert f"the cache folder {folder} cannot be used (everybody may write to it)" in err


@pytest.mark.parametrize("what", ["folder", "entry", "seal"])
@pytest.mark.parametrize("how", ["its group", "everybody", "another user"])
def test_what_another_user_can_change_is_not_loaded(folder, what, how):
    name = cache.key("kernel")
    assert cache.entry(name, lambda: b"good", cache.plain) == b"good"
    path = {"folder": folder, "entry": folder / f"{name}.so", "seal": folder / f"{name}.so.seal"}
    if how != "another user":
        path[what].chmod(path[what].stat().st_mode | (0o020 if how == "its group" else 0o002))
    elif os.geteuid():
        pytest.skip("only root can give files away")
    else:
        os.chown(path[what], 12345, -1)
    assert cache.content(name) is None
    assert cache.entry(name, lambda: b"another", cache.plain) == b"another"
    assert cache.content(name) == b"another"
    assert (how in cache.why_unusable()) == (what == "folder")
    assert (cache.directory() == folder) == (what != "folder")


@pytest.mark.parametrize("memory", [True, False])
def test_what_was_verified_is_loaded(folder, tmp_path, monkeypatch, memory):
    """A file that is exchanged in between is not, from memory or a private folder."""
    if memory and not hasattr(os, "memfd_create"):
        pytest.skip("only Linux has files of memory")
    wrong, path = built(folder, tmp_path, WRONG), built(folder, tmp_path)
    if not memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    load, loaded = ctypes.CDLL, []

    def exchange(file, *words, **how):
        if not loaded:
            shutil.copyfile(wrong, path)
        loaded.append(file)
        return load(file, *words, **how)

    monkeypatch.setattr(ctypes, "CDLL", exchange)
    monkeypatch.setattr(kernel_module, "_loaded", {})
    v = np.arange(5.0)
    small_kernel(tmp_path, SQUARE)(5, v=v)
    assert np.array_equal(v, np.arange(5.0) ** 2 + 0.25)
    assert loaded and not any(os.path.lexists(file) for file in loaded)


def test_umask_of_the_linker(folder, tmp_path):
    """What the compiler writes under a careless umask is closed to others."""
    old = os.umask(0)
    try:
        path = built(folder, tmp_path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_link_in_the_place_of_a_lock(folder, tmp_path):
    """What it leads to is neither emptied nor written."""
    precious = tmp_path / "precious"
    precious.write_text("do not touch", encoding="utf-8")
    path = built(folder, tmp_path)
    path.unlink()
    lock = path.with_suffix(".lock")
    lock.unlink()
    lock.symlink_to(precious)
    assert run_python(RUN, write_kernel(tmp_path, SQUARE))[:2] == (0, "right\n")
    assert precious.read_text(encoding="utf-8") == "do not touch"


@pytest.mark.parametrize(
    "what",
    [
        *("half", "another", "sealed twice"),
        *(pytest.param(what, marks=pytest.mark.slow) for what in ("empty", "text")),
    ],
)
def test_wrong_content(folder, tmp_path, what):
    path = built(folder, tmp_path)
    whole = path.read_bytes()
    content = {
        "empty": b"",
        "half": whole[: len(whole) // 2],
        "another": whole.replace(b"parki_entry", b"parki_enter"),
        "text": b"\x7fELF and nothing else",
        "sealed twice": whole + whole[-40:],
    }[what]
    path.unlink()  # other processes keep what they have loaded
    path.write_bytes(content)
    path.chmod(0o700)
    assert not cache._content(path)
    assert run_python(RUN, write_kernel(tmp_path, SQUARE))[:2] == (0, "right\n")
    assert cache._content(path)


def test_entry_under_the_name_of_another(folder, tmp_path):
    """It would run in the other's place."""
    other, path = built(folder, tmp_path, WRONG), built(folder, tmp_path)
    assert cache._content(path)
    path.write_bytes(other.read_bytes())
    assert cache._content(other) and not cache._content(path)
    assert run_python(RUN, write_kernel(tmp_path, SQUARE))[:2] == (0, "right\n")
