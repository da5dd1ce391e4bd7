"""`Motion`: what a solve for rigid spheres takes and returns, and how another begins with it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from parki.dynamics import flows, moments, solver
from parki.dynamics.conjugate import Solved
from parki.errors import ParkiTypeError, ParkiValueError
from parki.ewald.points import like_points
from parki.interchange import as_given


@dataclass(frozen=True)
class Motion:
    """How rigid spheres move, relative to the flow far away: see `RigidSpheres.solve`.

    Attributes
    ----------
    velocities, turns : array, shape (3, N)
        Velocities and angular velocities.
    stresslets : array, shape (3, 3, N)
        On the fluid: symmetric first moments of the forces, without a trace.
    products : int
        Products with the mobility that it took.
    error : float
        The estimated error: the root of the dissipation by what is left, over the whole one. In
        dense suspensions velocities alone, or stresslets alone, have up to three times that.
    """

    velocities: Any
    turns: Any
    stresslets: Any
    products: int
    error: float


def motion(rigid: Any, found: Solved, strain: Any, given: Any) -> Motion:
    """Return a solution in physical units, in the library of an array."""
    moves = rigid.factor * found.moves
    stresslets = moments.symmetric(rigid._xp, found.acts[6:])
    if rigid._pairs is not None:
        stresslets += rigid._pairs.acting(found.moves, -strain)[1]
    arrays = [each.astype(rigid._mobility.dtype) for each in (moves[:3], moves[3:], stresslets)]
    back = rigid._back if given is None else functools.partial(as_given, like=given)
    velocities, turns, tensors = map(back, arrays)
    return Motion(velocities, turns, tensors, found.products, found.error)


def sides(rigid: Any, forces: Any, torques: Any, gradient: Any) -> tuple[Any, Any, Any]:
    """Return slip (11, N), forces and torques (6, N), and the strain of the flow far away."""
    given = taken(rigid, forces=forces, torques=torques)
    flow = flows.gradient(gradient, rigid.options)
    k, f = rigid._zeros(11), rigid._zeros(6)
    for rows, each in zip((slice(3), slice(3, 6)), given, strict=True):
        if each is not None:
            f[rows] = each
    strain = (flow + flow.T) / (2 * rigid.factor)
    k[6:] = -moments.five(rigid._xp, rigid._xp.asarray(strain))[:, None]
    if rigid._pairs is not None and strain.any():
        f += rigid._pairs.acting(strain=strain, stresslets=False)[0]
    return k, f, strain


def begun(rigid: Any, start: Motion | None, strain: Any) -> solver.Start | None:
    """Return the motion of an earlier solve, and its stresslets without the parts of pairs."""
    if start is None:
        return None
    if not isinstance(start, Motion):
        raise ParkiTypeError(f"start is a {type(start).__name__}; expected what solve returns")
    names = "velocities", "turns", "stresslets"
    arrays = [like(rigid, f"start.{name}", getattr(start, name)) for name in names]
    for name, each in zip(names, arrays, strict=True):
        if each.shape[-1] != rigid.radii.size:
            raise ParkiValueError(
                f"start.{name} has shape {each.shape}, of other spheres; expected the "
                f"{rigid.radii.size} ones of now"
            )
    moves = rigid._xp.concatenate(arrays[:2]) / rigid.factor
    if rigid._pairs is not None:
        arrays[2] = arrays[2] - rigid._pairs.acting(moves, -strain)[1]
    return solver.Start(moments.five(rigid._xp, arrays[2]), moves)


def like(rigid: Any, name: str, values: Any) -> Any:
    """Return an array of the spheres' library in double precision, or refuse it."""
    array = like_points(name, values, rigid._mobility.space, rigid._mobility.dtype)
    return array.astype(np.float64)


def taken(rigid: Any, **given: Any) -> list[Any]:
    """Return arrays (3, N) in double precision, or None; refuse impossible ones."""
    arrays = list[Any]()
    for name, each in given.items():
        if each is None:
            arrays.append(None)
            continue
        values = like(rigid, name, each)
        if values.shape != (3, rigid.radii.size):
            raise ParkiValueError(
                f"{name} has shape {tuple(values.shape)}; expected (3, {rigid.radii.size}) for "
                f"the {rigid.radii.size} spheres given"
            )
        if not bool(rigid._xp.isfinite(values).all()):
            raise ParkiValueError(f"{name} contains NaN or infinite values")
        arrays.append(values)
    return arrays
