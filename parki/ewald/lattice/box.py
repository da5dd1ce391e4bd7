"""`Lattice`: the box, of which each part of the solver takes what it needs.

The solver's vectors are ``a1 = (lx, 0, 0)``, ``a2 = (xy, ly, 0)`` and ``a3 = (xz, yz, lz)``. Points
between 0 and lx, ly, lz fill space as well as points of the tilted box, so that cells of the near
field stay bricks. The grid is one of the unit torus: see `Lattice.basis`. `Cell` says how the
user's vectors become these.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from parki.errors import ParkiValueError
from parki.ewald.lattice.enclosed import Enclosed
from parki.runtime.forks import cached_property

Array = NDArray[np.float64]
# Relative changes of a box that count as rounding.
SAME = 1e-12
# Longest and shortest (its inverse) length: results and promises have cubes, which stay finite.
LONGEST = 2.0**300
# Factor that is left between a power of the length and the ends of a precision's numbers.
SPARE = 64.0
# The sides that enclose boxes of systems are rounded up to powers of this; and boxes that they
# enclosed before are enclosed, too, up to this many times the volume that these alone need; what
# encloses both already stays up to the last number times that.
ENCLOSING, LOOSE, LOOSEST = 2.0 ** (1 / 8), 2.0, 3.0
NONE = (0.0, 0.0, 0.0)  # tilts of a box along the axes


@dataclass(frozen=True, eq=False)
class Lattice:
    """The box: its sides and tilts, how it repeats, and where it is.

    Its axes are the solver's, of which the periodic ones come first.

    Attributes
    ----------
    sides : ndarray, shape (3,)
        lx, ly and lz, whose product is the volume: the edges of a box along the axes.
    periodicity : int
        How many axes repeat, the first ones.
    tilts : tuple of 3 floats, or None
        xy, xz and yz; None of a box along the axes.
    origin : ndarray, shape (3,)
        Corner of the box, subtracted from all points; 0 where the box was given, without images
        behind a wall.
    axes : tuple of 3 ints
        What the user calls the axes.
    deforms : tuple of 3 bools
        Which tilts may become any others, up to half a side, on the same grid.
    enclosed : Enclosed or None
        The boxes of systems, for whose grids this one is large enough.
    """

    sides: Array
    periodicity: int
    tilts: tuple[float, ...] | None = None
    origin: Array = field(default_factory=lambda: np.zeros(3))
    axes: tuple[int, ...] = (0, 1, 2)
    deforms: tuple[bool, ...] = (False, False, False)
    enclosed: Enclosed | None = None

    def around(self, vectors: Array) -> Lattice:
        """Return the lattice that encloses boxes of these vectors, shape (S, 3, 3).

        They are in the user's order of axes. Along free axes all have the side of this lattice.
        """
        matrices = vectors[:, self.axes][:, :, self.axes].copy()
        for axis in range(self.periodicity, 3):
            matrices[:, axis, axis] = self.sides[axis]
        enclosed = Enclosed.of(matrices)
        powers = np.log2(enclosed.sides.max(axis=0)) / math.log2(ENCLOSING)
        sides = np.where(self.periodic, ENCLOSING ** np.ceil(powers - 1e-9), self.sides)
        return self._enclosing(enclosed, sides)

    def _enclosing(self, enclosed: Enclosed, sides: Array) -> Lattice:
        tilts = tuple((enclosed.leaning * sides[[0, 0, 1]]).tolist())
        return replace(self, sides=sides, tilts=tilts, enclosed=enclosed)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """All that it is, to compare and to look up."""
        ends = self.sides.tobytes(), self.origin.tobytes()
        key = *ends, self.periodicity, self.tilts, self.axes, self.deforms
        return key if self.enclosed is None else (*key, self.enclosed.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lattice) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @cached_property
    def periodic(self) -> tuple[bool, ...]:
        """Whether each axis repeats."""
        return (True,) * self.periodicity + (False,) * (3 - self.periodicity)

    @cached_property
    def tilted(self) -> bool:
        """Whether it has vectors of its own, which may be along the axes for a while."""
        return self.tilts is not None

    @property
    def along_free(self) -> tuple[float, ...]:
        """Where the box begins along free axes, and its sides there."""
        return *self.origin[self.periodicity :].tolist(), *self.sides[self.periodicity :].tolist()

    @property
    def corner(self) -> Array:
        """Corner of the brick of the near field, whose periodic axes have 0 in the middle."""
        return np.where(self.periodic, -self.sides / 2, self.origin)

    @cached_property
    def volume(self) -> float:
        """The product of the sides."""
        return float(np.prod(self.sides))

    @cached_property
    def length(self) -> float:
        """The cube root of the volume, where the volume itself may overflow."""
        x, y, z = self.sides.tolist()
        unit = math.ldexp(1.0, math.frexp(max(x, y, z))[1] - 1)
        ratio: float = ((x / unit) * (y / unit) * (z / unit)) ** (1 / 3)
        return unit * ratio

    @cached_property
    def matrix(self) -> Array:
        """The vectors, in rows."""
        (x, y, z), (xy, xz, yz) = self.sides, self.tilts or NONE
        return np.array([[x, 0, 0], [xy, y, 0], [xz, yz, z]])

    @cached_property
    def inverse(self) -> Array:
        """The inverse of the matrix: wave vectors over 2 pi, in columns."""
        (x, y, z), (xy, xz, yz) = self.sides, self.tilts or NONE
        slope = yz / y
        rows = [
            [1 / x, 0, 0],
            [-xy / x / y, 1 / y, 0],
            [(xy * slope - xz) / x / z, -slope / z, 1 / z],
        ]
        return np.array(rows)

    @cached_property
    def edges(self) -> Array:
        """Edges of the grid's box: the lengths of the vectors, at the largest tilts."""
        if not self.tilted:
            return self.sides
        if self.widest is not self:
            return self.widest.edges
        return np.asarray(np.sqrt((self.matrix**2).sum(axis=1)))

    @cached_property
    def widths(self) -> Array:
        """Distances of opposite faces, at least."""
        if self.enclosed is not None:
            return self.enclosed.widths
        if not self.tilted:
            return self.sides
        return np.asarray(1 / np.sqrt((self.inverse**2).sum(axis=0)))

    @property
    def slenderness(self) -> float:
        """The longest vector over the least distance of opposite faces."""
        vectors, waves = self.matrix.tolist(), self.inverse.T.tolist()
        return max(math.hypot(*each) for each in vectors) * max(math.hypot(*each) for each in waves)

    @property
    def boxes(self) -> int:
        """How many boxes there are: one, or as many as systems."""
        return 1 if self.enclosed is None else self.enclosed.count

    @property
    def strictness(self) -> float:
        """What the tolerance of systems in it is multiplied by, so that the smallest keep theirs.

        Errors of a volume fall as its root; and promises, as the inverse of a length at least.
        """
        return 1.0 if self.enclosed is None else (self.enclosed.volume / self.volume) ** (1 / 6)

    @property
    def volumes(self) -> Array:
        """The volume, or the volumes of systems with boxes of their own."""
        return np.array([self.volume]) if self.enclosed is None else self.enclosed.volumes

    @property
    def lengths(self) -> Any:
        """The cube root of the volume; an array where systems have boxes of their own."""
        return self.length if self.enclosed is None else self.enclosed.volumes ** (1 / 3)

    @cached_property
    def basis(self) -> Array | None:
        """The matrix G of a tilted box's grid, which has points at ``y = G x``.

        These are fractions of the vectors times the edges. So gradients are ``G^T`` times gradients
        by y, and wave vectors ``G^T`` times the grid's. Below the diagonal it is 0. Where systems
        have boxes of their own, their matrices are below each other.
        """
        if not self.tilted:
            return None
        inverse: Any = self.inverse
        if self.enclosed is not None and not self.enclosed.bound:
            inverse = np.linalg.inv(self.enclosed.matrices)
        basis = self.edges[:, None] * inverse.swapaxes(-1, -2)
        return np.ascontiguousarray(basis.reshape(-1, 3))

    def over(self, unit: float) -> Lattice:
        """Return the box with its lengths over a unit."""
        tilts = self.tilts and tuple(each / unit for each in self.tilts)
        enclosed = self.enclosed and self.enclosed.over(unit)
        sides, origin = self.sides / unit, self.origin / unit
        return replace(self, sides=sides, origin=origin, tilts=tilts, enclosed=enclosed)

    def ordered(self, axes: Sequence[int]) -> Lattice:
        """Return a box along the axes, with these in another order."""
        order, names = [*axes], tuple(self.axes[axis] for axis in axes)
        return replace(self, sides=self.sides[order], origin=self.origin[order], axes=names)

    def places(self, other: Lattice) -> list[int]:
        """Return the places of the axes in another box of the same axes."""
        return [other.axes.index(axis) for axis in self.axes]

    def to_user(self, values: Array) -> Array:
        """Return values for each axis in the user's order."""
        return values[np.argsort(self.axes)]

    def cut(self, first: float) -> Lattice:
        """Return a slab of the box, with another first side; its other edges are the box's."""
        slab = replace(self, sides=np.array([first, *self.sides[1:]]))
        slab.__dict__["widest"] = slab if self.widest is self else self.widest.cut(first)
        return slab

    def shaped(self, lattice: Lattice | None) -> Lattice:
        """Return the box with the vectors of another one along the periodic axes."""
        if lattice is None:
            return self
        sides = np.where(self.periodic, lattice.sides, self.sides)
        return replace(self, sides=sides, tilts=lattice.tilts)

    def following(self, before: Lattice) -> Lattice:
        """Return the box where ``before`` was there: tilts that changed may change again.

        Around boxes of systems it is around those before, too, and with room for others if these
        have outgrown it, so that boxes that change soon have one for all; unless it is far larger.
        """
        if self.enclosed is not None:
            if before.enclosed is None or before.boxes != self.boxes:
                return self
            if self.along_free != before.along_free:
                return self
            enclosed = self.enclosed.beside(before.enclosed)
            wide = self._enclosing(enclosed, np.maximum(self.sides, before.sides))
            if wide.widest == before.widest:
                return wide if wide.volume <= LOOSEST * self.volume else self
            roomy = np.where(self.periodic, ENCLOSING * wide.sides, wide.sides)
            ways = self._enclosing(enclosed.roomier(), roomy), wide
            return next((way for way in ways if way.volume <= LOOSE * self.volume), self)
        sides = [*zip(before.sides.tolist(), self.sides.tolist(), strict=True)]
        if not self.tilted or any(abs(own / other - 1) > SAME for other, own in sides):
            return self
        old, new, least = before.tilts or NONE, self.tilts or NONE, SAME * sides[0][0]
        each = [*zip(before.deforms, old, new, strict=True)]
        deforms = tuple(did or abs(a - b) > least for did, a, b in each)
        # The same digits, which a rotation may have rounded.
        tilts = tuple(b if free else a for free, (_, a, b) in zip(deforms, each, strict=True))
        lattice = replace(self, sides=before.sides, tilts=tilts, deforms=deforms)
        if any(deforms) and deforms == before.deforms:
            lattice.__dict__["widest"] = before.widest  # which is the same
        return lattice

    @cached_property
    def widest(self) -> Lattice:
        """The box whose tilts that may change are the largest ones."""
        if self.enclosed is not None:
            return self if self.enclosed.bound else replace(self, enclosed=self.enclosed.bounds)
        if not any(self.deforms):
            return self
        half = self.sides[0] / 2, self.sides[0] / 2, self.sides[1] / 2
        tilts = zip(self.deforms, half, self.tilts or NONE, strict=True)
        most = tuple(float(most if free else present) for free, most, present in tilts)
        widest = replace(self, tilts=most)
        widest.__dict__["widest"] = widest
        return widest

    def images(self, reach: float) -> Array:
        """Return the vectors, shape (3, n), by which images of the brick come within a reach.

        Or may come, where tilts change: then there are as many at all of them. Where systems have
        boxes of their own, the same numbers of vectors for each, one after the other.
        """
        if self.enclosed is not None:
            least = self._enclosing(self.enclosed, self.enclosed.least)
            deforms = self.periodicity > 1, self.periodicity > 2, self.periodicity > 2
            least = replace(least, enclosed=None, deforms=deforms)
            vectors = image_numbers(least, reach) @ self.enclosed.matrices
            return np.ascontiguousarray(vectors.reshape(-1, 3).T)
        return np.ascontiguousarray((image_numbers(self.widest, reach) @ self.matrix).T)

    def waves(self, along: Sequence[Any]) -> list[Any]:
        """Return wave vectors, of numbers (3 arrays that broadcast) along the grid."""
        if self.basis is None:
            return [*along]
        return [
            sum(w * k for w, k in zip(row, along, strict=True)) for row in self.basis.T.tolist()
        ]


