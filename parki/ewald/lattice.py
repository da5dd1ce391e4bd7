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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from parki.errors import ParkiValueError
from parki.interchange import as_number, finite, shown
from parki.runtime.forks import cached_property

Array = NDArray[np.float64]
# Vectors are kept as given, except whole periods, while the product of their lengths is less than
# this many times the product of the shortest ones.
SHORTER = 1.02
# Relative changes of a box that count as rounding.
SAME = 1e-12
# Units of roundoff by which a vector may lean and still be along an axis: formulas of angles round.
STRAIGHT = 16
# Longest and shortest (its inverse) length: results and promises have cubes, which stay finite.
LONGEST = 2.0**300
# Factor that is left between a power of the length and the ends of a precision's numbers.
SPARE = 64.0
NONE = (0.0, 0.0, 0.0)  # tilts of a box along the axes
Rows = tuple[tuple[float, ...] | None, ...]


class Moving(tuple[Any, ...]):
    """The rows of a box that deforms: it keeps its vectors, even where they are straight."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Moving) and tuple.__eq__(self, other)

    __hash__ = tuple.__hash__


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
    """

    sides: Array
    periodicity: int
    tilts: tuple[float, ...] | None = None
    origin: Array = field(default_factory=lambda: np.zeros(3))
    axes: tuple[int, ...] = (0, 1, 2)
    deforms: tuple[bool, ...] = (False, False, False)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """All that it is, to compare and to look up."""
        ends = self.sides.tobytes(), self.origin.tobytes()
        return *ends, self.periodicity, self.tilts, self.axes, self.deforms

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
        """Distances of opposite faces."""
        if not self.tilted:
            return self.sides
        return np.asarray(1 / np.sqrt((self.inverse**2).sum(axis=0)))

    @property
    def slenderness(self) -> float:
        """The longest vector over the least distance of opposite faces."""
        vectors, waves = self.matrix.tolist(), self.inverse.T.tolist()
        return max(math.hypot(*each) for each in vectors) * max(math.hypot(*each) for each in waves)

    @cached_property
    def basis(self) -> Array | None:
        """The matrix G of a tilted box's grid, which has points at ``y = G x``.

        These are fractions of the vectors times the edges. So gradients are ``G^T`` times gradients
        by y, and wave vectors ``G^T`` times the grid's. Below the diagonal it is 0.
        """
        if not self.tilted:
            return None
        return np.ascontiguousarray(self.edges[:, None] * self.inverse.T)

    def over(self, unit: float) -> Lattice:
        """Return the box with its lengths over a unit."""
        tilts = self.tilts and tuple(each / unit for each in self.tilts)
        return replace(self, sides=self.sides / unit, origin=self.origin / unit, tilts=tilts)

    def ordered(self, axes: Sequence[int]) -> Lattice:
        """Return a box along the axes, with these in another order."""
        order, names = [*axes], tuple(self.axes[axis] for axis in axes)
        return replace(self, sides=self.sides[order], origin=self.origin[order], axes=names)

    def places(self, other: Lattice) -> list[int]:
        """Return the places of the axes in another box of the same axes."""
        return [other.axes.index(axis) for axis in self.axes]

    def by_user(self, values: Array) -> Array:
        """Return values for each axis in the user's order."""
        return values[np.argsort(self.axes)]

    def cut(self, first: float) -> Lattice:
        """Return a slab of the box, with another first side; its other edges are the box's."""
        slab = replace(self, sides=np.array([first, *self.sides[1:]]))
        slab.__dict__["widest"] = slab if self.widest is self else self.widest.cut(first)
        return slab

    def shaped(self, cell: Cell | None) -> Lattice:
        """Return the box with the vectors of a cell along the periodic axes."""
        if cell is None:
            return self
        sides = np.where(self.periodic, cell.lattice.sides, self.sides)
        return replace(self, sides=sides, tilts=cell.lattice.tilts)

    def following(self, before: Lattice) -> Lattice:
        """Return the box where ``before`` was there: tilts that changed may change again."""
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
        if not any(self.deforms):
            return self
        half = self.sides[0] / 2, self.sides[0] / 2, self.sides[1] / 2
        tilts = zip(self.deforms, half, self.tilts or NONE, strict=True)
        most = tuple(float(most if free else own) for free, most, own in tilts)
        widest = replace(self, tilts=most)
        widest.__dict__["widest"] = widest
        return widest

    def images(self, reach: float) -> Array:
        """Return the vectors, shape (3, n), by which images of the brick come within a reach.

        Or may come, where tilts change: then there are as many at all of them.
        """
        return np.ascontiguousarray((_image_numbers(self.widest, reach) @ self.matrix).T)

    def waves(self, along: Sequence[Any]) -> list[Any]:
        """Return wave vectors, of numbers (3 arrays that broadcast) along the grid."""
        if self.basis is None:
            return [*along]
        return [
            sum(w * k for w, k in zip(row, along, strict=True)) for row in self.basis.T.tolist()
        ]


