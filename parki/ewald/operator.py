"""A plan as a linear operator on flattened densities: see `Plan.as_linear_operator`."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from parki.interchange import as_array

if TYPE_CHECKING:
    from parki.ewald.plan import Plan


def linear_operator(plan: Plan, result: tuple[int, ...]) -> Any:
    """Return the operator of SciPy, or CuPy's on a device; ``result`` is the shape of a sum."""
    shapes = result, plan.task.sum.density_shape(plan.n_sources)

    def product(name: str, columns: Any) -> Any:
        call: Any = plan
        inner, outer = shapes[::-1]
        if name == "values":
            call, inner, outer = plan.adjoint, *shapes
        values = as_array(name, columns)
        given, many = values.dtype, columns.shape[1:]
        if given.kind in "biuf":
            values = values.astype(plan.dtype, copy=False)
        found = call(values.T.reshape(*many, *inner)).reshape(*many, math.prod(outer)).T
        return found.astype(np.result_type(plan.dtype, given), copy=False)

    forward, back = partial(product, "dens"), partial(product, "values")
    return plan.space.adapter.linear_operator()(
        (math.prod(shapes[0]), math.prod(shapes[1])),
        matvec=lambda vector: forward(vector.reshape(-1)),
        rmatvec=lambda vector: back(vector.reshape(-1)),
        matmat=forward,
        rmatmat=back,
        dtype=plan.dtype,
    )
