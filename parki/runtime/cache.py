"""The compile cache: shared objects named by the hash of everything that went into them.

An entry is one file, the shared object followed by a hash of its name and content, written under a
temporary name and renamed: a process killed at any moment leaves either a whole entry or none.
Entries are verified before they are loaded; one that is damaged, is another's, is a link, or that
another user could have changed, is built again. A lock per entry keeps processes from compiling
the same kernel twice. Some entries hold text: which compiler made the objects.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hashlib
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from parki.settings import cache_directory

log = logging.getLogger("parki")

_SEAL = b"parki-1:"
_SEALED = len(_SEAL) + hashlib.sha256().digest_size  # bytes
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
    path = cache_directory() / (name + suffix)
    if _verified(path):
        return path
    folder = directory()
    path = folder / (name + suffix)
    with _locked(folder / (name + ".lock")):
        if _verified(path):
            return path
        handle, temporary = tempfile.mkstemp(prefix=name, suffix=".tmp", dir=folder)
        os.close(handle)
        try:
            build(Path(temporary))
            seal(Path(temporary), path.name)
            os.chmod(temporary, 0o700)  # whatever the umask let the linker do
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        _sweep(folder)
    return path


def directory() -> Path:
    """Return the folder of the cache, made for this user alone where it is missing.

    Where it cannot be written, a temporary folder stands in for as long as the process lives, with
    a warning: a computation should not fail because a cache is missing.
    """
    folder, reason = cache_directory(), why_unusable()
    return _temporary(folder, reason) if reason else folder


def why_unusable() -> str:
    """Return '' when the folder of the cache can be written (made if missing), else the reason."""
    folder = cache_directory()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        return "it is a file, or in one"
    except OSError as error:
        return str(error.strerror)
    if not os.access(folder, os.W_OK | os.X_OK):
        return "it is not writable"
    # Others could put entries there that look like good ones.
    return "everybody may write to it" if folder.stat().st_mode & stat.S_IWOTH else ""


def place(name: str) -> Path:
    """Return where a file or folder of the cache is, or is to be made."""
    path = cache_directory() / name
    return path if os.path.exists(path) else directory() / name


@functools.lru_cache(maxsize=8)
def _temporary(folder: Path, reason: str) -> Path:
    log.warning(
        "parki: the cache folder %s cannot be used (%s): kernels are compiled again in every "
        "process; set PARKI_CACHE_DIR to a folder that can be written",
        folder,
        reason,
    )
    path = tempfile.mkdtemp(prefix="parki-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return Path(path)


def exists(name: str, suffix: str = ".so") -> bool:
    """Return whether a good entry is there (so that nothing needs compiling)."""
    file = name + suffix
    return _verified(cache_directory() / file) or _verified(directory() / file)


def contents(suffix: str) -> list[bytes]:
    """Return what the good entries of a suffix hold."""
    paths = sorted(cache_directory().glob(f"*{suffix}"))
    return [path.read_bytes()[:-_SEALED] for path in paths if _verified(path)]


def _verified(path: Path) -> bool:
    """Return whether an entry may be loaded: this user's own file, which nobody else can change."""
    try:
        file, folder = path.lstat(), path.parent.stat()
    except OSError:
        return False
    own = stat.S_ISREG(file.st_mode) and file.st_uid == os.geteuid()
    return own and not (file.st_mode | folder.st_mode) & stat.S_IWOTH and is_whole(path)


def seal(path: Path, name: str) -> None:
    """Append to a file what `is_whole` knows it by, once it has its name."""
    content = path.read_bytes()
    with open(path, "ab") as file:
        file.write(_SEAL + _digest(name, memoryview(content)))


def is_whole(path: Path) -> bool:
    """Return whether a file is as it was sealed, and under the name it was sealed for."""
    try:
        content = memoryview(path.read_bytes())
    except OSError:
        return False
    return content[-_SEALED:] == _SEAL + _digest(path.name, content[:-_SEALED])


def _digest(name: str, content: memoryview) -> bytes:
    digest = hashlib.sha256(name.encode() + b"\0")
    digest.update(content)
    return digest.digest()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        # A file system without locks costs a second compilation, nothing more. Nothing is written,
        # and no link is followed.
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _sweep(folder: Path) -> None:
    """Remove what killed processes left behind."""
    limit = time.time() - _STALE_SECONDS
    for path in folder.glob("*.tmp"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < limit:
                path.unlink()