@lru_cache(maxsize=64)
def _image_numbers(widest: Lattice, reach: float) -> Array:
    """Return the whole numbers (n, 3) of `Lattice.images`.

    They are in the order of the distances where the tilts that change are 0.
    """
    tilts = zip(widest.deforms, widest.tilts or NONE, strict=True)
    still = replace(widest, tilts=tuple(0.0 if free else own for free, own in tilts))
    brick = still.sides + reach
    # Whole numbers of vectors: the last one decides over the others.
    (x, y, z), (xy, xz, yz) = brick, np.abs(widest.tilts or NONE)
    most = [0, 0, 0]
    if still.periodicity > 2:
        most[2] = math.ceil(z / still.sides[2])
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


class Cell(NamedTuple):
    """A lattice, and how its axes follow from the user's.

    Attributes
    ----------
    lattice : Lattice
        In the solver's order of axes, reduced.
    rotation : ndarray, shape (3, 3), or None
        Turns the user's vectors, in that order, into the lattice's axes. None if that changes
        nothing.
    """

    lattice: Lattice
    rotation: Array | None


def lattice(
    lx: float, ly: float, lz: float, xy: float = 0.0, xz: float = 0.0, yz: float = 0.0
) -> Array:
    """Return the lattice vectors of a box by its lengths and tilts, for ``box``.

    These are LAMMPS's six numbers. HOOMD's factors times the lengths, ``xy ly``, ``xz lz`` and
    ``yz lz``, are the same tilts.

    Parameters
    ----------
    lx, ly, lz : float
        Extents of the box along the axes.
    xy, xz, yz : float
        How far the second vector leans along x, and the third one along x and along y.

    Returns
    -------
    ndarray, shape (3, 3), float64
        Rows ``(lx, 0, 0)``, ``(xy, ly, 0)`` and ``(xz, yz, lz)``.

    Raises
    ------
    ParkiTypeError, ParkiValueError
        If one of them is no finite number.
    """
    given = {"lx": lx, "ly": ly, "lz": lz, "xy": xy, "xz": xz, "yz": yz}
    x, y, z, *tilts = (finite(name, each, "a finite length") for name, each in given.items())
    return np.array([[x, 0, 0], [tilts[0], y, 0], [*tilts[1:], z]])


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


def rows_of(box: Any) -> Rows | None:
    """Return the lattice vectors of a box as tuples; None if the box has lengths, or is no box.

    Numbers that are next to nothing are 0.
    """
    if isinstance(box, Moving):
        return box
    try:
        if not any(np.ndim(each) == 1 and len(each) == 3 for each in box):
            return None
        rows = [None if row is None else tuple(as_number(each) for each in row) for row in box]
    except (RuntimeError, TypeError, ValueError):
        return None
    given = [row for row in rows if row is not None]
    whole = len(rows) == 3 and all(len(row) == 3 and any(row) for row in given)
    if not whole or not np.isfinite(given).all():
        raise ParkiValueError(
            f"box is {shown(box)}; expected 3 lengths, or 3 lattice vectors of 3 finite numbers "
            "each, not all 0, in rows, such as parki.lattice(1, 1, 1, xy=0.5)"
        )
    check_length(max(max(map(abs, row)) for row in given))
    single = str(getattr(box, "dtype", "")).endswith("float32")
    unit = STRAIGHT * float(np.finfo(np.float32 if single else np.float64).eps)

    def rounded(row: tuple[float, ...]) -> tuple[float, ...]:
        least = unit * max(map(abs, row))
        return tuple(each if abs(each) > least else 0.0 for each in row)

    return tuple(None if row is None else rounded(row) for row in rows)


def straight(rows: Rows) -> tuple[float | None, ...] | None:
    """Return the lengths of vectors along the axes; None of others."""
    if isinstance(rows, Moving):
        return None
    for axis, row in enumerate(rows):
        if row is not None and (any(row[:axis] + row[axis + 1 :]) or row[axis] <= 0):
            return None
    return tuple(None if row is None else row[axis] for axis, row in enumerate(rows))


