"""Forces, torques and rigid motions of bodies, from densities and velocities at their nodes.

Each function takes arrays (k, 3, N) or (3, N) at the nodes of all bodies. Motions are about the
bodies' centres.
"""

from __future__ import annotations

from typing import Any

from parki.surfaces.bodies import Bodies


def resultants(surface: Bodies, forces: Any) -> tuple[Any, Any]:
    """Return forces and torques (..., 3, B) of forces per area."""
    turning = _cross(surface.xp, surface.arms, forces)
    both = surface.integrals(surface.xp.concatenate([forces, turning], axis=-2))
    return both[..., :3, :], both[..., 3:, :]


def rigid(surface: Bodies, velocity: Any, spin: Any) -> Any:
    """Return velocities of the nodes of bodies that move and turn, (..., 3, B) each."""
    at, turning = (_at_nodes(surface, each) for each in (velocity, spin))
    return at - _cross(surface.xp, surface.arms, turning)


def motion(surface: Bodies, velocities: Any) -> tuple[Any, Any]:
    """Return the rigid motion of each body that is nearest to velocities, (..., 3, B) each.

    Nearest in the mean square over the surface: the six moments of the difference vanish.
    """
    return _with_moments(surface, *resultants(surface, velocities))


def with_resultants(surface: Bodies, forces: Any, torques: Any) -> Any:
    """Return forces per area, of the form of rigid motions, with resultants (..., 3, B)."""
    return rigid(surface, *_with_moments(surface, forces, torques))


def rigid_part(surface: Bodies, velocities: Any) -> Any:
    """Return the velocities of the nearest rigid motions."""
    return rigid(surface, *motion(surface, velocities))


def normal_part(surface: Bodies, velocities: Any) -> Any:
    """Return the normals times the mean flux of each body, shape (..., 3, N)."""
    flux = surface.integrals((velocities * surface.normals).sum(axis=-2))
    return _at_nodes(surface, flux / surface.whole)[..., None, :] * surface.normals


def _with_moments(surface: Bodies, first: Any, second: Any) -> tuple[Any, Any]:
    """Return the rigid motions with these integrals over the surface, and moments."""
    xp = surface.xp
    moments = xp.moveaxis(xp.concatenate([first, second], axis=-2), -1, -2)[..., None]
    motions = (surface.mobility @ moments)[..., 0]
    motions = xp.moveaxis(motions, -1, -2).astype(first.dtype)
    return motions[..., :3, :], motions[..., 3:, :]


def _at_nodes(surface: Bodies, values: Any) -> Any:
    return values[..., surface.body].astype(surface.nodes.dtype)


def _cross(xp: Any, a: Any, b: Any) -> Any:
    """Return the product of vectors along the last axis but one."""
    (x, y, z), (u, v, w) = (xp.moveaxis(each, -2, 0) for each in (a, b))
    return xp.stack([y * w - z * v, z * u - x * w, x * v - y * u], axis=-2)
