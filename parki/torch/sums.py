"""The operators' computations: sums and derivatives of concrete tensors.

If sources are None, the targets are the sources, and their derivatives include both roles. The
options have the values of a box, and so is the box None unless it requires a gradient. Names of
several inputs are one string with spaces.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from parki.ewald import api as ewald
from parki.ewald.derivatives import second
from parki.ewald.derivatives.vjp import jvp
from parki.ewald.geometry.systems import Batch
from parki.ewald.options import EwaldOptions
from parki.typing import AnyKernel

INPUTS = ("trg", "src", "dens", "norms", "box")


class How(NamedTuple):
    """Options, systems and their boxes, and which result of a sum is meant."""

    options: EwaldOptions
    batch: Batch
    want: str = "u"


def plain(*tensors: Any) -> list[Any]:
    """Return tensors detached and contiguous; None stays None."""
    return [None if each is None else each.detach().contiguous().resolve_neg() for each in tensors]


def summed(kernel: AnyKernel, how: How, *given: Any) -> Any:
    """Return a sum, given targets, sources or None, density, and normals and box or None."""
    trg, src, dens, norms, _ = plain(*given)
    own = kernel, trg, trg if src is None else src, norms, how.options
    return ewald.summed(own, dens, how.want, **how.batch._asdict())


def pulled(
    kernel: AnyKernel, how: How, wrt: str, inputs: tuple[Any, ...], values: Any
) -> dict[str, Any]:
    """Return the derivatives by ``wrt``, by name."""
    arguments = how.options, how.batch, plain(*inputs), plain(values)[0], tuple(wrt.split())
    parts = second.pulled(kernel, *arguments, how.want)
    return {n: part.to(inputs[-1]) if n == "box" else part for n, part in parts.items()}


def strained(
    kernel: AnyKernel, how: How, wrt: str, strain: Any, inputs: tuple[Any, ...], values: Any
) -> tuple[Any, ...]:
    """Return the change of the derivatives by ``wrt`` along a strain; without any, of the sum."""
    v, along = plain(values, strain)
    arguments = along, kernel, how.options, how.batch, plain(*inputs), v
    return tuple(second.along(*arguments, wrt.split() or ("u",), ewald.summed))


def pushed(kernel: AnyKernel, how: How, given: tuple[Any, ...], changes: tuple[Any, ...]) -> Any:
    """Return the change of a sum for changes of its inputs; None stands for no change."""
    trg, src, dens, norms, _ = plain(*given)
    named = zip(INPUTS, plain(*changes), strict=True)
    tangents: dict[Any, Any] = {name: change for name, change in named if change is not None}
    if src is None and "trg" in tangents:
        tangents["src"] = tangents["trg"]
    points = trg, trg if src is None else src
    own = kernel, *points, dens, norms, how.options
    return jvp(*own, tangents=tangents, want=how.want, **how.batch._asdict())
