"""The operators' computations: sums and derivatives of concrete tensors.

If sources are None, the targets are the sources, and their derivatives include both roles. Names
of several inputs are one string with spaces.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from parki.ewald import api as ewald
from parki.ewald.derivatives.second import of_want
from parki.ewald.derivatives.vjp import jvp, vjp
from parki.ewald.geometry.systems import Batch
from parki.ewald.options import EwaldOptions
from parki.typing import AnyKernel

INPUTS = ("trg", "src", "dens", "norms")


class How(NamedTuple):
    """Options, systems and their boxes, and which result of a sum is meant."""

    options: EwaldOptions
    batch: Batch
    want: str = "u"


def plain(*tensors: Any) -> list[Any]:
    """Return tensors detached and contiguous; None stays None."""
    return [None if each is None else each.detach().contiguous().resolve_neg() for each in tensors]


def summed(kernel: AnyKernel, how: How, *given: Any) -> Any:
    """Return a sum, given targets, sources or None, density, and normals or None."""
    trg, src, dens, norms = plain(*given)
    own = kernel, trg, trg if src is None else src, norms, how.options
    return ewald.summed(own, dens, how.want, **how.batch._asdict())


def pulled(
    kernel: AnyKernel, how: How, wrt: str, given: tuple[Any, ...], values: Any
) -> dict[str, Any]:
    """Return the derivatives by ``wrt``, by name."""
    trg, src, dens, norms, values = plain(*given, values)
    names: tuple[Any, ...] = tuple(wrt.split())
    both = src is None and "trg" in names
    if names == ("dens",):
        dens = None  # the derivatives do not depend on it
    points = trg, trg if src is None else src
    asked = (*names, "src") if both else names
    more: dict[str, Any] = {"values": values, "wrt": asked, **how.batch._asdict()}
    derivatives = vjp(of_want(kernel, how.want), *points, dens, norms, how.options, **more)
    if both:
        derivatives["trg"] = derivatives["trg"] + derivatives.pop("src")
    return derivatives


def pushed(kernel: AnyKernel, how: How, given: tuple[Any, ...], changes: tuple[Any, ...]) -> Any:
    """Return the change of a sum for changes of its inputs; None stands for no change."""
    trg, src, dens, norms = plain(*given)
    named = zip(INPUTS, plain(*changes), strict=True)
    tangents: dict[Any, Any] = {name: change for name, change in named if change is not None}
    if src is None and "trg" in tangents:
        tangents["src"] = tangents["trg"]
    points = trg, trg if src is None else src
    own = of_want(kernel, how.want), *points, dens, norms, how.options
    return jvp(*own, tangents=tangents, **how.batch._asdict())
