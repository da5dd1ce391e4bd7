"""The extent of the box: edges as given, or the extent of the points in free directions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.ewald.geometry.lattice import Lattice, check_length
from parki.ewald.options import MOST_SLENDER, EwaldOptions

Array = NDArray[np.float64]
# Thickness, over the longest edge, of the box in a direction in which points do not extend.
THINNEST = 1e-3


def resolve(options: EwaldOptions, extents: Array, before: Lattice | None = None) -> Lattice:
    """Return the box as given; where it was not, its edges are the extent of the points.

    Parameters
    ----------
    options : EwaldOptions
    extents : ndarray, shape (n, 3)
        Smallest and largest coordinates of the clouds, along the user's axes.
    before : Lattice, optional
        A plan's box, whose edges stay where they are the extent of its first points.

    Raises
    ------
    ParkiValueError
        If the edges differ too much, or overflow.
    """
    axes = options.axes
    origin, last = np.array([options.ends[axis] for axis in axes]).T.copy()
    lattice = Lattice(last - origin, sum(options.periodic), origin=origin, axes=axes)
    lattice = lattice.shaped(options.cell)
    free = [n for n, axis in enumerate(axes) if options.box[axis] is None]
    box, origin = lattice.sides.copy(), origin.copy()
    if not free:
        return lattice
    if before is not None:
        box[free], origin[free] = before.sides[free], before.origin[free]
        return _checked(replace(lattice, sides=box, origin=origin))
    if extents.size == 0:
        return replace(lattice, sides=np.where(np.isnan(box), 1.0, box))
    low, high = (end(extents, axis=0)[[*axes]].tolist() for end in (np.min, np.max))
    longest = max([high[n] - low[n] if n in free else box[n] for n in range(3)])  # or infinite
    shortest = max(THINNEST * longest, options.thinnest(extents))
    if longest == 0.0:  # one point: any box works
        longest = shortest = max(float(np.abs(extents).max()), 1.0)
    check_length(longest)
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
        x, y, z = lattice.by_user(box)
        raise ParkiValueError(
            f"the points span {x:.3g} x {y:.3g} x {z:.3g}, edges that differ by more than a factor "
            f"of {MOST_SLENDER:g}; give the lengths of the free axes in box, or leave out far "
            "points"
        )
    return lattice
