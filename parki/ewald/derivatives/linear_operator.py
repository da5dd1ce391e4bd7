"""A plan as a linear operator on flattened densities: see `Plan.as_linear_operator`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parki.interchange import as_array

if TYPE_CHECKING:
    from parki.ewald.plan import Plan


def linear_operator(plan: Plan, result: tuple[int, ...]) -> Any:
    """Return the operator of SciPy, or CuPy's on a device; ``result`` is the shape of a sum."""
    shapes = result, plan.task.sum.density_shape(plan.n_sources)
    forward, back = Product(plan, "dens", *shapes), Product(plan, "values", *shapes[::-1])
    return plan.space.adapter.linear_operator()(
        (math.prod(shapes[0]), math.prod(shapes[1])),
        matvec=forward.of_one,
        rmatvec=back.of_one,
        matmat=forward,
        rmatmat=back,
        dtype=plan.dtype,
    )


@dataclass(frozen=True)
class Product:
    """The product with a plan's matrix, or its transpose, of vectors that are columns.

    Operators hold it. It cannot be pickled, as its plan says in words of its own.
    """

    plan: Plan
    name: str  # of what is given: "dens" or "values"
    outer: tuple[int, ...]
    inner: tuple[int, ...]

    def __call__(self, columns: Any) -> Any:
        """Return the products with columns, or with one vector."""
        plan: Any = self.plan
        values = as_array(self.name, columns)
        given, many = values.dtype, columns.shape[1:]
        if given.kind in "biuf":
            values = values.astype(plan.dtype, copy=False)
        call = plan if self.name == "dens" else plan.adjoint
        found = call(values.T.reshape(*many, *self.inner))
        found = found.reshape(*many, math.prod(self.outer)).T
        return found.astype(np.result_type(plan.dtype, given), copy=False)

    def of_one(self, vector: Any) -> Any:
        """Return the product with a vector, which may be a column."""
        return self(vector.reshape(-1))

    def __deepcopy__(self, _: Any) -> Product:
        return self  # nothing in it changes
