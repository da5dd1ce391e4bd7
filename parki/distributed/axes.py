"""`Order`: permutes the caller's axes so that slabs divide the first one.

The sums do not depend on the order of the axes; only the shape of the slabs does. The longer the
divided axis, the fewer points of a slab are within reach of its neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.ewald.sums import SUMS


class Order:
    """The caller's axes in the solver's order, which puts one of them first."""

    def __init__(self, axes: list[int]) -> None:
        self.axes = axes
        self.kept = axes == [0, 1, 2]
        # Exchanging two axes mirrors the box.
        self.mirrors = axes not in ([0, 1, 2], [1, 2, 0], [2, 0, 1])

    def arrays(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """Return points and normals in the solver's order; one array for both stays one."""
        if self.kept:
            return arrays
        found = {name: values[self.axes] for name, values in arrays.items()}
        if arrays["trg"] is arrays["src"]:
            found["trg"] = found["src"]
        return found

    def density(self, kernel: str, dens: Any) -> Any:
        """Return a density (rows, sources) in the solver's order."""
        if self.kept or dens.shape[0] == 1:
            return dens
        parts = []
        for source, rows in SUMS[kernel].parts(dens):
            part = rows[self.places(source.rows)]
            # Axial vectors change their sign in a mirror.
            parts.append(-part if self.mirrors and source.axial else part)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def places(self, rows: int) -> Any:
        """Return the solver's row for each of the caller's rows of a result.

        A result is a number, one vector or two, or a tensor.
        """
        if self.kept or rows == 1:
            return slice(None)
        if rows == 9:
            return [3 * row + column for row in self.axes for column in self.axes]
        return [3 * vector + axis for vector in range(rows // 3) for axis in self.axes]


def longest_first(box: NDArray[np.float64], periodicity: int) -> list[int]:
    """Return the axes in the best order for slabs: periodic before free, then the longest first."""
    kind = periodicity or 3
    first = int(np.argmax(box[:kind]))
    if kind == 2:
        return [first, 1 - first, 2]
    return [(first + axis) % 3 for axis in range(3)]
