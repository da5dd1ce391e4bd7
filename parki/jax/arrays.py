"""Sums and derivatives of concrete arrays, by the parameters of JAX's primitives.

``names`` names the first arrays: "trg", "src", "dens", "norms", "box". Without "src" the targets
are the sources, and derivatives include both roles. Densities and values may have leading batch
axes. "box" takes the place of the options' box.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

from parki.core import SUMS, Batch, EwaldOptions, LinearMap, second, summed
from parki.interchange import to_host
from parki.typing import AnyArray


class SumCall(NamedTuple):
    """What a primitive sums, and how: one parameter of all of them.

    Attributes
    ----------
    kernel : str
    options : EwaldOptions
    batch : Batch
        Systems and their boxes.
    in_array : bool
        Whether "box" has the boxes of systems, whose periodic axes are then ``periodicities``.
    """

    kernel: str
    options: EwaldOptions
    batch: Batch = Batch()
    in_array: bool = False
    periodicities: Any = None

    def within(self, named: dict[str, Any]) -> tuple[EwaldOptions, Batch]:
        """Return options, and systems, with the box or the boxes that are given, if they are."""
        if "box" not in named:
            return self.options, self.batch
        box = to_host(named["box"]).tolist()
        if self.in_array:
            return self.options, Batch.of(self.batch.systems, box, self.periodicities)
        return replace(self.options, box=box), self.batch


def points_of(named: dict[str, Any]) -> tuple[Any, Any]:
    """Return targets and sources, as one array if the targets are the sources."""
    return named["trg"], named.get("src", named["trg"])


def stacked(kernel: str, name: str, array: AnyArray) -> tuple[Any, tuple[int, ...]]:
    """Return densities or values with at most one batch axis, and their original batch axes."""
    shape = SUMS[kernel].density_shape(0) if name == "dens" else SUMS[kernel].value_shape(0)
    many = array.shape[: array.ndim - len(shape)]
    return array.reshape((*[math.prod(many)][: len(many)], *array.shape[len(many) :])), many


def density_shape(kernel: str, named: dict[str, Any], values: AnyArray) -> tuple[int, ...]:
    """Return the shape of a density that is not given, by the axes of values."""
    many = values.shape[: values.ndim - len(SUMS[kernel].value_shape(0))]
    return (*many, *SUMS[kernel].density_shape(points_of(named)[1].shape[1]))


def parted(
    kernel: str, arrays: Any, names: tuple[str, ...], moves: tuple[tuple[str, ...], ...]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return inputs and lists of moves by name, densities with at most one batch axis."""
    lists, first = [], 0
    for part in (names, *moves):
        named = dict(zip(part, arrays[first : first + len(part)], strict=True))
        if "dens" in named:
            named["dens"], _ = stacked(kernel, "dens", named["dens"])
        lists.append(named)
        first += len(part)
    return lists[0], lists[1:]


def run_sum(*arrays: Any, call: SumCall, names: tuple[str, ...], of_change: bool) -> Any:
    """Return a sum of a density, or of a change of one."""
    kernel = call.kernel
    named = dict(zip(names, arrays, strict=True))
    named["dens"], many = stacked(kernel, "dens", named["dens"])
    options, batch = call.within(named)
    if of_change:
        result = second.summed(summed, kernel, options, batch, named)
    else:
        trg, src = points_of(named)
        norms = named.get("norms")
        result = summed(
            kernel,
            trg,
            src,
            named["dens"],
            norms,
            options,
            systems=batch.systems,
            boxes=batch.boxes,
        )
    return result.reshape((*many, *SUMS[kernel].value_shape(named["trg"].shape[1])))


def run_push(
    *arrays: Any, call: SumCall, names: tuple[str, ...], moves: tuple[tuple[str, ...], ...]
) -> Any:
    """Return the change of a sum, or of its change; lists of ``moves`` follow the inputs."""
    kernel = call.kernel
    named, (tangents, *others) = parted(kernel, arrays, names, moves)
    options, batch = call.within(named)
    change = second.pushed(
        kernel, options, batch, named, tangents, moves=others[0] if others else {}
    )
    _, many = stacked(kernel, "dens", arrays[names.index("dens")])
    return change.reshape((*many, *SUMS[kernel].value_shape(named["trg"].shape[1])))


def run_pull(
    *arrays: Any,
    call: SumCall,
    names: tuple[str, ...],
    moves: tuple[tuple[str, ...], ...],
    wrt: tuple[str, ...],
) -> list[Any]:
    """Return the derivatives by ``wrt``; lists of moves, if any, and values follow the inputs.

    "values" may be among ``wrt`` and the moves: see `second.pulled`.
    """
    named, changes = parted(call.kernel, arrays, names, moves)
    values, many = stacked(call.kernel, "u", arrays[-1])
    derivatives = second.pulled(
        call.kernel,
        *call.within(named),
        named,
        values,
        wrt,
        moves=changes[0] if changes else {},
    )
    if "dens" in wrt:
        by_density = derivatives["dens"]
        shape = by_density.shape[1 if many else 0 :]
        derivatives["dens"] = by_density.reshape((*many, *shape))
    return [derivatives[name] for name in wrt]


def run_linear(
    values: AnyArray, *, plan: LinearMap, transposed: bool, of_change: bool, device: Any
) -> Any:
    """Apply a plan, or its adjoint; values that are bound to no device are on ``device``."""
    product = plan.result_of(values.shape, transposed)
    inner, _ = plan.shapes(transposed)
    many = values.shape[: values.ndim - len(inner)]
    several = values.reshape((*[math.prod(many)][: len(many)], *inner))
    return plan(several, transposed, of_change).reshape(product)
