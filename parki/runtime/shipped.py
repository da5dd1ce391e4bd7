"""Kernels that came compiled with parki, for machines without a C++ compiler.

A wheel has one shared object in ``parki/compiled`` for each set of instructions that processors of
its kind have; `scripts/build_wheels.py` makes them. A kernel is found there by the hash of its
source text, so that no other kernel can be taken for it. Other installations lack the folder and
compile all kernels.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import logging
import platform
from pathlib import Path
from typing import Any

import numpy as np

from parki.runtime import cache
from parki.settings import checked_setting

log = logging.getLogger("parki")

FOLDER = Path(__file__).resolve().parent.parent / "compiled"
MACHINES = {"AMD64": "x86_64", "arm64": "aarch64"}  # Windows' and Apple's names, and Linux's
# For each machine the sets of instructions, the best first, and the features that tell them apart,
# as NumPy names them: no processor has these without the others of its set.
LEVELS = {
    "x86_64": {
        "x86-64-v4": {"AVX512_SKX", "AVX2", "FMA3", "F16C"},
        "x86-64-v3": {"AVX2", "FMA3", "F16C"},
        "x86-64-v2": {"SSE42", "POPCNT"},
    },
    "aarch64": {"armv8-sve": {"SVE", "ASIMD"}, "armv8": {"ASIMD"}},
}


def symbol(source: str) -> str:
    """Return the name of a kernel's entry point, given its whole source text."""
    return f"parki_{cache.key(source)}"


def usable() -> bool:
    """Return whether kernels that came compiled may be used.

    They are not if there are none for this processor, or if the user chose a compiler or emulated
    teams.
    """
    if checked_setting("CXX") or int(checked_setting("PARKI_EMULATED_TEAM")) > 1:
        return False
    return library() is not None


def find(source: str) -> Any:
    """Return the entry point of a kernel, or None if it is missing or not to be used."""
    return getattr(library(), symbol(source), None) if usable() else None


def level() -> str:
    """Return the best of `LEVELS` that this processor and system support, or ''."""
    levels = LEVELS.get(MACHINES.get(platform.machine(), platform.machine()), {})
    return next((name for name, needed in levels.items() if needed <= features()), "")


def features() -> set[str]:
    """Return the features of processor and system that NumPy found."""
    core = "numpy._core" if hasattr(np, "_core") else "numpy.core"  # before NumPy 2
    known = importlib.import_module(f"{core}._multiarray_umath").__cpu_features__
    return {name for name, there in known.items() if there}


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
