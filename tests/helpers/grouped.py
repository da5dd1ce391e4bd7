"""Spheres whose pairs of radii are sums of their own, as over ranks, in PyTorch and in JAX."""

from typing import Any

import parki


class Grouped(parki.Spheres):
    """Spheres by pairs of radii, as over ranks."""

    _marks = False

    def _again(self, points: Any, options: Any) -> Any:
        return Grouped(points, self.radii, options, viscosity=self.viscosity)
