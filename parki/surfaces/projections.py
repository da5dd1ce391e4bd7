"""What equations do to each body alone: resultants, rigid motions, and projections.

Arrays of densities and velocities are (k, 3, N) or (3, N), at the nodes of all bodies. Torques and
turns are about the bodies' centres.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from parki.interchange import real_name, to_host
from parki.runtime import ExecutionSpace, Kernel, load_all
from parki.surfaces.bodies import Bodies
from parki.typing import AnyArray

PARTS = 32  # work items that add up the integrals of a body


def kernels(space: ExecutionSpace, real: str) -> tuple[Kernel, ...]:
    """Return the kernels of projections: of integrals, and of what they make."""
    return load_all("projections", ("add_moments", "project"), space, REAL=real, PARTS=PARTS)


def projected(
    surface: Bodies,
    density: AnyArray,
    *,
    itself: float = 0.0,
    rigid: float = 0.0,
    flux: float = 0.0,
    added: AnyArray = None,
    times: float = 1.0,
) -> Any:
    """Return a sum of a density, its projections and another array, each times a factor.

    Parameters
    ----------
    surface : Bodies
    density : array, shape (..., 3, N)
    itself : float
        Factor of the density.
    rigid : float
        Factor of the rigid motion of each body that is nearest to it, in the mean square.
    flux : float
        Factor of the normals times the mean flux of each body.
    added : array, shape (..., 3, N), optional
    times : float
        Factor of what is added.

    Returns
    -------
    array, shape (..., 3, N)
    """
    q = _several(surface, density)
    factors = {"itself": itself, "rigid": rigid, "flux": flux}
    if added is not None:
        factors |= {"added": _several(surface, added), "times": times}
    return _project(surface, q, _moments(surface, q), factors).reshape(density.shape)


def resultants(surface: Bodies, forces: AnyArray) -> np.ndarray:
    """Return forces and torques (..., 6, B) of forces per area (..., 3, N), on the host."""
    moments = to_host(_moments(surface, _several(surface, forces))).astype(np.float64)
    sums = moments[:6].reshape(6, -1, surface.kinds.size, PARTS).sum(axis=-1)
    return np.asarray(sums.transpose(1, 0, 2).reshape(*forces.shape[:-2], 6, -1))


def motion(surface: Bodies, velocities: AnyArray) -> np.ndarray:
    """Return the rigid motion (..., 6, B) of each body that is nearest to velocities, on the host.

    Nearest in the mean square over the surface: the six moments of the difference vanish.
    """
    moments = resultants(surface, velocities)
    return np.asarray(np.einsum("bnm,...mb->...nb", surface.mobility, moments))


def spread(surface: Bodies, forces: AnyArray, torques: AnyArray) -> Any:
    """Return forces per area (..., 3, N), a rigid motion's values, with these resultants.

    Those are forces and torques (..., 3, B) on the host.
    """
    leading = np.broadcast_shapes(forces.shape, torques.shape)[:-2]
    bodies, dtype = surface.kinds.size, surface.nodes.dtype
    moments = np.zeros((7, math.prod(leading), bodies, PARTS), dtype)
    for first, values in ((0, forces), (3, torques)):
        rows = np.broadcast_to(values, (*leading, 3, bodies)).reshape(-1, 3, bodies)
        moments[first : first + 3, ..., 0] = rows.transpose(1, 0, 2)
    nothing = surface.xp.zeros((moments.shape[1], *surface.nodes.shape), dtype)
    sums = surface.xp.asarray(moments.reshape(7, -1))
    return _project(surface, nothing, sums, {"rigid": 1.0}).reshape(*leading, 3, -1)


def _several(surface: Bodies, density: AnyArray) -> Any:
    """Return densities (k, 3, N) as kernels take them."""
    q = surface.xp.ascontiguousarray(density, surface.nodes.dtype)
    return q.reshape(-1, *surface.nodes.shape)


def _moments(surface: Bodies, q: AnyArray) -> Any:
    """Return integrals (7, k B parts) over parts of the surfaces, of densities (k, 3, N)."""
    add_moments, _ = kernels(surface.space, real_name(q.dtype))
    bodies = surface.kinds.size
    moments = surface.xp.empty((7, len(q) * bodies * PARTS), q.dtype)
    arguments = surface.arguments | {"bodies": bodies, "density": q, "moments": moments}
    add_moments(moments.shape[1], arguments=arguments)
    return moments


def _project(surface: Bodies, q: AnyArray, moments: AnyArray, factors: dict[str, Any]) -> Any:
    """Return a sum of q (k, 3, N), and of rigid motions and fluxes with these moments."""
    _, project = kernels(surface.space, real_name(q.dtype))
    result = surface.xp.empty_like(q)
    nothing = {"itself": 0.0, "rigid": 0.0, "flux": 0.0, "added": q, "times": 0.0}
    project(
        len(q) * q.shape[-1],
        arguments=surface.arguments | nothing | factors,
        bodies=surface.kinds.size,
        nodes=q.shape[-1],
        density=q,
        moments=moments,
        projected=result,
    )
    return result
