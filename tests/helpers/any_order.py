"""Results of workunits whose items take numbers in any order, made independent of that order.

Threads take a number, a place in a row or the one place of a mesh point. Each must be taken once,
by an item that may take it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Arrays = dict[str, np.ndarray]


def count_cells(given: Arrays) -> Arrays:
    """Return the counts, and the numbers of each cell's points in order."""
    order = np.lexsort((given["numbers"], given["cells"]))
    return {"counts": given["counts"], "numbers": given["numbers"][order]}


def collect_entries(given: Arrays) -> Arrays:
    """Return the entries of all rows, in the order of (row, particle, point)."""
    width, starts = given["width"], given["starts"]
    keys, weights = [], []
    for row, taken in enumerate(given["taken"]):
        for slot in range(taken):
            if slot < width:
                keys.append((row, given["columns"][slot][row], row))
                weights.append(given["factors"][slot][row])
            else:
                at = starts[row] + slot - width
                point = given["points"][at] if given["points"].size else row
                keys.append((row, given["particles"][at], point))
                weights.append(given["weights"][at])
    found = np.array(keys)
    order = np.lexsort(found.T[::-1])
    return {"keys": found[order], "weights": np.array(weights)[order]}


def place_particles(given: Arrays) -> Arrays:
    """Return the places of the particles held by mesh points, and the number of surplus ones."""
    steps = (given["src"] * given["inverse_step"][:, None]).astype(int)
    steps = np.minimum(steps, given["cells"][:, None] - 1)
    place = np.ravel_multi_index(tuple(steps), tuple(given["shape"]))
    held = given["holder"][given["holder"] >= 0]
    return {
        "counts": given["counts"],
        "held": np.where(given["holder"] >= 0, place[given["holder"]], -1),
        "over": np.bincount(place, given["over"], len(given["holder"])).astype(int),
        "over where held": given["over"][held],
    }


FORMS: dict[str, Callable[[Arrays], Arrays]] = {
    "count_cells": count_cells,
    "collect_entries": collect_entries,
    "place_particles": place_particles,
}
