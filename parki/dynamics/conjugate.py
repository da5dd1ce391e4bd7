"""Conjugate gradients for spheres that bodies hold: forces on the spheres, motions of the bodies.

    M x - K u = k,    K^T x + R u = f

M is the mobility of all spheres, K has their velocities by the bodies' motions u, and R resists
motions that move no sphere. The preconditioner solves the same equations with each body alone in
place of M, exactly. So the second equation holds in every step, and M is positive on what is left:
plain conjugate gradients, of one product with M in each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from parki.errors import ParkiError
from parki.interchange import to_host

Show = Callable[[float], Any]


class Solved(NamedTuple):
    """Forces and motions, products with M that they took, and their relative error, estimated."""

    forces: Any
    motions: Any
    products: int
    error: float


def dot(a: Any, b: Any) -> Any:
    """Return the sum of products, in double precision."""
    return (a * b).sum(dtype=np.float64)


def conjugate(
    mobility: Callable[[Any], Any],
    alone: Callable[[Any], tuple[Any, Any]],
    carried: Callable[[Any], Any],
    start: tuple[Any, Any],
    velocities: Any,
    scale: float,
    accuracy: float,
    most: int,
    show: Show | None = None,
) -> Solved:
    """Return the solution, from a start that satisfies the second equation.

    Parameters
    ----------
    mobility : callable
        M, on forces (3, N).
    alone : callable
        The preconditioner: forces (3, N) and motions of a residual (3, N).
    carried : callable
        K, on motions.
    start : tuple of 2 arrays
        Forces and motions.
    velocities : array, shape (3, N)
        k.
    scale : float
        What the energy of an error is compared with: the energy of the solution, about.
    accuracy : float
        Relative error of the motions, as the square root of that ratio suggests it, at which it
        stops.
    most : int
        Products with M at most.
    show : callable, optional
        Called with that error in each step.

    Raises
    ------
    ParkiError
        If the error stays larger, or M is not positive.
    """
    x, u = start
    residual = velocities - mobility(x) + carried(u)
    z, w = alone(residual)
    p, v, products = z, w, 1
    left = dot(residual, z)
    ratio, positive = _ratio(left, scale), 1.0
    while True:
        if show is not None:
            show(ratio)
        if ratio <= accuracy:
            # What the preconditioner says last costs no product.
            return Solved(x + z, u + w, products, ratio)
        if products >= most or not (math.isfinite(ratio) and positive > 0):
            raise ParkiError(_why(ratio, accuracy, products, positive))
        h = mobility(p) - carried(v)
        energy = dot(p, h)
        step = (left / energy).astype(x.dtype)
        x = x + step * p
        u = u + step * v
        residual -= step * h
        z, w = alone(residual)
        before, left = left, dot(residual, z)
        again = (left / before).astype(x.dtype)
        p, v, products = z + again * p, w + again * v, products + 1
        # A device is waited for once in each step.
        left_now, positive = to_host(_pair(left, energy))
        ratio = _ratio(left_now, scale)


def _pair(first: Any, second: Any) -> Any:
    """Return two numbers as one array of their library."""
    both = np.empty_like(first, shape=(2,))
    both[0], both[1] = first, second
    return both


def _ratio(left: Any, scale: float) -> float:
    energy = float(left)
    if energy <= 0 or scale <= 0:  # zero, or rounding of it
        return 0.0 if energy <= 0 else math.inf
    return math.sqrt(energy / scale)


def _why(ratio: float, accuracy: float, products: int, positive: float) -> str:
    """Return the message of a solve that did not end."""
    if positive <= 0 or not math.isfinite(ratio):
        return (
            "the mobility of the blobs is not positive, by its error: give a smaller tolerance "
            f"(the velocities were to have an error of {accuracy:g})"
        )
    return (
        f"the velocities have an error of {ratio:.2g} after {products} products with the mobility "
        f"of the blobs; expected {accuracy:g}: give a larger accuracy or a smaller tolerance, or "
        "keep bodies apart"
    )
