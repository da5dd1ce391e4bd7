"""Velocities of spheres as sums of other libraries' arrays, which differentiate them.

`parki.torch` and `parki.jax` have sums with derivatives. Velocities are made of these, of each pair
of radii, so that everything works which works for sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from parki.suspensions.derivatives import ACTS, MOVES, check_alike, check_shape, refuse_none
from parki.suspensions.spheres import KINDS, groups, kernel_of, lengths, positive

Groups = list[tuple[float, Any]]


def grouped(radii: Any, count: int) -> Groups:
    """Return each radius with the spheres that have it."""
    values = lengths(radii, count)
    return groups(np.broadcast_to(values, (count,)), np.unique(values))


def velocities(
    total: Callable[..., Any],
    take: Callable[[Any, Any], Any],
    join: Callable[[list[Any]], Any],
    points: Any,
    parts: Groups,
    given: tuple[Any, Any],
    viscosity: float,
) -> Any:
    """Return velocities; with torques, velocities and angular velocities.

    Parameters
    ----------
    total, take, join : callable
        ``total(kernel, trg, src, dens)`` is a sum, ``take(values, columns)`` some columns, and
        ``join(arrays)`` all columns of several arrays.
    points : array, shape (3, N)
    parts : list
        What `grouped` returns.
    given : tuple of 2
        Forces and torques, of which one may be None.
    viscosity : float
    """
    names = ("forces", "torques")
    refuse_none(names, given)
    named = [each for each in zip(ACTS, names, given, strict=True) if each[2] is not None]
    for _, name, values in named:
        check_shape(name, values, tuple(points.shape))
    check_alike(names, *(values for *_, values in named))
    alone = len(parts) == 1
    clouds = [points if alone else take(points, members) for _, members in parts]
    factor = 1 / (8 * math.pi * positive("viscosity", viscosity))

    def moved(moves: str) -> Any:
        rows = []
        for (own, _), trg in zip(parts, clouds, strict=True):
            found: Any = 0
            for acts, _, values in named:
                for (other, members), src in zip(parts, clouds, strict=True):
                    part = values if alone else take(values, members)
                    each = total(kernel_of(moves, acts, own, other), trg, src, part)
                    found = found + factor * KINDS[moves, acts][2] * each
            rows.append(found)
        return rows[0] if alone else take(join(rows), order)

    order = np.argsort(np.concatenate([members for _, members in parts]))
    found = [moved(moves) for moves in MOVES[: 1 + (given[1] is not None)]]
    return found[0] if given[1] is None else tuple(found)
