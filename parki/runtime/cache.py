"""The compile cache: files named by the hash of everything that went into them.

An entry is a file, and next to it its seal: a hash of its name and content. Both are written under
a temporary name and renamed, the seal first, so that a process killed at any moment leaves a whole
entry or none. An entry is read once, and compared with its seal; what is used are the bytes that
were read, whatever becomes of the file. A lock per entry keeps processes from compiling the same
kernel twice. Some entries hold text: the compiler of the objects, or what a kernel is in C++.

| an entry that | is |
| --- | --- |
| is whole, can be used, and only this user can change | used |
| is missing, damaged, misnamed, a link, of no use, or open to other users | built, used, kept |
| the cache folder does not take | kept in a temporary folder until the process ends |
| that folder does not take either | used all the same |
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import logging
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from parki.errors import KernelError, UnavailableError
from parki.runtime import private
from parki.runtime.messages import overdue
from parki.settings import cache_directory

T = TypeVar("T")
log = logging.getLogger("parki")

# Next to the file, because macOS refuses a library that was changed after it was signed.
_SEAL = ".seal"
_TEMPORARY = re.compile(r"[0-9a-f]{40}[\w.]*\.tmp")  # names that `_put` gives
_STALE_SECONDS = 3600.0
_AGAIN_SECONDS = 0.05  # between two attempts to lock
_failed: dict[Path, tuple[str]] = {}  # folders that this process no longer writes to, and why


def key(*parts: str) -> str:
    """Return the name of an entry: a hash over all of ``parts``."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part.encode())
    return digest.hexdigest()[:40]


def entry(
    name: str, build: Callable[[], bytes], use: Callable[[bytes, Path], T], suffix: str = ".so"
) -> T:
    """Return the result of ``use`` for an entry; build it first if there is no good one.

    Parameters
    ----------
    name : str
        Name from `key`.
    build : callable
        Returns the content; not called if there is a good entry.
    use : callable
        Takes the content, and the path of the file (which is only there on Windows, if the content
        is new); raises `KernelError` if it is of no use. Then it is not kept.
    suffix : str
        Ending of the file's name.
    """
    file = name + suffix
    used = _used(file, use)
    if used is None:
        with _locked(name + ".lock"):
            used = _used(file, use)  # another process may have built it
            if used is None:
                content, path = build(), cache_directory() / file
                if sys.platform == "win32":  # loads libraries from files alone
                    return use(content, _keep(file, content) or path)
                # A library that is cut off may end the process that loads it, and so comes first.
                used = use(content, path)
                _keep(file, content)
    return used


def _used(file: str, use: Callable[[bytes, Path], T]) -> T | None:
    """Return the result of ``use`` for a good entry, or None if there is none."""
    with contextlib.suppress(KernelError):
        for path in _places(file):
            content = _content(path)
            if content is not None:
                return use(content, path)
    return None


def plain(content: bytes, _: Path) -> bytes:
    """Return the content itself, as `entry`'s ``use``."""
    return content


def content(name: str, suffix: str = ".so") -> bytes | None:
    """Return the content of a good entry, or None if it is missing or damaged."""
    return _used(name + suffix, plain)


def exists(name: str, suffix: str = ".so") -> bool:
    """Return whether there is a good entry, so that nothing needs compiling."""
    return content(name, suffix) is not None


def contents(suffix: str) -> list[bytes]:
    """Return the contents of all good entries of the cache folder with a suffix."""
    folder = cache_directory()
    entries = [_content(folder / file) for file in _files(folder) if file.endswith(suffix)]
    return [entry for entry in entries if entry is not None]


def keep(name: str, content: bytes, suffix: str) -> None:
    """Make an entry of what took no time worth a lock; nothing warns if it cannot be."""
    if not why_unusable():
        with contextlib.suppress(OSError):
            _put(cache_directory() / (name + suffix), content)


def _keep(file: str, content: bytes) -> Path | None:
    """Make an entry, and return its path, or None if no folder takes it."""
    for _ in range(2):  # the cache folder, and then a temporary one
        try:
            path = directory() / file
        except UnavailableError:
            return None
        try:
            _put(path, content)
        except OSError as error:
            _fail(path.parent, f"{file}: {error.strerror or error}")
        else:
            _sweep(path.parent)
            return path
    return None


def _put(path: Path, content: bytes) -> None:
    """Write an entry under a temporary name, and rename it; the seal comes first."""
    for target, part in ((_seal_of(path), _digest(path.name, content)), (path, content)):
        handle, name = tempfile.mkstemp(prefix=path.stem, suffix=".tmp", dir=path.parent)
        try:
            with open(handle, "wb") as file:
                file.write(part)
            private.read(Path(name))  # else it is of no use, as where root's files are nobody's
            _replace(name, target)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(name)


