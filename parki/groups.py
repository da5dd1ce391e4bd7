"""Limits on memory and processor time by control groups, which containers and batch systems set.

Only Linux has control groups; elsewhere there are no limits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from pathlib import Path

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
NO_LIMIT = 2.0**60  # version 1 has larger numbers in place of "max"
# Files with the limit and the usage, by version.
MEMORY = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    2: ("memory.max", "memory.current"),
}


def memory_left() -> float:
    """Return the bytes that may still be allocated; infinity without a limit."""
    left = math.inf
    for version, group in _groups("memory"):
        left = min(left, _read(_left, group, *MEMORY[version]))
    return left


@functools.lru_cache(maxsize=1)
def processors() -> float:
    """Return the number of processors that may be used; infinity without a limit. Read once."""
    quota = math.inf
    for version, group in _groups("cpu"):
        quota = min(quota, _read(_quota if version == 2 else _first_quota, group))
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


def _read(what: Callable[..., float], group: Path, *files: str) -> float:
    """Return a group's limit; infinity if its files are missing or hold no numbers."""
    try:
        return what(group, *files)
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
