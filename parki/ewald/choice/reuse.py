"""Whether a plan's box and parameters still suit points that moved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.ewald.choice.clustering import PairDensity
from parki.ewald.choice.parameters import Parameters
from parki.ewald.choice.problem import Problem
from parki.ewald.geometry.lattice import Lattice
from parki.ewald.options import EwaldOptions

# Parameters are kept while the number of pairs within the cut-off changes by at most this factor:
# they then cost some percent more than the best ones,
PAIRS = 1.5
# and while squared errors grow by at most this factor: the choice has a larger margin (`NEAR`).
GROWTH = 1.25


def suit(
    problem: Problem,
    chosen: Parameters,
    density: PairDensity,
    tolerance: float,
    targets: int,
    sources: int,
    systems: int = 1,
) -> bool:
    """Return whether parameters suit other points than the points they were chosen for.

    Parameters
    ----------
    problem : Problem
        The problem they were chosen for.
    chosen : Parameters
    density : PairDensity
        Pair density of the points now.
    tolerance : float
        Tolerance to choose by now; for any densities it falls with the number of sources.
    targets, sources, systems : int
        Numbers of points of each system, and of systems, now.
    """
    now = replace(problem, density=density, targets=targets, sources=sources, systems=systems)
    ratio = now.pairs(chosen.cutoff) / problem.pairs(chosen.cutoff)
    if not 1 / PAIRS <= ratio <= PAIRS:
        return False
    if GROWTH * tolerance**2 < problem.tolerance**2:
        return False
    old = problem.density
    return density.self_pairs <= GROWTH * old.self_pairs and all(
        density.at(scale) <= GROWTH * old.at(scale)
        for scale in (chosen.cutoff, 2 * float(chosen.steps.min()))
    )


def check_stay(options: EwaldOptions, lattice: Lattice, extents: NDArray[np.float64]) -> None:
    """Refuse points that leave the box where it is the extent of a plan's first points.

    Parameters
    ----------
    options : EwaldOptions
    lattice : Lattice
    extents : ndarray, shape (n, 3)
        Smallest and largest coordinates of the points.

    Raises
    ------
    ParkiValueError
    """
    if not len(extents) or None not in options.box:
        return
    low, high = extents.min(axis=0), extents.max(axis=0)
    first = lattice.by_user(lattice.origin)
    last = first + lattice.by_user(lattice.sides)
    for axis, length in enumerate(options.box):
        if length is None and (low[axis] < first[axis] or high[axis] > last[axis]):
            raise ParkiValueError(
                f"the points reach from {low[axis]:g} to {high[axis]:g} along axis {axis}, but the "
                f"plan's box there is [{first[axis]:g}, {last[axis]:g}], the extent of its first "
                "points; make a new plan, or one with a length in box that leaves room to move"
            )
