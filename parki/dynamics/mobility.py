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

from parki.dynamics import moments
from parki.ewald.options import EwaldOptions
from parki.ewald.plan import Plan
from parki.suspensions.couplets import Couplets
from parki.suspensions.radii import Radii

WANT = ("u", "grad_u")


class MomentMobility:
    """The mobility of spheres, which may overlap, in units of 8 pi viscosity = 1.

    Parameters
    ----------
    points : array, shape (3, N), float32 or float64
    radii : ndarray, shape (N,)
        Positive.
    options : EwaldOptions

    Raises
    ------
    ParkiValueError, ParkiTypeError
        If an argument is impossible.
    """

    def __init__(self, points: Any, radii: Any, options: EwaldOptions) -> None:
        self.radii, sizes = radii, Radii.of(radii, points.shape[1])
        name: Any = sizes.couplets
        self.sum: Any = Plan(name, points, points, sizes.marks, options, want=WANT)
        self.dtype, self.space = self.sum.dtype, self.sum.space

    @property
    def points(self) -> Any:
        """The centres, which nobody else changes."""
        return self.sum.points.arrays["trg"]

    @property
    def options(self) -> EwaldOptions:
        """The options, with the present box."""
        options: EwaldOptions = self.sum.options
        return options

    def update_points(self, points: Any, box: Any = None) -> None:
        """Move the spheres; on any error all stays as it was."""
        self.sum.update_points(points, points, **({} if box is None else {"box": box}))

    def __call__(self, forces: Any, couplets: Any) -> tuple[Any, Any]:
        """Return velocities (3, N) and gradients (3, 3, N) of the fluid, ``d u_i / d x_j``.

        Parameters
        ----------
        forces : array, shape (3, N)
            On the fluid.
        couplets : array, shape (3, 3, N)
            First moments of the forces on the fluid.
        """
        xp = self.space.array_module
        u, gradients = self.sum(xp.concatenate([forces, couplets.reshape(9, -1)]))
        return u, gradients


class MomentFields(Couplets):
    """Near field and grid of the eleven numbers of each sphere, as noise takes them."""

    rows = (11,)

    def near(self, values: Any) -> Any:
        """Return the near field of eleven numbers for each sphere, (11, N)."""
        xp = self.plan.space.array_module
        couplets = moments.couplets(xp, values[3:]).reshape(9, -1)
        return self._moved(self.pipeline.near(np.concatenate([values[:3], couplets])))

    def repeated(self, name: str, work: Any, given: Any, found: Any) -> None:
        """Do the work: it is not recorded."""
        work(given | found)

    def _moved(self, rows: Any) -> Any:
        xp = self.plan.space.array_module
        turning = moments.turning(xp, rows[3:].reshape(3, 3, -1))
        return np.concatenate([rows[:3].astype(np.float64), turning])
