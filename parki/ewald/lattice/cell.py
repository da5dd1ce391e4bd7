"""`Cell`: how the vectors that users write for a box become a `Lattice`."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from parki.errors import ParkiValueError
from parki.ewald.lattice.box import Lattice, check_length
from parki.interchange import as_number, finite, shown

Array = NDArray[np.float64]
# Vectors are kept as given, except whole periods, while the product of their lengths is less than
# this many times the product of the shortest ones.
SHORTER = 1.02
# Units of roundoff by which a vector may lean and still be along an axis: formulas of angles round.
STRAIGHT = 16
Rows = tuple[tuple[float, ...] | None, ...]


class Moving(tuple[Any, ...]):
    """The rows of a box that deforms: it keeps its vectors, even where they are straight."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and tuple.__eq__(self, other)

    __hash__ = tuple.__hash__


class Standing(Moving):
    """The rows of a cube that stands for the boxes of systems: see `Enclosed`."""


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
    lengths = {"lx": lx, "ly": ly, "lz": lz, "xy": xy, "xz": xz, "yz": yz}
    x, y, z, *tilts = (finite(name, each, "a finite length") for name, each in lengths.items())
    return np.array([[x, 0, 0], [tilts[0], y, 0], [*tilts[1:], z]])


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
    present = [row for row in rows if row is not None]
    whole = len(rows) == 3 and all(len(row) == 3 and any(row) for row in present)
    if not whole or not np.isfinite(present).all():
        raise ParkiValueError(
            f"box is {shown(box)}; expected 3 lengths, or 3 lattice vectors of 3 finite numbers "
            "each, not all 0, in rows, such as parki.lattice(1, 1, 1, xy=0.5)"
        )
    check_length(max(max(map(abs, row)) for row in present))
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
    if len(free) > 1 and not isinstance(rows, Standing):
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


def _reduced(vectors: Array) -> bool:
    """Return whether no vector is longer than its sum with whole numbers of the others."""
    gram = vectors @ vectors.T
    squares = gram.diagonal()
    pairs = 2 * (abs(gram) - np.diag(squares))
    if (pairs > squares).any():
        return False
    # The shortest sum of all three: Minkowski's conditions.
    return len(vectors) < 3 or float(squares.sum() - np.triu(pairs).sum()) >= float(squares.max())


def _shortest(vectors: Array, count: int) -> Array:
    """Return the shortest vectors of the same lattice, right-handed; the first ``count`` repeat.

    A vector is replaced by its sum with whole numbers of the others while that is shorter.
    """
    reduced, changed = vectors.copy(), not _reduced(vectors[:count])
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
