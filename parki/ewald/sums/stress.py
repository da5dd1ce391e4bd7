"""Results made of others of the same sum: the stress ``-p I + grad u + (grad u)^T``.

No stage knows of it: a plan sums its parts, and puts them together at the end.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parki.ewald.sums.composite import Addend, wanted
from parki.ewald.sums.maps import Arrays, fixed, transposed, weights
from parki.typing import AnyArray, ArrayModule


@fixed
def stress(results: Arrays, cloud: Arrays) -> AnyArray:
    """Return the stress, perhaps in the memory ``cloud["out"]``; without "p" it has no pressure."""
    rows = cloud["out"] if "out" in cloud else np.empty_like(results["grad_u"])
    if rows is not results["grad_u"]:
        rows[...] = results["grad_u"]
    for i in range(3):
        for j in range(i):
            rows[..., 3 * i + j, :] += rows[..., 3 * j + i, :]
            rows[..., 3 * j + i, :] = rows[..., 3 * i + j, :]
        rows[..., 4 * i, :] *= 2
        if "p" in results:
            rows[..., 4 * i, :] -= results["p"][..., 0, :]
    return rows


MADE = {"stress": Addend("", ("p", "grad_u"), stress)}
WEIGHTS = {"stress": weights(stress, {"p": 1, "grad_u": 9})}


def parts(names: Iterable[str]) -> tuple[str, ...]:
    """Return the results to sum for those that are wanted."""
    summed = [name for name in names if name not in MADE]
    addends = [MADE[name] for name in names if name in MADE]
    return tuple(dict.fromkeys([*summed, *(wanted(addends) if addends else ())]))


def split(results: Arrays, summed: tuple[str, ...], xp: ArrayModule) -> Arrays:
    """Return where to sum, (k, rows, N): the results, and for parts their memory, or more."""
    parts = {name: results[name] for name in summed if name in results}
    for name in MADE.keys() & results.keys():
        whole = results[name]
        for part, rows in WEIGHTS[name].items():
            if part in summed and part not in parts:
                fits = len(rows) == whole.shape[1]
                shape = len(whole), len(rows), whole.shape[2]
                parts[part] = whole if fits else xp.empty(shape, dtype=whole.dtype)
    return parts


def combine(results: Arrays, parts: Arrays) -> None:
    """Write the results that are made of parts."""
    for name in MADE.keys() & results.keys():
        MADE[name].results(parts, {"out": results[name]})


def seeds(values: Arrays) -> Arrays:
    """Return values (k, rows, N) of what is summed, for values of what is made of it."""
    parts = {name: rows for name, rows in values.items() if name not in MADE}
    for name in MADE.keys() & values.keys():
        for part, rows in transposed(WEIGHTS[name], values[name]).items():
            parts[part] = parts[part] + rows if part in parts else rows
    return parts
