"""A plan as a linear operator on flattened densities: see `Plan.as_linear_operator`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from parki.interchange import as_array
from parki.runtime import ExecutionSpace

Shape = tuple[int, ...]


def linear_operator(
    apply: Callable[[Any], Any],
    adjoint: Callable[[Any], Any],
    shapes: tuple[Shape, Shape],
    dtype: Any,
    space: ExecutionSpace,
) -> Any:
    """Return an operator of SciPy on the host, of CuPy on a device.

    Parameters
    ----------
    apply, adjoint : callable
        A plan, and its adjoint.
    shapes : tuple of 2
        The shapes of a result and of a density.
    dtype : dtype
        Dtype of the plan.
    space : ExecutionSpace
    """
    forward = Product(apply, "dens", dtype, *shapes)
    back = Product(adjoint, "values", dtype, *shapes[::-1])
    return space.adapter.linear_operator()(
        (math.prod(shapes[0]), math.prod(shapes[1])),
        matvec=forward.of_one,
        rmatvec=back.of_one,
        matmat=forward,
        rmatmat=back,
        dtype=dtype,
    )


@dataclass(frozen=True)
class Product:
    """The product of a plan's matrix, or its transpose, with column vectors.

    Operators hold it. Like a plan, it cannot be pickled.
    """

    call: Callable[[Any], Any]
    name: str  # name of the input: "dens" or "values"
    dtype: Any
    outer: Shape
    inner: Shape

    def __call__(self, columns: Any) -> Any:
        """Return the products with columns, or with one vector."""
        values = as_array(self.name, columns)
        given, many = values.dtype, columns.shape[1:]
        if given.kind in "biuf":
            values = values.astype(self.dtype, copy=False)
        products = self.call(values.T.reshape(*many, *self.inner))
        products = products.reshape(*many, math.prod(self.outer)).T
        return products.astype(np.result_type(self.dtype, given), copy=False)

    def of_one(self, vector: Any) -> Any:
        """Return the product with a vector, which may be a column."""
        return self(vector.reshape(-1))

    def __deepcopy__(self, _: Any) -> Product:
        return self  # nothing in it changes
