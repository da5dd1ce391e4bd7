"""FMM3D (Greengard, Rokhlin and others): sums in free space by a fast multipole method.

Sums are potentials of charges and velocities of point forces at the sources themselves, without
periodic axes, in double precision. FMM3D is asked for a number of digits. Its error is measured at
some of the points against the direct sum, relative to the root mean square. parki's tolerance is
the one for which parki's measured error is at most FMM3D's. *One call* contains all the work for
new points. A *further density* uses parki's plan again; FMM3D has no plan. Points fill a cube
uniformly, lie on a sphere, or form eight normal clouds of width 0.01 of the cube.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from benchmarks.run import Run

from . import cases, free_space
from .free_space import draw, tables

__all__ = ["draw", "measure", "missing", "tables"]

TODAY = """
On two CPU threads parki is faster than FMM3D at the same measured error. FMM3D comes closer with
fewer digits, and with points whose density changes more, because its tree adapts to the points.
parki has a uniform grid and one cut-off. FMM3D needs no box.

| parki is this many times as fast | point forces | charges |
| --- | --- | --- |
| points fill a cube or lie on a sphere | 25 to 50 | 11 to 24 |
| tight clusters | 4 to 25 | 2 to 16 |
"""

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
