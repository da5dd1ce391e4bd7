"""Environment variables parki reads, in one self-describing table; and limits by control groups.

Options of a computation are keywords of `EwaldOptions`; environment variables describe the
machine. Each is checked where it is read. ``python -m parki.settings`` prints the table with the
current values. Containers and batch systems set limits on memory and processor time, on Linux
alone.
"""

from __future__ import annotations

import functools
import math
import os
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from parki.errors import ParkiValueError

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
NO_LIMIT = 2.0**60  # version 1 has larger numbers in place of "max"
# Files with the limit and the usage, by version.
MEMORY = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    2: ("memory.max", "memory.current"),
}


def memory_left() -> float:
    """Return the bytes that may still be allocated; infinity without a limit."""
    free = math.inf
    for version, group in _groups("memory"):
        limit, usage = MEMORY[version]
        free = min(free, _read(functools.partial(_left, group, limit, usage)))
    return free


@functools.lru_cache(maxsize=1)
def processors() -> float:
    """Return the number of processors that may be used; infinity without a limit. Read once."""
    quota = math.inf
    for version, group in _groups("cpu"):
        of_group = _quota if version == 2 else _first_quota
        quota = min(quota, _read(functools.partial(of_group, group)))
    return quota


def _groups(controller: str) -> Iterator[tuple[int, Path]]:
    """Yield the groups that limit the process, each with the version of its files.

    A container often sees its own group as the root, in spite of its path.
    """
    try:
        lines = (PROC / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        version, root = (1, GROUPS / controller) if controllers else (2, GROUPS)
        folder = root / path.lstrip("/")
        for group in (folder, *folder.parents):
            yield version, group
            if group == root:
                break


def _read(limit: Callable[[], float]) -> float:
    """Return a group's limit; infinity if its files are missing or hold no numbers."""
    try:
        return limit()
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8").strip()


def _left(group: Path, limit: str, usage: str) -> float:
    """Return the bytes between a group's limit and its memory that cannot be dropped."""
    most = float(_text(group / limit).replace("max", "inf"))
    if most >= NO_LIMIT:
        return math.inf
    stat = dict(line.split(maxsplit=1) for line in _text(group / "memory.stat").splitlines())
    files = stat.get("total_inactive_file", stat.get("inactive_file", "0"))
    return most - max(0.0, float(_text(group / usage)) - float(files))


def _quota(group: Path) -> float:
    """Return the processors of a group of version 2; "150000 100000" means one and a half."""
    most, period = _text(group / "cpu.max").replace("max", "inf").split()
    return float(most) / float(period)


def _first_quota(group: Path) -> float:
    """Return the processors of a group of version 1, where a negative number means no limit."""
    most = float(_text(group / "cpu.cfs_quota_us"))
    return most / float(_text(group / "cpu.cfs_period_us")) if most > 0 else math.inf


T = TypeVar("T")
EXECUTORS = ("embedded", "pykokkos")
MOST_THREADS = 1024  # as many processors as the usual affinity mask has
MOST_TEAM = 1024  # no device has larger teams to emulate


def _whole(text: str) -> int:
    """Return a text as a whole number, or 0 if it is none."""
    try:
        return int(text)
    except ValueError:
        return 0


def _first(text: str) -> int:
    """Return the first of a list of whole numbers such as "4,2", or 0 if it is none."""
    numbers = [_whole(part) for part in text.split(",")]
    return numbers[0] if min(numbers) > 0 else 0


def _takes(read: Callable[[str], Any]) -> Callable[[str], bool]:
    """Return a function that tells whether ``read`` takes a text."""

    def accepts(text: str) -> bool:
        try:
            read(text)
        except (ValueError, RuntimeError):  # RuntimeError: unknown user after ~
            return False
        return True

    return accepts


@functools.lru_cache(maxsize=8)
def split_command(command: str) -> list[str]:
    """Divide a command into words, as a shell does; on Windows a backslash is part of a path."""
    if sys.platform == "win32":
        return [word.strip("\"'") for word in shlex.split(command, posix=False)]
    return shlex.split(command)


@dataclass(frozen=True)
class Setting:
    """One environment variable: name, default and meaning.

    ``accepts`` judges non-empty values, and ``expected`` describes the accepted ones.
    """

    name: str
    default: str
    meaning: str
    accepts: Callable[[str], bool]
    expected: str


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(
            "PARKI_CACHE_DIR",
            "",
            "folder of compiled kernels; default ~/.cache/parki",
            _takes(lambda text: Path(text).expanduser()),
            "a folder, and after ~ nothing or the name of a user",
        ),
        Setting(
            "PARKI_EXECUTOR",
            "embedded",
            "executor of the kernels: embedded, or pykokkos (upstream)",
            lambda text: text in EXECUTORS,
            f"one of {', '.join(EXECUTORS)}",
        ),
        Setting(
            "PARKI_NUM_THREADS",
            "",
            "threads of the OpenMP space, 1 to 1024; default OMP_NUM_THREADS, or the cores that "
            "the process may use",
            lambda text: 1 <= _whole(text) <= MOST_THREADS,
            f"a whole number from 1 to {MOST_THREADS}",
        ),
        Setting(
            "OMP_NUM_THREADS",
            "",
            "the same for all programs with OpenMP; the first number of a list such as 4,2",
            lambda text: _first(text) > 0,
            "a positive whole number, or several with commas between them",
        ),
        Setting(
            "OMP_WAIT_POLICY",
            "active",
            "passive: idle threads sleep at once; active: first they look for work for some 0.3 ms",
            lambda text: text.lower() in ("active", "passive"),
            "active or passive",
        ),
        Setting(
            "PARKI_FFT",
            "scipy",
            "library of the CPU's transforms: scipy, or ducc0, which is an extra and faster",
            lambda text: text in ("ducc0", "scipy"),
            "ducc0 or scipy",
        ),
        Setting(
            "PARKI_EMULATED_TEAM",
            "1",
            "team size emulated on the CPU, thread after thread between barriers; for tests",
            lambda text: 1 <= _whole(text) <= MOST_TEAM,
            f"a whole number from 1 to {MOST_TEAM}",
        ),
        Setting(
            "CXX",
            "",
            "C++ compiler of the OpenMP and Serial spaces; default g++, clang++ or ziglang",
            _takes(split_command),
            "a command whose quotes are closed",
        ),
    )
}


