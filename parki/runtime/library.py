"""Loads a library from bytes in memory: the file they are from may have changed since.

Linux makes a file of memory of them. Other systems, and a Linux that has none or does not run
programs from there, get a copy in a private folder, which is removed once it is loaded. Windows
removes no library that is loaded, and gets the file itself.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import struct
import sys
from pathlib import Path

from parki.runtime.private import temporary_folder

_numbers = itertools.count(1)


def load(content: bytes, path: Path) -> ctypes.CDLL:
    """Load a library.

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
        turns = f"{next(_numbers):b}".replace("1", "/.").replace("0", "/")
        return ctypes.CDLL(f"/proc/self/fd{turns}/{handle}")


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
