"""The compile cache: killed processes, entries that were tampered with, keys and folders."""

from __future__ import annotations

import ctypes
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

import pytest
from small_kernels import (
    RUN,
    SQUARE,
    right,
    run_python,
    small_kernel,
    start_python,
    write_kernel,
)

from parki.errors import UnavailableError
from parki.runtime import cache, host, messages
from parki.runtime import kernel as kernel_module
from parki.runtime.specialise import specialise
from parki.runtime.translate import translate

NAME = cache.key("of these tests")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache, for this process and those it starts."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("PARKI_CACHE_DIR", str(folder))
    monkeypatch.setattr(kernel_module, "_loaded", {})
    host._builds_in.cache_clear()
    yield folder
    host._builds_in.cache_clear()


def built(tmp_path, text: str = SQUARE) -> Path:
    """Run a kernel as in a new process; return its entry."""
    kernel_module._loaded.clear()
    kernel = small_kernel(tmp_path, text)
    assert right(kernel) == (text == SQUARE)
    return cache.directory() / f"{kernel._object.key}.so"


def objects(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.so")}


# ---------------------------------------------------------------------- processes
def kill(folder, tmp_path, times, at_once, latest):
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
        for path in folder.glob("*.so") if folder.exists() else ():
            whole = cache.is_whole(path) or not path.stat().st_size  # a trial of the compiler
            assert whole, "a process that was killed left half an entry"
    assert run_python(RUN, file)[:2] == (0, "right\n")
    return killed


@pytest.mark.parametrize("times", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_killed(folder, tmp_path, monkeypatch, times):
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where they leave the sources
    # On a machine whose load has just gone down, all may end before.
    killed = (kill(folder, tmp_path, times, 3, latest) for latest in (1.3, 0.4, 0.1, 0.02))
    assert any(2 * number >= times for number in killed)


def test_many_processes_at_once(folder, tmp_path):
    file = write_kernel(tmp_path, SQUARE)
    processes = [start_python(RUN, file) for _ in range(3)]
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert (out, process.returncode) == ("right\n", 0), err
    # The kernel, its translation and the compiler's trials, each once, and nothing half-made.
    assert len([*folder.glob("*.translation")]) == 1
    kept = objects(folder)
    assert not list(folder.glob("*.tmp"))
    assert built(tmp_path).name in kept == objects(folder)


DAMAGES = {
    "truncated": lambda whole: whole[: len(whole) // 2],
    "flipped": lambda whole: whole[:999] + bytes([whole[999] ^ 1]) + whole[1000:],
    "another": lambda whole: whole.replace(b"parki_entry", b"parki_enter"),
    "longer": lambda whole: whole + whole[-40:],
    "empty": lambda whole: b"",
    "zeros": lambda whole: bytes(len(whole)),
    "garbage": lambda whole: b"\x7fELF and nothing else",
}


@pytest.mark.parametrize(
    "damage",
    [pytest.param(name, marks=[pytest.mark.slow] * (n > 1)) for n, name in enumerate(DAMAGES)],
)
def test_damaged_entry(folder, tmp_path, damage):
    path, kernel = built(tmp_path), small_kernel(tmp_path, SQUARE)
    whole = path.read_bytes()
    path.unlink()  # who has loaded it keeps that; the file is a new one
    path.write_bytes(DAMAGES[damage](whole))
    path.chmod(0o700)
    assert not kernel._object.cached()
    assert built(tmp_path).read_bytes() == whole
    seal = path.with_name(path.name + ".seal")
    assert seal.read_bytes() == hashlib.sha256(path.name.encode() + b"\0" + whole).digest()
    assert kernel._object.cached()
    seal.unlink()
    assert not kernel._object.cached()


def test_umask_of_the_linker(folder, tmp_path):
    """What the compiler writes under a careless umask is closed to others."""
    old = os.umask(0)
    try:
        path = built(tmp_path)
    finally:
        os.umask(old)
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (folder, path)]
    assert modes == [0o700, 0o600]


@pytest.mark.parametrize("what", ["entry", "lock"])
def test_links(folder, tmp_path, what):
    """An entry that is a link is made again, even of a good one; a lock's file stays as it is."""
    path = built(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(path.read_bytes())
    linked = path if what == "entry" else path.with_suffix(".lock")
    for each in {path, linked}:
        each.unlink()
    linked.symlink_to(elsewhere)
    assert what == "lock" or (cache.is_whole(path) and not cache._content(path))
    before = elsewhere.read_bytes()
    built(tmp_path)
    assert linked.is_symlink() == (what == "lock") and cache._content(path)
    assert elsewhere.read_bytes() == before


def test_entry_under_the_name_of_another(folder):
    """It would run in the other's place."""
    for name in ("one", "two"):
        cache.entry(name, name.encode, cache.plain)
    (folder / "two.so").write_bytes(b"one")
    assert cache.content("one") == b"one" and cache.content("two") is None
    shutil.copyfile(folder / "one.so.seal", folder / "two.so.seal")
    assert cache.content("two") is None


def test_folder_follows_the_environment(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    for chosen, place in (("one", "one"), ("two", "two"), ("", "xdg/parki")):
        monkeypatch.setenv("PARKI_CACHE_DIR", chosen and str(tmp_path / chosen))
        assert not cache.exists(NAME)
        cache.entry(NAME, lambda: b"new", cache.plain)
        assert objects(tmp_path / place) == {f"{NAME}.so"}
    assert not folder.exists()


def test_what_enters_the_key(folder, tmp_path, monkeypatch):
    def key(text: str = SQUARE, serial: bool = False, team: int = 1, **constants) -> str:
        done = translate(specialise(write_kernel(tmp_path, text), "f", constants))
        return host.HostObject("f", host.source_text(done), serial, team).key

    monkeypatch.setattr(host, "_own_flags", lambda _: [])
    keys = [key(), key(SQUARE.replace("0.25", "0.5")), key(REAL="float"), key(serial=True)]
    keys.append(key(team=4))
    command, version = host.compiler().command, host.compiler().version
    for other in (host.Compiler(command, "another"), host.Compiler(("another",), version)):
        with monkeypatch.context() as patch:
            patch.setattr(host, "compiler", lambda other=other: other)
            keys.append(key())
    with monkeypatch.context() as patch:
        patch.setattr(host, "FLAGS", [*host.FLAGS, "-O2"])
        keys.append(key())
    with monkeypatch.context() as patch:
        patch.setattr(host, "_machine", lambda: "another machine")
        keys.append(key())
    assert len(set(keys)) == len(keys)
    assert key() == keys[0]


def test_compiler_with_words(monkeypatch):
    monkeypatch.setenv("CXX", f"{host.compiler().path} -DUSED='a b'")
    assert host.compiler().command[1:] == ("-DUSED=a b",)
    text = "#ifndef USED\n#error\n#endif\n"
    assert host._compile(host.compiler(), host.FLAGS, text)


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


@pytest.mark.parametrize("what", ["folder", "entry", "seal"])
@pytest.mark.parametrize("how", ["its group", "everybody", "another user"])
def test_what_another_user_can_change_is_not_loaded(folder, what, how):
    name = cache.key(what, how)
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
    wrong, path = (built(tmp_path, text) for text in (SQUARE.replace("0.25", "0.5"), SQUARE))
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
    assert right(small_kernel(tmp_path, SQUARE))
    assert loaded and not any(os.path.lexists(file) for file in loaded)
