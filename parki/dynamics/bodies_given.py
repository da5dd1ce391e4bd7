"""Arguments of rigid bodies: which body has which shape, what drives them, and flows."""

from __future__ import annotations

from typing import Any

import numpy as np

from parki.dynamics import flows
from parki.dynamics.shapes import BodyShape
from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.points import like_points
from parki.interchange import as_array, shown, to_host


def kinds(shapes: Any, which: Any, count: int) -> tuple[tuple[BodyShape, ...], Any]:
    """Return shapes, and the number of each body's shape."""
    bodies = tuple(shapes) if isinstance(shapes, (list, tuple)) else (shapes,)
    for each in bodies or (None,):
        if not isinstance(each, BodyShape):
            raise ParkiTypeError(
                f"shapes is {shown(shapes)}; expected a parki.BodyShape, or a list of them (bodies "
                "of a parki.Surface are for parki.RigidSurfaces)"
            )
    if which is None:
        if len(bodies) > 1:
            raise ParkiTypeError(
                f"there are {len(bodies)} shapes, and which is missing; give the number of each "
                "body's shape, such as which=[0, 0, 1]"
            )
        return bodies, np.zeros(count, int)
    numbers = to_host(as_array("which", which))
    if numbers.dtype.kind not in "iu" or numbers.shape != (count,):
        raise ParkiValueError(
            f"which has shape {numbers.shape} and dtype {numbers.dtype}; expected {count} whole "
            "numbers, the shape of each body"
        )
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(bodies):
        raise ParkiValueError(
            f"which has numbers from {numbers.min()} to {numbers.max()}; expected 0 to "
            f"{len(bodies) - 1}, for {len(bodies)} shapes"
        )
    return bodies, numbers.astype(int)


def of_bodies(bodies: Any, name: str, given: Any) -> Any:
    """Return an array (3, B) that was given, or zeros."""
    placed = bodies._placed
    shape = tuple(placed.positions.shape)
    if given is None:
        return placed.xp.zeros(shape, placed.dtype)
    return like(bodies, name, given, shape, "one for each of the bodies")


def like(bodies: Any, name: str, given: Any, shape: tuple[int, ...], meaning: str) -> Any:
    """Return an array of a shape in the library of the blobs, or refuse it."""
    array = like_points(name, given, bodies._first.space, bodies._placed.dtype)
    if tuple(array.shape) != shape:
        raise ParkiValueError(f"{name} has shape {tuple(array.shape)}; expected {shape}, {meaning}")
    if not bool(bodies._placed.xp.isfinite(array).all()):
        raise ParkiValueError(f"{name} has NaN or infinite numbers")
    return array


def loads(bodies: Any, forces: Any, torques: Any) -> Any:
    """Return forces and torques at a viscosity of 1."""
    given = [of_bodies(bodies, *each) for each in (("forces", forces), ("torques", torques))]
    return bodies._placed.xp.stack(given) / bodies._placed.dtype.type(bodies.viscosity)


def flow(bodies: Any, slip: Any, gradient: Any) -> Any:
    """Return velocities of the fluid at the blobs, relative to rigid ones; None if not any."""
    placed, flow = bodies._placed, None
    if slip is not None:
        shape = tuple(placed.arms.shape)
        flow = like(bodies, "slip", slip, shape, "one for each of the blobs")
    if gradient is not None:
        slope = flows.gradient(gradient, bodies.options)
        strain = placed.xp.asarray((slope + slope.T) / 2, placed.dtype)
        flow = -strain @ placed.arms if flow is None else flow - strain @ placed.arms
    return flow
