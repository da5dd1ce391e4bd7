"""`Lattice`: the vectors by which a box repeats whose axes are not at right angles.

The solver takes ``a1 = (lx, 0, 0)``, ``a2 = (xy, ly, 0)`` and ``a3 = (xz, yz, lz)``. Points between
0 and lx, ly, lz fill space as well as points of the tilted box, so that cells of the near field
stay bricks. The grid is one of the unit torus: see `basis`. `Cell` says how the user's vectors
become these.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.interchange import as_number

Array = NDArray[np.float64]
# Vectors are kept as given, except whole periods, while the product of their lengths is less than
# this many times the product of the shortest ones.
SHORTER = 1.02
Rows = tuple[tuple[float, ...] | None, ...]


class Moving(tuple[Any, ...]):
    """The rows of a box that deforms: it keeps its vectors, even where they are straight."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Moving) and tuple.__eq__(self, other)

    __hash__ = tuple.__hash__


class Lattice(NamedTuple):
    """Lattice vectors with three numbers below the diagonal.

    Attributes
    ----------
    sides : tuple of 3 floats
        lx, ly and lz, whose product is the volume.
    tilts : tuple of 3 floats
        xy, xz and yz.
    """

    sides: tuple[float, ...]
    tilts: tuple[float, ...] = (0.0, 0.0, 0.0)

    @property
    def matrix(self) -> Array:
        """The vectors, in rows."""
        (x, y, z), (xy, xz, yz) = self.sides, self.tilts
        return np.array([[x, 0, 0], [xy, y, 0], [xz, yz, z]])

    @property
    def inverse(self) -> Array:
        """The inverse of the matrix: wave vectors over 2 pi, in columns."""
        (x, y, z), (xy, xz, yz) = self.sides, self.tilts
        slope = yz / y
        rows = [
            [1 / x, 0, 0],
            [-xy / x / y, 1 / y, 0],
            [(xy * slope - xz) / x / z, -slope / z, 1 / z],
        ]
        return np.array(rows)

    @property
    def edges(self) -> Array:
        """Lengths of the vectors."""
        return np.asarray(np.sqrt((self.matrix**2).sum(axis=1)))

    @property
    def widths(self) -> Array:
        """Distances of opposite faces."""
        return np.asarray(1 / np.sqrt((self.inverse**2).sum(axis=0)))

    @property
    def reduced(self) -> Lattice:
        """The same lattice with tilts of at most half a side."""
        first, second, third = self.matrix
        second = second - np.rint(second[0] / first[0]) * first
        third = third - np.rint(third[1] / second[1]) * second
        third = third - np.rint(third[0] / first[0]) * first
        return Lattice(self.sides, (float(second[0]), float(third[0]), float(third[1])))

    def basis(self, edges: Array) -> Array:
        """Return the matrix G of the grid, whose box has the ``edges`` of the vectors.

        The grid has points at ``y = G x``, which are fractions of the vectors times the edges. So
        gradients are ``G^T`` times gradients by y, and wave vectors ``G^T`` times the grid's. Below
        the diagonal it is 0.
        """
        return np.ascontiguousarray(edges[:, None] * self.inverse.T)

    def widest(self, changing: Sequence[bool]) -> Lattice:
        """Return the lattice whose ``changing`` tilts are the largest ones."""
        half = self.sides[0] / 2, self.sides[0] / 2, self.sides[1] / 2
        tilts = zip(changing, half, self.tilts, strict=True)
        return Lattice(self.sides, tuple(most if free else own for free, most, own in tilts))

    def images(
        self, reach: float, periodicity: int, changing: Sequence[bool] = (False, False, False)
    ) -> Array:
        """Return the vectors, shape (3, n), by which images of the brick come within a reach.

        Or may come, where tilts are ``changing``: then there are as many at all of them.
        """
        changing = tuple(changing)
        tilts = (0.0 if free else own for free, own in zip(changing, self.tilts, strict=True))
        numbers = _image_numbers(Lattice(self.sides, tuple(tilts)), changing, reach, periodicity)
        return np.ascontiguousarray((numbers @ self.matrix).T)


