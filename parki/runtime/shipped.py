"""Kernels that came compiled with parki, for machines without a C++ compiler.

The wheel for Linux on x86-64 has one shared object in ``parki/compiled`` for each of three sets of
instructions; `scripts/build_wheel.sh` makes them. A kernel is found there by the hash of its source
text, so that no other kernel can be taken for it. Other installations lack the folder and compile
all kernels.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import platform
from pathlib import Path
from typing import Any

from parki.runtime import cache
from parki.settings import SETTINGS

log = logging.getLogger("parki")

CPUINFO = Path("/proc/cpuinfo")
FOLDER = Path(__file__).resolve().parent.parent / "compiled"
# Processor flags that each level of x86-64 requires, as Linux names them; the best level first.
_V2 = frozenset("cx16 lahf_lm popcnt pni ssse3 sse4_1 sse4_2".split())
_V3 = _V2 | frozenset("abm avx avx2 bmi1 bmi2 f16c fma movbe xsave".split())
LEVELS = {
    "x86-64-v4": _V3 | frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split()),
    "x86-64-v3": _V3,
    "x86-64-v2": _V2,
}


def symbol(source: str) -> str:
    """Return the name of a kernel's entry point, given its whole source text."""
    return f"parki_{cache.key(source)}"


def usable() -> bool:
    """Return whether kernels that came compiled may be used.

    They are not if there are none for this processor, or if the user chose a compiler or emulated
    teams.
    """
    if SETTINGS["CXX"].value() or SETTINGS["PARKI_EMULATED_TEAM"].number() > 1:
        return False
    return library() is not None


def find(source: str) -> Any:
    """Return the entry point of a kernel, or None if it is missing or not to be used."""
    return getattr(library(), symbol(source), None) if usable() else None


def level() -> str:
    """Return the best of `LEVELS` that this processor and system support, or ''."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return ""
    try:
        lines = CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    flags = next((set(line.split()) for line in lines if line.startswith("flags")), set())
    return next((name for name, needed in LEVELS.items() if needed <= flags), "")


def library() -> ctypes.CDLL | None:
    """Return the shared object for this processor, or None if none can be loaded."""
    return _load(FOLDER)


@functools.lru_cache(maxsize=4)
def _load(folder: Path) -> ctypes.CDLL | None:
    path = folder / f"{level()}.so"
    if not path.is_file():
        return None
    if not cache.is_whole(path):
        log.warning("parki: %s is damaged; install parki again. Kernels are compiled", path)
        return None
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        log.warning("parki: %s cannot be loaded (%s). Kernels are compiled", path, error)
        return None
