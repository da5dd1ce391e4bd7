"""parki by the calls of libMobility, whose programs change their import.

``from parki.libmobility import PSE`` instead of ``from libMobility import PSE``: see "Coming from
libMobility" in ``docs/suspensions.md``. The work is that of `parki.Spheres`.

``import parki`` does not import this module.

solvers      `PSE`, `NBody`, `DPStokes` and `Solver`
mobility     their common calls; rows of coordinates, (N, 3) or (3 N,), and back
"""

from parki.libmobility.solvers import PSE, DPStokes, NBody, Solver

__all__ = ["PSE", "DPStokes", "NBody", "Solver"]
