"""Sums and derivatives of concrete arrays, by the parameters of JAX's primitives.

``names`` names the first arrays: "trg", "src", "dens", "norms", "box". Without "src" the targets
are the sources, and derivatives include both roles. Densities and values may have leading batch
axes. "box" takes the place of the options' box. ``batch`` has systems and their boxes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from parki.core import SUMS, Batch, EwaldOptions, LinearMap, second, summed
from parki.interchange import to_host


def points_of(named: dict[str, Any]) -> tuple[Any, Any]:
    """Return targets and sources, as one array if the targets are the sources."""
    return named["trg"], named.get("src", named["trg"])


def stacked(kernel: str, name: str, array: Any) -> tuple[Any, tuple[int, ...]]:
    """Return densities or values with at most one batch axis, and their original batch axes."""
    own = SUMS[kernel].density_shape(0) if name == "dens" else SUMS[kernel].value_shape(0)
    many = array.shape[: array.ndim - len(own)]
    return array.reshape(*[math.prod(many)][: len(many)], *array.shape[len(many) :]), many


def density_shape(kernel: str, named: dict[str, Any], values: Any) -> tuple[int, ...]:
    """Return the shape of a density that is not given, by the axes of values."""
    many = values.shape[: values.ndim - len(SUMS[kernel].value_shape(0))]
    return (*many, *SUMS[kernel].density_shape(points_of(named)[1].shape[1]))


def options_of(options: EwaldOptions, named: dict[str, Any]) -> EwaldOptions:
    """Return options with the box that is given, if there is one."""
    return replace(options, box=to_host(named["box"]).tolist()) if "box" in named else options


def parted(kernel: str, arrays: Any, *lists: tuple[str, ...]) -> tuple[list[Any], Any]:
    """Return arrays by lists of names, densities with at most one batch axis; and other arrays."""
    found, first = [], 0
    for names in lists:
        named = dict(zip(names, arrays[first : first + len(names)], strict=True))
        if "dens" in named:
            named["dens"], _ = stacked(kernel, "dens", named["dens"])
        found.append(named)
        first += len(names)
    return found, arrays[first:]


def run_sum(
    *arrays: Any,
    kernel: str,
    options: Any,
    batch: Batch,
    names: tuple[str, ...],
    of_change: bool,
) -> Any:
    """Return a sum of a density, or of a change of one."""
    named = dict(zip(names, arrays, strict=True))
    named["dens"], many = stacked(kernel, "dens", named["dens"])
    own = options_of(options, named)
    if of_change:
        result = second.summed(summed, kernel, own, batch, named)
    else:
        trg, src = points_of(named)
        how = batch._asdict()
        result = summed(kernel, trg, src, named["dens"], named.get("norms"), own, **how)
    return result.reshape(*many, *SUMS[kernel].value_shape(named["trg"].shape[1]))


def run_push(
    *arrays: Any,
    kernel: Any,
    options: Any,
    batch: Batch,
    names: tuple[str, ...],
    moves: tuple[tuple[str, ...], ...],
) -> Any:
    """Return the change of a sum, or of its change; lists of ``moves`` follow the inputs."""
    (named, *every), _ = parted(kernel, arrays, names, *moves)
    change = second.pushed(kernel, options_of(options, named), batch, named, *every)
    _, many = stacked(kernel, "dens", arrays[names.index("dens")])
    return change.reshape(*many, *SUMS[kernel].value_shape(named["trg"].shape[1]))


def run_pull(
    *arrays: Any,
    kernel: Any,
    options: Any,
    batch: Batch,
    names: tuple[str, ...],
    moves: tuple[tuple[str, ...], ...],
    wrt: tuple[Any, ...],
) -> list[Any]:
    """Return the derivatives by ``wrt``; lists of moves, if any, and values follow the inputs."""
    (named, *every), (last,) = parted(kernel, arrays, names, *moves)
    values, many = stacked(kernel, "u", last)
    derivatives = second.pulled(
        kernel, options_of(options, named), batch, named, values, wrt, *every
    )
    if "dens" in wrt:
        derivatives["dens"] = derivatives["dens"].reshape(
            *many, *derivatives["dens"].shape[1 if many else 0 :]
        )
    return [derivatives[name] for name in wrt]


def run_linear(
    values: Any, *, plan: LinearMap, transposed: bool, of_change: bool, device: Any
) -> Any:
    """Apply a plan, or its adjoint; values that are bound to no device are on ``device``."""
    product = plan.found(values.shape, transposed)
    inner, _ = plan.shapes(transposed)
    many = values.shape[: values.ndim - len(inner)]
    stacked = values.reshape(*[math.prod(many)][: len(many)], *inner)
    return plan(stacked, transposed, of_change).reshape(product)
