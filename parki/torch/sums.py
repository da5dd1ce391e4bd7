"""The operators' computations: sums and derivatives of concrete tensors.

If sources are None, the targets are the sources, and their derivatives include both roles. The
options have the values of a box, and so is the box None unless it requires a gradient. Names of
several inputs are one string with spaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from parki.core import Batch, EwaldOptions, second
from parki.core import summed as one_shot
from parki.typing import AnyArray, AnyKernel

INPUTS = ("trg", "src", "dens", "norms", "box")


class SumOptions(NamedTuple):
    """Options; systems and their boxes; and whether the density of a sum is a change of another."""

    options: EwaldOptions
    batch: Batch
    of_change: bool = False


def plain(tensor: AnyArray) -> Any:
    """Return a tensor detached and contiguous; None stays None."""
    return None if tensor is None else tensor.detach().contiguous().resolve_neg()


def summed(kernel: AnyKernel, settings: SumOptions, tensors: Iterable[Any]) -> Any:
    """Return a sum for targets, sources or None, density, and normals and box or None."""
    trg, src, dens, norms, _ = map(plain, tensors)
    options, batch = settings.options, settings.batch
    if settings.of_change:
        inputs = named((trg, src, dens, norms, None))
        return second.summed(one_shot, kernel, options, batch, inputs)
    src = trg if src is None else src
    return one_shot(
        kernel, trg, src, dens, norms, options, systems=batch.systems, boxes=batch.boxes
    )


def named(tensors: Iterable[Any]) -> dict[str, Any]:
    """Return the inputs that are not None, by name."""
    return {n: tensor for n, tensor in zip(INPUTS, tensors, strict=True) if tensor is not None}


def pulled(
    kernel: AnyKernel, settings: SumOptions, wrt: str, tensors: Iterable[Any]
) -> dict[str, Any]:
    """Return the derivatives by ``wrt``, by name, for inputs, their moves, and values."""
    *arrays, values = map(plain, tensors)
    inputs, moves, names = named(arrays[:5]), named(arrays[5:]), tuple(wrt.split())
    parts = second.pulled(kernel, settings.options, settings.batch, inputs, values, names, moves)
    return {n: part.to(inputs["box"]) if n == "box" else part for n, part in parts.items()}


def pushed(kernel: AnyKernel, settings: SumOptions, tensors: Iterable[Any]) -> Any:
    """Return the change of a sum for inputs and their changes, or of this for others."""
    arrays = [plain(tensor) for tensor in tensors]
    inputs, tangents, moves = (named(arrays[n : n + 5]) for n in (0, 5, 10))
    return second.pushed(kernel, settings.options, settings.batch, inputs, tangents, moves)
