"""Sums over the nodes of surfaces: densities and results, and the sums of constants."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from parki.core import SUMS, EwaldOptions, Plan
from parki.surfaces.kernels import LAYERS
from parki.typing import AnyArray, ArrayModule

# These are for sums of constants over one body.
FREE = EwaldOptions(periodicity=0, tolerance=1e-10, exclude_image="nearest")


def strengths(kernel: str, density: AnyArray, normals: AnyArray, areas: AnyArray) -> Any:
    """Return densities (k, columns, N) as the sums take them, areas included."""
    weighted, rows = density * areas, SUMS[kernel].rows
    if rows == 1:
        return weighted[:, 0]
    return weighted if weighted.shape[1] == rows else weighted * normals


def rows_of(want: str, values: AnyArray, e: AnyArray) -> Any:
    """Return results (k, rows, Nt) of the sums' results; tractions are along e."""
    if want == "traction":
        return (values * e).sum(axis=2)
    return values if values.ndim == 3 else values[:, None]


def constants(
    xp: ArrayModule,
    key: tuple[str, str],
    points: tuple[Any, ...],
    e: AnyArray,
    systems: Any,
    exclude: Any,
) -> Any:
    """Return sums of constants in free space, (rows, columns, targets), for each system alone.

    ``points`` are targets, nodes, normals and areas; ``exclude`` has labels of pairs to leave out.
    """
    (kernel, want), (targets, nodes, normals, areas) = key, points
    layer = LAYERS[key]
    density = xp.eye(layer.columns, dtype=nodes.dtype)[:, :, None] + 0 * areas
    norms = normals if SUMS[kernel].normals else None
    plan: Any = Plan(
        cast(Any, kernel),
        targets,
        nodes,
        norms,
        FREE,
        want=cast(Any, layer.want),
        systems=systems,
        exclude=exclude,
    )
    values = plan(xp.ascontiguousarray(strengths(kernel, density, normals, areas)))
    return rows_of(want, values, e).transpose(1, 0, 2).astype(np.float64)
