"""Spheres near a wall: which ones may be there, what they lack, and the drift of their steps.

The drift compares mobilities at shifted places, as bodies of spheres do without a wall, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.interchange import to_host, told_apart
from parki.suspensions.mobility import SphereMobility
from parki.suspensions.noise import White
from parki.suspensions.radii import MOVES
from parki.typing import AnyArray

# Distance of the two places between which the mobility is compared, in smallest radii.
STEP = 0.01
LACKS = (
    "near the wall: no lubrication; a force moves a sphere that touches it at 0.25 (across) and "
    "0.50 (along) of its speed alone, a rigid one not at all"
)
LACKS_BETWEEN = (
    "between the walls: no lubrication; a force moves a sphere that touches one of them, a rigid "
    "one not at all"
)


def check_heights(points: AnyArray, radii: AnyArray, gap: float | None = None) -> None:
    """Refuse spheres that a wall cuts; they may touch it, up to rounding.

    The walls are at 0, and at a height of ``gap``, if it is given.
    """
    heights = to_host(points[2])
    rounding = 4 * np.finfo(heights.dtype).eps
    n = int(radii.argmax()) if radii.size else 0
    if radii.size and gap is not None and 2 * radii[n] > gap * (1 + rounding):
        raise ParkiValueError(
            f"sphere {n} of radius {radii[n]:g} is wider than the gap of {gap:g} between the "
            "walls; give smaller radii, or a larger third length of box"
        )
    _check_apart(heights, radii, rounding * radii, "over the wall")
    if gap is not None:
        below = gap - heights.astype(np.float64)
        _check_apart(below, radii, rounding * gap, "below the upper wall")


def _check_apart(distances: AnyArray, radii: AnyArray, rounding: AnyArray, where: str) -> None:
    """Refuse centres that are not a radius away from a wall."""
    low = distances - radii + rounding
    if low.size and low.min() < 0:
        n = int(low.argmin())
        radius, distance = told_apart(float(radii[n]), float(distances[n]))
        raise ParkiValueError(
            f"sphere {n} of radius {radius} is {distance} {where}, which cuts it; keep each "
            f"centre at least a radius {where}"
        )


def divergence(
    mobility: SphereMobility,
    standard_normal: White,
    moves: tuple[str, ...] = MOVES[:1],
    *,
    factor: float,
) -> list[Any]:
    """Return the divergence of the mobility by a random finite difference, (3, N) for each move.

    With normal numbers w it is the mean of ``(M(x + d w / 2) - M(x - d w / 2)) w / d``.
    """
    step = STEP * mobility.sizes.smallest
    w = standard_normal(mobility.shape)
    return [each / step for each in mobility.difference(step * w, w, moves, factor=factor)]
