"""Small kernels for tests only, and Python processes that run them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np

import parki
from parki.runtime import Kernel, get_execution_space, load

HEADER = "from typing import List\n\nimport pykokkos as pk\n\nREAL = pk.double\n"
HERE = Path(__file__).parent
FOLDERS = os.pathsep.join(map(str, [Path(parki.__file__).parents[1], HERE, HERE.parent]))
# Holds a module in the place of ziglang, so that a process finds no compiler outside of PATH.
NO_ZIG = HERE / "no_zig"

SQUARE = """
    @pk.workunit
    def f(i: int, v: pk.View1D[REAL]):
        v[i] = v[i] * v[i] + 0.25
    """
# Prints "right" if the kernel of the file in argv[1] computes the correct result.
RUN = """
    import sys
    import numpy as np
    from parki.runtime import get_execution_space, load
    v = np.arange(1000.0)
    load(sys.argv[1], "f", get_execution_space("OpenMP"))(1000, v=v)
    print("right" if np.array_equal(v, np.arange(1000.0) ** 2 + 0.25) else "wrong")
    """


def write_kernel(folder: Path, text: str, header: str = HEADER) -> str:
    """Write a kernel file and return its path; the tests' text may be indented."""
    path = folder / "small.py"
    path.write_text(header + "\n\n" + textwrap.dedent(text), encoding="utf-8")
    return str(path)


def executable(path: Path, script: str) -> str:
    """Write a program of the shell, and return its path."""
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def small_kernel(folder: Path, text: str, space: str = "OpenMP", **constants) -> Kernel:
    """Return the workunit ``f`` of a kernel file with this text, ready to launch."""
    return load(write_kernel(folder, text), "f", get_execution_space(space), **constants)


def right(kernel: Kernel) -> bool:
    """Whether a kernel computes the squares of `SQUARE`."""
    v = np.arange(5.0)
    kernel(5, v=v)
    return np.array_equal(v, np.arange(5.0) ** 2 + 0.25)


def start_python(
    code: str, *words: object, stderr: int = subprocess.PIPE, **environment: str | None
) -> subprocess.Popen[str]:
    """Start a process that runs ``code``, with variables set (or, for None, unset).

    Where PATH is given, there is no compiler outside of it.
    """
    folders = f"{NO_ZIG}{os.pathsep}{FOLDERS}" if "PATH" in environment else FOLDERS
    variables = {**os.environ, "PYTHONPATH": folders, **environment}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, words)],
        env={name: value for name, value in variables.items() if value is not None},
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def run_python(code: str, *words: object, **environment: str | None):
    """Run ``code`` in a new process; return its exit status, stdout and stderr."""
    process = start_python(code, *words, **environment)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err
