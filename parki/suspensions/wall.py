"""Spheres near a wall: which ones may be there, what they lack, and the drift of their steps."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.interchange import to_host
from parki.suspensions.noise import White

# Distance of the two places between which the mobility is compared, in smallest radii.
STEP = 0.01


def check_heights(points: Any, radii: Any) -> None:
    """Refuse spheres that the wall cuts; they may touch it, up to rounding."""
    heights = to_host(points[2])
    low = heights - radii * (1 - 4 * np.finfo(heights.dtype).eps)
    if low.size and low.min() < 0:
        n = int(low.argmin())
        raise ParkiValueError(
            f"sphere {n} of radius {radii[n]:g} is {heights[n]:g} over the wall, which cuts it; "
            "keep each centre at least a radius above the wall"
        )


def lacking(what: str) -> ParkiValueError:
    """Return the error of what parki does not have near a wall."""
    return ParkiValueError(
        f"spheres near a wall have no {what}; parki has velocities by forces there, their "
        "derivatives by forces, and the flow of the fluid"
    )


def divergence(spheres: Any, white: White) -> Any:
    """Return the divergence of the mobility by a random finite difference, (3, N).

    With normal numbers w it is the mean of ``(M(x + d w / 2) - M(x - d w / 2)) w / d``.
    """
    step = STEP * min(radius for radius, _ in spheres._groups)
    w = white(spheres.points.shape)
    try:
        ahead, back = (_moved(spheres, side * step * w, w) for side in (0.5, -0.5))
    finally:
        spheres._place(spheres._clouds)
    return (ahead - back) / step


def _moved(spheres: Any, shift: Any, forces: Any) -> Any:
    """Return velocities where spheres are shifted, by the plans that there are, if they reach."""
    other = copy(spheres)
    other.points, other._plans = spheres.points + shift, dict(spheres._plans)
    other._clouds = spheres._cut(other.points)
    try:
        other._place(other._clouds)
    except ParkiValueError:  # a sphere has left the box
        edges = zip(spheres.options.box, spheres.options.periodic, strict=True)
        box = tuple(edge if periodic else None for edge, periodic in edges)
        other.options, other._plans = replace(spheres.options, box=box), {}
    return other._moved("velocity", {"force": forces})
