"""`BodyMotion`: what a solve for rigid bodies returns, and how another one begins with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from parki.dynamics.conjugate import Solved
from parki.dynamics.placed import Placed
from parki.errors import ParkiTypeError, ParkiValueError
from parki.interchange import shown


@dataclass(frozen=True, eq=False)
class BodyMotion:
    """How bodies move, and the forces on their blobs: see `RigidBodies.solve`.

    Attributes
    ----------
    velocities, turns : array, shape (3, B)
        Velocities of the bodies' positions, and angular velocities.
    blob_forces : array, shape (3, N)
        Forces of the blobs on the fluid, one body after the other.
    stresslets : array, shape (3, 3, B)
        Symmetric and traceless parts of the sums of r F^T over the blobs of each body, with r from
        its position: the stresslets on the fluid far away.
    products : int
        Products with the mobility of the blobs.
    error : float
        Relative error of the velocities, estimated.
    """

    velocities: Any
    turns: Any
    blob_forces: Any
    stresslets: Any
    products: int
    error: float
    _begin: tuple[Any, Any, Placed]  # forces and motions at a viscosity of 1


def motion(
    placed: Placed, found: Solved, viscosity: float, back: Callable[[Any], Any]
) -> BodyMotion:
    """Return a solution in physical units, in arrays of another library."""
    moments = placed.moments(found.acts)
    moments = (moments + moments.transpose(1, 0, 2)) / 2
    third = (moments[0, 0] + moments[1, 1] + moments[2, 2]) / 3
    for axis in range(3):
        moments[axis, axis] -= third
    scale = placed.dtype.type(viscosity)
    velocities, turns, forces, moments = map(
        back, (*found.moves, scale * found.acts, scale * moments)
    )
    begin = found.acts, found.moves, placed
    return BodyMotion(velocities, turns, forces, moments, found.products, found.error, begin)


def begun(placed: Placed, start: Any) -> tuple[Any, Any]:
    """Return forces and motions of another step, which turn with the bodies since then."""
    if not isinstance(start, BodyMotion):
        raise ParkiTypeError(f"start is {shown(start)}; expected what solve has returned")
    forces, motions, then = start._begin
    if then.kinds is not placed.kinds:
        raise ParkiValueError("start is of other bodies; expected one that these returned")
    if then is not placed:
        forces, motions = placed.rotated_since(then, forces, motions)
    return forces, motions
