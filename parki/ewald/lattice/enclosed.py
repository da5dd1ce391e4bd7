"""`Enclosed`: the boxes of systems, which one lattice encloses, so that one grid serves all.

Points of each system are on the grid at their fractions of its own vectors, times the edges of the
enclosing lattice. These are the longest ones, so that no system has a coarser grid than that one.
Along free axes all boxes have the edge of the lattice, so that kernels end at one distance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parki.runtime.forks import cached_property

Array = NDArray[np.float64]
# Lower bounds are rounded to powers of this, and tilts over sides to these, so that boxes that
# change mostly have the same ones.
LEAST = 2.0 ** (1 / 4)
LEANING = np.array([0.0, 1 / 8, 1 / 4, 1 / 2])


@dataclass(frozen=True, eq=False)
class Enclosed:
    """The boxes of systems with the same periodic axes, and what bounds them.

    Attributes
    ----------
    matrices : ndarray, shape (S, 3, 3)
        The vectors of each, in rows, as of `Lattice.matrix`; empty if it is ``bound``, their bounds
        alone.
    count : int
        The number S of systems.
    least, widths : ndarray, shape (3,)
        The least side, and the least distance of opposite faces.
    leaning : ndarray, shape (3,)
        The largest tilts over the sides that they are along.
    volume : float
        The least volume.
    """

    matrices: Array
    count: int
    least: Array
    widths: Array
    leaning: Array
    volume: float

    @classmethod
    def of(cls, matrices: Array) -> Enclosed:
        """Return boxes of these vectors, shape (S, 3, 3), with their bounds."""
        sides = matrices.diagonal(axis1=1, axis2=2)
        tilts = abs(matrices[:, [1, 2, 2], [0, 0, 1]]) / sides[:, [0, 0, 1]]
        leaning = LEANING[np.searchsorted(LEANING[:-1], (1 - 1e-9) * tilts.max(axis=0))]
        widths = (np.linalg.inv(matrices) ** 2).sum(axis=1).max(axis=0) ** -0.5
        least, volume = _below(sides.min(axis=0)), float(_below(sides.prod(axis=1).min()))
        return cls(matrices, len(matrices), least, _below(widths), leaning, volume)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """All that it is, to compare and to look up."""
        arrays = self.matrices, self.least, self.widths, self.leaning
        return *(array.tobytes() for array in arrays), self.count, self.volume

    @property
    def bound(self) -> bool:
        """Whether it has no boxes, but the bounds of some."""
        return not len(self.matrices)

    @cached_property
    def bounds(self) -> Enclosed:
        """The bounds alone."""
        return replace(self, matrices=self.matrices[:0])

    @cached_property
    def volumes(self) -> Array:
        """The volume of each box, shape (S,)."""
        return np.asarray(self.sides.prod(axis=1))

    @property
    def sides(self) -> Array:
        """The sides of each box, shape (S, 3)."""
        return self.matrices.diagonal(axis1=1, axis2=2)

    @property
    def tilts(self) -> Array:
        """The tilts of each box, shape (S, 3)."""
        return self.matrices[:, [1, 2, 2], [0, 0, 1]]

    def over(self, unit: float) -> Enclosed:
        """Return the boxes with their lengths over a unit."""
        return replace(
            self,
            matrices=self.matrices / unit,
            least=self.least / unit,
            widths=self.widths / unit,
            volume=self.volume / unit**3,
        )

    def beside(self, before: Enclosed) -> Enclosed:
        """Return the boxes, with bounds of those ``before``, too."""
        return replace(
            self,
            least=np.minimum(self.least, before.least),
            widths=np.minimum(self.widths, before.widths),
            leaning=np.maximum(self.leaning, before.leaning),
            volume=min(self.volume, before.volume),
        )

    def roomier(self) -> Enclosed:
        """Return the boxes, with bounds that are a step wider."""
        places = np.searchsorted(LEANING, self.leaning) + (self.leaning > 0)
        return replace(
            self,
            least=self.least / LEAST,
            widths=self.widths / LEAST,
            leaning=LEANING[np.minimum(places, LEANING.size - 1)],
            volume=self.volume / LEAST,
        )


def _below(values: Any) -> Any:
    """Return values rounded down to powers of a ratio; a power that was rounded stays."""
    return LEAST ** np.floor(np.log2(values) / np.log2(LEAST) + 1e-9)
