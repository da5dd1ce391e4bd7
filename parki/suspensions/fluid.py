"""`InFluid` and `Solving`: the viscosity of a fluid and the accuracy of solves, to be assigned."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, cast

from parki.core import SERIAL, EwaldOptions, Ranks, as_points
from parki.errors import ParkiValueError
from parki.interchange import as_array, positive
from parki.memory import telling
from parki.runtime.forks import MadeAnew
from parki.suspensions.noise import check_accuracy
from parki.typing import AnyArray, ArrayModule


class Attached(NamedTuple):
    """What moves with spheres.

    Attributes
    ----------
    back : callable
        To the library of the points.
    on_top : object
        What a room on top has at these points, such as bodies that are made of them.
    """

    back: Callable[[Any], Any]
    on_top: Any = None


def new_centres(points: AnyArray, shape: tuple[int, ...], name: str) -> Any:
    """Return an array of the new centres of spheres; refuse another number of them."""
    array = as_points("points", points)
    if array.shape != shape:
        raise ParkiValueError(
            f"points has shape {array.shape}; expected {shape}, a centre for each of the spheres; "
            f"make new {name} for another number"
        )
    return array


def operator_product(
    velocities: Callable[..., Any], xp: ArrayModule, torques: bool = True
) -> Callable[[Any], Any]:
    """Return the product of a mobility with forces (..., 3, N), or with pairs (..., 2, 3, N).

    Pairs are forces and torques, and then velocities and turns.
    """

    def product(values: AnyArray) -> Any:
        if not torques:
            return velocities(values)
        pair = velocities(values[..., 0, :, :], values[..., 1, :, :])
        return xp.stack([as_array("motions", each) for each in pair], axis=-3)

    return product


@telling
class InFluid(MadeAnew):
    """What is in a viscous fluid, which all ranks share."""

    _ranks: Ranks = SERIAL
    _mobility: Any  # at the present points: `SphereMobility`, or `MomentMobility`
    _viscosity: float

    @property
    def viscosity(self) -> float:
        """Viscosity of the fluid."""
        return self._viscosity

    @viscosity.setter
    def viscosity(self, viscosity: float) -> None:
        with self._together("viscosity"):
            number = positive("viscosity", viscosity)
            first, *others = self._ranks.allgather(number)
            for rank, other in enumerate(others, 1):
                if other != first:
                    raise ParkiValueError(
                        f"viscosity is {other} on rank {rank}, but {first} on rank 0; all spheres "
                        "are in one fluid"
                    )
        self._viscosity = number

    @property
    def factor(self) -> float:
        """What the sums are multiplied by: ``1 / (8 pi viscosity)``."""
        return 1 / (8 * math.pi * self._viscosity)

    @property
    def _first(self) -> Any:
        """The plan that has the points, by whose lock one thread after the other calls."""
        return self._mobility.first

    @property
    def _back(self) -> Callable[[Any], Any]:
        return cast(Attached, self._mobility.attached).back

    def _in_library(self, motions: AnyArray, turns: bool = True) -> Any:
        """Return velocities, and with turns both, in the library of the points."""
        return tuple(self._back(each) for each in motions) if turns else self._back(motions[0])

    def _together(self, call: str) -> AbstractContextManager[Any]:
        """Raise on all ranks what is raised on one of them; refuse ranks in other calls."""
        return self._ranks.collective(f"{call} of Spheres,")


@telling
class Solving(InFluid):
    """What moves by solves, for points of a dtype."""

    _dtype: Any
    _accuracy: float

    @property
    def options(self) -> EwaldOptions:
        """The options, with the present box."""
        options: EwaldOptions = self._mobility.options
        return options

    @property
    def accuracy(self) -> float:
        """Relative error of motions at which solves stop."""
        return self._accuracy

    @accuracy.setter
    def accuracy(self, accuracy: float) -> None:
        check_accuracy(accuracy, self._dtype, "solves")
        self._accuracy = float(accuracy)