def setting_text(name: str) -> str:
    """Return a variable's text, or the default if it is unset or empty; not checked."""
    return os.environ.get(name, "").strip() or SETTINGS[name].default


def checked_setting(name: str) -> str:
    """Return the current value of a variable; refuse unexpected ones."""
    text, setting = os.environ.get(name, "").strip(), SETTINGS[name]
    if not text:  # as nearly always
        return setting.default
    if not setting.accepts(text):
        raise ParkiValueError(
            f"{name} is {text!r}; expected {setting.expected}; correct this environment variable, "
            "or unset it"
        )
    return text


def cache_directory() -> Path:
    """Return the folder of the compile cache (not created here)."""
    chosen, base = checked_setting("PARKI_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    home = os.environ.get("HOME") or os.path.expanduser("~")
    return _folder(chosen, base or "~/.cache", home)


@functools.lru_cache(maxsize=16)
def _folder(chosen: str, base: str, _: str) -> Path:
    """Return the folder that was chosen, or one in ``base``; the last argument is what ~ means."""
    if chosen:
        return Path(chosen).expanduser()
    try:
        return Path(base).expanduser() / "parki"
    except RuntimeError as error:
        raise ParkiValueError(
            f"the folder of compiled kernels is {base}/parki, but there is no home folder "
            f"({error}); set PARKI_CACHE_DIR"
        ) from None


class _Once(threading.local):
    """What a thread has read, which counts while the lock, which is the thread's own, is held."""

    def __init__(self) -> None:
        self.within, self.found = threading.Lock(), dict[Any, Any]()


_once = _Once()


def read_once() -> AbstractContextManager[Any]:
    """Within this, a thread reads what sums need of the environment at most once.

    A step of a plan has many launches, and a variable takes a microsecond. A lock begins and ends
    it, as no interrupt falls between the lines of a lock.
    """
    if _once.within.locked():
        return nullcontext()
    _once.found = {}
    return _once.within


def kept(read: Callable[[], T]) -> Callable[[], T]:
    """Return a function whose result is kept within `read_once`."""

    @functools.wraps(read)
    def once() -> T:
        if not _once.within.locked():
            return read()
        values = _once.found
        if read not in values:
            values[read] = read()
        value: T = values[read]
        return value

    return once


@kept
def executor() -> str:
    """Return the executor of kernels that are asked for without one."""
    return checked_setting("PARKI_EXECUTOR")


@kept
def host_settings() -> tuple[str, int, str, int]:
    """Return the executor, the emulated team, the compiler and the threads of the CPU."""
    team = int(checked_setting("PARKI_EMULATED_TEAM"))
    return checked_setting("PARKI_EXECUTOR"), team, checked_setting("CXX"), thread_count()


@kept
def thread_count() -> int:
    """Return the space OpenMP's threads: ``PARKI_NUM_THREADS``, ``OMP_NUM_THREADS`` or all cores.

    "All cores" are those that the process may run on, within its container's quota, and at most
    `MOST_THREADS`.
    """
    chosen = checked_setting("PARKI_NUM_THREADS")
    if not chosen:  # the first number of a list such as "4,2"
        chosen = checked_setting("OMP_NUM_THREADS").partition(",")[0]
    return min(int(chosen or cores()), MOST_THREADS)


def cores() -> int:
    """Return the number of whole cores that threads may keep busy."""
    affinity = getattr(os, "sched_getaffinity", None)
    usable = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, math.floor(min(usable, processors())))


def table() -> str:
    """Return the settings as text, one line each: name, current value, and meaning or mistake.

    A wrong value is no error here, because the reader may be looking for it.
    """
    lines = []
    for s in SETTINGS.values():
        try:
            checked_setting(s.name)
            meaning = s.meaning
        except ParkiValueError as error:
            meaning = f"wrong: {error}"
        lines.append(f"{s.name:<20} {setting_text(s.name) or '(unset)':<12} {meaning}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
