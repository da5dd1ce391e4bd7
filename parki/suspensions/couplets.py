"""Forces and torques on spheres as one density of forces and couplets, and velocities and turns.

A torque T is the antisymmetric couplet ``D_jk = eps_jmk T_m / 2``, and a sphere turns by half the
curl of the mean gradient: see `parki.ewald.sums.polydisperse`. Far and near field of one density
have noises of their own, as `parki.suspensions.noise` draws them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from parki.ewald.pipeline.one_device import OneDevice
from parki.ewald.plan import Plan

WANT = ("u", "grad_u")
# The couplet's rows that are half of each component of a torque, and minus half.
ROWS = (7, 5), (2, 6), (3, 1)


def density(forces: Any, torques: Any) -> Any:
    """Return the density (..., 12, N) of forces and torques (..., 3, N)."""
    dens = np.zeros_like(forces, shape=(*forces.shape[:-2], 12, forces.shape[-1]))
    dens[..., :3, :] = forces
    for axis, (plus, minus) in enumerate(ROWS):
        dens[..., 3 + plus, :] = torques[..., axis, :] / 2
        dens[..., 3 + minus, :] = -dens[..., 3 + plus, :]
    return dens


def turns(gradients: Any) -> Any:
    """Return turns (..., 3, N) of mean gradients (..., 9, N)."""
    turns = np.zeros_like(gradients, shape=(*gradients.shape[:-2], 3, gradients.shape[-1]))
    for axis, (plus, minus) in enumerate(ROWS):
        turns[..., axis, :] = (gradients[..., plus, :] - gradients[..., minus, :]) / 2
    return turns


class Couplets:
    """Near field and grid of forces and torques, as noise takes them, by the plan of their sum."""

    rows: tuple[int, ...] = (2, 3)  # of noise

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @property
    def pipeline(self) -> OneDevice:
        """The pipeline of the present points."""
        return cast(OneDevice, self.plan.pipeline)

    def near(self, values: Any) -> Any:
        """Return the near field of forces and torques (2, 3, N): velocities and turns."""
        return self._moved(self.pipeline.near(density(*values)))

    def shaken(self, white: Callable[[tuple[int, ...]], Any], count: int) -> Any:
        """Return the far field's noise (2, 3, N), of what makes normal numbers of a shape."""
        return self._moved(self.pipeline.shaken(white, count))

    def repeated(self, name: str, work: Any, given: Any, found: Any) -> None:
        """Do what `OneDevice.repeated` does."""
        self.pipeline.repeated(name, work, given, found)

    def _moved(self, rows: Any) -> Any:
        moved = np.zeros_like(rows, shape=(2, 3, rows.shape[-1]))
        moved[0], moved[1] = rows[:3], turns(rows[3:])
        return moved
