"""Velocities of spheres as sums of other libraries' arrays, which differentiate them.

`parki.torch` and `parki.jax` have sums with derivatives. Velocities are made of these, so that
everything works which works for sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from parki.core import check_shape as check_points
from parki.interchange import positive
from parki.suspensions.derivatives import check_alike, check_shape, refuse_none
from parki.suspensions.radii import ACTS, KINDS, MOVES
from parki.typing import AnyArray

Names = Mapping[tuple[str, str], str]


def velocities(
    total: Callable[[str, Any], Any],
    points: AnyArray,
    kernels: Names,
    loads: tuple[Any, Any],
    viscosity: float,
) -> Any:
    """Return velocities; with torques, velocities and angular velocities.

    Parameters
    ----------
    total : callable
        ``total(kernel, dens)`` is a sum over the spheres.
    points : array, shape (3, N)
    kernels : mapping
        Names of the sums, by what moves and what acts.
    loads : tuple of 2
        Forces and torques, of which one may be None.
    viscosity : float
    """
    check_points("points", points)
    names = ("forces", "torques")
    refuse_none(names, loads)
    named = [each for each in zip(ACTS, names, loads, strict=True) if each[2] is not None]
    for _, name, values in named:
        check_shape(name, values, tuple(points.shape))
    check_alike(names, [values for *_, values in named])
    factor = 1 / (8 * math.pi * positive("viscosity", viscosity))

    def moved(moves: str) -> Any:
        motions: Any = 0
        for acts, _, values in named:
            each = total(kernels[moves, acts], values)
            motions = motions + factor * KINDS[moves, acts][2] * each
        return motions

    motions = [moved(moves) for moves in MOVES[: 1 + (loads[1] is not None)]]
    return motions[0] if loads[1] is None else tuple(motions)
