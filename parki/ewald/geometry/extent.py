"""The extent of the box: edges as given, or the extent of the points in free directions."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.ewald.options import MOST_SLENDER, EwaldOptions

Array = NDArray[np.float64]
# Thickness, over the longest edge, of the box in a direction in which points do not extend.
THINNEST = 1e-3
# Longest and shortest (its inverse) length: results and promises have cubes, which stay finite.
LONGEST = 2.0**300


class Extent(NamedTuple):
    """The box in use.

    Attributes
    ----------
    origin : ndarray, shape (3,)
        Corner of the box, subtracted from all points; 0 where the box was given, without images
        behind a wall.
    box : ndarray, shape (3,)
        Edge lengths; of a tilted box the sides of its lattice, whose product is the volume.
    tilts : tuple of 3 floats
        Tilts of its lattice, in the solver's order of axes.
    """

    origin: Array
    box: Array
    tilts: tuple[float, ...] = (0.0, 0.0, 0.0)

    def ordered(self, axes: list[int]) -> Extent:
        """Return the box with its axes in another order, which the tilts have already."""
        return Extent(self.origin[axes], self.box[axes], self.tilts)


def volume_length(box: Array) -> float:
    """Return the cube root of a box's volume, where the volume itself may overflow."""
    unit = math.ldexp(1.0, math.frexp(float(box.max()))[1] - 1)
    ratio: float = float(np.prod(box / unit)) ** (1 / 3)
    return unit * ratio


def check_length(length: float, dtype: Any = np.float64) -> None:
    """Refuse a typical edge whose powers overflow or vanish.

    Raises
    ------
    ParkiValueError
    """
    limits = np.finfo(dtype)
    most = min(LONGEST, float(limits.max) / 4)
    if not max(1 / LONGEST, 4 * float(limits.tiny)) <= length <= most:
        raise ParkiValueError(
            f"the box has edges of about {length:g}, whose powers {np.dtype(dtype)} does not hold; "
            "give lengths in another unit"
        )


def resolve(options: EwaldOptions, extents: Array) -> Extent:
    """Return the box as given; where it was not, its edges are the extent of the points.

    Parameters
    ----------
    options : EwaldOptions
    extents : ndarray, shape (n, 3)
        Smallest and largest coordinates of the clouds.

    Raises
    ------
    ParkiValueError
        If the edges differ too much, or overflow.
    """
    origin, last = np.array([options.ends(axis) for axis in range(3)]).T.copy()
    box, tilts = last - origin, Extent._field_defaults["tilts"]
    if options.cell is not None:
        tilts, sides = options.cell.lattice.tilts, np.array(options.sides, dtype=np.float64)
        box = np.where(options.periodic, sides, box)
    free = [axis for axis in range(3) if options.box[axis] is None]
    if not free:
        return Extent(origin, box, tilts)
    if extents.size == 0:
        return Extent(origin, np.where(np.isnan(box), 1.0, box), tilts)
    low, high = extents.min(axis=0).tolist(), extents.max(axis=0).tolist()  # may be infinite
    longest = max([high[a] - low[a] if b is None else box[a] for a, b in enumerate(options.box)])
    shortest = THINNEST * longest
    if longest == 0.0:  # one point: any box works
        longest = shortest = max(float(np.abs(extents).max()), 1.0)
    check_length(longest)
    for axis in free:
        box[axis] = max(high[axis] - low[axis], shortest)
        # A corner with few digits: subtracting it from a point is exact where possible.
        digit = 2.0 ** (math.frexp(box[axis])[1] - 5)
        origin[axis] = math.floor(low[axis] / digit) * digit
        box[axis] = max(box[axis], (high[axis] - origin[axis]) * (1 + 1e-6))
    if box.max() > MOST_SLENDER * box.min():
        raise ParkiValueError(
            f"the points span {box[0]:.3g} x {box[1]:.3g} x {box[2]:.3g}, edges that differ by "
            f"more than a factor of {MOST_SLENDER:g}; give the lengths of the free axes in box, "
            "or leave out far points"
        )
    return Extent(origin, box, tilts)