@lru_cache(maxsize=64)
def _image_numbers(
    still: Lattice, changing: tuple[bool, ...], reach: float, periodicity: int
) -> Array:
    """Return the whole numbers (n, 3) of `Lattice.images`, by distance where tilts are ``still``.

    Their ``changing`` tilts are 0.
    """
    brick, widest = np.array(still.sides) + reach, still.widest(changing)
    # Whole numbers of vectors: the last one decides over the others.
    (x, y, z), (xy, xz, yz) = brick, np.abs(widest.tilts)
    most = [0, 0, 0]
    if periodicity > 2:
        most[2] = math.ceil(z / still.sides[2])
    most[1] = math.ceil((y + most[2] * yz) / still.sides[1])
    most[0] = math.ceil((x + most[1] * xy + most[2] * xz) / still.sides[0])
    numbers = np.array(list(itertools.product(*(range(-n, n + 1) for n in most))), dtype=float)
    shifts = numbers @ still.matrix
    least, moved = np.abs(shifts), np.array(widest.tilts) * changing
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
    """
    return np.array([[lx, 0, 0], [xy, ly, 0], [xz, yz, lz]], dtype=np.float64)


def rows_of(box: Any) -> Rows | None:
    """Return the lattice vectors of a box as tuples; None if the box has lengths, or is no box."""
    if isinstance(box, Moving):
        return box
    try:
        if not any(np.ndim(each) == 1 and len(each) == 3 for each in box):
            return None
        rows = [None if row is None else tuple(as_number(each) for each in row) for row in box]
    except (TypeError, ValueError):
        return None
    given = [row for row in rows if row is not None]
    if len(rows) != 3 or any(len(row) != 3 for row in given) or not np.isfinite(given).all():
        raise ParkiValueError(
            f"box is {box!r}; expected 3 lengths, or 3 lattice vectors of 3 finite numbers each, "
            "in rows, such as parki.lattice(1, 1, 1, xy=0.5)"
        )
    return tuple(rows)


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
    ordered = whole[np.ix_(axes, axes)]
    volume = float(np.linalg.det(ordered / np.abs(ordered).max()))
    if volume <= 1e-13:
        raise ParkiValueError(
            "box has lattice vectors that are left-handed or nearly in a plane; expected a "
            "positive determinant: change the sign of one vector, which repeats the same points"
        )
    found = _upright(ordered)
    if isinstance(rows, Moving):
        return found
    short = _shortest(ordered, sum(periodic))
    longer = np.prod(found.lattice.edges / np.sqrt((short**2).sum(axis=1)))
    return found if longer < SHORTER else _upright(short)


def _upright(vectors: Array) -> Cell:
    """Return the cell of vectors, in rows."""
    rotation = None
    if np.triu(vectors, 1).any() or (vectors.diagonal() <= 0).any():
        q, r = np.linalg.qr(vectors.T)
        signs = np.sign(r.diagonal())
        rotation, vectors = (q * signs).T, (r.T * signs)
    sides, tilts = vectors.diagonal().tolist(), vectors[[1, 2, 2], [0, 0, 1]].tolist()
    return Cell(Lattice(tuple(sides), tuple(tilts)).reduced, rotation)


def _shortest(vectors: Array, count: int) -> Array:
    """Return the shortest vectors of the same lattice, right-handed; the first ``count`` repeat.

    A vector is replaced by its sum with whole numbers of the others while that is shorter.
    """
    found, changed = vectors.copy(), True
    steps = np.array(list(itertools.product((-1, 0, 1), repeat=count - 1)), dtype=float)
    while changed:
        changed = False
        for place in range(count):
            others = np.delete(found[:count], place, axis=0)
            numbers = np.rint(np.linalg.lstsq(others.T, found[place], rcond=None)[0])
            sums = found[place] + (steps - numbers) @ others
            best = sums[(sums**2).sum(axis=1).argmin()]
            if (best**2).sum() < (1 - 1e-9) * (found[place] ** 2).sum():
                found[place], changed = best, True
    found[:count] = found[np.argsort((found[:count] ** 2).sum(axis=1), kind="stable")]
    if np.linalg.det(found) < 0:
        found[count - 1] *= -1
    return found