@lru_cache(maxsize=64)
def image_numbers(widest: Lattice, reach: float) -> Array:
    """Return the whole numbers (n, 3) of `Lattice.images`.

    They are in the order of the distances where the tilts that change are 0.
    """
    tilts = zip(widest.deforms, widest.tilts or NONE, strict=True)
    still = replace(widest, tilts=tuple(0.0 if free else present for free, present in tilts))
    brick = still.sides + reach
    # Whole numbers of vectors: the last one decides over the others.
    (x, y, z), (xy, xz, yz) = brick, np.abs(widest.tilts or NONE)
    most = [0, 0, 0]
    if still.periodicity > 2:
        most[2] = math.ceil(z / still.sides[2])
    if still.periodicity > 1:
        most[1] = math.ceil((y + most[2] * yz) / still.sides[1])
    most[0] = math.ceil((x + most[1] * xy + most[2] * xz) / still.sides[0])
    numbers = np.array(list(itertools.product(*(range(-n, n + 1) for n in most))), dtype=float)
    shifts = numbers @ still.matrix
    least, moved = np.abs(shifts), np.array(widest.tilts or NONE) * still.deforms
    least[:, 0] -= np.abs(numbers[:, 1:]) @ moved[:2]
    least[:, 1] -= np.abs(numbers[:, 2]) * moved[2]
    near = (least < brick).all(axis=1)
    nearest = np.argsort((shifts[near] ** 2).sum(axis=1), kind="stable")
    return np.ascontiguousarray(numbers[near][nearest])


def check_length(length: float, dtype: DTypeLike = np.float64, power: int = 1) -> None:
    """Refuse a typical edge of which a power, or its inverse, overflows or loses digits.

    Parameters
    ----------
    length : float
    dtype : dtype
    power : int
        The largest one in results: of 3, single precision holds edges of 1e-12 to 1e12.

    Raises
    ------
    ParkiValueError
    """
    limits = np.finfo(dtype)
    most = min(LONGEST, (float(limits.max) / SPARE) ** (1 / power))
    least = max(1 / LONGEST, (SPARE * float(limits.tiny)) ** (1 / power))
    if not least <= length <= most:
        raise ParkiValueError(
            f"the box has edges of about {length:g}, whose powers {np.dtype(dtype)} does not hold; "
            f"give lengths in another unit, so that edges are {least:.1g} to {most:.1g}"
        )
