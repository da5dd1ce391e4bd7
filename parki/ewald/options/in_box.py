"""`InBox`: what follows from the box and the periodic axes of options."""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.ewald.lattice import Cell, Lattice, Moving, cell_of, rows_of, whole_of
from parki.ewald.options.box import MOST_SLENDER
from parki.ewald.options.expert import Expert
from parki.runtime.forks import cached_property
from parki.typing import AnyArray, Box, Periodicity

if TYPE_CHECKING:
    from typing_extensions import Self


class InBox:
    """What follows from box and periodicity, which are fields of `EwaldOptions`."""

    periodicity: Periodicity
    box: Box
    expert: Expert

    @cached_property
    def cell(self) -> Cell | None:
        """The lattice of a box of lattice vectors, or None of a box of lengths."""
        rows = rows_of(self.box)
        return None if rows is None else cell_of(rows, self.axes, self.periodic)

    @cached_property
    def edges(self) -> tuple[float | None, ...]:
        """The length of the box along each axis, or of its vector; None where points decide."""
        rows: Any = self.box
        if self.cell is None:
            return tuple(rows)
        return tuple(None if row is None else math.hypot(*row) for row in rows)

    @property
    def vectors(self) -> Any:
        """The shortest lattice vectors, in rows, shape (3, 3); 1 where points decide a length."""
        if self.cell is None:
            return np.diag([1.0 if length is None else length for length in self.box])
        lattice, rotation = self.cell
        rows = lattice.matrix if rotation is None else lattice.matrix @ rotation
        order = np.argsort(self.axes)
        return rows[np.ix_(order, order)]

    def with_lengths(self, lengths: NDArray[np.float64]) -> tuple[Any, ...]:
        """Return the box with these lengths, shape (3,), for axes where points decide them."""
        lengths_of_axes: Any = (
            lengths.tolist() if self.cell is None else map(tuple, np.diag(lengths).tolist())
        )
        pairs = zip(self.box, lengths_of_axes, strict=True)
        box = [length if edge is None else edge for edge, length in pairs]
        return type(self.box)(box) if isinstance(self.box, Moving) else tuple(box)

    def _in(self, box: tuple[Any, ...]) -> Self:
        """Return the options with another box, as the other fields were checked."""
        other = copy(self)
        for name in ("cell", "edges", "ends", "gap", "lattice", "of_derivatives"):
            other.__dict__.pop(name, None)
        object.__setattr__(other, "box", box)
        return other

    @property
    def edgewise(self) -> Any:
        """The matrix (3, 3) from coordinates to lengths along the edges."""
        if self.cell is None:
            return np.eye(3)
        rows: Any = self.box
        whole = whole_of(rows)
        whole = whole / 2.0 ** math.frexp(np.abs(whole).max())[1]  # whose squares are finite
        return np.sqrt((whole**2).sum(axis=1))[:, None] * np.linalg.inv(whole).T

    def along(self, points: AnyArray) -> Any:
        """Return points (3, N) in lengths along the edges."""
        if self.cell is None:
            return points
        rows = [row.astype(np.float64) for row in points]
        lengths = points.copy()
        with np.errstate(invalid="ignore"):  # infinite ones are refused later
            for axis, weights in enumerate(self.edgewise.tolist()):
                lengths[axis] = sum(w * row for w, row in zip(weights, rows, strict=True))
        return lengths

    @cached_property
    def periodic(self) -> tuple[bool, bool, bool]:
        """For each axis whether it is periodic."""
        axes: Any = self.periodicity
        return axes if isinstance(axes, tuple) else (axes > 0, axes > 1, axes > 2)

    @cached_property
    def axes(self) -> tuple[int, int, int]:
        """The axes as sums take them: turned in a circle so that the periodic ones come first."""
        if isinstance(self.periodicity, int):
            return 0, 1, 2
        first = next(n for n in range(3) if self.periodic[n] and not self.periodic[n - 1])
        return first, (first + 1) % 3, (first + 2) % 3

    @property
    def periods(self) -> str:
        """Which axes are periodic, in words."""
        axes = [str(axis) for axis in range(3) if self.periodic[axis]]
        if isinstance(self.periodicity, int):
            return f"{self.periodicity}-periodic"
        return f"periodic along {'axes' if axes[1:] else 'axis'} {' and '.join(axes)}"

    def _check_tilted(self) -> None:
        """Refuse a box that is too slender, and variants for boxes along the axes."""
        lattice = self.cell.lattice if self.cell else None
        if lattice and lattice.slenderness > MOST_SLENDER:
            raise ParkiValueError(
                f"box is {self.box!r}; its edges and the distances of its faces differ by more "
                f"than a factor of {MOST_SLENDER:g}"
            )
        self.expert.check_tilted()

    @cached_property
    def ends(self) -> tuple[tuple[float, float], ...]:
        """Where the box begins and ends along each axis; it ends at NaN without a length."""
        return from_zero(self.edges)

    @cached_property
    def lattice(self) -> Lattice:
        """The box, as the solver takes its axes; NaN are the lengths that points decide."""
        origin, last = np.array([self.ends[axis] for axis in self.axes]).T.copy()
        lattice = Lattice(last - origin, sum(self.periodic), origin=origin, axes=self.axes)
        return lattice.shaped(self.cell and self.cell.lattice)

    def thinnest(self, extents: Any) -> float:
        """Return how thick a box is at least in directions without lengths, for `extents`."""
        return 0.0


def from_zero(lengths: Iterable[float | None]) -> tuple[tuple[float, float], ...]:
    """Return where axes of these lengths begin and end: from 0 on, to NaN without a length."""
    return tuple((0.0, math.nan if length is None else length) for length in lengths)
