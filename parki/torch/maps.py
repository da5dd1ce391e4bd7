"""Mapping of sums over an axis by `torch.func.vmap` and functions based on it.

Several densities, or several values for derivatives by densities, are passed in one sum. Other
mapped arguments are summed one after the other, as in a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from parki.core import SUMS
from parki.typing import AnyArray

Call = Callable[..., Any]
Dims = tuple[int | None, ...]
DENS = 5  # its position in the arguments of derivatives


def map_sum(call: Call, info: Any, dims: Dims, *arguments: Any) -> tuple[Any, Any]:
    """Map a sum with arguments kernel, options, targets, sources, density, normals, box."""
    return _mapped(call, 4, len(SUMS[arguments[0]].density_shape(0)), info, dims, arguments)


def map_pull(call: Call, info: Any, dims: Dims, *arguments: Any) -> tuple[Any, Any]:
    """Map derivatives with arguments kernel, options, names, the inputs, moves, and values."""
    several = -1
    if arguments[2] == "dens":  # they do not depend on the density
        several, dim = len(arguments) - 1, dims[DENS]
        one = arguments[DENS] if dim is None else arguments[DENS].select(dim, 0)
        arguments = (*arguments[:DENS], one, *arguments[DENS + 1 :])
        dims = (*dims[:DENS], None, *dims[DENS + 1 :])
    return _mapped(call, several, len(SUMS[arguments[0]].value_shape(0)), info, dims, arguments)


def map_push(call: Call, info: Any, dims: Dims, *arguments: Any) -> tuple[Any, Any]:
    """Map changes with arguments kernel, options, the inputs, their changes, and other ones."""
    return _mapped(call, -1, 0, info, dims, arguments)


def map_apply(call: Call, info: Any, dims: Dims, *arguments: Any) -> tuple[Any, Any]:
    """Map a plan, as `LinearMap` and how it is applied, over densities or values."""
    plan, transposed, *_ = arguments
    return _mapped(call, 3, len(plan.shapes(transposed)[0]), info, dims, arguments)


def _mapped(
    call: Call, several: int, axes: int, info: Any, dims: Dims, arguments: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Return the result of a call with mapped arguments, and the axes along which it is mapped.

    The call takes several values at once of its argument ``several``, which has so many ``axes``.
    """
    mapped = [n for n, dim in enumerate(dims) if isinstance(dim, int)]
    if not mapped:
        return _per_result(call(*arguments), lambda one: one), None
    if mapped == [several]:
        stacked = arguments[several].movedim(dims[several], 0)
        many = stacked.shape[: stacked.ndim - axes]
        flat = stacked.reshape(-1, *stacked.shape[len(many) :])
        result = call(*arguments[:several], flat, *arguments[several + 1 :])
        result = _per_result(result, lambda one: one.reshape(*many, *one.shape[1:]))
    else:
        results = []
        for n in range(info.batch_size):
            pairs = zip(arguments, dims, strict=True)
            part = (a.select(d, n) if isinstance(d, int) else a for a, d in pairs)
            results.append(call(*part))
        result = _stacked(results)
    return result, _per_result(result, lambda _: 0)


def _per_result(result: AnyArray, change: Callable[[Any], Any]) -> Any:
    """Apply ``change`` to a result, or to each of several."""
    if isinstance(result, torch.Tensor):
        return change(result)
    return type(result)(change(one) for one in result)


def _stacked(results: list[Any]) -> Any:
    if isinstance(results[0], torch.Tensor):
        return torch.stack(results)
    return type(results[0])(torch.stack(parts) for parts in zip(*results, strict=True))
