"""The errors parki raises: all from `ParkiError`, and each from the built-in a caller expects.

Wording follows one pattern: what was given, what was expected, and what to change.
`docs/trouble.md` lists the classes with the built-in ones that they are.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = [
    "ImageWarning",
    "KernelError",
    "MissingPackageError",
    "OverlapError",
    "ParkiDeprecationWarning",
    "ParkiError",
    "ParkiMemoryError",
    "ParkiTypeError",
    "ParkiValueError",
    "ParkiWarning",
    "UnavailableError",
]

_PACKAGE = str(Path(__file__).parent)


class ParkiError(Exception):
    """Base of every error that parki raises on purpose."""


class ParkiValueError(ParkiError, ValueError):
    """An argument has the right type but an impossible value, shape or dtype."""


class ParkiTypeError(ParkiError, TypeError):
    """An argument has the wrong type."""


class OverlapError(ParkiValueError):
    """Smooth rigid spheres overlap, or two are at one place. Says which ones, and by how much."""


class ParkiMemoryError(ParkiError, MemoryError):
    """A plan needs more memory than is free. Says how much, and what would fit."""


class UnavailableError(ParkiError, RuntimeError):
    """A space, a compiler, a folder or an executor is not here, or cannot be used now."""


class MissingPackageError(UnavailableError, ImportError):
    """A Python package cannot be imported. Says what needs it, and how to install it."""


class KernelError(ParkiError, RuntimeError):
    """A kernel file leaves the dialect, or does not compile. Names file, line and remedy."""


class ParkiWarning(UserWarning):
    """Something works, but not as well as it could; the message says what to change."""


class ImageWarning(ParkiWarning):
    """A result depends on which periodic images of points were given; the message says how."""


class ParkiDeprecationWarning(ParkiWarning, DeprecationWarning):
    """A name will go with a later version; the message says which, and what to write instead."""


def warn(message: str, kind: type[ParkiWarning] = ParkiWarning) -> None:
    """Give a `ParkiWarning` that points at the user's line: the last one outside of parki."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, kind, stacklevel=level)


@contextmanager
def by_words(words: dict[str, str]) -> Iterator[None]:
    """Say errors of parki by the caller's words for what a sum calls otherwise."""
    try:
        yield
    except ParkiError as error:
        pattern = rf"\b({'|'.join(words)})\b"
        error.args = tuple(re.sub(pattern, lambda m: words[m[1]], str(text)) for text in error.args)
        raise


def old_names(
    module: str,
    until: str,
    renamed: dict[str, str],
    home: str = "",
    later: dict[str, str] | None = None,
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module whose names have changed: old ones work, and warn.

    Parameters
    ----------
    module : str
    until : str
        The version of parki without the old names.
    renamed : dict of str to str
        New names by the old ones.
    home : str
        Where the new names are. Default: in the module itself.
    later : dict of str to str, optional
        Modules that are imported when a name of theirs is asked for first, by these names. A
        module that the name itself means is its own.
    """

    def find(name: str) -> Any:
        if later and name in later:
            value = import_module(later[name])
            if value.__name__ != f"{module}.{name}":
                value = getattr(value, name)
            return vars(sys.modules[module]).setdefault(name, value)
        if name not in renamed:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        new = f"{home or module}.{renamed[name]}"
        message = f"{module}.{name} is deprecated, and not in version {until}; write {new}"
        warn(message, ParkiDeprecationWarning)
        return getattr(sys.modules[home or module], renamed[name])

    return find
