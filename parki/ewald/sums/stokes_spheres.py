"""Spheres of two radii: the flow of forces on spheres, averaged over the surfaces of spheres.

``u_i = sum [ m(r) I + l(r) r r^T / r^2 ] f``, by Rotne, Prager and Yamakawa: see
``kernels/pairs/spheres.py`` for m and l. Its own force moves a sphere by 4 f / (3 a).
"""

from __future__ import annotations

import math

from parki.errors import ParkiValueError
from parki.ewald.sums import stokes_sl
from parki.ewald.sums.adjoint import Adjoint, velocity
from parki.ewald.sums.gauges import OF_FORCES
from parki.ewald.sums.names import Family, named
from parki.ewald.sums.pairs import PairFunction
from parki.ewald.sums.record import Sum
from parki.ewald.sums.sources import FORCE
from parki.ewald.sums.symbols import FLOW


def stokes_spheres(radius: float, source_radius: float | None = None) -> Sum:
    """Return the sum of spheres of one radius, perhaps with sources of another.

    A radius of 0 stands for points: tracers of a flow, or forces at points.
    """
    radii = radius, radius if source_radius is None else source_radius
    for name, value in zip(("radius", "source_radius"), radii, strict=True):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ParkiValueError(f"{name} is {value!r}; expected a length")
        if not 0 <= value < math.inf:
            raise ParkiValueError(f"{name} is {value!r}; expected a length, or 0 for points")
    if not max(radii):
        raise ParkiValueError("all radii are 0; stokes_sl sums points")

    def spelt(own: float, other: float) -> str:
        more = {} if own == other else {"source_radius": float(other)}
        return named("stokes_spheres", radius=float(own), **more)

    transposed = spelt(*radii[::-1])
    results = ("u", "grad_u") if radii[0] else ("u", "p", "grad_u")
    return Sum(
        spelt(*radii),
        FLOW._replace(radii=radii),
        PairFunction("spheres", (2, 45), "SX-", "XR-", with_values="S", lengths=radii),
        (FORCE,),
        OF_FORCES,
        # Shells make no error larger than it is of points.
        terms={result: stokes_sl.TERMS[result] for result in results},
        adjoints={"u": Adjoint(transposed, ("u",), velocity, symmetric=radii[0] == radii[1])},
    )


FAMILY = Family(
    stokes_spheres,
    lengths={"radius": 1, "source_radius": 1},
    example={"radius": 0.02},
)
