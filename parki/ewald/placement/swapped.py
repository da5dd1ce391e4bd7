"""`Swapped`: transposes of sums of which another sum, from the targets to the sources, is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from parki.ewald.placement.asked import Asked
from parki.ewald.placement.placement import Placement
from parki.ewald.placement.total import Total
from parki.ewald.sums.composite import by_density


class Swapped:
    """The transpose of a plan.

    Parameters
    ----------
    placement : Placement
    asked : Asked
    total : Total
        Which transposes what needs no other plan.
    """

    def __init__(self, placement: Placement, asked: Asked, total: Total) -> None:
        self.placement, self.asked, self.total = placement, asked, total
        self._plan: Any = None
        self._version: object = None  # of the points that the plan has

    def __call__(self, rows: dict[str, Any], make: Callable[..., Any]) -> Any:
        """Return densities (k, rows, N) of values (k, rows, N) at the targets, by result.

        A plan that is needed for it is made by ``make``, on the same device or the same ranks;
        were it kept here, plans would refer to themselves, and outlive their last name.
        """
        points, back = self.placement.points, self.asked.transposed
        if back is None or not all(map(len, rows.values())):
            return self.total.transposed(rows)
        ((result, values),), (kernel, want, results) = rows.items(), back
        shape = len(values), *self.asked.results[result], values.shape[-1]
        sums = self._placed(kernel, want, make)(values.reshape(shape))
        cloud = {"points": points.src, "norms": points.norms}
        return np.stack([results(by_name, cloud) for by_name in by_density((want,), (sums,))])

    def _placed(self, kernel: str, want: str, make: Callable[..., Any]) -> Any:
        """Return the plan from the targets to the sources, where these are now."""
        placement = self.placement
        points, options, boxes = placement.points, placement.options, placement.boxes
        systems = points.systems and points.systems.swapped()
        how = {
            "systems": systems and (systems.targets, systems.sources),
            "exclude": points.exclude and points.exclude.swapped(systems),
        }
        how = {name: marks for name, marks in how.items() if marks is not None}
        if self._plan is None or self._plan.options != options:
            more = how if boxes is None else {"boxes": boxes, **how}
            marks = points.norms[::-1] if isinstance(points.norms, tuple) else None
            self._plan = make(kernel, points.src, points.trg, marks, options, want=want, **more)
        elif self._version is not placement.version:
            self._plan.update_points(points.src, points.trg, **how)
        self._version = placement.version
        return self._plan
