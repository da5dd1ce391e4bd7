"""Files and folders that no other user can change: parki loads nothing from others."""

from __future__ import annotations

import os
import shutil
import stat
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
