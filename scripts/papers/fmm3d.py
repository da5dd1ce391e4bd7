"""FMM3D (Greengard, Rokhlin and others): sums in free space by a fast multipole method.

docs/papers.md says what is compared.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from benchmarks.run import Run

from . import cases, free_space
from .free_space import draw, tables

__all__ = ["draw", "measure", "missing", "tables"]

CPU_ALONE = True
# Their function, the factor of its results, and its arguments for densities and a flag.
THEIRS = {
    "laplace": ("lfmm3d", 4 * np.pi, ("charges", "pg")),
    "stokes_sl": ("stfmm3d", 8 * np.pi, ("stoklet", "ifppreg")),
}


def missing(on_device: bool) -> str:
    """Return what is missing for the comparison, or ''."""
    return cases.not_installed("fmm3dpy")


def measure(run: Run) -> dict[str, Any]:
    """Return a row for each kernel, cloud and number of digits."""
    from importlib.metadata import version

    library = importlib.import_module("fmm3dpy")

    def peer(
        kernel: str, points: Any, dens: Any, eps: float
    ) -> tuple[free_space.Call, free_space.Call | None]:
        function, factor, (charges, flag) = THEIRS[kernel]
        given = {"eps": eps, "sources": points, charges: dens, flag: 1}
        return lambda: factor * getattr(library, function)(**given).pot, None

    return {"rows": free_space.measure(run, peer), "library": f"FMM3D {version('fmm3dpy')}"}
