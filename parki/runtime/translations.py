"""Kernels in C++, kept in the compile cache, so that a new process need not translate them again.

An entry is named by all that it is made of: the kernel file's text, the files with blocks, the
constants, and this folder's own code. It has the specialised text and its translation.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from parki.runtime import cache, device, specialise
from parki.runtime.specialise import Constant, Specialised
from parki.runtime.translate import Translated, translate, view_type

SUFFIX = ".translation"


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        content = path.read_bytes()
        digest.update(f"{path.name} {path.parent.name} {len(content)} ".encode() + content)
    return digest.hexdigest()


# Read with the modules themselves: later they may have been edited, which this process ignores.
_CODE = sys.implementation.cache_tag + _digest(Path(__file__).parent.glob("*.py"))


def _blocks(folder: Path) -> str:
    """Return a hash of what the files of a kernel folder can import."""
    return _digest(folder.glob("*/**/*.py"))


_blocks_at_first = functools.lru_cache(maxsize=4)(_blocks)


def translation(
    file: str,
    workunit: str,
    constants: Mapping[str, Constant],
    threads: int,
    tables: Mapping[str, tuple[int, ...]] | None,
) -> tuple[Specialised, Translated]:
    """Specialise a workunit, and translate it.

    Parameters
    ----------
    file, workunit, constants
        As for `specialise`.
    threads : int
        Number of threads of a team, if the workunit runs over teams.
    tables : mapping from str to tuple of int, optional
        As for `translate`.

    Raises
    ------
    KernelError
        As by `specialise`.
    """
    source = specialise.read(file, workunit, constants)
    folder = specialise.kernel_directory()
    blocks, shapes = _blocks_at_first(folder), sorted((tables or {}).items())
    variant = repr((source.constants, threads, shapes))
    name = cache.key("translation", _CODE, blocks, source.text, workunit, variant)
    content = cache.content(name, SUFFIX)
    if content is not None:
        return _read(workunit, content, dict(shapes))
    done = specialise.substitute(source)
    translated = translate(done, threads if done.is_team else device.RANGE_BLOCK, tables)
    if _blocks(folder) == blocks:  # else it may be made of files that were edited meanwhile
        cache.keep(name, _written(done, translated), SUFFIX)
    return done, translated


def _written(done: Specialised, translated: Translated) -> bytes:
    values = (done.text, done.real, done.arguments, translated.text, translated.scratch)
    return zlib.compress(json.dumps(values).encode(), 1)


def _read(
    workunit: str, content: bytes, tables: Mapping[str, tuple[int, ...]]
) -> tuple[Specialised, Translated]:
    text, real, arguments, translated, scratch = json.loads(zlib.decompress(content))
    done = Specialised(workunit, text, real, tuple((name, kind) for name, kind in arguments))
    kinds = tuple((name, view_type(kind)) for name, kind in done.arguments)
    return done, Translated(translated, kinds, scratch, done.is_team, tables)
