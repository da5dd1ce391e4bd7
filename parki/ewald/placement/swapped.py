"""`Swapped`: transposes of sums that take other plans.

That is one from the targets to the sources, or one of the same result whose sums have transposes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from parki.ewald.placement.asked import Asked
from parki.ewald.placement.placement import Placement
from parki.ewald.placement.total import Total
from parki.ewald.sums.composite import Composite, by_density


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
        self._plans: dict[str, Any] = {}  # by result
        self._versions: dict[str, object] = {}  # of the points that these have

    def __call__(self, rows: dict[str, Any], make: Callable[..., Any]) -> Any:
        """Return densities (k, rows, N) of values (k, rows, N) at the targets, by result.

        A plan that is needed for it is made by ``make``, on the same device or the same ranks;
        were it kept here, plans would refer to themselves, and outlive their last name.
        """
        parts = self.asked.parts
        if not any(each.transposed for each in parts) or not all(map(len, rows.values())):
            return self.total.transposed(rows)
        each = zip(parts, rows.items(), strict=True)
        return reduce(add, [self._of_part(part, *own, make) for part, own in each])

    def _of_part(self, part: Composite, name: str, values: Any, make: Callable[..., Any]) -> Any:
        """Return densities (k, rows, N) of values of one result."""
        count = values.shape[-1]
        given = values.reshape(len(values), *part.result, count)
        if isinstance(back := part.transposed or part, Composite):
            dens = self._placed(name, make, back, "u", swapped=False).adjoint(given)
            return dens.reshape(len(values), -1, dens.shape[-1])
        kernel, want, results = back
        sums = self._placed(name, make, kernel, want, swapped=True)(given)
        cloud = {"points": self.placement.points.src, "norms": self.placement.points.norms}
        return np.stack([results(by_name, cloud) for by_name in by_density((want,), (sums,))])

    def _placed(
        self, name: str, make: Callable[..., Any], kernel: Any, want: str, swapped: bool
    ) -> Any:
        """Return a plan where points are now; ``swapped`` says from the targets to the sources."""
        placement = self.placement
        points, options, boxes = placement.points, placement.options, placement.boxes
        systems, labels, norms = points.systems, points.exclude, points.norms
        ends = [points.trg, points.src]
        if swapped:
            ends, systems = ends[::-1], systems and systems.swapped()
            labels = labels and labels.swapped(systems)
            norms = norms[::-1] if isinstance(norms, tuple) else None
        how = {"systems": systems and (systems.targets, systems.sources), "exclude": labels}
        how = {of: marks for of, marks in how.items() if marks is not None}
        plan = self._plans.get(name)
        if plan is None or plan.options != options:
            more = how if boxes is None else {"boxes": boxes, **how}
            plan = self._plans[name] = make(kernel, *ends, norms, options, want=want, **more)
        elif self._versions[name] is not placement.version:
            plan.update_points(*ends, *[norms][: not isinstance(norms, tuple)], **how)
        self._versions[name] = placement.version
        return plan
