"""The bound of the error that the tolerance promises: see `Plan.promise`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from parki.ewald.geometry.extent import mean_edge
from parki.ewald.pipeline.one_device import normal_squares
from parki.ewald.points import check_density, check_dtypes, check_space
from parki.ewald.sums import stress
from parki.interchange import as_array, to_host

if TYPE_CHECKING:
    from parki.ewald.plan import Plan


def promise(plan: Plan, dens: Any) -> Any:
    """Return what a plan promises for a density; refuse an impossible one."""
    values = as_array("dens", dens)
    check_dtypes({"dens": values})
    check_space({"dens": values}, plan.space)
    shape = plan.task.sum.density_shape(plan.n_sources)
    squares = check_density("dens", values, shape, several=True).astype(np.float64) ** 2
    bound: Any
    if squares.ndim == 3:
        bound = np.array([_bound(plan, each) for each in squares])
    else:
        bound = _bound(plan, squares)
    steep = bound / mean_edge(plan.box)
    known = {"u": bound, "stress": stress.OF_PARTS * steep}
    bounds = tuple(known.get(name, steep) for name in plan.task.names)
    return bounds[0] if isinstance(plan.want, str) else bounds


def _bound(plan: Plan, squares: Any) -> Any:
    """Return what is promised of "u"; ``squares`` are those of the density.

    A number, or one for each system.
    """
    length, kind = mean_edge(plan.box), plan.task.sum
    single, systems = kind.single_rows, plan.points.systems

    def root(values: Any) -> Any:
        if systems:
            return np.sqrt(to_host(systems.sums(values[None]))[0])
        return plan.pipeline.total(float(values.sum())) ** 0.5

    bound = root(squares[:single].sum(axis=0)) / length**kind.decay
    if kind.double:
        normals = plan.pipeline.normal_squares
        if normals is None:
            normals = normal_squares(plan.points.arrays)
        double = squares[single:].sum(axis=0) * normals[: squares.shape[1]]
        bound += root(double) / length / length
    return plan.options.tolerance * bound
