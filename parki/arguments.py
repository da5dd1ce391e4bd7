"""What several commands take, and how they refuse it: numbers, numbers of points, files.

All is refused before anything is computed.
"""

from __future__ import annotations

import argparse
import errno
import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from parki.errors import ParkiMemoryError, ParkiValueError
from parki.ewald.choice.memory import in_words
from parki.runtime import ExecutionSpace
from parki.runtime.kernel import LARGEST
from parki.runtime.spaces import free_memory

# Positions, normals, and densities of both layers, in double precision.
BYTES = 12 * 8


def whole(text: str) -> int:
    """Return a whole number that an argument gives."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def number(text: str) -> float:
    """Return a number that an argument gives."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def length(text: str) -> float | None:
    """Return an edge that an argument gives, None for a free axis."""
    if text.lower() == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a length; expected a number, or 'none' for a free axis"
        ) from None


def check_count(points: int) -> None:
    """Refuse numbers of random points that cannot be made.

    Raises
    ------
    ParkiValueError
        If there are none, or more than indices count.
    ParkiMemoryError
        If the host's memory does not hold them. What a plan needs besides, it predicts by itself.
    """
    if points < 1:
        raise ParkiValueError(f"points is {points}; expected 1 or more")
    if points > LARGEST:
        raise ParkiValueError(f"points is {points}; expected at most {LARGEST}")
    needed, room = float(BYTES * points), free_memory(ExecutionSpace("Serial"))
    if needed > room:
        raise ParkiMemoryError(
            f"points is {points}, whose arrays alone need {in_words(needed)}, but {in_words(room)} "
            f"are free; take at most {room / BYTES:.2g}"
        )


def home_expanded(path: str | Path) -> Path:
    """Return a path with ``~`` replaced, where there is such a home; pathlib would raise."""
    return Path(os.path.expanduser(path))


def check_ending(name: str, path: Path, endings: Collection[str]) -> None:
    """Refuse a file whose name says nothing about its format."""
    if path.suffix.lower() not in endings:
        raise ParkiValueError(
            f"{name} is {path}; expected a name that ends in {', '.join(endings)}"
        )


def check_output(path: Path) -> None:
    """Refuse a file that cannot be written, by beginning to write one beside it.

    Raises
    ------
    ParkiValueError
    """
    if not path.parent.is_dir():
        raise ParkiValueError(f"output is {path}; its folder does not exist")
    with _refusing(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".part"):
            pass


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a file to write, which then takes the place of another: it is whole, or not there.

    Raises
    ------
    ParkiValueError
        If the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with _refusing(path):
            yield temporary
            os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ParkiValueError(
            f"output is {path}, which cannot be written: {error.strerror or error}"
        ) from error
