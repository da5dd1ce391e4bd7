"""Sums and their derivatives of tensors with values: what the operators compute.

Sources that are None are the targets: their derivatives have both roles. Names of several inputs
are one text with spaces.
"""

from __future__ import annotations

from typing import Any

from parki.ewald.derivatives.vjp import jvp, vjp
from parki.ewald.options import EwaldOptions
from parki.ewald.pipeline.placed_sum import sum_once

INPUTS = ("trg", "src", "dens", "norms")


def plain(*tensors: Any) -> list[Any]:
    """Return tensors that require no derivatives, in memory without gaps, as they are there."""
    return [None if each is None else each.detach().contiguous().resolve_neg() for each in tensors]


def summed(kernel: str, options: EwaldOptions, *given: Any) -> Any:
    """Return a sum of targets, sources or None, density, and normals or None."""
    trg, src, dens, norms = plain(*given)
    return sum_once((kernel, trg, trg if src is None else src, norms, options), dens, "u")


def pulled(
    kernel: str, options: EwaldOptions, wrt: str, given: tuple[Any, ...], values: Any
) -> dict[str, Any]:
    """Return the derivatives by ``wrt``, by name."""
    trg, src, dens, norms, values = plain(*given, values)
    names = tuple(wrt.split())
    both = src is None and "trg" in names
    if names == ("dens",):
        dens = None  # on which they do not depend
    points = trg, trg if src is None else src
    asked = (*names, "src") if both else names
    found = vjp(kernel, *points, dens, norms, options, values=values, wrt=asked)
    if both:
        found["trg"] = found["trg"] + found.pop("src")
    return found


def pushed(
    kernel: str, options: EwaldOptions, given: tuple[Any, ...], changes: tuple[Any, ...]
) -> Any:
    """Return the change of a sum, by those of its inputs, None where there is none."""
    trg, src, dens, norms = plain(*given)
    named = zip(INPUTS, plain(*changes), strict=True)
    tangents = {name: change for name, change in named if change is not None}
    if src is None and "trg" in tangents:
        tangents["src"] = tangents["trg"]
    points = trg, trg if src is None else src
    return jvp(kernel, *points, dens, norms, options, tangents=tangents)
