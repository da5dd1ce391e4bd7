"""The compile cache: shared objects named by the hash of everything that went into them.

An entry is a file, and next to it its seal: a hash of its name and content. Both are written under
a temporary name and renamed, the seal first, so that a process killed at any moment leaves a whole
entry or none. Entries are verified before they are loaded. An entry that is damaged, misnamed, a
link, or writable by another user is built again. A lock per entry keeps processes from compiling
the same kernel twice. Some entries hold text: the compiler of the objects, or what a kernel is in
C++.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import logging
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from parki.settings import cache_directory

log = logging.getLogger("parki")

# Next to the file, because macOS refuses a library that was changed after it was signed.
_SEAL = ".seal"
_STALE_SECONDS = 3600.0
_AGAIN_SECONDS = 0.05  # between two attempts to lock


def key(*parts: str) -> str:
    """Return the name of an entry: a hash over all of ``parts``."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part.encode())
    return digest.hexdigest()[:40]


def entry(name: str, build: Callable[[Path], None], suffix: str = ".so") -> Path:
    """Return the path of a verified entry; build it first if it is missing or damaged.

    Parameters
    ----------
    name : str
        Name from `key`.
    build : callable
        Writes the object to a given path; not called if a good entry exists.
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
        _put(path, build)
        _sweep(folder)
    return path


def content(name: str, suffix: str) -> bytes | None:
    """Return the content of a good entry, or None if it is missing or damaged."""
    return _content(cache_directory() / (name + suffix))


def keep(name: str, content: bytes, suffix: str) -> None:
    """Make an entry of what took no time worth a lock; nothing fails or warns if it cannot be."""
    if not why_unusable():
        with contextlib.suppress(OSError):
            _put(cache_directory() / (name + suffix), lambda path: path.write_bytes(content))


def _put(path: Path, build: Callable[[Path], object]) -> None:
    """Write an entry under a temporary name, and rename it."""
    handle, name = tempfile.mkstemp(prefix=path.stem, suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary, sealed = Path(name), Path(name).with_suffix(".seal.tmp")
    try:
        build(temporary)
        os.chmod(temporary, 0o700)  # the umask may have let the linker give others access
        sealed.write_bytes(_digest(path.name, temporary.read_bytes()))
        _replace(sealed, _seal_of(path))
        _replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
        sealed.unlink(missing_ok=True)


def _replace(source: Path, path: Path) -> None:
    """Rename a file, in place of another one if there is one."""
    try:
        os.replace(source, path)
    except PermissionError:  # Windows renames a library that is loaded, but does not replace it
        os.replace(path, f"{source}.old.tmp")
        os.replace(source, path)


def directory() -> Path:
    """Return the folder of the cache; a missing one is made, for this user only.

    If it cannot be written, a temporary folder replaces it until the process ends, with a warning,
    because a computation should not fail for lack of a cache.
    """
    folder, reason = cache_directory(), why_unusable()
    return _temporary(folder, reason) if reason else folder


def why_unusable() -> str:
    """Return '' if the folder of the cache (made if missing) is writable, else the reason."""
    folder = cache_directory()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        return "it is a file, or in one"
    except OSError as error:
        return str(error.strerror)
    if not os.access(folder, os.W_OK | os.X_OK):
        return "it is not writable"
    # Other users could put valid-looking entries there.
    return "everybody may write to it" if _is_open(folder.stat()) else ""


def place(name: str) -> Path:
    """Return the path of a file or folder of the cache, which need not exist."""
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
    """Return whether there is a good entry, so that nothing needs compiling."""
    file = name + suffix
    return _verified(cache_directory() / file) or _verified(directory() / file)


def contents(suffix: str) -> list[bytes]:
    """Return the contents of all good entries with a suffix."""
    found = map(_content, sorted(cache_directory().glob(f"*{suffix}")))
    return [each for each in found if each is not None]


def _verified(path: Path) -> bool:
    """Return whether an entry may be loaded."""
    return _content(path) is not None


def _content(path: Path) -> bytes | None:
    """Return the content of an entry; None unless it is whole, and only this user can change it."""
    try:
        file, folder, content = path.lstat(), path.parent.stat(), path.read_bytes()
        sealed = _seal_of(path).read_bytes()
    except OSError:
        return None
    safe = stat.S_ISREG(file.st_mode) and not (_is_open(file) or _is_open(folder))
    if sys.platform != "win32":
        safe = safe and file.st_uid == os.geteuid()
    return content if safe and sealed == _digest(path.name, content) else None


def _is_open(what: os.stat_result) -> bool:
    """Return whether everybody may write, which on Windows the mode does not say."""
    return sys.platform != "win32" and bool(what.st_mode & stat.S_IWOTH)


def seal(path: Path) -> None:
    """Write the hash that `is_whole` checks."""
    _seal_of(path).write_bytes(_digest(path.name, path.read_bytes()))


def is_whole(path: Path) -> bool:
    """Return whether a file is unchanged since `seal`, and has the sealed name."""
    try:
        return _seal_of(path).read_bytes() == _digest(path.name, path.read_bytes())
    except OSError:
        return False


def _seal_of(path: Path) -> Path:
    return path.with_name(path.name + _SEAL)


def _digest(name: str, content: bytes) -> bytes:
    digest = hashlib.sha256(name.encode() + b"\0")
    digest.update(content)
    return digest.digest()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        # A file system without locks only costs a second compilation. Nothing is written, and no
        # link is followed.
        with contextlib.suppress(OSError):
            no_link = getattr(os, "O_NOFOLLOW", 0)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | no_link, 0o600)
            stack.callback(os.close, handle)
            _lock(handle)
        yield


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        """Wait for the lock of an open file, which ends when the file is closed."""
        while True:
            with contextlib.suppress(PermissionError):  # another process has it
                return msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            time.sleep(_AGAIN_SECONDS)

else:
    import fcntl

    def _lock(handle: int) -> None:
        """Wait for the lock of an open file, which ends when the file is closed."""
        fcntl.flock(handle, fcntl.LOCK_EX)


@functools.lru_cache(maxsize=8)
def _sweep(folder: Path) -> None:
    """Remove temporary files that killed processes left behind, once in a process."""
    limit = time.time() - _STALE_SECONDS
    for path in folder.glob("*.tmp"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < limit:
                path.unlink()
