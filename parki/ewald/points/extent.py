"""The extent of the box, and warnings where a result depends on which image of a point was given.

Edges are as given, or the extent of the points in free directions. The warnings read the clouds'
smallest and largest coordinates, which are on the host already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.errors import ImageWarning, ParkiValueError, warn
from parki.ewald.geometry.systems import Systems
from parki.ewald.lattice import LOOSE, LOOSEST, Lattice, check_length
from parki.ewald.options import MOST_SLENDER, EwaldOptions
from parki.ewald.points.cloud import Cloud, SurveyedCloud
from parki.ewald.task import Task
from parki.interchange import real_name, rounded, to_host
from parki.runtime import load
from parki.typing import AnyArray

Array = NDArray[np.float64]
# Thickness, over the longest edge, of the box in a direction in which points do not extend.
THINNEST = 1e-3
# The same over the shortest period. The flow across a sheet or a line of points decays over a
# period, and a box of their own extent would have a promise for much smaller ones.
PART = 0.25


def least_edge(lattice: Lattice, longest: float, size: float = 0.0) -> float:
    """Return the least edge along free axes that follow the points.

    Parameters
    ----------
    lattice : Lattice
        With the periods.
    longest : float
        The longest edge of the box, or extent of the points.
    size : float, optional
        Of a source, if it is not a point.
    """
    period = lattice.sides[: lattice.periodicity].min(initial=np.inf)
    return max(THINNEST * longest, PART * period if np.isfinite(period) else 0.0, size)


def resolve(
    options: EwaldOptions, extents: Array, before: Lattice | None = None, size: float = 0.0
) -> Lattice:
    """Return the box as given; where it was not, its edges are the extent of the points.

    Parameters
    ----------
    options : EwaldOptions
    extents : ndarray, shape (n, 3)
        Smallest and largest coordinates of the clouds, along the user's axes.
    before : Lattice, optional
        A plan's box, whose edges stay where they are the extent of points.
    size : float, optional
        Of a source: see `least_edge`.

    Raises
    ------
    ParkiValueError
        If the edges differ too much, or overflow.
    """
    axes, lattice = options.axes, options.lattice
    free = [n for n, axis in enumerate(axes) if options.box[axis] is None]
    if not free:
        return lattice
    box, origin = lattice.sides.copy(), lattice.origin.copy()
    if before is not None:
        box[free], origin[free] = before.sides[free], before.origin[free]
        return _checked(replace(lattice, sides=box, origin=origin))
    if extents.size == 0:
        return replace(lattice, sides=np.where(np.isnan(box), 1.0, box))
    low, high = (end(extents, axis=0)[[*axes]].tolist() for end in (np.min, np.max))
    longest = max([high[n] - low[n] if n in free else box[n] for n in range(3)])  # or infinite
    shortest = max(least_edge(lattice, longest, size), options.thinnest(extents))
    if max(longest, shortest) == 0.0:  # one point: any box works
        longest = shortest = max(float(np.abs(extents).max()), 1.0)
    check_length(max(longest, shortest))
    for n in free:
        box[n] = max(high[n] - low[n], shortest)
        # A corner with few digits: subtracting it from a point is exact where possible.
        digit = 2.0 ** (math.frexp(box[n])[1] - 5)
        origin[n] = math.floor(low[n] / digit) * digit
        box[n] = max(box[n], (high[n] - origin[n]) * (1 + 1e-6))
    return _checked(replace(lattice, sides=box, origin=origin))


def _checked(lattice: Lattice) -> Lattice:
    """Refuse a box whose edges differ too much."""
    box = lattice.sides
    if box.max() > MOST_SLENDER * box.min():
        x, y, z = lattice.to_user(box)
        raise ParkiValueError(
            f"the points span {x:.3g} x {y:.3g} x {z:.3g}, edges that differ by more than a factor "
            f"of {MOST_SLENDER:g}; give the lengths of the free axes in box, or leave out far "
            "points"
        )
    return lattice


@lru_cache(maxsize=256)
def known_lengths(options: EwaldOptions) -> list[Array]:
    """Return the lengths that `lasting_lengths` has found for options, the last ones last."""
    return []


KNOWN = 8  # of systems of unlike sizes in turn
MARGIN, ROUNDED = 17 / 16, 2.0 ** (1 / 4)


def lasting_lengths(options: EwaldOptions, extents: Array) -> Array:
    """Return lengths for systems of these extents along free axes, and 1 along the others.

    They are at least `MARGIN` times the extents, and powers of `ROUNDED`. They are as long as those
    before, too, with room for others if points have outgrown these; unless that is far longer. So
    points that change soon have one box for all, as `Lattice.following` says of periods.
    Deterministic sums do not depend on those before.
    """
    open_axes = [length is None for length in options.box]
    lengths = ROUNDED ** np.ceil(np.log(MARGIN * extents) / np.log(ROUNDED))
    lengths = np.where(open_axes, lengths, 1.0)
    if options.deterministic:
        return lengths
    known = known_lengths(options)
    others, least, longest = [*known], lengths, float(lengths.prod())
    for before in reversed(others):
        longer = np.maximum(least, before)
        ways, most = [longer], LOOSEST
        if (longer > before).any():
            ways, most = [np.where(open_axes, ROUNDED * longer, 1.0), longer], LOOSE
        if fitting := [way for way in ways if way.prod() <= most * longest]:
            lengths = fitting[0]
            others = [each for each in others if each is not before]
            break
    known[:] = [*others, lengths][-KNOWN:]
    return lengths


# The edge over the extent of points that left it, so that points that spread or drift seldom
# need other parameters.
GROWN = 1.25


def outgrown(options: EwaldOptions, lattice: Lattice, extents: Any) -> Any:
    """Return corners of another box for points that left a plan's box; None if they did not.

    They leave it where its edges are the extent of points, along axes with None.

    Parameters
    ----------
    options : EwaldOptions
    lattice : Lattice
        The plan's box.
    extents : ndarray, shape (n, 3)
        Smallest and largest coordinates of the points.

    Returns
    -------
    ndarray, shape (2, 3), or None
        In place of the extents: see `resolve`.
    """
    if not len(extents) or None not in options.box:
        return None
    low, high = extents.min(axis=0), extents.max(axis=0)
    first = lattice.to_user(lattice.origin)
    last = first + lattice.to_user(lattice.sides)
    free = np.array([length is None for length in options.box])
    left = free & ((low < first) | (high > last))
    if not left.any():
        return None
    length, middle = GROWN * (high - low), 0.5 * (low + high)
    ends = np.where(left, middle - 0.5 * length, first), np.where(left, middle + 0.5 * length, last)
    return np.where(free, ends, (low, high))


# Points outside of the box by this part of an edge count as inside: the distance is rounding.
EDGE = 1e-6
# A sum of q.n counts as zero below this part of the sum of |q.n|: surfaces have quadrature errors.
CLOSED = 1e-3
SINGLE = np.dtype(np.float32)


def warn_of_images(task: Task, points: SurveyedCloud, total: Callable[[float], float]) -> None:
    """Warn where images matter for every density.

    They do if a triply periodic double layer has no chosen mean and sources outside of the box, as
    of a body that crosses a face; and if float32 does not resolve the distance of a target from the
    image of a source. The first of many ranks warns, for the points of all.

    Parameters
    ----------
    task : Task
    points : SurveyedCloud
    total : callable
        Sums a number over all ranks.
    """
    options, images = task.options, dict[str, int]()
    if task.sum.normals and all(options.periodic) and options.dl_mean is None:
        images["mean"] = _outside(options, points.source_extents)
    if task.dtype == np.float32 and not task.mixed:
        images["apart"] = _period_apart(options, points)
    for name, axis in images.items():
        clouds = [points.src, points.trg][: 1 + (name == "apart")]
        if axis >= 0 and _in_short_cell(options, clouds, total):
            images[name] = -1
    if points.rank > 0:
        return
    axis = images.get("mean", -1)
    if axis >= 0:
        warn_of_mean(axis)
    axis = images.get("apart", -1)
    if axis >= 0:
        warn(
            "trg and src are two float32 arrays with points a period or more apart along axis "
            f"{axis}: a target at the place of a source's image may count as very close to it, "
            "with a huge result, as float32 rounds their distance. Pass float64 arrays "
            "(precision='mixed' sums them in single precision), wrap the points into the box in "
            "float64 before they are converted (except with dl_mean='flux', which takes them as "
            "they are), or pass the same array twice where targets are the sources",
            ImageWarning,
        )


def warn_of_mean(axis: int) -> None:
    """Warn that the mean of a double layer was not chosen, whose sources are outside of the box."""
    warn(
        f"sources are outside of the box along axis {axis}, as of bodies that cross a face, "
        "but dl_mean is not given: without it the mean velocity of the double layer is zero, "
        "and closed bodies move at another velocity than in a suspension without net flux. "
        "Pass dl_mean='flux' for bodies whose points are together, or dl_mean='zero' to keep "
        "this sum: docs/gauges.md",
        ImageWarning,
    )


def warn_of_boxes(systems: Systems, src: AnyArray, vectors: Array, short: Array) -> None:
    """Warn as `warn_of_images` does of the mean, where systems have boxes of their own.

    Parameters
    ----------
    systems : Systems
        With sources ``src``, shape (3, N).
    vectors, short : ndarray, shape (S, 3, 3)
        Of each box, in rows, as they were given, and the shortest ones.
    """
    points, owner = to_host(src).astype(np.float64), to_host(systems.arrays[2])
    outside, axes = np.ones(systems.count, dtype=bool), list[int]()
    for rows in (vectors, short):
        places = np.einsum("bn,nba->an", points, np.linalg.inv(rows)[owner])
        out = (places < -EDGE) | (places > 1 + EDGE)
        outside &= np.bincount(owner, out.any(axis=0), systems.count) > 0
        axes.append(int(out.any(axis=1).argmax()))
    if outside.any():
        warn_of_mean(axes[0])


def may_warn(task: Task, cloud: Cloud) -> bool:
    """Return whether it depends on where points are if `warn_of_images` warns."""
    unsaid = task.sum.normals and all(task.options.periodic) and task.options.dl_mean is None
    return unsaid or (task.dtype == np.float32 and not (task.mixed or cloud.same or cloud.images))


def look_for_flux(
    task: Task, points: SurveyedCloud, dens: AnyArray, total: Callable[[float], float]
) -> bool:
    """Warn if the mean without flux depends on images, as the sum of q.n is not zero.

    Parameters
    ----------
    task : Task
    points : SurveyedCloud
    dens : array, shape (rows, Ns) or (k, rows, Ns)
        The density; the first one is examined if there are several.
    total : callable
        Sums a number over all ranks.

    Returns
    -------
    bool
        Whether anything was to be examined. That waits for a device, which no further density
        needs to do.
    """
    options = task.options
    if not task.flux:
        return False
    outside = _outside(options, points.all_extents) >= 0
    clouds = [points.src, points.trg]
    if not outside or _in_short_cell(options, clouds, total):
        return False
    first = dens[0] if dens.ndim == 3 else dens
    rows, real = task.xp.empty((2, first.shape[1])), real_name(first.dtype)
    measure = load("flux", "measure_dipoles", task.space, executor=task.executor, REAL=real)
    norms = points.arrays["norms"]
    measure(first.shape[1], row=len(first) - 3, dens=first, norms=norms, strengths=rows)
    if points.systems is not None:
        sums, sizes = to_host(points.systems.sums(rows))
    else:
        sums, sizes = (np.array([total(float(n))]) for n in to_host(rows.sum(axis=1)))
    if points.rank == 0 and (abs(sums) > CLOSED * sizes).any():
        warn(
            "dl_mean is 'flux' and points are outside of the box, but the sum of q.n is not zero: "
            "the flow is not periodic, and depends on which images of the points were given. Keep "
            "all points in the box, or pass dl_mean='zero': docs/gauges.md",
            ImageWarning,
        )
    return bool(sizes.any())


def _outside(options: EwaldOptions, extents: NDArray[np.float64]) -> int:
    """Return the first periodic axis along which points are outside of the box, or -1."""
    for axis, edge in _periods(options):
        if len(extents):
            slack = EDGE * edge
            if extents[:, axis].min() < -slack or extents[:, axis].max() > edge + slack:
                return axis
    return -1


def _in_short_cell(
    options: EwaldOptions, clouds: list[Any], total: Callable[[float], float]
) -> bool:
    """Return whether all points of all ranks are in the cell of the shortest lattice vectors.

    Points of a tilted box may be, and not in the cell of the vectors given: in a unit cube whose
    second vector leans by a whole edge.
    """
    if options.cell is None:
        return False
    short, outside = replace(options, box=options.vectors), False
    for points in clouds:
        if points.shape[1]:
            moved = short.along(points)
            ends = np.stack([to_host(moved.min(axis=1)), to_host(moved.max(axis=1))])
            outside = outside or _outside(short, ends) >= 0
    return total(float(outside)) == 0


def _period_apart(options: EwaldOptions, points: SurveyedCloud) -> int:
    """Return the first axis along which targets and sources may be a period apart, or -1.

    In the box they never are.
    """
    if points.all_same or points.copies or not all(points.totals):
        return -1
    low, high = points.all_extents.min(axis=0), points.all_extents.max(axis=0)
    for axis, edge in _periods(options):
        inside = low[axis] >= 0 and high[axis] <= max(edge, rounded(edge, SINGLE))
        if not inside and high[axis] - low[axis] >= (1 - EDGE) * edge:
            return axis
    return -1


def _periods(options: EwaldOptions) -> Iterator[tuple[int, float]]:
    """Yield the periodic axes with their periods."""
    for axis, edge in enumerate(options.edges):
        if options.periodic[axis] and edge is not None:
            yield axis, edge
