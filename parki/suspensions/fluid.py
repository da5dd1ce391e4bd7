"""`InFluid` and `Solving`: the viscosity of a fluid and the accuracy of solves, to be assigned."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import Any

from parki.core import SERIAL, Ranks
from parki.errors import ParkiValueError
from parki.interchange import positive
from parki.memory import telling
from parki.runtime.forks import Uncopied
from parki.suspensions.noise import check_accuracy


@telling
class InFluid(Uncopied):
    """What is in a viscous fluid, which all ranks share."""

    _ranks: Ranks = SERIAL
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

    def _together(self, call: str) -> AbstractContextManager[Any]:
        """Raise on all ranks what is raised on one of them; refuse ranks in other calls."""
        return self._ranks.collective(f"{call} of Spheres,")


@telling
class Solving(InFluid):
    """What moves by solves, for points of a dtype."""

    _dtype: Any
    _accuracy: float

    @property
    def accuracy(self) -> float:
        """Relative error of motions at which solves stop."""
        return self._accuracy

    @accuracy.setter
    def accuracy(self, accuracy: float) -> None:
        check_accuracy(accuracy, self._dtype, "solves")
        self._accuracy = float(accuracy)
