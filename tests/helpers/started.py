"""Ranks that mpirun starts, and the requirements of their tests."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ranks

from parki.runtime.spaces import why_unavailable

# The environment's mpirun comes first; pip install mpich puts it next to Python.
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
MPIRUN = shutil.which("mpirun", path=PATH)
MISSING = "" if importlib.util.find_spec("mpi4py") else "mpi4py is not installed"
if not MISSING and MPIRUN is None:
    MISSING = "mpirun is not on the path"
parallel = [
    pytest.mark.parallel,
    pytest.mark.skipif(bool(MISSING), reason=f"{MISSING}; pip install parki[mpi]"),
]
NO_GPU = why_unavailable("Cuda")


def mpirun(
    size: int,
    *arguments: str,
    seconds: float,
    script: str | Path = ranks.__file__,
    **environment: str,
) -> Any:
    """Run a script on ranks of one thread each, even if there are fewer cores."""
    settings = {
        "OMP_NUM_THREADS": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",  # Open MPI 4 and 5
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    return subprocess.run(
        [str(MPIRUN), "-n", str(size), sys.executable, str(script), *arguments],
        env={**os.environ, **settings, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
