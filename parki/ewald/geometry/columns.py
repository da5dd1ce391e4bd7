"""`Columns`: the points that a sum takes of all points, and where it has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parki.ewald.geometry.axes import rotated
from parki.typing import AnyArray

OF_TARGETS = (
    "trg",
    "u",
    "p",
    "grad_u",
    "stress",
)  # inputs and results that have a column for each target


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of targets and of sources, how their vectors are rotated, and how points are moved.

    Attributes
    ----------
    targets, sources : array of int, or None
        Which columns; None for all of them.
    rotations : tuple of 2 arrays, shape (3, 3, N), or None
        Of each of these targets and sources; None where vectors stay.
    shifts : tuple of 2 arrays, shape (3, N), or None
        What is subtracted from each of these points; None where they stay.
    """

    targets: Any = None
    sources: Any = None
    rotations: tuple[Any, Any] = (None, None)
    shifts: tuple[Any, Any] = (None, None)

    @property
    def alike(self) -> bool:
        """Whether sources have the columns and rotations of targets."""
        return self.targets is self.sources and self.rotations[0] is self.rotations[1]

    def place(self, name: str) -> Any:
        """Return the columns of an input or a result, as an index."""
        columns = self.targets if name in OF_TARGETS else self.sources
        return slice(None) if columns is None else columns

    def take(self, name: str, values: AnyArray, axes: int = 1) -> Any:
        """Return the columns of an input or a result, rotated; itself, if these are all.

        A value has the last ``axes`` before the columns.
        """
        whole = (self.targets if name in OF_TARGETS else self.sources) is None
        return values if whole else self._rotated(name, values[..., self.place(name)], axes, 1)

    def back(self, name: str, values: AnyArray, axes: int = 1) -> Any:
        """Return values of these columns, of which `take` would make the values."""
        return self._rotated(name, values, axes, -1)

    def _rotated(self, name: str, values: AnyArray, axes: int, way: int) -> Any:
        rotation = self.rotations[name not in OF_TARGETS]
        if rotation is None or not axes:
            return values
        *many, count = values.shape
        flat = values.reshape((*many[: len(many) - axes], -1, count))
        if flat.shape[-2] == 1:
            return values
        rotation = rotation if way > 0 else rotation.swapaxes(0, 1)
        return rotated(flat, rotation).reshape(values.shape)

    def among(self, chosen: AnyArray, targets: AnyArray) -> Columns:
        """Return the ``chosen`` ones of these targets, which are columns ``targets`` elsewhere."""
        rotation = self.rotations[0]
        rotation = None if rotation is None else rotation[..., chosen]
        return Columns(targets, self.sources, (rotation, self.rotations[1]))

    def points(self, trg: AnyArray, src: AnyArray, norms: AnyArray) -> tuple[Any, Any, Any]:
        """Return targets, sources and normals of these columns, where the sum has them."""
        of_trg, of_src = self.take("trg", trg), None
        if trg is not src or not self.alike:
            of_src = self.take("src", src)
        if self.shifts[0] is not None:
            of_trg = of_trg - self.shifts[0]
            of_src = None if of_src is None else of_src - self.shifts[1]
        of_src = of_trg if of_src is None else of_src
        return of_trg, of_src, None if norms is None else self.take("norms", norms)


WHOLE = Columns()
