"""The stress ``-p I + grad u + (grad u)^T``: made of the pressure and the gradient of the same sum.

No stage knows of it: a plan sums its parts, and puts them together at the end.
"""

from __future__ import annotations

import math
from typing import Any

# Bound of its error: sqrt(3) times the pressure's and twice the gradient's.
OF_PARTS = 2 + math.sqrt(3)


def parts(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return what to sum for the results wanted."""
    summed = [name for name in names if name != "stress"]
    if "stress" in names:
        summed += [name for name in ("p", "grad_u") if name not in names]
    return tuple(summed)


def split(results: dict[str, Any], summed: tuple[str, ...], xp: Any) -> dict[str, Any]:
    """Return where to sum: the results, and for parts of a stress its own memory, or more."""
    stress: Any = results.get("stress")
    found = {}
    for name in summed:
        if name in results:
            found[name] = results[name]
        elif name == "grad_u":
            found[name] = stress
        else:
            found[name] = xp.empty((*stress.shape[:-3], stress.shape[-1]), dtype=stress.dtype)
    return found


def combine(results: dict[str, Any], parts: dict[str, Any]) -> None:
    """Write the stress, if it is wanted, from its parts: without "p" there is no pressure."""
    stress = results.get("stress")
    if stress is None:
        return
    if parts["grad_u"] is not stress:
        stress[...] = parts["grad_u"]
    for i in range(3):
        for j in range(i):
            stress[..., i, j, :] += stress[..., j, i, :]
            stress[..., j, i, :] = stress[..., i, j, :]
        stress[..., i, i, :] *= 2
        if "p" in parts:
            stress[..., i, i, :] -= parts["p"]
