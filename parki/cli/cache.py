"""`parki cache`: lists and empties the cache folder.

Only what parki made is counted or removed, so other files in the folder stay. CuPy keeps its
kernels in its own cache.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from parki.cli.arguments import (
    Commands,
    Console,
    add_json,
    command,
)
from parki.errors import UnavailableError
from parki.settings import cache_directory

# Kinds of entries: a description, and a pattern of file names. Partly written files belong to
# their writers; the cache removes them when they are an hour old.
KINDS = {
    "kernels": ("kernels of the CPU", r"[0-9a-f]{40}\.((so|compiler|translation)(\.seal)?|lock)"),
    "tuned": ("measurements (parki tune)", r"tuned-[A-Za-z0-9-]+\.json"),
    "upstream": ("kernels of upstream PyKokkos", r"[0-9a-f]{40}\.pykokkos(\.seal)?"),
}
PARTS = (".seal", ".lock", ".compiler", ".translation")  # parts of other entries, not counted
# Where upstream PyKokkos's files are, in a folder for each kernel.
UPSTREAM, FOLDER = "pykokkos", r"[0-9a-f]{40}"

DESCRIPTION = """\
Compiled kernels and the measurements of 'parki tune' are kept in one folder: ~/.cache/parki, or
what PARKI_CACHE_DIR names. 'parki cache list' says what is there; 'parki cache clear' removes it.
"""

LIST = """\
Print the folder, and the sizes of parki's files in it: compiled kernels with their C++, which are
named by a hash of everything that went into them, and the measurements of 'parki tune', one per
device.
"""

CLEAR = """\
Remove all of that, and say what was removed. Kernels are compiled again when they are needed, and
'parki tune' measures again; programs that run meanwhile keep what they have loaded. GPU kernels
are in CuPy's cache (~/.cupy/kernel_cache, or what CUPY_CACHE_DIR names) and stay there.
"""


def declare(commands: Commands) -> None:
    """Add the command to the command line."""
    summary = "list or clear compiled kernels and measurements"
    parser = command(commands, "cache", show, summary=summary, description=DESCRIPTION)
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    add_json(command(actions, "list", show, summary="what is there", description=LIST))
    command(actions, "clear", clear, summary="remove it", description=CLEAR)


def contents(folder: Path) -> dict[str, list[Path]]:
    """Return the paths of parki's entries in a folder, by kind; none if there is no folder."""
    paths = [p for p in _inside(folder) if p.is_symlink() or p.is_file()]
    files = {
        kind: [p for p in paths if re.fullmatch(pattern, p.name) and _is_parkis(p)]
        for kind, (_, pattern) in KINDS.items()
    }
    inside = [] if (folder / UPSTREAM).is_symlink() else _inside(folder / UPSTREAM)
    files["upstream"] += [p for p in inside if re.fullmatch(FOLDER, p.name) and p.is_dir()]
    return files


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _is_parkis(path: Path) -> bool:
    """Return False for what another program measured, as far as that can be read."""
    if path.suffix != ".json":
        return True
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):  # damaged
        return True
    return isinstance(content, dict) and {"machine", "counts", "seconds"} <= content.keys()


def show(arguments: argparse.Namespace) -> int:
    """Print the contents of the cache; return the exit code."""
    folder = cache_directory()
    entries = contents(folder)
    if arguments.json:
        listed = {
            kind: [
                {"file": p.name, "bytes": _bytes(p), "modified": _modified(p)}
                for p in paths
                if p.suffix not in PARTS
            ]
            for kind, paths in entries.items()
        }
        print(json.dumps({"folder": str(folder), **listed}, indent=2))
        return 0
    print(folder)
    table = Table("what", Column("number", justify="right"), Column("MB", justify="right"))
    table.box = SIMPLE_HEAD
    for kind, paths in entries.items():
        table.add_row(KINDS[kind][0], str(_number(paths)), f"{_megabytes(paths):.1f}")
    Console().print(table)
    for path in entries["tuned"]:
        when = time.strftime("%Y-%m-%d", time.localtime(_modified(path)))
        print(f"{path.name} ({_bytes(path) / 1e3:.0f} kB, {when})")
    return 0


def clear(_: argparse.Namespace) -> int:
    """Remove all entries of the cache that can be removed; return the exit code."""
    folder = cache_directory()
    entries = contents(folder)
    lines = [
        f"{_number(paths)} {KINDS[kind][0]} ({_megabytes(paths):.1f} MB)"
        for kind, paths in entries.items()
        if paths
    ]
    failures = [error for paths in entries.values() for p in paths if (error := _remove(p))]
    with suppress(OSError):  # it has files of others, or there is none
        (folder / UPSTREAM).rmdir()
    if failures:
        raise UnavailableError(
            f"{len(failures)} files in {folder} cannot be removed, the first because: {failures[0]}"
        )
    print(f"removed from {folder}: {', '.join(lines) or 'nothing, there was nothing'}")
    return 0


def _remove(path: Path) -> str:
    """Remove a file or a folder; return the reason of a failure, else ''."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        return str(error)
    return ""


def _number(paths: list[Path]) -> int:
    """Count the entries among paths; a lock or a folder of objects is part of another entry."""
    return sum(path.suffix in (".so", ".json", ".pykokkos") for path in paths)


def _megabytes(paths: list[Path]) -> float:
    return sum(map(_bytes, paths)) / 1e6


def _bytes(path: Path) -> int:
    """Return the size of a file or a folder's files; 0 if it was removed meanwhile."""
    with suppress(OSError):
        return sum(map(_bytes, path.iterdir())) if path.is_dir() else path.stat().st_size
    return 0


def _modified(path: Path) -> float:
    """Return the time of a file's last write, in seconds since 1970; 0 if it was removed."""
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0
