"""The compile cache: shared objects named by the hash of everything that went into them.

An entry is one file, the shared object followed by a hash of its own content, written under a
temporary name and renamed: a process killed at any moment leaves either a whole entry or none.
Entries are verified before they are loaded; one that is damaged, or belongs to another user, is
built again. A lock per entry keeps processes from compiling the same kernel twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from parki.settings import cache_directory

try:
    import fcntl
except ImportError:  # not a POSIX system: the rename alone keeps the cache safe
    fcntl = None  # type: ignore[assignment]

_SEAL = b"parki-1:"
_STALE_SECONDS = 3600.0


def key(*parts: str) -> str:
    """Return the name of an entry: a hash over all of ``parts``."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part.encode())
    return digest.hexdigest()[:40]


def entry(name: str, build: Callable[[Path], None], suffix: str = ".so") -> Path:
    """Return a verified entry, building it first where it is missing or damaged.

    Parameters
    ----------
    name : str
        From `key`.
    build : callable
        Writes the object to the path it is given; not called when a good entry exists.
    suffix : str
        Ending of the file's name.
    """
    folder = cache_directory()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / (name + suffix)
    if _verified(path):
        return path
    with _locked(folder / (name + ".lock")):
        if _verified(path):
            return path
        handle, temporary = tempfile.mkstemp(prefix=name, suffix=".tmp", dir=folder)
        os.close(handle)
        try:
            build(Path(temporary))
            content = Path(temporary).read_bytes()
            with open(temporary, "ab") as file:
                file.write(_SEAL + hashlib.sha256(content).digest())
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        _sweep(folder)
    return path


def exists(name: str, suffix: str = ".so") -> bool:
    """Return whether a good entry is there (so that nothing needs compiling)."""
    return _verified(cache_directory() / (name + suffix))


def _verified(path: Path) -> bool:
    try:
        if hasattr(os, "geteuid") and path.stat().st_uid != os.geteuid():
            return False
        content = path.read_bytes()
    except OSError:
        return False
    seal = len(_SEAL) + hashlib.sha256().digest_size
    body, tail = content[:-seal], content[-seal:]
    return tail == _SEAL + hashlib.sha256(body).digest()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    if fcntl is None:
        yield
        return
    with open(path, "w") as file:
        # A file system without locks costs a second compilation, nothing more.
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sweep(folder: Path) -> None:
    """Remove what killed processes left behind."""
    limit = time.time() - _STALE_SECONDS
    for path in folder.glob("*.tmp"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < limit:
                path.unlink()
