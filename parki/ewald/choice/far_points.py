"""A warning where a few far points make a sum expensive, because the box is the points' extent.

It compares the predicted time of all points with the time of the others alone; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError, warn
from parki.ewald.choice.clustering import pair_density
from parki.ewald.choice.parameters import Parameters, select
from parki.ewald.choice.problem import Problem
from parki.ewald.geometry.extent import THINNEST
from parki.ewald.geometry.lattice import Lattice

Array = NDArray[np.float64]
# Compare times where the last percent of the points makes the box this many times larger,
LARGER = 8.0
# and warn where it makes a call take this many times as long, and this many seconds more.
LONGER, SECONDS = 3.0, 0.1


def warn_of_far_points(
    problem: Problem,
    chosen: Parameters,
    clouds: Iterable[Array],
    lattice: Lattice,
    free: list[int],
    ranks: int = 1,
) -> None:
    """Warn if leaving out a few far points would make a call much faster.

    Parameters
    ----------
    problem : Problem
    chosen : Parameters
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
    sides[free] = np.maximum(high - low, THINNEST * sides.max())
    inner = replace(lattice, sides=sides)
    if lattice.volume <= LARGER * inner.volume:
        return
    kept = [_between(points, free, low, high) for points in samples]
    if not all(points.shape[1] for points in kept):
        return
    density = pair_density(kept[0], kept[-1], inner.edges)
    if density.self_pairs:  # the sample's own
        density = replace(density, self_pairs=1 / problem.sources)
    try:
        near = replace(problem, lattice=inner.over(inner.length), density=density, cutoff=None)
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