def whole_of(rows: Rows) -> Array:
    """Return the vectors, shape (3, 3); a free axis without a vector has length 1."""
    return np.array([np.eye(3)[n] if row is None else row for n, row in enumerate(rows)])


def cell_of(rows: Rows, axes: tuple[int, ...], periodic: tuple[bool, ...]) -> Cell:
    """Return the cell of lattice vectors: the shortest ones, unless they are `Moving`.

    A box that deforms keeps its vectors, except whole periods, so that the grid stays.

    Raises
    ------
    ParkiValueError
        If the vectors are left-handed or in a plane, or lean along a free axis.
    """
    free = [axis for axis in range(3) if not periodic[axis]]
    if len(free) > 1:
        raise ParkiValueError(
            f"box has lattice vectors that are not along the axes, but {len(free)} axes are free; "
            "tilted boxes have 2 or 3 periodic axes: give lengths"
        )
    for axis in range(3):
        if rows[axis] is None and axis not in free:
            raise ParkiValueError(
                f"box has None for the vector of axis {axis}, which is periodic; only a free axis "
                "can take None, for the extent of the points"
            )
    whole = whole_of(rows)
    for axis in free:
        leans = [whole[axis, n] for n in range(3) if n != axis]
        leans += [whole[n, axis] for n in range(3) if n != axis]
        if any(leans) or whole[axis, axis] <= 0:
            raise ParkiValueError(
                f"box has vectors that are not normal to the free axis {axis}, or one along it "
                "that is; expected None or a vector along this axis for it, and periodic vectors "
                "in the plane of the other axes"
            )
    ordered = whole if axes == (0, 1, 2) else whole[np.ix_(axes, axes)]
    (a, b, c), (d, e, f), (g, h, i) = ((row / np.abs(row).max()).tolist() for row in ordered)
    terms = a * e * i, b * f * g, c * d * h, -a * f * h, -b * d * i, -c * e * g
    if sum(terms) <= 1e-13 * sum(map(abs, terms)):  # what rounding leaves of it
        raise ParkiValueError(
            "box has lattice vectors that are left-handed or nearly in a plane; expected a "
            "positive determinant: change the sign of one vector, which repeats the same points"
        )
    cell = _upright(ordered, sum(periodic))
    if isinstance(rows, Moving):
        return cell
    # For vectors that lean less: the others may lean by any number of periods.
    near = cell.lattice.matrix
    near = near if cell.rotation is None else near @ cell.rotation
    short = _shortest(near, sum(periodic))
    longer = np.prod(cell.lattice.edges / np.sqrt((short**2).sum(axis=1)))
    return cell if longer < SHORTER else _upright(short, sum(periodic))


def _upright(vectors: Array, periodicity: int) -> Cell:
    """Return the cell of vectors, in rows, with tilts of at most half a side."""
    rotation, ((x, *above), (xy, y, beside), (xz, yz, z)) = None, vectors.tolist()
    if any(above) or beside or min(x, y, z) <= 0:
        q, r = np.linalg.qr(vectors.T)
        signs = np.sign(r.diagonal())
        rotation, ((x, _, _), (xy, y, _), (xz, yz, z)) = (q * signs).T, (r.T * signs).tolist()
    xy = math.remainder(xy, x)
    below = round(yz / y)
    xz, yz = math.remainder(xz - below * xy, x), math.remainder(yz, y)
    return Cell(Lattice(np.array([x, y, z]), periodicity, (xy, xz, yz)), rotation)


def _shortest(vectors: Array, count: int) -> Array:
    """Return the shortest vectors of the same lattice, right-handed; the first ``count`` repeat.

    A vector is replaced by its sum with whole numbers of the others while that is shorter.
    """
    reduced, changed = vectors.copy(), True
    steps = np.array(list(itertools.product((-1, 0, 1), repeat=count - 1)), dtype=float)
    while changed:
        changed = False
        for place in range(count):
            others = np.delete(reduced[:count], place, axis=0)
            numbers = np.rint(np.linalg.lstsq(others.T, reduced[place], rcond=None)[0])
            sums = reduced[place] + (steps - numbers) @ others
            best = sums[(sums**2).sum(axis=1).argmin()]
            if (best**2).sum() < (1 - 1e-9) * (reduced[place] ** 2).sum():
                reduced[place], changed = best, True
    reduced[:count] = reduced[np.argsort((reduced[:count] ** 2).sum(axis=1), kind="stable")]
    if np.linalg.det(reduced) < 0:
        reduced[count - 1] *= -1
    return reduced
