"""Spheres near a wall: which ones may be there, what they lack, and the drift of their steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from parki.errors import ParkiValueError
from parki.ewald.geometry.boxes import Columns
from parki.ewald.options import EwaldOptions
from parki.ewald.sums import kernel
from parki.ewald.sums.composite import Addend, Composite
from parki.ewald.sums.walls import near_wall
from parki.interchange import to_host
from parki.suspensions.derivatives import MOVES
from parki.suspensions.noise import White
from parki.suspensions.radii import KINDS, Radii

# Distance of the two places between which the mobility is compared, in smallest radii.
STEP = 0.01
# Different radii, where each pair of radii is a sum of its own.
MOST_RADII = 8


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
        f"spheres near a wall have no {what}; parki has velocities and turns there, their "
        "derivatives by forces and torques, and the flow of the fluid by forces"
    )


def groups(sizes: Radii) -> list[tuple[float, Any]]:
    """Return each radius with the spheres that have it, of which there may be none."""
    different = np.unique(sizes.every)
    if different.size > MOST_RADII:
        raise ParkiValueError(
            f"radii has {different.size} different lengths; expected at most {MOST_RADII} near a "
            "wall: round them to a few sizes"
        )
    if different.size < 2:
        return [(sizes.largest, slice(None))]
    return [(float(radius), np.flatnonzero(sizes.each == radius)) for radius in different]


def of_radii(sizes: Radii, moves: str, acts: str, options: EwaldOptions) -> Composite:
    """Return the sum of spheres of several radii: a sum for each pair of these."""
    family, names, *_ = KINDS[moves, acts]
    up, found = options.axes.index(2), list[Addend]()
    scales: tuple[tuple[str, float, int], ...] = ()
    for own, at in groups(sizes):
        for other, by in groups(sizes):
            pair = kernel(family, **dict(zip(names, (own, other), strict=True)))
            of = near_wall(pair, options.wall, up=up)
            columns = Columns(at, by)
            found += [replace(each, columns=columns) for each in of.addends]
            scales += of.scales
    name = f"{family} of {len(groups(sizes))} radii near a wall"
    return Composite(name, (3,), (3,), tuple(found), scales, walled=True)


def flow(spheres: Any, acts: str, points: Any, forces: Any, asked: tuple[str, ...]) -> list[Any]:
    """Return results of the flow elsewhere, each a sum of its own for each radius."""
    if acts != "force":
        raise lacking("flow by torques")
    options, found = spheres.options, []
    for want in asked:
        given = [
            ((kernel("sphere_sl", radius=0.0, source_radius=a), points, spheres._points[:, at]), at)
            for a, at in groups(spheres._sizes)
        ]
        sums = [spheres._sum((*a, None, options), forces[..., at], want) for a, at in given]
        found.append(sum(sums))
    return found


def divergence(spheres: Any, white: White, moves: tuple[str, ...] = MOVES[:1]) -> list[Any]:
    """Return the divergence of the mobility by a random finite difference, (3, N) for each move.

    With normal numbers w it is the mean of ``(M(x + d w / 2) - M(x - d w / 2)) w / d``.
    """
    step = STEP * spheres._sizes.smallest
    w = white(spheres._shape)
    with spheres._shifting:  # of which there is one at a time
        ahead, back = (_moved(spheres, side * step * w, w, moves) for side in (0.5, -0.5))
    return [(after - before) / step for after, before in zip(ahead, back, strict=True)]


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
        return [other._moved(each, {"force": forces}) for each in moves]
    except ParkiValueError:  # a sphere has left the box
        edges = zip(options.box, options.periodic, strict=True)
        box = tuple(edge if periodic else None for edge, periodic in edges)
        other = spheres._twin(points, replace(options, box=box))
    return [other._moved(each, {"force": forces}) for each in moves]
