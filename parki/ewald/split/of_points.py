"""`OfPoints`: what splits have in common that take mollifier and band from a split of points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parki.ewald.split.protocol import Factor, Split

if TYPE_CHECKING:
    from typing_extensions import Self

Array = NDArray[np.float64]


@dataclass(frozen=True)
class OfPoints(Split):
    """A split that is made of the split of points, ``base``, and has what that has.

    Parameters
    ----------
    base : Split
    """

    base: Split

    @property
    def name(self) -> str:
        """The name of the split of points."""
        return self.base.name

    @property
    def bare(self) -> Split:
        """The split of points."""
        return self.base

    @property
    def endless(self) -> Self:
        """The split whose split of points is endless."""
        return replace(self, base=self.base.endless)

    @property
    def psi0(self) -> float:
        """Mollifier of points at 0."""
        return self.base.psi0

    @property
    def band(self) -> float:
        """Largest wavenumber of the far field."""
        return self.base.band

    @property
    def background(self) -> float:
        """As for points."""
        return self.base.background

    def factor(self, order: int) -> Factor:
        """Return the factor of points."""
        return self.base.factor(order)

    def near(self, r: ArrayLike) -> tuple[Array, ...]:
        """Return the near field of points."""
        return self.base.near(r)
