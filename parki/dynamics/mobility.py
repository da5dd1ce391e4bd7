"""`MomentMobility`: how forces and couplets of spheres move all of them, stresslets included.

Forces are spread over the surfaces of spheres, and couplets over their volumes; velocities and
gradients are means in the same way (Durlofsky, Brady and Bossis, 1987). With a sphere's radius a,
outside of it, that is ``1 + a^2 lap / 6`` for forces and velocities and ``1 + a^2 lap / 10`` for
couplets and gradients. It is one sum, for any radii and all boxes: see
`parki.ewald.sums.polydisperse`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.options import EwaldOptions
from parki.ewald.plan import Plan
from parki.ewald.sums import kernel
from parki.interchange import to_host
from parki.solving.pairs import near_pairs

WANT = ("u", "grad_u")
ROUNDING = 8  # units in the last place, by which spheres that touch may overlap


class MomentMobility:
    """The mobility of spheres apart, in units of 8 pi viscosity = 1.

    Parameters
    ----------
    points : array, shape (3, N), float32 or float64
    radii : ndarray, shape (N,)
        Positive.
    options : EwaldOptions

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible, or spheres overlap.
    """

    def __init__(self, points: Any, radii: Any, options: EwaldOptions) -> None:
        self.radii = radii
        self._check(points, options)
        name = kernel("polydisperse_couplets", largest=float(radii.max(initial=0.0)))
        self._sum: Any = Plan(name, points, points, radii, options, want=WANT)
        self.dtype, self.space = self._sum.dtype, self._sum.space

    @property
    def points(self) -> Any:
        """The centres, which nobody else changes."""
        return self._sum.points.arrays["trg"]

    @property
    def options(self) -> EwaldOptions:
        """The options, with the present box."""
        found: EwaldOptions = self._sum.options
        return found

    def update_points(self, points: Any, box: Any = None) -> None:
        """Move the spheres; on any error all stays as it was."""
        how = {} if box is None else {"box": box}
        before = self._sum.points.arrays["trg"], self.options
        self._sum.update_points(points, points, **how)
        try:
            self._check(points, self.options)
        except ParkiValueError:
            self._sum.update_points(before[0], before[0], box=before[1].box)
            raise

    def __call__(self, forces: Any, couplets: Any) -> tuple[Any, Any]:
        """Return velocities (3, N) and gradients (3, 3, N) of the fluid, ``d u_i / d x_j``.

        Parameters
        ----------
        forces : array, shape (3, N), or None
            On the fluid. None stands for no forces.
        couplets : array, shape (3, 3, N)
            First moments of the forces on the fluid.
        """
        xp = self.space.array_module
        given = xp.zeros_like(couplets[0]) if forces is None else forces
        u, gradients = self._sum(xp.concatenate([given, couplets.reshape(9, -1)]))
        return u, gradients

    def _check(self, points: Any, options: EwaldOptions) -> None:
        """Refuse spheres that overlap."""
        if not points.shape[1]:
            return
        pairs = near_pairs(points, points, 2 * float(self.radii.max()), options)
        if not pairs.indices.size:
            return
        i, j, r = (to_host(each) for each in (pairs.targets, pairs.indices, pairs.distances))
        sums = self.radii[i] + self.radii[j]
        over = 1 - r / sums
        worst = int(over.argmax())
        if over[worst] > ROUNDING * np.finfo(points.dtype).eps:
            one, two = sorted((int(i[worst]), int(j[worst])))
            what = f"spheres {one} and {two}" if one != two else f"sphere {one} and its own image"
            raise ParkiValueError(
                f"{what} overlap by {over[worst]:.2g} of the sum of their radii; expected spheres "
                "apart: take a smaller step, smaller radii, or forces that keep them apart"
            )
