"""Small kernels of the tests' own: written to a file, loaded as the package's kernels are."""

from __future__ import annotations

import textwrap
from pathlib import Path

from parki.runtime import Kernel, get_execution_space, load

HEADER = "from typing import List\n\nimport pykokkos as pk\n\nREAL = pk.double\n"


def write_kernel(folder: Path, text: str, header: str = HEADER) -> str:
    """Write a kernel file and return its path; the tests' text may be indented."""
    path = folder / "small.py"
    path.write_text(header + "\n\n" + textwrap.dedent(text), encoding="utf-8")
    return str(path)


def small_kernel(folder: Path, text: str, space: str = "OpenMP", **constants) -> Kernel:
    """Return the workunit ``f`` of a kernel file with this text, ready to launch."""
    return load(write_kernel(folder, text), "f", get_execution_space(space), **constants)