def _replace(source: str, path: Path) -> None:
    """Rename a file, in place of another one if there is one."""
    try:
        os.replace(source, path)
    except PermissionError:  # Windows renames a library that is loaded, but does not replace it
        os.replace(path, f"{source}.old.tmp")
        os.replace(source, path)


def _places(file: str) -> Iterator[Path]:
    """Give the paths at which an entry may be."""
    folder = cache_directory()
    yield folder / file
    if folder in _failed:
        with contextlib.suppress(UnavailableError):
            yield directory() / file


def directory() -> Path:
    """Return the folder of the cache; a missing one is made, for this user only.

    If it cannot be written, a temporary folder replaces it until the process ends, with a warning,
    because a computation should not fail for lack of a cache.
    """
    folder = cache_directory()
    if reason := why_unusable():
        _fail(folder, reason)
        try:
            return _temporary()
        except OSError as error:
            raise UnavailableError(
                f"the cache folder {folder} cannot be used ({reason}), and no temporary folder "
                f"takes its place ({error}); set PARKI_CACHE_DIR or TMPDIR to a folder that can be "
                "written"
            ) from None
    return folder


def _fail(folder: Path, reason: str) -> None:
    """Write no more to a folder from now on, and say so once."""
    why = (reason,)
    if _failed.setdefault(folder, why) is why:
        log.warning(
            "parki: the cache folder %s cannot be used (%s): kernels are compiled again in every "
            "process; set PARKI_CACHE_DIR to a folder that can be written",
            folder,
            reason,
        )


def why_unusable() -> str:
    """Return '' if the folder of the cache (made if missing) is writable, else the reason."""
    folder = cache_directory()
    if folder in _failed:
        return _failed[folder][0]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Other users could put valid-looking entries there.
        foreign = private.why_foreign(folder.stat())
    except (FileExistsError, NotADirectoryError):
        return "it is a file, or in one"
    except OSError as error:
        return str(error.strerror)
    return foreign or ("" if os.access(folder, os.W_OK | os.X_OK) else "it is not writable")


@functools.cache
def _temporary() -> Path:
    path = tempfile.mkdtemp(prefix="parki-")
    atexit.register(_remove, path, os.getpid())
    return Path(path)


def _remove(path: str, process: int) -> None:
    """Remove a folder at the end of the process that made it, and not of one forked from it."""
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_temporary.cache_clear)


def place(name: str) -> Path:
    """Return the path of a file or folder of the cache, which need not exist."""
    return cache_directory() / name if is_own(name) else directory() / name


def is_own(name: str) -> bool:
    """Return whether a path in the cache folder is there, and no other user can change it."""
    path = cache_directory()
    return _is_private(path) and all(
        private.is_own(path := path / part) for part in Path(name).parts
    )


def _is_private(folder: Path) -> bool:
    """Return whether a folder, perhaps at the end of a link, is there and this user's alone."""
    try:
        return not private.why_foreign(folder.stat())
    except OSError:
        return False


def _content(path: Path) -> bytes | None:
    """Return the content of an entry; None unless it is whole, and only this user can change it."""
    if not _is_private(path.parent):
        return None
    try:
        content, sealed = private.read(path), private.read(_seal_of(path))
    except OSError:
        return None
    return content if sealed == _digest(path.name, content) else None


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
def _locked(file: str) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        # A file system without locks only costs a second compilation. Nothing is written, and no
        # link is followed.
        with contextlib.suppress(OSError, UnavailableError):
            path = directory() / file
            no_link = getattr(os, "O_NOFOLLOW", 0)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | no_link, 0o600)
            stack.callback(os.close, handle)
            held = f"another process holds {path}, and compiles the same kernel"
            with overdue(f"{held}; if none is at work, end it, or set PARKI_CACHE_DIR"):
                _lock(handle)
            stack.callback(_unlock, handle)
        yield


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        """Wait for the lock of an open file, which ends when the file is closed."""
        while True:
            with contextlib.suppress(PermissionError):  # another process has it
                return msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            time.sleep(_AGAIN_SECONDS)

    def _unlock(handle: int) -> None:
        """Leave it to the end of the file."""

else:
    import fcntl

    def _lock(handle: int) -> None:
        """Wait for the lock of an open file."""
        fcntl.flock(handle, fcntl.LOCK_EX)

    def _unlock(handle: int) -> None:
        """End the lock, also where a forked child has the file open."""
        fcntl.flock(handle, fcntl.LOCK_UN)


def _files(folder: Path) -> list[str]:
    """Return the names of a folder's files; none if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


@functools.lru_cache(maxsize=8)
def _sweep(folder: Path) -> None:
    """Remove temporary files that killed processes left behind, once in a process."""
    limit = time.time() - _STALE_SECONDS
    for path in (folder / file for file in _files(folder) if _TEMPORARY.fullmatch(file)):
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime < limit:
                path.unlink()
