"""`Gauge`: the constant of a sum whose densities have a field of their own.

A sum over periodic images of a density that does not add up to zero is fixed up to a constant only.
``docs/gauges.md`` tells users parki's choice; "Kernels that end" of ``docs/theory.md`` derives the
constants below, which free axes need because their kernels end at a radius.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError

Array = NDArray[np.float64]


class Ends(NamedTuple):
    """Kernels that end, in a box with at least one free axis.

    Attributes
    ----------
    periodicity : int
    box : ndarray, shape (3, S)
        Edges of the box of each system, in solver units.
    radius : float
        Where kernels end, in solver units.
    log : float
        Logarithm of that radius in the user's unit.
    mean : ndarray, shape (S,)
        Integral of the mode k = 0 that the multiplier leaves out, over the volume that repeats.
    """

    periodicity: int
    box: Array
    radius: float
    log: float
    mean: Array


class Gauge(NamedTuple):
    """What truncation changed and left out, and the background of a triply periodic box.

    Attributes
    ----------
    ends : callable
        ``ends(Ends)``: per unit of the summed density, shape (results, S).
    background : bool
        Whether triply periodic densities have the split's uniform background.
    screened : bool
        Whether it is for symbols with a screening, whose fields decay.
    """

    ends: Callable[[Ends], Array]
    background: bool = False
    screened: bool = False


def _of_charges(ends: Ends, more: float = 0.0) -> Array:
    box, radius = ends.box, ends.radius
    change = (0.0, -2 / box[0] * (ends.log + more), -2 * np.pi * radius / (box[0] * box[1]))
    return np.array([change[ends.periodicity] + ends.mean])


def _of_forces(ends: Ends) -> Array:
    box = ends.box
    if ends.periodicity == 0:
        return np.full((3, 1), 2 / ends.radius)
    if ends.periodicity == 1:
        return np.outer([-4.0, -2.0, -2.0], (ends.log + 0.5) / box[0])
    constant = ends.mean - 4 * np.pi * ends.radius / (box[0] * box[1])
    return np.outer([1.0, 1.0, 0.0], constant)


def _of_screened(ends: Ends) -> Array:
    return np.array([ends.mean])  # they decay: nothing is open


def _with_friction(ends: Ends) -> Array:
    return np.outer([1.0, 1.0, 0.0], ends.mean)  # 0 unless two axes are periodic


OF_CHARGES = Gauge(_of_charges, background=True)
# With it their forces and charges leave no constant at a wall, whatever forces add up to.
OF_IMAGES = Gauge(partial(_of_charges, more=1.5), background=True)
OF_FORCES = Gauge(_of_forces)
# In place of OF_CHARGES and of OF_FORCES, where the symbol has a screening.
OF_SCREENED = Gauge(_of_screened, background=True, screened=True)
WITH_FRICTION = Gauge(_with_friction, screened=True)


def check_gauge(name: str, gauge: Gauge, screened: bool, power: int, results: int) -> None:
    """Refuse a gauge of densities that a sum does not have, whose constant would be wrong.

    Parameters
    ----------
    name : str
        The name of the sum.
    screened : bool
        Whether its symbol is.
    power : int
        With which it falls.
    results : int
        Rows of a result.

    Raises
    ------
    ParkiValueError
    """
    if gauge.screened is not screened:
        words = ("without", "OF_CHARGES or OF_FORCES")
        if screened:
            words = ("with", "OF_SCREENED or WITH_FRICTION")
        raise ParkiValueError(
            f"the sum {name} has a symbol {words[0]} screening, but not such a gauge; give "
            f"{words[1]} of parki.extend"
        )
    if power != 1:
        raise ParkiValueError(
            f"the sum {name} falls as 1 / r^{power}, so that net densities have no constant of "
            "their own; give gauge=None"
        )
    if gauge.background is not (results == 1):
        right = ("OF_FORCES or WITH_FRICTION", "OF_CHARGES or OF_SCREENED")[results == 1]
        raise ParkiValueError(
            f"the sum {name} has results of {results} rows, but not such a gauge; give {right} of "
            "parki.extend"
        )
