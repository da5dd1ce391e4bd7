"""The compiler of the extra `compiler`: ziglang, which is Clang with its own headers.

It is taken where there is no other compiler, on every system that has wheels of it. The library of
C++ is left out, because kernels do without it, and ziglang would compile it first, for minutes.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

PROGRAM = "zig.exe" if os.name == "nt" else "zig"
# Clang unrolls loops and joins scalars into vectors where g++ does not: without that, kernels take
# half the time to compile and half the memory, and run as fast as g++'s.
FLAGS = ("c++", "-nostdlib++", "-g0", "-fno-unroll-loops", "-fno-slp-vectorize")
FIRST_USE = (
    "ziglang compiles, as no other C++ compiler was found; the first kernel of all takes some ten "
    "seconds longer, because ziglang compiles parts of its own, and keeps them"
)


def command() -> list[str]:
    """Return the command of ziglang's C++ compiler, or nothing if it is not installed."""
    spec = importlib.util.find_spec("ziglang")
    folders = spec.submodule_search_locations if spec else None
    return [str(Path(folders[0]) / PROGRAM), *FLAGS] if folders else []


def is_zig(words: tuple[str, ...]) -> bool:
    """Return whether a compiler's command is ziglang's."""
    return Path(words[0]).stem == "zig"
