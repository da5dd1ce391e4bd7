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
from parki.typing import AnyKernel

INPUTS = ("trg", "src", "dens", "norms", "box")


class How(NamedTuple):
    """Options; systems and their boxes; and whether the density of a sum is a change of another."""

    options: EwaldOptions
    batch: Batch
    of_change: bool = False


def plain(*tensors: Any) -> list[Any]:
    """Return tensors detached and contiguous; None stays None."""
    return [None if each is None else each.detach().contiguous().resolve_neg() for each in tensors]


def summed(kernel: AnyKernel, how: How, *given: Any) -> Any:
    """Return a sum, given targets, sources or None, density, and normals and box or None."""
    trg, src, dens, norms, _ = plain(*given)
    if how.of_change:
        inputs = named((trg, src, dens, norms, None))
        return second.summed(one_shot, kernel, how.options, how.batch, inputs)
    src = trg if src is None else src
    return one_shot(kernel, trg, src, dens, norms, how.options, **how.batch._asdict())


def named(tensors: Iterable[Any]) -> dict[str, Any]:
    """Return the inputs that are not None, by name."""
    return {n: each for n, each in zip(INPUTS, tensors, strict=True) if each is not None}


def pulled(kernel: AnyKernel, how: How, wrt: str, *arguments: Any) -> dict[str, Any]:
    """Return the derivatives by ``wrt``, by name, for inputs, their moves, and values."""
    *every, values = plain(*arguments)
    given, moves = named(every[:5]), named(every[5:])
    parts = second.pulled(kernel, *how[:2], given, values, tuple(wrt.split()), moves)
    return {n: part.to(given["box"]) if n == "box" else part for n, part in parts.items()}


def pushed(kernel: AnyKernel, how: How, *arguments: Any) -> Any:
    """Return the change of a sum for inputs and their changes, or of this for others."""
    every = plain(*arguments)
    return second.pushed(kernel, *how[:2], *(named(every[n : n + 5]) for n in (0, 5, 10)))
