"""Spheres near a wall: which ones may be there, what they lack, and the drift of their steps.

The drift compares mobilities at shifted places, as bodies of spheres do without a wall, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.interchange import to_host, told_apart
from parki.suspensions.derivatives import MOVES
from parki.suspensions.noise import White

# Distance of the two places between which the mobility is compared, in smallest radii.
STEP = 0.01
LACKS = (
    "near the wall: no lubrication; a force moves a sphere that touches it at 0.25 (across) and "
    "0.50 (along) of its speed alone, a rigid one not at all"
)


def check_heights(points: Any, radii: Any) -> None:
    """Refuse spheres that the wall cuts; they may touch it, up to rounding."""
    heights = to_host(points[2])
    low = heights - radii * (1 - 4 * np.finfo(heights.dtype).eps)
    if low.size and low.min() < 0:
        n = int(low.argmin())
        radius, height = told_apart(float(radii[n]), float(heights[n]))
        raise ParkiValueError(
            f"sphere {n} of radius {radius} is {height} over the wall, which cuts it; keep each "
            "centre at least a radius above the wall"
        )


def divergence(spheres: Any, white: White, moves: tuple[str, ...] = MOVES[:1]) -> list[Any]:
    """Return the divergence of the mobility by a random finite difference, (3, N) for each move.

    With normal numbers w it is the mean of ``(M(x + d w / 2) - M(x - d w / 2)) w / d``.
    """
    step = STEP * spheres._sizes.smallest
    w = white(spheres._shape)
    return [each / step for each in difference(spheres, step * w, w, moves)]


def difference(
    spheres: Any, shift: Any, forces: Any, moves: tuple[str, ...] = MOVES[:1]
) -> list[Any]:
    """Return ``(M(x + shift / 2) - M(x - shift / 2)) forces``, (3, N) for each move."""
    with spheres._shifting:  # of which there is one at a time
        ahead, back = (_moved(spheres, side * shift, forces, moves) for side in (0.5, -0.5))
    return [after - before for after, before in zip(ahead, back, strict=True)]


def _moved(spheres: Any, shift: Any, forces: Any, moves: tuple[str, ...]) -> list[Any]:
    """Return velocities, and turns, where spheres are shifted.

    By plans of their own, because other threads may apply the plans of the spheres.
    """
    points, options, other = spheres._points + shift, spheres.options, spheres._shifted
    try:
        if other is None:
            other = spheres._twin(points, options)
        else:
            other._move(points, None if other.options == options else options.box)
        for each in moves:
            other._plan(each, "force")
        spheres._shifted, other._viscosity = other, spheres.viscosity
        return [other._moved(each, {"force": forces}, own=True) for each in moves]
    except ParkiValueError:  # a sphere has left the box
        edges = zip(options.box, options.periodic, strict=True)
        box = tuple(edge if periodic else None for edge, periodic in edges)
        other = spheres._twin(points, replace(options, box=box))
    return [other._moved(each, {"force": forces}, own=True) for each in moves]
