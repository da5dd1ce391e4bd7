"""Whether a plan's box and parameters still suit points that moved, or a few far ones cost time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError, warn
from parki.ewald.choice.clustering import PairDensity, pair_density
from parki.ewald.choice.method import MethodParameters
from parki.ewald.choice.parameters import select
from parki.ewald.choice.problem import FAR, NEAR
from parki.ewald.lattice import Lattice
from parki.ewald.points.extent import least_edge

# Parameters are kept while the number of pairs within the cut-off changes by at most this factor:
# they then cost some percent more than the best ones,
PAIRS = 1.5
# and while squared errors grow by at most this factor beyond the shares of both fields: the choice
# has a larger margin (`NEAR`). A window of whole points mostly has less than the far field's share.
GROWTH, LEAST = 1.25, 1e-300
# Sums that take fewer seconds are not worth a choice that only saves time, which takes ten times as
# long. Pairs of few points are as many as chance has it.
CHEAP = 1e-3


def suit(
    chosen: MethodParameters,
    density: PairDensity,
    tolerance: float,
    targets: int,
    sources: int,
    systems: int = 1,
) -> bool:
    """Return whether parameters suit other points than the points they were chosen for.

    Parameters
    ----------
    chosen : MethodParameters
    density : PairDensity
        Pair density of the points now.
    tolerance : float
        Tolerance to choose by now; for any densities it falls with the number of sources.
    targets, sources, systems : int
        Numbers of points of each system, and of systems, now.
    """
    problem = chosen.problem
    now = replace(problem, density=density, targets=targets, sources=sources, systems=systems)
    ratio = now.pairs(chosen.cutoff) / problem.pairs(chosen.cutoff)
    seconds = chosen.total + (ratio - 1) * chosen.seconds["P2P"]
    if not 1 / PAIRS <= ratio <= PAIRS and max(seconds, chosen.total) > CHEAP:
        return False
    if GROWTH * tolerance**2 < problem.tolerance**2:
        return False
    old, errors = problem.density, chosen.errors
    far = errors["truncation"] ** 2 + errors["window"] ** 2
    fields = (chosen.cutoff, errors["near"] ** 2, NEAR), (2 * float(chosen.steps.min()), far, FAR)
    return all(
        now <= GROWTH * max(1.0, share / max(square, LEAST)) * before
        for scale, square, share in fields
        for now, before in (
            (density.at(scale), old.at(scale)),
            (density.self_pairs, old.self_pairs),
        )
    )


def lasting(chosen: MethodParameters, density: PairDensity) -> PairDensity:
    """Return the density to choose by where parameters no longer suit points of a density.

    It is as large as the one before, too, unless that makes more pairs: points that change from
    call to call soon have parameters that suit all of them.
    """
    both = density.at_least(chosen.problem.density)
    more, fewer = (
        replace(chosen.problem, density=each).pairs(chosen.cutoff) for each in (both, density)
    )
    return both if more <= PAIRS * fewer or chosen.total <= CHEAP else density


Array = NDArray[np.float64]
# Compare times where the last percent of the points makes the box this many times larger,
LARGER = 8.0
# and warn where it makes a call take this many times as long, and this many seconds more.
LONGER, SECONDS = 3.0, 0.1


def warn_of_far_points(
    chosen: MethodParameters,
    clouds: Iterable[Array],
    lattice: Lattice,
    free: list[int],
    ranks: int = 1,
) -> None:
    """Warn if leaving out a few far points would make a call much faster; change nothing.

    Then the box is the extent of the points. The predicted time of all points is compared with the
    time of the others alone.

    Parameters
    ----------
    chosen : MethodParameters
        Parameters for all points.
    clouds : iterable of ndarray, shape (3, N)
        Samples of targets and of sources (one if they are the same), from the corner of the box.
    lattice : Lattice
        In the user's unit.
    free : list of int
        Axes along which the box is the extent of the points.
    ranks : int
        Ranks that share the points; the prediction is for one.
    """
    if not free or chosen.total <= SECONDS:
        return
    samples = list(clouds)
    ends = [np.percentile(points[free], [1, 99], axis=1) for points in samples]
    low, high = np.min(ends, axis=0)[0], np.max(ends, axis=0)[1]
    sides = lattice.sides.copy()
    sides[free] = np.maximum(high - low, least_edge(lattice, sides.max()))
    inner = replace(lattice, sides=sides)
    if lattice.volume <= LARGER * inner.volume:
        return
    kept = [_between(points, free, low, high) for points in samples]
    if not all(points.shape[1] for points in kept):
        return
    density = pair_density(kept[0], kept[-1], inner.edges)
    if density.self_pairs:  # the sample's own
        density = replace(density, self_pairs=1 / chosen.problem.sources)
    try:
        lattice_of_most = inner.over(inner.length)
        near = replace(chosen.problem, lattice=lattice_of_most, density=density, cutoff=None)
        alone = select(near).total
    except ParkiValueError:  # no grid reaches the tolerance
        return
    if chosen.total <= max(LONGER * alone, alone + SECONDS):
        return
    spans = ", ".join(
        f"[{a + first:.3g}, {b + first:.3g}] of [{first:.3g}, {first + lattice.sides[axis]:.3g}] "
        f"along axis {lattice.axes[axis]}"
        for axis, a, b, first in zip(free, low, high, lattice.origin[free], strict=True)
    )
    where = " on one rank" if ranks > 1 else ""
    warn(
        f"a few far points make a call take {chosen.total:.2g} s{where}, as predicted, in place of "
        f"{alone:.2g} s: 98 % of the points lie within {spans}. Leave lost points out, or make "
        "plans of their own, which take little time: the far targets with all sources, and the "
        "near targets with the far sources, to be added to the near targets with near sources"
    )


def _between(points: Array, free: list[int], low: Array, high: Array) -> Array:
    """Return the points between two corners, relative to the first one."""
    inside = ((points[free] >= low[:, None]) & (points[free] <= high[:, None])).all(axis=0)
    places = points[:, inside]
    places[free] -= low[:, None]
    return places
