"""Sums and derivatives of concrete arrays, by the parameters of JAX's primitives.

``names`` names the first arrays: "trg", "src", "dens", "norms", "box". Without "src" the targets
are the sources, and derivatives include both roles. Densities and values may have leading batch
axes. "box" takes the place of the options' box. ``batch`` has systems and their boxes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np

from parki.ewald.api import summed
from parki.ewald.derivatives.linear_map import LinearMap
from parki.ewald.derivatives.second import along, bent, pulled, unboxed
from parki.ewald.derivatives.vjp import jvp
from parki.ewald.geometry.systems import Batch
from parki.ewald.options import EwaldOptions
from parki.ewald.points import result_shape
from parki.ewald.sums import SUMS
from parki.interchange import to_host


def points_of(named: dict[str, Any]) -> tuple[Any, Any]:
    """Return targets and sources, as one array if the targets are the sources."""
    return named["trg"], named.get("src", named["trg"])


def stacked(kernel: str, name: str, array: Any) -> tuple[Any, tuple[int, ...]]:
    """Return densities or values with at most one batch axis, and their original batch axes."""
    own = SUMS[kernel].density_shape(0) if name == "dens" else result_shape(kernel, "u", 0)
    many = array.shape[: array.ndim - len(own)]
    return array.reshape(*[math.prod(many)][: len(many)], *array.shape[len(many) :]), many


def density_shape(kernel: str, named: dict[str, Any], values: Any) -> tuple[int, ...]:
    """Return the shape of a density that is not given, by the axes of values."""
    many = values.shape[: values.ndim - len(result_shape(kernel, "u", 0))]
    return (*many, *SUMS[kernel].density_shape(points_of(named)[1].shape[1]))


def options_of(options: EwaldOptions, named: dict[str, Any]) -> EwaldOptions:
    """Return options with the box that is given, if there is one."""
    return replace(options, box=to_host(named["box"]).tolist()) if "box" in named else options


def array_of(like: Any, numbers: Any) -> Any:
    """Return numbers as an array like another one."""
    if isinstance(like, jax.Array):
        return jax.device_put(np.array(numbers, like.dtype), like.device)
    return np.asarray(numbers, like.dtype, like=like)


def run_sum(*arrays: Any, kernel: str, options: Any, batch: Batch, names: tuple[str, ...]) -> Any:
    """Return a sum."""
    named = dict(zip(names, arrays, strict=True))
    dens, many = stacked(kernel, "dens", named["dens"])
    own = options_of(options, named)
    arguments = kernel, *points_of(named), named.get("norms"), own
    result = summed(arguments, dens, **batch._asdict())
    return result.reshape(*many, *result_shape(kernel, "u", named["trg"].shape[1]))


def run_push(
    *arrays: Any,
    kernel: Any,
    options: Any,
    batch: Batch,
    names: tuple[str, ...],
    moves: tuple[Any, ...],
) -> Any:
    """Return the change of a sum by tangents of ``moves``, which follow the inputs."""
    named = dict(zip(names, arrays, strict=False))
    tangents = dict(zip(moves, arrays[len(names) :], strict=True))
    dens, many = stacked(kernel, "dens", named["dens"])
    if "dens" in tangents:
        tangents["dens"], _ = stacked(kernel, "dens", tangents["dens"])
    own = options_of(options, named)
    changed: Any = 0
    if "box" in tangents:
        inputs = named["trg"], named.get("src"), dens, named.get("norms"), named["box"]
        strain, tangents = unboxed(*inputs[:2], tangents, own, partial(array_of, named["trg"]))
        (changed,) = along(strain, kernel, own, batch, inputs, None, summed=summed)
    if "trg" in tangents and "src" not in names:
        tangents["src"] = tangents["trg"]
    arguments = kernel, *points_of(named), dens, named.get("norms"), own
    how: dict[str, Any] = {"tangents": tangents, **batch._asdict()}
    change = changed + jvp(*arguments, **how)
    return change.reshape(*many, *result_shape(kernel, "u", named["trg"].shape[1]))


def run_pull(
    *arrays: Any,
    kernel: Any,
    options: Any,
    batch: Batch,
    names: tuple[str, ...],
    wrt: tuple[Any, ...],
) -> list[Any]:
    """Return the derivatives by ``wrt``; the values follow the inputs."""
    named = dict(zip(names, arrays, strict=False))
    values, many = stacked(kernel, "u", arrays[-1])
    dens = stacked(kernel, "dens", named["dens"])[0] if "dens" in named else None
    inputs = named["trg"], named.get("src"), dens, named.get("norms"), named.get("box")
    derivatives = pulled(kernel, options_of(options, named), batch, inputs, values, wrt)
    if "dens" in wrt:
        derivatives["dens"] = derivatives["dens"].reshape(
            *many, *derivatives["dens"].shape[1 if many else 0 :]
        )
    return [derivatives[name] for name in wrt]


def run_bend(
    *arrays: Any,
    kernel: str,
    options: Any,
    batch: Batch,
    names: tuple[str, ...],
    moves: tuple[str, ...],
    needs: tuple[str, ...],
) -> list[Any]:
    """Return second derivatives by ``needs``; changes of ``moves`` and values follow the inputs."""
    named = dict(zip(names, arrays, strict=False))
    own = options_of(options, named)
    if "dens" not in named:  # on which derivatives by densities do not depend
        trg, shape = named["trg"], density_shape(kernel, named, arrays[-1])
        if isinstance(trg, jax.Array):
            named["dens"] = jax.numpy.zeros(shape, trg.dtype, device=trg.device)
        else:
            named["dens"] = np.zeros_like(trg, shape=shape)
    changes = dict(zip(moves, arrays[len(names) : -1], strict=True))
    values, dens = stacked(kernel, "u", arrays[-1])[0], stacked(kernel, "dens", named["dens"])[0]
    if "dens" in changes:
        changes["dens"], _ = stacked(kernel, "dens", changes["dens"])

    inputs = named["trg"], named.get("src"), dens, named.get("norms")

    def pull(of: Any, want: str, wanted: Any, those: Any, weights: Any) -> Any:
        arguments = (*those, named.get("box")), weights, wanted
        return pulled(of, own, batch, *arguments, want)

    def change(strain: Any) -> list[Any]:
        return along(strain, kernel, own, batch, (*inputs, named.get("box")), values, needs)

    how = pull, change, partial(array_of, values)
    parts = bent(kernel, own, inputs, changes, values, needs, *how)
    return [
        parts[name].reshape(named[name].shape) if name in parts else 0 * named[name]
        for name in needs
    ]


def run_linear(values: Any, *, plan: LinearMap, transposed: bool) -> Any:
    """Apply a plan, or its adjoint."""
    product = plan.found(values.shape, transposed)
    inner, _ = plan.shapes(transposed)
    many = values.shape[: values.ndim - len(inner)]
    stacked = values.reshape(*[math.prod(many)][: len(many)], *inner)
    return plan(stacked, transposed).reshape(product)
