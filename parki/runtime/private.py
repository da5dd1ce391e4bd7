"""Files and folders that no other user can change: parki loads nothing from others."""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import stat
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def why_foreign(what: os.stat_result) -> str:
    """Return '' if no other user owns a file or may write to it, else the reason.

    A list of users who may write shows as rights of the group. On Windows the mode says nothing.
    """
    if sys.platform == "win32":
        return ""
    if what.st_uid != os.geteuid():
        return "it belongs to another user"
    if what.st_mode & stat.S_IWOTH:
        return "everybody may write to it"
    return "its group may write to it" if what.st_mode & stat.S_IWGRP else ""


def is_own(path: Path) -> bool:
    """Return whether a file or folder, itself no link, is there and no other user can change it."""
    try:
        return not (path.is_symlink() or why_foreign(path.lstat()))
    except OSError:
        return False


def read(path: Path) -> bytes:
    """Return the content of a file that only this user can change.

    Raises
    ------
    OSError
        For any other file, a link, a folder, and what is no file.
    """
    with open(path, "rb", opener=_opened) as file:
        state = os.fstat(file.fileno())
        reason = why_foreign(state) if stat.S_ISREG(state.st_mode) else "it is no file"
        if reason:
            raise OSError(reason)
        return file.read()


def _opened(path: str, flags: int) -> int:
    """Open a file, but follow no link, and wait for nobody who writes into a pipe."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder that is there within the block.

    A `tempfile.TemporaryDirectory` would also go when a process ends that was forked meanwhile.
    """
    path = Path(tempfile.mkdtemp(prefix="parki-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


_numbers = itertools.count(1)


def load(content: bytes, path: Path) -> ctypes.CDLL:
    """Load a library from bytes in memory: the file they are from may have changed since.

    Linux makes a file of memory of them. Other systems, and a Linux that has none or does not run
    programs from there, get a copy in a private folder, which is removed once it is loaded. Windows
    removes no library that is loaded, and gets the file itself.

    Parameters
    ----------
    content : bytes
        What was read.
    path : Path
        From where.

    Raises
    ------
    OSError
        If the system cannot load it.
    """
    if sys.platform == "win32":
        return ctypes.CDLL(str(path))
    if _is_cut_off(content):
        raise OSError("it is cut off")
    if hasattr(os, "memfd_create"):
        try:
            return _from_memory(content)
        except OSError:
            pass
    with temporary_folder() as folder:
        copy = folder / path.name
        copy.write_bytes(content)
        return ctypes.CDLL(str(copy))


def _from_memory(content: bytes) -> ctypes.CDLL:
    handle = os.memfd_create("parki")
    with open(handle, "wb") as file:
        file.write(content)
        file.flush()
        # A path that the loader has seen stands for the library it knows: no two may be the same.
        steps = f"{next(_numbers):b}".replace("1", "/.").replace("0", "/")
        return ctypes.CDLL(f"/proc/self/fd{steps}/{handle}")


def _is_cut_off(content: bytes) -> bool:
    """Return whether a part is missing that the loader of Linux reads: it dies of that."""
    if content[:5] != b"\x7fELF\x02":
        return False
    try:
        first, size, number = struct.unpack_from("=32xQ14xHH", content)  # of the table of parts
        parts = [struct.unpack_from("=8xQ16xQ", content, first + i * size) for i in range(number)]
    except struct.error:
        return True
    return any(start + length > len(content) for start, length in parts)
