"""What equations do to each body alone: resultants, rigid motions, and projections.

Arrays of densities and velocities are (k, 3, N) or (3, N), at the nodes of all bodies. Torques and
turns are about the bodies' centres.
"""

from __future__ import annotations

from typing import Any

from parki.interchange import real_name
from parki.runtime import ExecutionSpace, Kernel, load
from parki.surfaces.bodies import Bodies
from parki.typing import AnyArray, ArrayModule

PARTS = 32  # work items that add up the integrals of a body


def kernels(space: ExecutionSpace, real: str) -> list[Kernel]:
    """Return the kernels of projections: of integrals, and of what they make."""
    names = "add_moments", "project"
    return [load("projections", name, space, REAL=real, PARTS=PARTS) for name in names]


def projected(
    surface: Bodies,
    density: AnyArray,
    *,
    itself: float = 0.0,
    rigid: float = 0.0,
    flux: float = 0.0,
) -> Any:
    """Return a sum of a density and its projections, each times a factor.

    Parameters
    ----------
    surface : Bodies
    density : array, shape (..., 3, N)
    itself : float
        Of the density.
    rigid : float
        Of the rigid motion of each body that is nearest in the mean square over its surface.
    flux : float
        Of the normals times the mean flux of each body.

    Returns
    -------
    array, shape (..., 3, N)
    """
    xp, (count, bodies) = surface.xp, (density.shape[-1], surface.kinds.size)
    q = xp.ascontiguousarray(density, surface.nodes.dtype).reshape(-1, 3, count)
    add_moments, project = kernels(surface.space, real_name(q.dtype))
    moments, result = xp.empty((7, len(q) * bodies * PARTS), q.dtype), xp.empty_like(q)
    arguments = {
        **surface.arguments,
        "bodies": bodies,
        "nodes": count,
        "density": q,
        "moments": moments,
        "projected": result,
    }
    add_moments(moments.shape[1], arguments=arguments)
    factors = {"itself": itself, "rigid": rigid, "flux": flux}
    project(len(q) * count, arguments=arguments, **factors)
    return result.reshape(density.shape)


def resultants(surface: Bodies, forces: AnyArray) -> tuple[Any, Any]:
    """Return forces and torques (..., 3, B) of forces per area."""
    turning = _cross(surface.xp, surface.arms, forces)
    moments = surface.integrals(surface.xp.concatenate([forces, turning], axis=-2))
    return moments[..., :3, :], moments[..., 3:, :]


def rigid(surface: Bodies, velocity: AnyArray, spin: AnyArray) -> Any:
    """Return velocities of the nodes of bodies that move and turn, (..., 3, B) each."""
    at, turning = (_at_nodes(surface, vectors) for vectors in (velocity, spin))
    return at - _cross(surface.xp, surface.arms, turning)


def motion(surface: Bodies, velocities: AnyArray) -> tuple[Any, Any]:
    """Return the rigid motion of each body that is nearest to velocities, (..., 3, B) each.

    Nearest in the mean square over the surface: the six moments of the difference vanish.
    """
    first, second = resultants(surface, velocities)
    return with_moments(surface, first, second)


def with_moments(surface: Bodies, first: AnyArray, second: AnyArray) -> tuple[Any, Any]:
    """Return the rigid motions with these integrals over the surface, and moments."""
    xp = surface.xp
    moments = xp.moveaxis(xp.concatenate([first, second], axis=-2), -1, -2)[..., None]
    motions = (surface.mobility @ moments)[..., 0]
    motions = xp.moveaxis(motions, -1, -2).astype(first.dtype)
    return motions[..., :3, :], motions[..., 3:, :]


def _at_nodes(surface: Bodies, values: AnyArray) -> Any:
    return values[..., surface.body].astype(surface.nodes.dtype)


def _cross(xp: ArrayModule, a: AnyArray, b: AnyArray) -> Any:
    """Return the product of vectors along the last axis but one."""
    (x, y, z), (u, v, w) = (xp.moveaxis(vectors, -2, 0) for vectors in (a, b))
    return xp.stack([y * w - z * v, z * u - x * w, x * v - y * u], axis=-2)
